"""Random changes to files: of bytes, of JSON values, of tables, of arrays. Each is determined by its random numbers."""

from __future__ import annotations

import copy
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

TOKENS = [
    b'"', b'""', b"'", b",", b"\t", b";", b"|", b"\n", b"\r", b"\r\n", b"\n\n", b"\0", b"\x1f\x8b", b"PK\x03\x04",
    b"PAR1", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xc2\x85", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff",
    b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\u0000", b"\xe2\x80\xae", b"\x1b[31m", b"NaN", b"nan", b"Infinity",
    b"-inf", b"1e999", b"-1", b"9" * 400, b"1" + b"0" * 25, b"1e308", b"-0", b"0x10", b"1_000", b"2147483648", b"null",
    b"true", b"[]", b"{}", b"[[", b"}}", b"[" * 120, b'{"a":' * 120, b"<", b">", b"&#0;", b"&#xD800;", b"&amp;",
    b"<!DOCTYPE a [", b"<!ENTITY a 'b'>", b"</TEXT>", b"<D>", b"@data", b"@attribute", b"%", b"{", b"}", b"?", b"#",
    b"..", b"/", b"=", b"+", b"@", b"2024-13-45", b"0000-00-00T00:00:00", b"99999-01-01", b"\x80", b"\xff",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, 10**25, 10**400, float("nan"), float("inf"), 2**31, -(2**63),
    2**64, "", " ", "a", "1", "x" * 300, "\0", "\u2028", "\ud800", "\udc00x", "\u202e", "\ufeff", "\x1b[0m", "None",
    "nan", "all", "../x", "/etc/passwd", "tcp://127.0.0.1:1", "os.system", "2024-05-14T09:00:00Z", "99999-99-99",
    [], [[]], [None], ["a"], ["a", "a"], ["a", 1, True], {}, {"": 1}, {"a": {"a": 1}}, [{"id": 1}], "[", '["a"]',
    '{"a": true}', "a;b", "a|b", "=1+1",
]  # fmt: skip


def change_bytes(random: random.Random, content: bytes, other: bytes) -> bytes:
    """One to four changes: flipped, inserted, deleted, repeated or random bytes, tokens, truncation, splices."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        start = random.randint(0, len(changed))
        stop = min(len(changed), start + random.choice((1, 1, 2, 4, 16, 200)))
        if random.randrange(9) == 0:
            del changed[start:]
        elif random.randrange(9) == 0:
            changed[start:] = other[random.randint(0, len(other)) :]
        else:
            changed[start:stop] = _other_bytes(random, bytes(changed[start:stop]))
    return bytes(changed)


def _other_bytes(random: random.Random, some: bytes) -> bytes:
    """What stands in place of some bytes."""
    flipped = bytes(byte ^ (1 << random.randrange(8)) for byte in some[:4]) + some[4:]
    token, size = random.choice(TOKENS), len(some)
    same = random.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * size
    return random.choice(
        (flipped, token, token + some, b"", some * random.choice((2, 3, 50)), random.randbytes(size), same)
    )


def change_in_place(random: random.Random, content: bytes) -> bytes:
    """Other bytes in some places; everything stays where it is, so that offsets and lengths in the file hold."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8))):
        start = random.randrange(len(changed))
        stop = min(len(changed), start + random.choice((1, 1, 1, 2, 4, 8)))
        kind = random.randrange(3)
        if kind == 0:
            changed[start] ^= 1 << random.randrange(8)
        elif kind == 1:
            changed[start:stop] = random.randbytes(stop - start)
        else:
            changed[start:stop] = random.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\x01")) * (stop - start)
    return bytes(changed)


def change_lines(random: random.Random, content: bytes) -> bytes:
    """Lines removed, repeated or exchanged, and tokens between words."""
    lines = content.split(b"\n")
    for _ in range(random.choice((1, 1, 2, 3))):
        place = random.randrange(len(lines))
        kind = random.randrange(5)
        if kind == 0:
            lines.insert(place, random.choice(lines))
        elif kind == 1 and len(lines) > 1:
            del lines[place]
        else:
            words = lines[place].split(random.choice((b" ", b",", b"'", b'"', b">")))
            words[random.randrange(len(words))] = random.choice(
                (random.choice(TOKENS), str(random.choice(VALUES)).encode("utf-8", "surrogatepass"))
            )
            lines[place] = random.choice((b" ", b",")).join(words)
    return b"\n".join(lines)


def change_json(random: random.Random, document: Any) -> Any:
    """One to three changes of values, keys and lists inside a JSON document."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return random.choice(VALUES)
        *way, last = random.choice(places)
        holder = document
        for key in way:
            holder = holder[key]
        _change_place(random, holder, last, document, places)
    return document


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _change_place(random: random.Random, holder: Any, last: Any, document: Any, places: list[tuple[Any, ...]]) -> None:
    kind = random.randrange(7)
    if kind < 3:
        holder[last] = copy.deepcopy(random.choice(VALUES))
    elif kind == 3:
        del holder[last]
    elif kind == 4 and isinstance(holder, dict):
        holder[str(random.choice(VALUES))] = holder.pop(last)
    elif kind == 5:
        value = document
        for key in random.choice(places):
            value = value[key]
        holder[last] = copy.deepcopy(value)
    elif isinstance(holder, list):
        holder.insert(last, copy.deepcopy(holder[last]))
    elif isinstance(holder[last], (int, float)) and not isinstance(holder[last], bool):
        holder[last] = holder[last] * random.choice((-1, 2, 10**9)) + random.choice((-1, 0, 1))
    else:
        holder[last] = [holder[last]]


def json_bytes(random: random.Random, document: Any, *, lines: bool = False) -> bytes:
    """JSON text with or without escapes, in one of several encodings."""
    ascii_only = random.random() < 0.5
    if lines and isinstance(document, list):
        text = "\n".join(json.dumps(record, ensure_ascii=ascii_only) for record in document)
    else:
        text = json.dumps(document, ensure_ascii=ascii_only, indent=random.choice((None, 1)))
    return text.encode(random.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16")), "surrogatepass")


def change_cells(random: random.Random, rows: list[list[str]]) -> list[list[str]]:
    """Other cells, ragged rows, duplicate and missing columns."""
    rows = [list(row) for row in rows]
    for _ in range(random.choice((1, 1, 2, 3))):
        row = random.choice(rows)
        kind = random.randrange(16)
        if kind < 12 and row:
            row[random.randrange(len(row))] = random.choice(
                (str(random.choice(VALUES)), json.dumps(random.choice(VALUES)))
            )
        elif kind == 12:
            row.append(str(random.choice(VALUES)))
        elif kind == 13 and row:
            row.pop(random.randrange(len(row)))
        elif kind == 14:
            rows.insert(random.randint(0, len(rows)), list(random.choice(rows)))
        else:
            place = random.randrange(max(map(len, rows)) or 1)
            for line in rows:
                del line[place : place + 1]
    return rows


_DTYPES = ["<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "|u1", "<u8", "|b1", "<c16", "<U5", "|S3", "|O", "<M8[s]",
           "|V8", ">f8", "<f16"]  # fmt: skip


def change_array(random: random.Random, blob: bytes) -> bytes:
    """An .npy file with other values, another type or another shape; or its header changed, or its bytes."""
    kind = random.randrange(8)
    if kind == 0:
        return change_bytes(random, blob, blob)
    if kind == 1:
        return _changed_header(random, blob)
    try:
        array = np.lib.format.read_array(io.BytesIO(blob), allow_pickle=False)
    except ValueError:
        return change_bytes(random, blob, blob)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, _changed_array(random, array, kind), allow_pickle=False)
    return stream.getvalue()


def _changed_array(random: random.Random, array: np.ndarray[Any, Any], kind: int) -> np.ndarray[Any, Any]:
    if kind in (2, 3) and array.size and array.dtype.kind in "iufb":
        changed = array.copy()
        value = random.choice((np.nan, np.inf, -np.inf, -1, 0, 1, 2, 1e30, 1e308, -1e308, 2**31, -(2**31), 0.5))
        with np.errstate(all="ignore"):
            number = np.array(value).astype(changed.dtype) if np.isfinite(value) or array.dtype.kind == "f" else 0
        changed.flat[random.randrange(array.size) if kind == 2 else slice(None)] = number
        return changed
    if kind == 4:
        return np.zeros((), dtype=array.dtype) if random.random() < 0.3 else array[:0] if array.ndim else array
    if kind == 5:
        with np.errstate(all="ignore"):
            return array.astype(random.choice(("<f8", "<f4", "<i8", "<i4", "|i1", "|u1", "|b1", "<U5", "<c16")))
    if kind == 6:
        return np.concatenate([array, array]) if array.ndim else array[None]
    return np.asfortranarray(array.T) if random.random() < 0.5 else array.reshape(-1)


def _changed_header(random: random.Random, blob: bytes) -> bytes:
    """Another type or shape in the header, with the data as they are."""
    try:
        version = np.lib.format.read_magic(io.BytesIO(blob))
        stream = io.BytesIO(blob)
        stream.seek(8)
        shape, order, dtype = np.lib.format.read_array_header_1_0(stream)
    except ValueError:
        return blob
    del version
    data = stream.read()
    shape = random.choice(
        (shape, (), (0,), (2**62,), (2**31, 2**31), (10**9,), (-1,), (1, *shape), (*shape, 0), (3 * 2**28,))
    )
    header = {
        "descr": random.choice((dtype.str, *_DTYPES)),
        "fortran_order": random.choice((order, True)),
        "shape": shape,
    }
    text = repr(header).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data
