"""Tables in a page of prose: what stands between an experiment's markers is made of stored cells, the rest is kept.

``<!-- table1 -->`` opens the part of the experiment ``table1``, ``<!-- /table1 -->`` closes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from palda.errors import PaldaError
from palda.estimators import duration
from palda.paper.experiments import EXPERIMENTS
from palda.paper.results import command_of, stored_records
from palda.paper.tables import to_markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palda.paper.cells import CellRecord, Store
    from palda.paper.experiments import Experiment

__all__ = ["Update", "part_of_page", "update_page"]

_MARKER = re.compile(r"<!-- (/?)([a-z0-9-]+) -->")


class Update(NamedTuple):
    """The page's new text, and which experiments' parts changed or have no finished cell to be made of."""

    text: str
    changed: list[str]
    without_cells: list[str]


def update_page(text: str, store: Store) -> Update:
    """Make every marked part of a page anew from stored cells; parts without any stay as they are."""
    changed, without_cells = [], []
    for name in _marked(text):
        records = stored_records(EXPERIMENTS[name], store)
        if not records:
            without_cells.append(name)
            continue
        opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, rest = text.split(opening, 1)
        old, after = rest.split(closing, 1)
        new = f"\n{part_of_page(EXPERIMENTS[name], records)}"
        if new != old:
            changed.append(name)
        text = before + opening + new + closing + after
    return Update(text, changed, without_cells)


def _marked(text: str) -> list[str]:
    """Experiments that the page has a part for; every part must be opened once and closed after that."""
    names: list[str] = []
    is_open: str | None = None
    for closes, name in _MARKER.findall(text):
        if name not in EXPERIMENTS:
            continue
        if closes and name == is_open:
            is_open = None
        elif closes or is_open or name in names:
            raise PaldaError(
                f"the marker <!-- {closes}{name} --> is out of place; each part is opened once, then closed"
            )
        else:
            is_open = name
            names.append(name)
    if is_open:
        raise PaldaError(f"the part <!-- {is_open} --> is never closed; add <!-- /{is_open} --> after it")
    if not names:
        known = ", ".join(f"<!-- {name} -->" for name in EXPERIMENTS)
        raise PaldaError(f"the page has no part to fill; mark one with {known} and its closing twin")
    return names


def part_of_page(experiment: Experiment, records: Sequence[CellRecord]) -> str:
    """Where the figures come from, then the tables, in Markdown."""
    return "\n".join([_provenance(experiment, records), *map(to_markdown, experiment.tables(records))])


def _provenance(experiment: Experiment, records: Sequence[CellRecord]) -> str:
    seeds = sorted({record.cell.seed for record in records})
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"
    found = [
        f"{name} {' / '.join(sorted({record.versions[name] for record in records if name in record.versions}))}"
        for name in dict.fromkeys(name for record in records for name in record.versions)
    ]
    total = duration(sum(record.seconds for record in records))
    return f"`{command_of(experiment, records)}`: {len(records)} cells, {which}; {total} in all; {', '.join(found)}.\n"
