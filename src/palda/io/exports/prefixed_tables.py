"""Tables of crowdsourcing platforms: one row per assignment; columns of inputs and answers have prefixes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from palda.data import validation
from palda.errors import DataError
from palda.io.exports.rows import ABSTAINED, Answer, Export, class_names, field_names, is_empty, moment, text_field
from palda.io.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palda.io.exports.rows import Row

BlankRule = Literal["none", "abstained"] | None


@dataclass(frozen=True)
class Layout:
    """Column names of a platform, and the statuses of assignments that are used or not."""

    platform: str
    inputs: str
    answers: str
    worker: str
    status: str
    accepted: frozenset[str]
    rejected: frozenset[str]
    time: str
    doc: str
    separators: str
    option: str
    gold: str | None = None

    def is_accepted(self, row: Row) -> bool:
        """Whether the assignment was submitted and not rejected; true if the file has no statuses."""
        status = row.name(self.status).upper()
        if status and status not in self.accepted | self.rejected:
            row.fail(f"there is no status {validation.shown(status)} at {self.platform}", self.status)
        return status not in self.rejected


def gather(
    rows: Sequence[Row],
    layout: Layout,
    file: str,
    *,
    id: str | None,  # noqa: A002 - as the readers call it
    text: str | None,
    question: str | Sequence[str] | None,
    blank: BlankRule,
) -> Export:
    """All documents of a table, and the annotations of accepted assignments."""
    if not rows:
        raise DataError("has a header but no rows", file=file)
    field_names(rows, file)
    if layout.worker not in rows[0].cells:
        raise DataError(
            f"there is no column {layout.worker!r}, so these are not results of {layout.platform}; "
            f"the columns are {validation.listed(rows[0].cells)}",
            file=file,
        )
    validation.require_choice(blank, (None, "none", "abstained"), "blank")
    asked = _find_question(rows, layout, question, blank)
    gold = None if layout.gold is None else asked.with_prefix(layout.answers, layout.gold)
    inputs = {name.removeprefix(layout.inputs): name for name in rows[0].cells if name.startswith(layout.inputs)}
    id_column = _id_column(list(rows[0].cells), inputs, layout, id, file)
    others = [name for name, column in inputs.items() if column != id_column]
    candidates = others if text is None else [*inputs]
    text_name = text_field(candidates, text and text.removeprefix(layout.inputs), file)
    export = Export("assignments", "blank")
    export.add_classes(asked.boxes)
    for row in rows:
        written = row.text(None if text_name is None else inputs[text_name])
        doc = written.strip() if id_column is None else row.name(id_column)
        fields = {name: row.cells.get(inputs[name]) for name in others if name != text_name}
        export.add_document(row, doc, written, fields)
        if gold is not None and gold.is_filled(row):
            export.add_annotation(row, doc, "", gold.answer(row), gold=True)
        if layout.is_accepted(row):
            time = moment(row.cells.get(layout.time))
            export.add_annotation(row, doc, row.name(layout.worker), asked.answer(row), time=time)
        else:
            export.add_unused(row.name(layout.status).lower())
    return export


_ID_NAMES = tuple(name for name in validation.ALIASES["doc"] if name == "doc" or name.endswith("id"))


def _id_column(
    header: Sequence[str], inputs: Mapping[str, str], layout: Layout, given: str | None, file: str
) -> str | None:
    """Column of document ids: the given one, else an input named like one, else the platform's; None without any."""
    if given is not None:
        return inputs.get(given) or validation.find_column(header, "document", given, validation.SourceLocation(file))
    lowered = {name.lower(): column for name, column in inputs.items()}
    found = next((lowered[name] for name in _ID_NAMES if name in lowered), None)
    return found or (layout.doc if layout.doc in header else None)


# Questions


@dataclass(frozen=True)
class Question:
    """Columns with the answers to a question: one true/false column per class (``boxes``), or one column of lists."""

    boxes: Mapping[str, str]
    column: str = ""
    separators: str = ""
    blank: BlankRule = None

    def with_prefix(self, old: str, new: str) -> Question:
        """The question with another prefix of its columns."""
        boxes = {name: new + column.removeprefix(old) for name, column in self.boxes.items()}
        return replace(self, boxes=boxes, column=new + self.column.removeprefix(old))

    def is_filled(self, row: Row) -> bool:
        """Whether any of its cells is not blank."""
        columns = self.boxes.values() or (self.column,)
        return not all(is_empty(row.cells.get(column)) for column in columns)

    def answer(self, row: Row) -> Answer:
        """Answer in a row: classes named or true, and classes explicitly false."""
        if not self.boxes:
            return self._listed(row)
        ticks = {name: self._tick(row, column) for name, column in self.boxes.items()}
        present = [name for name, tick in ticks.items() if tick]
        absent = [name for name, tick in ticks.items() if tick is False or (tick is None and self.blank == "none")]
        return Answer(present, absent) if present or absent else ABSTAINED

    def _tick(self, row: Row, column: str) -> bool | None:
        cell = row.cells.get(column)
        tick = _tick_of(cell)
        if tick is None and not is_empty(cell):
            row.fail(f"{validation.shown(cell)} is neither true nor false", column)
        return tick

    def _listed(self, row: Row) -> Answer:
        cell = row.cells.get(self.column)
        if is_empty(cell):
            return ABSTAINED if self.blank == "abstained" else Answer([])
        value = _json_or_text(cell)
        if isinstance(value, dict):
            return self._ticked(row, value)
        if not isinstance(value, list):
            value = re.split(f"[{re.escape(self.separators)}]", value) if isinstance(value, str) else [value]
        names = class_names(value)
        if names is None:
            row.fail(f"{validation.shown(cell)} is not a list of classes", self.column)
        return Answer(names)

    def _ticked(self, row: Row, value: dict[str, Any]) -> Answer:
        ticks = {validation.name_text(name): _tick_of(tick) for name, tick in value.items()}
        if None in ticks.values():
            row.fail(f"{validation.shown(value)} is not an object of true and false", self.column)
        absent = [name for name, tick in ticks.items() if not tick]
        return Answer([name for name, tick in ticks.items() if tick], absent or None)


