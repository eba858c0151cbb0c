from __future__ import annotations

import json
import math
import os
from dataclasses import fields, replace
from pathlib import Path

import pytest

from palda.errors import PaldaError
from palda.paper import Cell, CellRecord, Store, group_by

CELL = Cell("toys", "good", "votes", 3, 0.5, "paper", 5, (("n_topics", 20),), (("tol", 0.1),))
OTHERS = {
    "data": "reuters",
    "method": "better",
    "source": "majority",
    "seed": 4,
    "fraction": 0.25,
    "crowd": "adversarial",
    "votes_per_doc": 3,
    "options": (("n_topics", 40),),
    "settings": (("tol", 0.2),),
}
RECORD = CellRecord(
    CELL, {"micro_f1": 0.75, "ece": math.nan}, {"quality": [0.5, math.nan]}, ("hm",), 2.5, 2, "now", {"palda": "1"}
)


def test_every_field_but_quick_changes_the_key() -> None:
    assert {field.name for field in fields(Cell)} == OTHERS.keys() | {"quick"}
    keys = {CELL.key} | {replace(CELL, **{name: value}).key for name, value in OTHERS.items()}
    assert len(keys) == len(OTHERS) + 1


def test_a_quick_cell_is_the_full_one_when_nothing_else_differs() -> None:
    quick = replace(CELL, quick=True)
    assert quick.key == CELL.key
    assert quick == CELL


def test_another_version_of_palda_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = CELL.key
    monkeypatch.setattr("palda.paper.cells.package_version", lambda _: "99.0")
    assert CELL.key != before


def test_a_record_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.save(RECORD)
    content = json.loads(path.read_text())
    assert content["measures"] == {"micro_f1": 0.75, "ece": None}
    found = store.load(CELL)
    assert found is not None
    assert found.cell == CELL
    assert found.measures["micro_f1"] == 0.75
    assert math.isnan(found.measures["ece"])
    assert found.details["quality"][0] == 0.5
    assert (found.warnings, found.seconds, found.n_threads) == (("hm",), 2.5, 2)
    assert (found.finished, found.versions) == ("now", {"palda": "1"})


def test_a_record_of_a_full_cell_is_loaded_for_an_equal_quick_cell(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(RECORD)
    found = store.load(replace(CELL, quick=True))
    assert found is not None
    assert found.cell.quick


def test_a_failed_write_keeps_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    path = store.save(RECORD)
    before = path.read_text()

    def full(handle: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PaldaError, match="no space"):
        store.save(replace(RECORD, seconds=9.0))
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_not_a_record_counts_as_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.save(RECORD)
    for text in ("", "{", "[]", '{"key": 1}', path.read_text().replace('"cell"', '"sell"')):
        path.write_text(text)
        assert store.load(CELL) is None
        assert store.load_everything() == []


def test_a_folder_that_cannot_be_created_raises_a_palda_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PaldaError, match="cannot write to"):
        Store(tmp_path / "file").save(RECORD)


def test_records_are_loaded_in_the_order_of_the_given_cells(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cells = [replace(CELL, seed=seed) for seed in (2, 0, 1)]
    for cell in cells[:2]:
        store.save(replace(RECORD, cell=cell))
    assert [record.cell.seed for record in store.load_all(cells)] == [2, 0]
    assert len(store.load_everything()) == 2


def test_groups_keep_the_order_of_first_appearance() -> None:
    records = [replace(RECORD, cell=replace(CELL, data=data, seed=seed)) for seed in (0, 1) for data in ("b", "a")]
    groups = group_by(records, lambda cell: cell.data)
    assert list(groups) == ["b", "a"]
    assert [record.cell.seed for record in groups["a"]] == [0, 1]


def test_a_cell_is_described_in_one_line() -> None:
    assert str(CELL) == "toys: good from votes, n_topics 20, 50% of the documents, seed 3"
