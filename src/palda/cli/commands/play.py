"""Data out of nothing: ``palda simulate`` and ``palda demo``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from palda.cli import options as opt

__all__ = ["demo", "simulate"]

Folder = Annotated[Path, typer.Argument(help="Folder to write to; it is made if need be.")]


class Crowd(StrEnum):
    """Profiles of simulated crowds."""

    PAPER = "paper"
    ADVERSARIAL = "adversarial"


class Behaviour(StrEnum):
    """How simulated annotators err."""

    ONE_COIN = "one_coin"
    TWO_COIN = "two_coin"
    PER_CLASS = "per_class"


def simulate(
    folder: Folder = Path("palda-simulated"),
    documents: Annotated[int, typer.Option("--documents", "-d", min=1, help="How many documents.")] = 1000,
    crowd: Annotated[Crowd, typer.Option(help="50 annotators; in adversarial, ten of them lie.")] = Crowd.PAPER,
    behaviour: Annotated[Behaviour, typer.Option(help="How annotators err.")] = Behaviour.ONE_COIN,
    spammers: Annotated[int, typer.Option(min=0, help="Annotators who answer without looking, besides.")] = 0,
    votes_per_doc: Annotated[int, typer.Option(min=1, help="Annotators who judge each document.")] = 5,
    force: opt.Force = False,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Write a simulated newsroom and its crowd: documents.csv, votes.csv, and the truth behind them."""
    from palda.cli.console import Talk, own_name
    from palda.cli.demo import write_simulation

    paths = write_simulation(
        folder, documents, crowd.value, behaviour.value, spammers, votes_per_doc, seed=seed, force=force
    )
    talk = Talk(quiet=quiet)
    talk.say(f"written: {', '.join(map(str, paths))}")
    palda = own_name()
    talk.say(f"next: {palda} fit {paths[0]} {paths[1]}, then {palda} evaluate model.palda {paths[2]}")


def demo(
    folder: Folder = Path("palda-demo"),
    force: opt.Force = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Show the whole way on a simulated newsroom whose truth is known; nothing is read or downloaded."""
    from palda.cli.demo import main

    main(folder, force=force, seed=seed, n_jobs=jobs, quiet=quiet)
