"""Files of unknown source: limits hold before memory is taken, and only regular files are opened."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import palda
from palda import DataError, open_shards, simulate, write_shards
from palda.data import ArraySpec, SchemaError
from palda.data.array_schema import Header, check_arrays, check_headers, prefixed
from palda.estimators import ModelFileError, load_state, save_state
from palda.io import ArrayArchive, open_regular
from palda.paper import Cell, CellRecord, Store

MODEL = Path(__file__).resolve().parents[1] / "fixtures" / "model-0.1-base-rate.palda"
GIB = 1 << 30


def zeros_member(n_bytes: int, start: bytes) -> bytes:
    """Raw deflate stream of ``start`` and zeros, made without compressing all of them."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = compressor.compress(start) + compressor.flush(zlib.Z_FULL_FLUSH)
    block = compressor.compress(bytes(1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return head + block * (n_bytes >> 20) + compressor.flush()


def bomb(path: Path, n_bytes: int) -> None:
    """A copy of a model file in which ``lower_bounds``, of free length, is an array of zeros."""
    with zipfile.ZipFile(MODEL) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            if name != "lower_bounds.npy":
                new.writestr(name, old.read(name))
    header = {"descr": "<f8", "fortran_order": False, "shape": (n_bytes // 8,)}
    with (path.parent / "header").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
    start = (path.parent / "header").read_bytes()
    content, name, size = zeros_member(n_bytes, start), b"lower_bounds.npy", n_bytes + len(start)
    with zipfile.ZipFile(path) as archive:
        directory, n_members = archive.start_dir, len(archive.namelist())
    raw = path.read_bytes()
    central = raw[directory : raw.rindex(b"PK\x05\x06")]
    sizes = (20, 0, 8, 0, 33, 0, len(content), size, len(name), 0)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, *sizes) + name + content
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, *sizes, 0, 0, 0, 0, directory) + name
    end = struct.pack(
        "<IHHHHIIH",
        0x06054B50,
        0,
        0,
        n_members + 1,
        n_members + 1,
        len(central) + len(entry),
        directory + len(local),
        0,
    )
    path.write_bytes(raw[:directory] + local + central + entry + end)


def header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "text",
    [b"{'descr': '<f8', 'fortran_order': False, 'shape': (2L,)}", b"{'descr': '<f8', 'fortran_order': False, {", b"[("],
    ids=["of Python 2", "not closed", "no object"],
)
def test_a_damaged_header_of_an_array_is_one_line(tmp_path: Path, text: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header(text) + bytes(16))
    with (tmp_path / "a.npz").open("rb") as stream, pytest.raises(SchemaError) as caught:
        ArrayArchive(stream).header("x")
    assert "\n" not in str(caught.value)


def test_arrays_have_the_order_of_c_whatever_the_file_says(tmp_path: Path) -> None:
    array = np.arange(6.0).reshape(2, 3)
    np.savez(tmp_path / "a.npz", x=np.asfortranarray(array))
    with (tmp_path / "a.npz").open("rb") as stream:
        found = ArrayArchive(stream).read("x")
    np.testing.assert_array_equal(found, array)
    assert found.flags.c_contiguous


_LOAD = """
import resource, sys, palda
palda.load(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + (3 << 30),) * 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    palda.load(sys.argv[1])
except palda.PaldaError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_three_gibibytes_of_zeros_in_a_small_file_are_refused_without_taking_memory(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    path = tmp_path / "bomb.palda"
    bomb(path, 3 * GIB)
    assert path.stat().st_size < 8 << 20
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", _LOAD, path, MODEL], env=environment, capture_output=True, text=True, check=True
    )
    message, kilobytes = ended.stdout.splitlines()
    assert "would expand to far more than its size" in message
    assert int(kilobytes) < 20_000


def test_a_small_array_in_the_same_form_is_read(tmp_path: Path) -> None:
    """The file of the test above is refused for its size alone."""
    bomb(tmp_path / "small.palda", 1 << 20)
    with pytest.raises(ModelFileError, match="Bad CRC-32 for file 'lower_bounds"):
        palda.load(tmp_path / "small.palda")


def test_a_manifest_that_expands_too_much_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"[" + b"[]," * 4_000_000 + b"[]]")
    with pytest.raises(ModelFileError, match=r"manifest\.json would expand to far more"):
        palda.load(tmp_path / "bomb")


def test_arrays_that_compress_to_almost_nothing_are_saved_so_that_they_can_be_read(tmp_path: Path) -> None:
    zeros = np.zeros(10_000_000)
    save_state(tmp_path / "zeros", {"a": zeros}, {})
    loaded = load_state(tmp_path / "zeros", lambda _: ({"a": ArraySpec(("numbers",))}, {}))
    np.testing.assert_array_equal(loaded.arrays["a"], zeros)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression_is_refused(method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "odd", "w", method) as archive:
        archive.writestr("a.npy", b"")
    with (tmp_path / "odd").open("rb") as stream, pytest.raises(SchemaError, match="unusual"):
        ArrayArchive(stream)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_twice_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "odd", "w") as archive:
        archive.writestr("a.npy", b"1")
        archive.writestr("a.npy", b"2")
    with (tmp_path / "odd").open("rb") as stream, pytest.raises(SchemaError, match="twice"):
        ArrayArchive(stream)


# Regular files


def test_symbolic_links_fifos_and_folders_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "fifo")  # opening it would wait forever
    for name in ("link", "fifo", "."):
        with pytest.raises(OSError, match=r"symbolic link|regular file|directory"):
            open_regular(tmp_path / name)
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"content"


@pytest.mark.parametrize("name", ["manifest.json", "names.json", "shard-00000.arrow"])
@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_a_shard_folder_holds_regular_files(name: str, kind: str, tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "shards", simulate.newsroom(4, seed=0).corpus).path
    shutil.move(folder / name, tmp_path / name)
    if kind == "link":
        (folder / name).symlink_to(tmp_path / name)
    else:
        os.mkfifo(folder / name)
    with pytest.raises(DataError) as refused:
        open_shards(folder).dataset()
    assert str(folder) in str(refused.value)


def test_a_cell_behind_a_symbolic_link_is_not_read(tmp_path: Path) -> None:
    cell, store = Cell("scene", "forest", "votes", 0), Store(tmp_path)
    path = store.save(CellRecord(cell, {"micro_f1": 0.5}))
    assert store.load(cell) is not None
    shutil.move(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.load(cell) is None
    assert store.load_everything() == []


def test_a_cell_with_a_huge_seed_is_ignored(tmp_path: Path) -> None:
    """Plans are made for all seeds up to the largest."""
    cell, store = Cell("scene", "forest", "votes", 0), Store(tmp_path)
    path = store.save(CellRecord(cell, {"micro_f1": 0.5}))
    content = json.loads(path.read_text())
    content["cell"]["seed"] = 10**12
    path.write_text(json.dumps(content))
    assert store.load_everything() == []


# Schemas


def test_sizes_come_from_the_first_array_that_has_them() -> None:
    schema = {"a": ArraySpec(("rows", "columns")), "b": ArraySpec(("columns",), also="extra", group="b")}
    schema |= {"c": ArraySpec((("rows", "extra"),))}
    a, b = np.zeros((2, 3)), np.zeros(3)
    assert check_arrays({"a": a, "b": b, "c": np.zeros(5)}, schema, {})["columns"] == 3
    check_arrays({"a": a, "c": np.zeros(2)}, schema, {})  # the group is absent, and so is its size
    with pytest.raises(SchemaError, match="'b' does not match: it has 4 columns instead of 3"):
        check_arrays({"a": a, "b": np.zeros(4), "c": np.zeros(5)}, schema, {})
    with pytest.raises(SchemaError, match="'a' does not match: it has 2 rows instead of 7"):
        check_arrays({"a": a, "c": np.zeros(2)}, schema, {"rows": 7})


def test_groups_are_complete_or_absent() -> None:
    part = {"x": ArraySpec((), group="inner"), "y": ArraySpec((), group="inner"), "z": ArraySpec(())}
    schema = prefixed("p", part, "outer")
    number = Header(np.dtype(np.float64), ())
    for names in ((), ("p.z",), ("p.x", "p.y", "p.z")):
        check_headers(dict.fromkeys(names, number), schema, {})
    for names, missing in ((("p.x", "p.z"), "p.y"), (("p.x", "p.y"), "p.z")):
        with pytest.raises(SchemaError, match=f"'{missing}' is missing"):
            check_headers(dict.fromkeys(names, number), schema, {})
    with pytest.raises(SchemaError, match="'q' does not belong there"):
        check_headers({"q": number}, schema, {})


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        (ArraySpec((2,), low=0.0), [-1e-9, 1.0]),
        (ArraySpec((2,), above=0.0), [0.0, 1.0]),
        (ArraySpec((2,), below=1.0), [0.0, 1.0]),
        (ArraySpec((2,)), [0.0, 1e51]),
        (ArraySpec((2,)), [0.0, np.nan]),
        (ArraySpec((2,), nan=True), [0.0, np.inf]),
        (ArraySpec((2,), sum_axis=0), [0.5, 0.6]),
        (ArraySpec((2,), ascending=True), [1.0, 0.0]),
    ],
)
def test_numbers_out_of_range_are_refused(spec: ArraySpec, numbers: list[float]) -> None:
    with pytest.raises(SchemaError, match="array 'a'"):
        check_arrays({"a": np.array(numbers)}, {"a": spec}, {})
