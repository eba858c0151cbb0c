"""Deeply nested values and odd times in exports; ``tests/fuzz`` changes everything else."""

from __future__ import annotations

import copy
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.seeds import BATCH, CHOICES, EXAMPLES, FLAT, TASKS, as_lines

from palda.errors import PaldaError
from palda.io import read_doccano, read_labelstudio, read_mturk, read_prodigy
from palda.io.exports import rows as export_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Place = tuple[Any, ...]

pytestmark = pytest.mark.filterwarnings("ignore::palda.errors.PaldaWarning")

FORMATS: dict[str, tuple[Callable[..., Any], str, list[dict[str, Any]]]] = {
    "labelstudio-json": (read_labelstudio, "e.json", TASKS),
    "labelstudio-json-min": (read_labelstudio, "e.json", FLAT),
    "doccano-jsonl": (read_doccano, "ann.jsonl", EXAMPLES),
    "prodigy": (read_prodigy, "e.jsonl", CHOICES),
    "mturk-json": (read_mturk, "e.json", BATCH),
}


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Ways to every value inside a document, the document itself left out."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(document: Any, place: Place, value: Any) -> Any:
    """Document with another value in a place."""
    document = copy.deepcopy(document)
    *way, last = place
    holder = document
    for key in way:
        holder = holder[key]
    holder[last] = value
    return document


@pytest.mark.parametrize("name", FORMATS)
def test_deep_nesting_is_refused_or_read(tmp_path: Path, name: str) -> None:
    read, file, records = FORMATS[name]
    for place, depth in itertools.product(places(records), [90, 99, 101, 300, 900, 2000]):
        document = changed(records, place, "@deep@")
        content = as_lines(document) if file.endswith("l") else json.dumps(document).encode()
        (tmp_path / file).write_bytes(content.replace(b'"@deep@"', b"[" * depth + b"]" * depth))
        try:
            read(tmp_path / file)
        except PaldaError as refused:
            assert "\n" not in str(refused)
        else:
            assert depth <= 100


numbers = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 10**400, 1e308])
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    value=values
    | st.text()
    | st.from_regex(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d{1,3} \d\d:\d\d:\d\d [A-Z+0-9]{1,5} \d{1,6}", fullmatch=True)
)
def test_a_time_is_a_number_or_none(value: object) -> None:
    time = export_rows.moment(value)
    assert time is None or isinstance(time, float)
