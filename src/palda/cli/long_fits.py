"""Checkpoints of ``palda fit``: beside the model file, there while the fit is not over."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from palda.engine import CheckpointError
from palda.errors import PaldaError
from palda.estimators import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palda.cli.console import Talk

__all__ = ["checkpoint_for", "stoppable"]


def checkpoint_for(output: Path, minutes: float, *, resume: bool, force: bool) -> Checkpoint:
    """Checkpoint of a fit that will write to ``output``; complains if it is not there as expected."""
    checkpoint = Checkpoint(output.with_name(f"{output.name}.checkpoint"), minutes)
    if resume and not checkpoint.exists:
        raise PaldaError(f"{checkpoint.folder}: there is no checkpoint to go on from; leave out --resume")
    if checkpoint.exists and not resume and not force:
        raise PaldaError(
            f"{checkpoint.folder} is the checkpoint of a fit that was stopped; "
            "pass --resume to go on from it, or --force to start anew"
        )
    return checkpoint


@contextmanager
def stoppable(checkpoint: Checkpoint, talk: Talk, *, resume: bool) -> Iterator[Checkpoint | None]:
    """What a fit inside is to use; whoever stops it is told how to go on."""
    if not resume:
        checkpoint.remove()
    try:
        yield checkpoint if checkpoint.minutes else None
    except CheckpointError as other:
        if not checkpoint.exists:
            raise
        raise PaldaError(f"{other}; to start anew, pass --force instead of --resume") from None
    except KeyboardInterrupt:
        if checkpoint.exists:
            talk.say("to go on from the last checkpoint, repeat the command with --resume")
        raise