def _json_or_text(cell: object) -> Any:
    """Value of a cell that may be JSON; what is not JSON is text, since class names may start with a bracket."""
    if isinstance(cell, str) and cell.lstrip()[:1] in {"[", "{"}:
        try:
            return parse_json(cell)
        except ValueError:
            return cell
    return cell


def _tick_of(cell: object) -> bool | None:
    """True or false; None for other cells. Browsers send "on" for a ticked box without a value."""
    return {"true": True, "on": True, "false": False}.get(str(cell).strip().lower())


def _find_question(
    rows: Sequence[Row], layout: Layout, given: str | Sequence[str] | None, blank: BlankRule
) -> Question:
    """Question in the columns of answers: the given one, else the only candidate.

    If no cell is "false", a blank cell means "false"; if some are, a blank cell means no judgement. ``blank`` overrides
    this.
    """
    prefix = layout.answers
    columns = dict.fromkeys(column for row in rows for column in row.cells if column.startswith(prefix))
    filled = {
        column.removeprefix(prefix): [cell for row in rows if not is_empty(cell := row.cells.get(column))]
        for column in columns
    }
    groups, lists = _groups_and_lists(filled)
    if given is None:
        chosen = _only_question(groups, lists)
    else:
        wanted = [given] if isinstance(given, str) else given
        chosen = _given_question([name.removeprefix(prefix) for name in wanted], filled, groups)
    if chosen is None:
        known = validation.listed([*filter(None, groups), *groups.get("", ()), *lists]) if groups or lists else "none"
        problem = (
            "which question holds the classes?" if given is None else f"there is no question {validation.shown(given)};"
        )
        raise DataError(f"{problem} choose with {layout.option}='...' among those answered: {known}", file=rows[0].file)
    if isinstance(chosen, str):
        return Question({}, prefix + chosen, layout.separators, blank)
    if blank is None:
        denied = any(_tick_of(cell) is False for name in chosen.values() for cell in filled[name])
        blank = "abstained" if denied else "none"
    return Question({label: prefix + name for label, name in chosen.items()}, blank=blank)


def _groups_and_lists(filled: Mapping[str, list[Any]]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """True/false columns ``<question>.<class>`` by question, single ones under "", and columns with other answers."""
    groups: dict[str, dict[str, str]] = {}
    lists: list[str] = []
    for name, cells in filled.items():
        question, dot, _ = name.rpartition(".")
        if all(_tick_of(cell) is not None for cell in cells) and (dot or cells):
            groups.setdefault(question, {})[_choice(name)] = name
        elif cells:
            lists.append(name)
    for question in [name for name, boxes in groups.items() if name and len(boxes) == 1]:
        (box,) = groups.pop(question).values()
        if filled[box]:
            groups.setdefault("", {})[question.strip()] = box
    return groups, lists


def _only_question(groups: Mapping[str, dict[str, str]], lists: Sequence[str]) -> dict[str, str] | str | None:
    """True/false columns or column of lists to read by default; None if there are several candidates."""
    several = [question for question, boxes in groups.items() if len(boxes) > 1]
    usual = [name for name in lists if name.rpartition(".")[2].lower() in _USUAL_NAMES]
    candidates = [*several, *usual] or lists or [*groups]
    if len(candidates) != 1:
        return None
    return groups.get(candidates[0], candidates[0])


_USUAL_NAMES = {*validation.ALIASES["labels"], *validation.ALIASES["label"]}


def _given_question(
    names: Sequence[str], filled: Mapping[str, list[Any]], groups: Mapping[str, dict[str, str]]
) -> dict[str, str] | str | None:
    """True/false columns or column of lists with the given names; None if a name is unknown."""
    if len(names) == 1 and names[0] in groups:
        return groups[names[0]]
    single = groups.get("", {})
    boxes = {name if name in single else _choice(name): single.get(name, name) for name in names}
    if not boxes or not all(box in filled for box in boxes.values()):
        return None
    cells = [cell for box in boxes.values() for cell in filled[box]]
    is_list = len(names) == 1 and not (cells and all(_tick_of(cell) is not None for cell in cells))
    return names[0] if is_list else boxes


def _choice(name: str) -> str:
    """Class of a true/false column ``<question>.<class>`` or ``<class>``."""
    return name.rpartition(".")[2].strip() or name
