from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palda.errors import PaldaError
from palda.paper import EXPERIMENTS, Cell, CellRecord, RunOptions, Store, update_page

MakeRecord = Callable[[Cell], CellRecord]

PAGE = """# Results

Before.

<!-- adversarial -->
old
<!-- /adversarial -->

Between. <!-- an ordinary comment -->

<!-- table2 -->
<!-- /table2 -->
After.
"""


@pytest.fixture
def store(make_record: MakeRecord, tmp_path: Path) -> Store:
    store = Store(tmp_path)
    for cell in EXPERIMENTS["adversarial"].plan(RunOptions()):
        store.save(make_record(cell))
    return store


def test_marked_parts_are_rewritten_and_the_rest_is_kept(store: Store) -> None:
    found = update_page(PAGE, store)
    assert found.changed == ["adversarial"]
    assert found.without_cells == ["table2"]
    before, rest = found.text.split("<!-- adversarial -->")
    part, after = rest.split("<!-- /adversarial -->")
    assert before == PAGE.split("<!-- adversarial -->", maxsplit=1)[0]
    assert after == PAGE.split("<!-- /adversarial -->")[1]
    assert "old" not in part
    assert "10 of 50 annotators malicious" in part


def test_a_part_gives_the_command_seeds_time_and_versions(store: Store) -> None:
    text = update_page(PAGE, store).text
    assert (
        "`palda reproduce adversarial`: 10 cells, seeds 0, 1, 2, 3, 4; 5 min in total; palda 1, numpy 2." in text
    )  # ten cells of 30 s


def test_a_second_update_changes_nothing(store: Store) -> None:
    once = update_page(PAGE, store)
    twice = update_page(once.text, store)
    assert twice.text == once.text
    assert twice.changed == []


def test_a_new_cell_changes_the_page(store: Store, make_record: MakeRecord) -> None:
    text = update_page(PAGE, store).text
    store.save(make_record(EXPERIMENTS["adversarial"].plan(RunOptions(seeds=6))[-1]))
    assert update_page(text, store).changed == ["adversarial"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing marked", "no marked part"),
        ("<!-- table1 -->", "never closed"),
        ("<!-- /table1 --> <!-- table1 -->", "misplaced"),
        ("<!-- table1 --> <!-- table2 --> <!-- /table2 --> <!-- /table1 -->", "misplaced"),
        ("<!-- table1 --> <!-- /table1 --> <!-- table1 --> <!-- /table1 -->", "misplaced"),
    ],
)
def test_markers_that_do_not_match_are_refused_in_one_line(store: Store, text: str, message: str) -> None:
    with pytest.raises(PaldaError, match=message) as found:
        update_page(text, store)
    assert "\n" not in str(found.value)
