"""A file of which little or nothing becomes votes is never read without a word, in any format."""

from __future__ import annotations

import csv
import json
import warnings
import zipfile
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import palda
from palda.errors import DataError, PaldaWarning
from palda.io import ReadOptions, Sources, Treatment, shard_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
    return path


def mturk(folder: Path, n_used: int, n_unused: int) -> Path:
    statuses = ["Approved"] * n_used + ["Rejected"] * n_unused
    rows = [
        {"HITId": f"h{n}", "WorkerId": "w", "AssignmentStatus": status, "Input.text": "s", "Answer.topics": "sport"}
        for n, status in enumerate(statuses)
    ]
    return _table(folder / "e.csv", rows)


def toloka(folder: Path, n_used: int, n_unused: int) -> Path:
    statuses = ["APPROVED"] * n_used + ["EXPIRED"] * n_unused
    rows = [
        {"INPUT:id": n, "INPUT:text": "s", "OUTPUT:labels": "sport", "ASSIGNMENT:worker_id": "w",
         "ASSIGNMENT:status": status}
        for n, status in enumerate(statuses)
    ]  # fmt: skip
    return _table(folder / "e.tsv", rows)


def prodigy(folder: Path, n_used: int, n_unused: int) -> Path:
    answers = ["accept"] * n_used + ["ignore"] * n_unused
    tasks = [
        {"text": f"s{n}", "_input_hash": n, "label": "sport", "answer": answer, "_annotator_id": "ann"}
        for n, answer in enumerate(answers)
    ]
    path = folder / "e.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return path


def doccano(folder: Path, n_used: int, n_unused: int) -> Path:
    examples = [json.dumps({"id": n, "text": "s", "label": ["sport"]}) for n in range(n_used + n_unused)]
    path = folder / "e.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ann.jsonl", "\n".join(examples[:n_used]))
        archive.writestr("unknown.jsonl", "\n".join(examples[n_used:]))
    return path


def long_table(folder: Path, n_used: int, n_unused: int) -> Path:
    values = ["1"] * n_used + [""] * n_unused
    rows = [{"doc": n, "text": "s", "annotator": "ann", "label": "sport", "value": v} for n, v in enumerate(values)]
    return _table(folder / "e.csv", rows)


def wide_table(folder: Path, n_used: int, n_unused: int) -> Path:
    values = ["1"] * n_used + [""] * n_unused
    rows = [{"doc": n, "text": "s", "annotator": "ann", "sport": v, "law": ""} for n, v in enumerate(values)]
    return _table(folder / "e.csv", rows)


CASES = {
    "mturk": (mturk, "assignments", "rejected"),
    "toloka": (toloka, "assignments", "expired"),
    "prodigy": (prodigy, "answers", "ignored or rejected"),
    "doccano": (doccano, "annotations", "of unknown users"),
    "long": (long_table, "rows", "blank"),
    "wide": (wide_table, "rows", "blank"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_and_reasons_are_in_a_warning_or_an_error(tmp_path: Path, case: str) -> None:
    write: Callable[[Path, int, int], Path]
    write, answers, reason = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(palda.read(write(tmp_path, 1, 9)).votes) > 0
    with pytest.warns(PaldaWarning, match=f"only 1 of 11 {answers} are votes: 10 {reason}"):
        palda.read(write(tmp_path, 1, 10))
    with pytest.raises(DataError, match=f"has no votes: none of 3 {answers} can be used: 3 {reason}"):
        palda.read(write(tmp_path, 0, 3))


def test_a_folder_of_shards_is_not_made_without_a_word_either(tmp_path: Path) -> None:
    documents = tmp_path / "documents.csv"
    documents.write_text("doc,text\n" + "".join(f"{n},ships carry wheat\n" for n in range(11)))
    sources = Sources(documents, long_table(tmp_path, 1, 10))
    treatment = Treatment(ReadOptions(ignore=("text",)), docs_per_shard=4)
    with pytest.warns(PaldaWarning, match="e.csv: only 1 of 11 rows are votes: 10 blank"):
        shard_files(tmp_path / "corpus", sources, treatment)


@pytest.mark.parametrize("sharded", [False, True])
def test_gold_columns_of_classes_without_votes_are_named(tmp_path: Path, sharded: bool) -> None:
    documents, votes = tmp_path / "documents.csv", tmp_path / "votes.csv"
    documents.write_text("doc,text,gold_sport,gold_law,gold_rush\n1,ships carry wheat,1,0,\n2,wheat and ships,,,\n")
    votes.write_text("doc,annotator,label,value\n1,ann,sport,1\n")
    read: Callable[[], object] = partial(shard_files, tmp_path / "corpus", Sources(documents, votes))
    if not sharded:
        read = partial(palda.read, documents, votes)
    with pytest.warns(PaldaWarning, match="documents.csv: the gold labels in 'gold_law' were not used"):
        read()
