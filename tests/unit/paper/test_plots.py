from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palda.paper import Cell, CellRecord, save
from palda.paper.experiments import EXPERIMENTS, Choice

MakeRecord = Callable[[Cell], CellRecord]

LABELS = {
    "table1": [
        "micro-F1 at ½",
        "reuters",
        "bibtex",
        "palda, default",
        "Random forest",
        "from Dawid-Skene",
        "from votes",
    ],
    "table2": ["part of the training set", "Hamming accuracy", "annotator RMSE", "the paper, votes", "oracle"],
    "topics": ["topics", "class log-likelihood", "25% of the training set", "ML-PA-LDA, as published"],
    "crowd-topics": ["annotator RMSE", "micro-F1", "oracle (same markers)", "palda, default"],
    "adversarial": ["true quality", "honest annotators", "malicious annotators", "palda, default"],
}


def figure_of(name: str, made_up: MakeRecord, choice: Choice) -> object:
    records = [made_up(cell) for cell in EXPERIMENTS[name].plan(choice)]
    (figure,) = EXPERIMENTS[name].figures(records).values()
    return figure


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_figure_says_what_it_shows(name: str, made_up: MakeRecord, tmp_path: Path) -> None:
    svg, png = save(figure_of(name, made_up, Choice(quick=True)), tmp_path, "figure")  # type: ignore[arg-type]
    text = svg.read_text()
    for label in LABELS[name]:
        assert f">{label}<" in text
    assert png.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.png", "figure.svg"]


def test_equal_records_make_equal_files(made_up: MakeRecord, tmp_path: Path) -> None:
    texts = [
        save(figure_of("adversarial", made_up, Choice(seeds=1)), tmp_path / part, "figure")[0].read_text()  # type: ignore[arg-type]
        for part in ("a", "b")
    ]
    assert texts[0] == texts[1]


def test_lines_of_the_topics_figure_differ_in_style_and_marker_and_show_spreads(made_up: MakeRecord) -> None:
    figure = figure_of("topics", made_up, Choice(seeds=3))
    for axes in figure.axes:  # type: ignore[attr-defined]
        lines = [container.lines[0] for container in axes.containers]
        assert len(lines) == 4
        assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 4
        for container in axes.containers:
            segments = container.lines[2][0].get_segments()
            assert all(top[1] > bottom[1] for bottom, top in segments)


def test_one_set_and_one_method_have_room_enough(made_up: MakeRecord, tmp_path: Path) -> None:
    figure = figure_of("table1", made_up, Choice(sets=("scene",), methods=("raykar",), seeds=1))
    save(figure, tmp_path, "figure")  # type: ignore[arg-type]  # a layout that does not fit would warn


def test_a_panel_is_drawn_for_every_set_and_method_that_there_is(made_up: MakeRecord) -> None:
    figure = figure_of("table1", made_up, Choice(sets=("scene", "yeast"), methods=("palda", "bcc"), seeds=1))
    assert len(figure.axes) == 2  # type: ignore[attr-defined]
    assert {axes.get_xlabel() for axes in figure.axes} == {"micro-F1"}  # type: ignore[attr-defined]
    assert EXPERIMENTS["table1"].figures([]) == {}
