"""``palda reproduce``: a command for every experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palda.paper.experiments import ALL_SETS, EXPERIMENTS, Choice, Experiment

__all__ = ["reproduce"]

reproduce = typer.Typer(
    help="Run the paper's experiments again, and ours beside them. What is done is kept: a second start goes on.",
    no_args_is_help=True,
)

ResultsFolder = Annotated[Path, typer.Option("--output", "-o", help="Folder with finished cells, tables and figures.")]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Fewer seeds and smaller grids: about 15 minutes on 2 cores.", show_default="off"),
]
Sets = Annotated[
    str | None,
    typer.Option(help=f"Data sets, separated by commas: {', '.join(ALL_SETS)}.", show_default="the experiment's"),
]
Methods = Annotated[str | None, typer.Option(help="Methods, separated by commas.", show_default="all")]
Seeds = Annotated[int | None, typer.Option(min=1, help="How many seeds.", show_default="the experiment's")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Cells at a time, a process each.", show_default="one a core")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the tables as JSON.", show_default="off")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print the tables as CSV.", show_default="off")]


def _add_experiment(experiment: Experiment) -> None:
    """One command for every experiment; they differ in name alone."""
    known = f"Methods: {', '.join(experiment.methods)}."

    @reproduce.command(experiment.name, help=f"{experiment.title[0].upper()}{experiment.title[1:]}.\n\n{known}")
    def command(
        output: ResultsFolder = Path("palda-results"),
        quick: Quick = False,
        sets: Sets = None,
        methods: Methods = None,
        seeds: Seeds = None,
        jobs: Jobs = None,
        as_json: AsJson = False,
        as_csv: AsCsv = False,
    ) -> None:
        if as_json and as_csv:
            raise typer.BadParameter("choose one of --json and --csv")
        choice = Choice(
            quick, _chosen(sets, ALL_SETS, "--sets"), _chosen(methods, experiment.methods, "--methods"), seeds
        )
        from palda.cli.reproduce import run_experiment

        form = "json" if as_json else "csv" if as_csv else "table"
        raise typer.Exit(run_experiment(experiment, choice, output, jobs, form))


for _experiment in EXPERIMENTS.values():
    _add_experiment(_experiment)


@reproduce.command()
def page(
    file: Annotated[Path, typer.Argument(help="A Markdown page with <!-- table1 --> ... <!-- /table1 --> in it.")],
    output: ResultsFolder = Path("palda-results"),
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the page matches the cells.", show_default="off")
    ] = False,
) -> None:
    """Write the tables of finished cells into a page, between the markers of each experiment."""
    from palda.cli.reproduce import write_page

    raise typer.Exit(write_page(file, output, check=check))


def _chosen(text: str | None, known: tuple[str, ...], option: str) -> tuple[str, ...] | None:
    """Names from a list with commas, each once."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(name for name in text.replace(",", " ").split()))
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        problem = f"{wrong[0]!r} is not known" if wrong else "nothing is named"
        raise typer.BadParameter(f"{problem}; choose from {', '.join(known)}", param_hint=option)
    return names
