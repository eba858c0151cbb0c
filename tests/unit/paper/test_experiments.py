from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from palda.paper import (
    ALL_SETS,
    EXPERIMENTS,
    METHODS,
    REFERENCES,
    Cell,
    CellRecord,
    RunOptions,
    Stat,
    Store,
    published_values,
    reproduce_command,
    stored_records,
    write_results,
)

MakeRecord = Callable[[Cell], CellRecord]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_cell_is_planned_twice_and_a_quick_plan_has_less_than_half_the_cells(name: str) -> None:
    full, quick = (EXPERIMENTS[name].plan(RunOptions(quick=quick)) for quick in (False, True))
    for cells in (full, quick):
        assert len({cell.key for cell in cells}) == len(cells)
    assert 0 < len(quick) < len(full) / 2


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_plan_has_only_the_chosen_sets_methods_and_seeds(name: str) -> None:
    cells = EXPERIMENTS[name].plan(RunOptions(sets=("yeast",), methods=("palda",), seeds=2))
    assert {(cell.data, cell.method, cell.seed) for cell in cells} == {("yeast", "palda", 0), ("yeast", "palda", 1)}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_cells_of_one_split_are_planned_next_to_each_other(name: str) -> None:
    splits = [(cell.data, cell.seed) for cell in EXPERIMENTS[name].plan(RunOptions())]
    changes = sum(before != after for before, after in pairwise(splits))
    assert changes == len(set(splits)) - 1


def test_table_1_has_every_method_on_every_set_from_every_kind_of_labels() -> None:
    rows = Counter((cell.data, cell.method, cell.source) for cell in EXPERIMENTS["table1"].plan(RunOptions()))
    assert set(rows.values()) == {5}
    assert set(rows) == {
        (data, name, source) for data in ALL_SETS for name, method in METHODS.items() for source in method.sources
    }


def test_gold_cells_have_no_crowd_and_the_others_that_of_the_paper() -> None:
    for cell in EXPERIMENTS["table1"].plan(RunOptions(seeds=1)):
        assert (cell.crowd, cell.votes_per_doc) == (("", 0) if cell.source == "gold" else ("paper", 5))
    assert {cell.crowd for cell in EXPERIMENTS["adversarial"].plan(RunOptions())} == {"adversarial"}


def test_a_quick_run_has_every_method_but_slda_with_one_model_per_class() -> None:
    quick = {(cell.data, cell.method) for cell in EXPERIMENTS["table1"].plan(RunOptions(quick=True))}
    assert quick == {(data, method) for data in ALL_SETS for method in METHODS if method != "slda_one_vs_all"}
    assert EXPERIMENTS["table1"].plan(RunOptions(quick=True, methods=("slda_one_vs_all",)))  # unless it is named


def test_iterations_and_thresholds_are_reduced_only_in_a_quick_run() -> None:
    full, quick = (
        {(cell.data, cell.method): dict(cell.options) for cell in EXPERIMENTS["table1"].plan(RunOptions(quick=quick))}
        for quick in (False, True)
    )
    assert full["bibtex", "published"] == {"n_topics": 20}
    assert quick["bibtex", "published"] == {"n_topics": 20, "max_iter": 6}
    assert full["bibtex", "rakel"] == {}
    assert quick["bibtex", "rakel"] == {"choose": False}
    assert quick["bibtex", "palda"] == quick["scene", "rakel"] == {}


def test_quick_cells_that_equal_full_ones_are_the_same_cells() -> None:
    full, quick = (set(EXPERIMENTS["table1"].plan(RunOptions(quick=quick))) for quick in (False, True))
    shared = {cell.method for cell in full & quick}
    assert {"palda", "rakel", "logistic", "nothing"} <= shared
    assert not {"forest", "mcc"} & shared  # they have fewer members in a quick run


def test_table_1_has_the_value_and_measure_of_the_paper_next_to_ours(make_record: MakeRecord) -> None:
    cells = EXPERIMENTS["table1"].plan(RunOptions(sets=("scene",), seeds=2))
    records = [make_record(cell) for cell in cells]
    as_in_paper, at_half, chosen = EXPERIMENTS["table1"].tables(records)
    row = next(row for row in as_in_paper.rows if row["method"] == "BCC")
    assert (row["measure"], row["scene_paper"]) == ("Jaccard", 0.594)
    clean = [record for record in records if (record.cell.method, record.cell.source) == ("bcc", "gold")]
    ours = [record.measures["jaccard_accuracy"] for record in clean]
    assert isinstance(row["scene"], Stat)
    assert row["scene"].mean == pytest.approx(sum(ours) / 2)
    assert row["scene"].n_seeds == 2
    assert "MEKA" in as_in_paper.notes[0]
    assert {(row["method"], row["measure"]) for row in as_in_paper.rows} >= {
        (METHODS[name].title, measure) for name in REFERENCES for measure in ("Hamming", "Jaccard")
    }
    by_row = {(row["method"], row["source"]): row for row in at_half.rows}
    assert by_row[METHODS["rakel"].title, "gold labels"]["paper"] == ".577 Jaccard"
    assert by_row[METHODS["published"].title, "votes"]["paper"] == ".818 Hamming"
    assert "paper" not in by_row[METHODS["rakel"].title, "majority vote"]
    assert len(at_half.rows) == len(cells) / 2
    assert len(chosen.rows) == len(at_half.rows) - len(REFERENCES)


