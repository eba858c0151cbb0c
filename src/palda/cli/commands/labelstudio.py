"""``palda labelstudio``: follows a project of Label Studio, and steers its queue and its pre-labels."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palda.cli import options as opt
from palda.cli.commands.serve import SERVER, RunOptions, live_packages, run_options
from palda.cli.console import Messages, standard_output

if TYPE_CHECKING:
    from palda.live.store import Store

labelstudio = typer.Typer(
    no_args_is_help=True, help="Follow a project of Label Studio: consensus, adaptive overlap, pre-labels."
)

_LABELLING = "Labelling"
_Url = Annotated[
    str, typer.Argument(help="Address of Label Studio, such as http://localhost:8080.", show_default=False)
]
_Number = Annotated[int, opt.option("Number of the project in Label Studio.", "--project", min=1)]
_StoreOption = Annotated[
    str | None,
    opt.option("SQLite file, created if missing, or postgresql://user@host/database.",
        show_default="labelstudio-N.db"),
]  # fmt: skip
_Token = Annotated[
    str | None,
    opt.option("Token of Label Studio's API. Others on this machine may see it: --token-file or the variable "
        "LABEL_STUDIO_API_KEY are safer.", show_default="none"),
]  # fmt: skip
_TokenFile = Annotated[Path | None, opt.option("File that holds the token.", show_default="none")]


@labelstudio.command()
@opt.option_groups(run=run_options)
def connect(
    url: _Url,
    *,
    project: _Number,
    store: _StoreOption = None,
    token: _Token = None,
    token_file: _TokenFile = None,
    question: Annotated[
        list[str] | None,
        opt.option("Name of the Choices or Taxonomy tag, if there are several. May be repeated: the first one steers "
            "overlap and order, each gets a project of its own.", show_default="the only one", panel=_LABELLING),
    ] = None,
    target_error: Annotated[
        float | None,
        opt.option("A task is certain when at most this share of its labels is expected to be wrong.",
            show_default="0.02", panel=_LABELLING),
    ] = None,
    max_votes: Annotated[
        int | None,
        opt.option("Maximum number of annotators per task.", min=1, show_default="10", panel=_LABELLING),
    ] = None,
    prelabel_share: Annotated[
        float | None,
        opt.option("Share of tasks that show pre-labels; the others measure their influence.", min=0.0, max=1.0,
            show_default="0.8", panel=_LABELLING),
    ] = None,
    prelabelled: Annotated[
        str | None,
        opt.option("Annotations that began from a pre-label: keep them as votes of their annotator, or separate them "
            "as votes of another one, NAME (pre-labelled).", show_default="keep", panel=_LABELLING),
    ] = None,
    no_prelabels: Annotated[bool, opt.flag("Show no pre-labels.", "--no-prelabels", panel=_LABELLING)] = False,
    read_only: Annotated[
        bool, opt.flag("Leave overlap, order and predictions alone.", "--read-only", panel=_LABELLING)
    ] = False,
    ground_truth: Annotated[
        str | None,
        opt.option("What annotations marked as ground truth are: gold, or votes after an import that marked all.",
            show_default="gold", panel=_LABELLING),
    ] = None,
    dry_run: Annotated[
        bool, opt.flag("Say what would change in Label Studio, and change nothing.", "--dry-run")
    ] = False,
    run: RunOptions,
    backend_url: Annotated[
        str | None,
        opt.option("Address under which Label Studio reaches this server, such as http://host.docker.internal:8600.",
            show_default="address and port", panel=SERVER),
    ] = None,
    every: Annotated[
        float, opt.option("Seconds between two comparisons of all tasks.", min=5.0, panel=SERVER)
    ] = 600.0,
) -> None:  # fmt: skip
    """Follow a project while people label in Label Studio; the dashboard opens in the browser. Ctrl-C ends it."""
    if ground_truth not in (None, "gold", "votes"):
        raise typer.BadParameter("--ground-truth is gold or votes")
    if prelabelled not in (None, "keep", "separate"):
        raise typer.BadParameter("--prelabelled is keep or separate")
    with live_packages():
        from palda.live.labelstudio.following import ConnectOrder, Follower
        from palda.live.labelstudio.following import dry_run as changes
        from palda.live.labelstudio.tokens import given_token
        from palda.live.serving import serve
    settings = {
        "prelabel_share": 0.0 if no_prelabels else prelabel_share,
        "ground_truth": ground_truth,
        "prelabelled": prelabelled,
        "steer": not read_only,
    }
    order = ConnectOrder(
        url, project, given_token(token, token_file), tuple(question or ()),
        _given(target_error=target_error, max_votes_per_doc=max_votes), _given(**settings), backend_url, every,
    )  # fmt: skip
    if dry_run:
        with standard_output():
            for line in changes(order):
                sys.stdout.write(f"{line}\n")
        return

    location = store or f"labelstudio-{project}.db"
    follow = partial(Follower, order=order, say=run.messages.write)
    serve(location, run.server(), None, run.show, follow)


@labelstudio.command()
def disconnect(
    *,
    project: _Number,
    store: _StoreOption = None,
    token: _Token = None,
    token_file: _TokenFile = None,
    predictions: Annotated[
        str | None,
        opt.option("What to do with predictions: delete or keep them all.",
            show_default="delete those that nobody can have open"),
    ] = None,
    quiet: opt.Quiet = False,
) -> None:  # fmt: skip
    """Restore what was changed in Label Studio, remove webhook, backend and predictions. Votes stay in the store."""
    messages = Messages(quiet=quiet)
    if predictions not in (None, "delete", "keep"):
        raise typer.BadParameter("--predictions is delete or keep")
    with live_packages():
        from palda.errors import PaldaError
        from palda.live.labelstudio import connections
        from palda.live.labelstudio.client import Client
        from palda.live.labelstudio.registration import disconnect as take_away
        from palda.live.labelstudio.tokens import SecretsFile, given_token
    with _opened(store or f"labelstudio-{project}.db", as_learner=False) as opened:
        found = opened.read(partial(connections.of_remote, remote_project=project))
        if not found:
            raise PaldaError(f"{opened.name}: it follows no project {project} of a Label Studio")
        file = SecretsFile(opened)
        for one in found:
            kept = file.read(one.name)
            known = given_token(token, token_file) or (kept.token if kept else None)
            if known is None:
                raise PaldaError("a token of Label Studio is needed: --token-file FILE")
            client = Client(one.url, known)
            try:
                take_away(opened, client, one, messages.write, predictions)
            finally:
                client.close()
        for one in opened.read(partial(connections.of_remote, remote_project=project)):
            if not one.versions:
                file.forget(one.name)


@labelstudio.command()
def status(
    store: Annotated[str, typer.Argument(help="The store.", show_default=False)],
) -> None:
    """Say which projects of Label Studio a store follows, and how it goes."""
    with live_packages():
        from palda.live.labelstudio import connections
        from palda.live.labelstudio.prelabels import prelabel_influence
        from palda.live.service import results
    with _opened(store, as_learner=True) as opened, standard_output():
        for one in opened.read(connections.all_connections):
            state = results.status(opened, one.project_id)
            influence = opened.read(partial(prelabel_influence, project_id=one.project_id))
            at = (
                "never"
                if one.synced_at is None
                else f"{datetime.fromtimestamp(one.synced_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
            )
            sys.stdout.write(
                f"{one.name}\n"
                f"  question: {one.question}\n"
                f"  tasks: {state.n_documents:,}, annotations: {state.n_votes:,}\n"
                f"  compared: {at}\n"
                f"  last: {one.message or 'nothing happened yet'}\n"
            )
            if influence is not None:
                sys.stdout.write(f"  pre-labels: {influence.summary()}\n")
                for name, *values in influence.rows():
                    sys.stdout.write(f"    {name}: {values[0]} (began from one), {values[1]} (withheld)\n")


def _opened(location: str, *, as_learner: bool) -> closing[Store]:
    with live_packages():
        from palda.live.store import open_store
    return closing(open_store(location, as_learner=as_learner, create=False))


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
