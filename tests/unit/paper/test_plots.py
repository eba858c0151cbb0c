from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palda.paper import EXPERIMENTS, Cell, CellRecord, RunOptions, save_figure

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
    "table2": [
        "fraction of the training documents",
        "Hamming accuracy",
        "annotator RMSE",
        "the paper, votes",
        "oracle",
    ],
    "topics": ["number of topics", "class log-likelihood", "25% of the training documents", "ML-PA-LDA, as published"],
    "crowd-topics": ["annotator RMSE", "micro-F1", "oracle (same markers)", "palda, default"],
    "adversarial": [
        "true quality",
        "estimated minus true quality",
        "honest annotators",
        "malicious annotators",
        "palda, default",
    ],
}


def figure_of(name: str, make_record: MakeRecord, options: RunOptions) -> object:
    records = [make_record(cell) for cell in EXPERIMENTS[name].plan(options)]
    (figure,) = EXPERIMENTS[name].figures(records).values()
    return figure


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_figure_has_its_titles_axis_labels_and_legend(name: str, make_record: MakeRecord, tmp_path: Path) -> None:
    svg, png = save_figure(figure_of(name, make_record, RunOptions(quick=True)), tmp_path, "figure")  # type: ignore[arg-type]
    text = svg.read_text()
    for label in LABELS[name]:
        assert f">{label}<" in text
    assert png.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.png", "figure.svg"]


def test_equal_records_give_equal_files(make_record: MakeRecord, tmp_path: Path) -> None:
    texts = [
        save_figure(figure_of("adversarial", make_record, RunOptions(seeds=1)), tmp_path / part, "figure")[
            0
        ].read_text()  # type: ignore[arg-type]
        for part in ("a", "b")
    ]
    assert texts[0] == texts[1]


def test_lines_of_the_topics_figure_differ_in_style_and_marker_and_have_error_bars(make_record: MakeRecord) -> None:
    figure = figure_of("topics", make_record, RunOptions(seeds=3))
    for axes in figure.axes:  # type: ignore[attr-defined]
        lines = [container.lines[0] for container in axes.containers]
        assert len(lines) == 4
        assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 4
        for container in axes.containers:
            segments = container.lines[2][0].get_segments()
            assert all(top[1] > bottom[1] for bottom, top in segments)


def test_a_figure_of_one_set_and_one_method_has_room_for_its_labels(make_record: MakeRecord, tmp_path: Path) -> None:
    figure = figure_of("table1", make_record, RunOptions(sets=("scene",), methods=("raykar",), seeds=1))
    save_figure(figure, tmp_path, "figure")  # type: ignore[arg-type]  # a layout that does not fit would warn


def test_there_is_one_panel_per_data_set(make_record: MakeRecord) -> None:
    figure = figure_of("table1", make_record, RunOptions(sets=("scene", "yeast"), methods=("palda", "bcc"), seeds=1))
    assert len(figure.axes) == 2  # type: ignore[attr-defined]
    assert {axes.get_xlabel() for axes in figure.axes} == {"micro-F1"}  # type: ignore[attr-defined]
    assert EXPERIMENTS["table1"].figures([]) == {}