def test_slda_with_one_model_replaces_one_vs_all_where_that_was_not_run(make_record: MakeRecord) -> None:
    cells = EXPERIMENTS["table1"].plan(RunOptions(quick=True, sets=("bibtex",), methods=("slda",)))
    records = [make_record(cell) for cell in cells]
    row = next(row for row in EXPERIMENTS["table1"].tables(records)[0].rows if row["method"] == "SLDA")
    gold = next(record for record in records if record.cell.source == "gold")
    assert isinstance(row["bibtex"], Stat)
    assert row["bibtex"].mean == gold.measures["hamming_accuracy"]


def test_table_2_has_one_row_per_fraction_with_gold_crowd_and_oracle(make_record: MakeRecord) -> None:
    records = [make_record(cell) for cell in EXPERIMENTS["table2"].plan(RunOptions(quick=True))]
    published, default = EXPERIMENTS["table2"].tables(records)
    assert [row["part"] for row in default.rows] == ["10%", "30%", "50%", "70%", "100%"]
    for row, values in zip(published.rows, published_values.TABLE_2.values(), strict=True):
        assert {name: row[f"{name}_paper"] for name in values} == values
        assert {"accuracy", "f1", "crowd_accuracy", "crowd_f1", "rmse", "oracle"} <= row.keys()


def test_other_data_sets_have_no_values_of_the_paper(make_record: MakeRecord) -> None:
    for name in ("table2", "adversarial"):
        records = [make_record(cell) for cell in EXPERIMENTS[name].plan(RunOptions(quick=True, sets=("yeast",)))]
        for table in EXPERIMENTS[name].tables(records):
            assert not any(key.endswith("_paper") for row in table.rows for key in row)
            assert all(row.get("method") != "the paper" for row in table.rows)


def test_published_values_of_the_crowd_are_below_those_of_gold_labels() -> None:
    for row in published_values.TABLE_2.values():
        assert row["crowd_accuracy"] < row["accuracy"]
        assert row["crowd_f1"] < row["f1"]
    assert {column.measure for column in published_values.TABLE_1[:4]} == {"jaccard_accuracy"}
    assert {column.measure for column in published_values.TABLE_1[4:]} == {"hamming_accuracy"}


def test_quick_records_are_used_only_where_there_are_no_full_ones(make_record: MakeRecord, tmp_path: Path) -> None:
    experiment, store = EXPERIMENTS["table1"], Store(tmp_path)
    assert stored_records(experiment, store) == []
    choice = {"sets": ("scene",), "methods": ("forest", "mcc"), "seeds": 1}
    quick = experiment.plan(RunOptions(quick=True, **choice))  # type: ignore[arg-type]
    full = [cell for cell in experiment.plan(RunOptions(**choice)) if cell.method == "forest"]  # type: ignore[arg-type]
    for cell in quick + full:
        store.save(make_record(cell))
    found = {record.cell for record in stored_records(experiment, store)}
    assert found == {*full, *(cell for cell in quick if cell.method == "mcc")}


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (RunOptions(), ""),
        (RunOptions(quick=True), " --quick"),
        (RunOptions(seeds=2), " --seeds 2"),
        (RunOptions(quick=True, seeds=3, sets=("scene",)), " --quick --seeds 3 --sets scene"),
        (RunOptions(sets=("yeast", "scene"), methods=("palda", "bcc")), " --sets scene,yeast --methods palda,bcc"),
    ],
)
def test_the_command_that_produces_records_is_reconstructed(
    make_record: MakeRecord, options: RunOptions, arguments: str
) -> None:
    experiment = EXPERIMENTS["table1"]
    records = [make_record(cell) for cell in experiment.plan(options)]
    assert reproduce_command(experiment, records) == f"palda reproduce table1{arguments}"


def test_tables_and_figures_are_written_to_the_folder(make_record: MakeRecord, tmp_path: Path) -> None:
    name = "adversarial"
    experiment = EXPERIMENTS[name]
    records = [make_record(cell) for cell in experiment.plan(RunOptions(quick=True))]
    paths = write_results(experiment, records, experiment.tables(records), tmp_path)
    assert {path.name for path in paths} == {f"{name}.{kind}" for kind in ("md", "csv", "svg", "png")}
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert (tmp_path / f"{name}.md").read_text().startswith("**")
