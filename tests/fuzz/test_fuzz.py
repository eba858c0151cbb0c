"""A short run of the fuzzer (``make fuzz`` is the long one), and that it finds what it looks for."""

from __future__ import annotations

import gzip
import json
import random
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz import formats
from tests.fuzz.__main__ import Result, run, store_findings
from tests.fuzz.seeds import read_seeds, reader_seeds, write_seeds
from tests.fuzz.targets import Target, all_targets
from tests.fuzz.worker import make_case, place_in_package, run_case

import palda
from palda.errors import DataError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and peaks of memory are those of Linux")

READERS = list(reader_seeds())
LOADERS = [name for name in all_targets() if name not in READERS]


def findings(targets: list[str], n_cases: int, folder: Path) -> list[str]:
    write_seeds(folder / "seeds", targets, quick=True)
    results = run(targets, n_cases, 0, 1, folder)
    store_findings(results, 0, folder / "seeds", folder / "findings")
    assert sum(result.n_cases for result in results.values()) >= n_cases
    return [f"{name}:{case} {problem}" for name, result in results.items() for case, problem in result.findings.items()]


@pytest.mark.slow
def test_damaged_input_files_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    assert not findings(READERS, 3200, tmp_path)


@pytest.mark.slow
def test_damaged_models_shards_checkpoints_and_cells_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    assert not findings(LOADERS, 750, tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_the_files_to_be_changed_are_sound(tmp_path: Path, name: str) -> None:
    target = all_targets()[name]
    for files in reader_seeds()[name]:
        for file, content in files.items():
            (tmp_path / file).write_bytes(content)
        n_read = 0
        for call in target.calls:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(tmp_path / target.file)
                    n_read += 1
                except DataError:
                    continue
        assert n_read


def test_cases_depend_on_the_seed_alone() -> None:
    target, seeds = all_targets()["jsonl"], reader_seeds()["jsonl"]
    cases = [make_case("jsonl", target, seeds, 0, case) for case in range(50)]
    assert cases == [make_case("jsonl", target, seeds, 0, case) for case in range(50)]
    assert cases != [make_case("jsonl", target, seeds, 1, case) for case in range(50)]
    assert len({json.dumps(str(files)) for files, _ in cases}) > 40


def _unchanged(_random: Any, files: dict[str, bytes], _other: Any) -> dict[str, bytes]:
    return files


def _leak(_path: Path) -> None:
    bytearray(b"x") * (1 << 30)


def _lines(_path: Path) -> None:
    raise _TwoLinesError("a\nb")


class _TwoLinesError(DataError):
    def __str__(self) -> str:
        return "two\nlines"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda _: {}["x"], "KeyError at ?: 'x'"),
        (lambda _: warnings.warn("old", DeprecationWarning, stacklevel=1), "DeprecationWarning at ?: old"),
        (_leak, "MiB of memory"),
        (_lines, "the message is not one line"),
    ],
)
def test_the_fuzzer_finds_faults(tmp_path: Path, call: Any, problem: str) -> None:
    found = run_case(Target(_unchanged, (call,), "f"), {"f": b""}, 0, tmp_path)
    assert found is not None
    assert problem in found


@pytest.mark.parametrize(
    ("file", "place"),
    [("/clones/palda/tests/fuzz/test_fuzz.py", "?"), (f"{Path(palda.__file__).parent}/io/tables.py", "tables.py:1")],
)
def test_only_frames_of_the_package_are_its_own_wherever_the_clone_lies(file: str, place: str) -> None:
    try:
        exec(compile("{}['x']", file, "exec"))  # noqa: S102 - a frame with a file name of our choice
    except KeyError as error:
        assert place_in_package(error) == place


def test_a_finding_is_stored_with_its_files_and_how_to_replay_it(tmp_path: Path) -> None:
    write_seeds(tmp_path / "seeds", ["csv"])
    store_findings({"csv": Result(1, 0.0, {7: "KeyError"})}, 3, tmp_path / "seeds", tmp_path / "findings")
    stored = json.loads((tmp_path / "findings" / "csv-3-7" / "finding.json").read_text())
    assert stored["replay"] == "python -m tests.fuzz --seed 3 --replay csv:7"
    files, _ = make_case("csv", all_targets()["csv"], read_seeds(tmp_path / "seeds")["csv"], 3, 7)
    assert (tmp_path / "findings" / "csv-3-7" / "files" / "t.csv").read_bytes() == files["t.csv"]


def test_changes_get_past_checksums_and_compression() -> None:
    numbers = random.Random(0)  # noqa: S311 - no secret
    packed = gzip.compress(b"doc,text\nd1,a\n")
    changed = [formats.gzipped(formats.table(","))(numbers, packed, packed) for _ in range(40)]
    assert sum(_unpacks(content) for content in changed) > 20


def _unpacks(content: bytes) -> bool:
    try:
        gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return False
    return True
