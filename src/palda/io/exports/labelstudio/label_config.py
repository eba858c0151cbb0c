"""Label configs of Label Studio: which questions a project asks, and all their classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palda.data import validation
from palda.errors import DataError
from palda.io import limits
from palda.io.files import file_name, read_text
from palda.io.json_text import parse_record
from palda.io.xml_elements import read_elements

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

KINDS = ("choices", "taxonomy")
"""Controls whose answers are classes; also the key of their values in results."""


@dataclass(frozen=True)
class Control:
    """A ``Choices`` or ``Taxonomy`` tag.

    Attributes
    ----------
    name : str
        Name of the tag, ``from_name`` in results.
    to_name : str
        Name of the tag that it is about.
    kind : {"choices", "taxonomy"}
        Kind of tag.
    paths : tuple of tuple of str
        Choices in the order of the config; a nested choice is the names of its ancestors and its own.
    is_open : bool
        Whether tasks or a server may add further choices.
    is_single : bool
        Whether one choice is to be made.
    """

    name: str
    to_name: str
    kind: str = "choices"
    paths: tuple[tuple[str, ...], ...] = ()
    is_open: bool = False
    is_single: bool = False

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the choices as classes: a nested choice is ``Sport/Football``."""
        return tuple(dict.fromkeys("/".join(path) for path in self.paths))

    def path(self, name: str) -> tuple[str, ...]:
        """The choice with the name of a class; without declared choices, a taxonomy is split at each ``/``."""
        for path in self.paths:
            if "/".join(path) == name:
                return path
        return tuple(name.split("/")) if self.kind == "taxonomy" else (name,)


@dataclass(frozen=True)
class LabelConfig:
    """Controls of a label config, and the data field that each object tag shows."""

    file: str
    controls: tuple[Control, ...]
    fields: Mapping[str, str] = field(default_factory=dict)

    def control(self, name: str | None = None) -> Control:
        """The control with a name; by default the only one."""
        known = {control.name: control for control in self.controls}
        if name is None:
            if len(known) > 1:
                raise DataError(
                    f"there are several questions; choose from_name= among {validation.listed(known)}", file=self.file
                )
            return self.controls[0]
        if name not in known:
            problem = f"no Choices or Taxonomy has the name {name!r}; from_name can be {validation.listed(known)}"
            raise DataError(problem, file=self.file)
        return known[name]


def read_label_config(path: str | os.PathLike[str], encoding: str | None = None) -> LabelConfig:
    """Read a label config: an XML file, or the JSON of a project as ``GET /api/projects/ID`` returns it."""
    return parse_label_config(read_text(path, encoding), file_name(path))


def parse_label_config(text: str, file: str = "label config") -> LabelConfig:
    r"""Label config from its XML, or from the JSON of a project.

    Examples
    --------
    >>> from palda.io import parse_label_config
    >>> config = parse_label_config(
    ...     '<View><Text name="text" value="$body"/><Choices name="topics" toName="text" choice="multiple">'
    ...     '<Choice value="crime"/><Choice value="sport"/></Choices></View>'
    ... )
    >>> config.control().classes, config.fields
    (('crime', 'sport'), {'text': 'body'})
    """
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        raise DataError("is empty", file=file)
    config = _from_project(parse_record(text, file, None), file) if start[0] in "[{" else _from_xml(text, file)
    if not config.controls:
        raise DataError("has no Choices or Taxonomy tag with a name, so it names no classes", file=file)
    names = [control.name for control in config.controls]
    for control in config.controls:
        if names.count(control.name) > 1:
            raise DataError(f"has two controls with the name {validation.shown(control.name)}", file=file)
    return config


# XML


@dataclass
class _OpenControl:
    """A control whose end tag has not been read."""

    name: str
    to_name: str
    kind: str
    is_open: bool
    leaves_only: bool
    is_single: bool = False
    paths: list[tuple[str, ...]] = field(default_factory=list)
    parents: set[tuple[str, ...]] = field(default_factory=set)

    def closed(self) -> Control:
        paths = [path for path in self.paths if not (self.leaves_only and path in self.parents)]
        return Control(self.name, self.to_name, self.kind, tuple(paths), self.is_open, self.is_single)


def _from_xml(text: str, file: str) -> LabelConfig:
    found = _Elements(file)
    read_elements(text.lstrip("\ufeff \t\r\n"), file, "a label config", found.start, found.end)
    return LabelConfig(file, tuple(found.controls), found.fields)


class _Elements:
    """Controls and data fields, collected while the XML is read."""

    def __init__(self, file: str) -> None:
        self.controls: list[Control] = []
        self.fields: dict[str, str] = {}
        self._file = file
        self._control: _OpenControl | None = None
        self._path: list[str] = []
        self._n_choices = 0

    def start(self, tag: str, attributes: dict[str, str], row: int) -> None:
        """A start tag; names of tags and attributes are not case-sensitive in Label Studio."""
        kind, given = tag.lower(), {name.lower(): value.strip() for name, value in attributes.items()}
        if kind in KINDS:
            if self._control is not None:
                raise DataError(f"a <{tag}> is inside another control", file=self._file, row=row)
            self._control = _open_control(tag, given, self._file, row)
        elif kind == "choice" and self._control is not None:
            self._add_choice(self._control, given, row)
        elif given.get("name") and given.get("value", "").startswith("$"):
            self.fields[given["name"]] = given["value"].removeprefix("$")

    def _add_choice(self, control: _OpenControl, given: Mapping[str, str], row: int) -> None:
        name = given.get("alias") or given.get("value", "")
        if not name:
            raise DataError("the <Choice> has no value", file=self._file, row=row)
        control.parents.add(tuple(self._path))
        self._path.append(name)
        control.paths.append(tuple(self._path))
        self._n_choices += 1
        limits.check_n_fields(self._n_choices, self._file, row, "choices")

    def end(self, tag: str) -> None:
        """An end tag."""
        if tag.lower() == "choice" and self._path:
            self._path.pop()
        elif tag.lower() in KINDS and self._control is not None:
            self.controls.append(self._control.closed())
            self._control = None


def _open_control(tag: str, given: Mapping[str, str], file: str, row: int) -> _OpenControl:
    for name in ("name", "toname"):
        if not given.get(name):
            shown = {"name": "name", "toname": "toName"}[name]
            raise DataError(f"the <{tag}> has no {shown}", file=file, row=row)
    is_open = any(given.get(name) for name in ("value", "apiurl")) or given.get("allowcustom", "").lower() == "true"
    leaves_only = given.get("leafsonly", "").lower() == "true"
    is_single = tag.lower() == "choices" and given.get("choice", "single").lower().startswith("single")
    return _OpenControl(given["name"], given["toname"], tag.lower(), is_open, leaves_only, is_single)


# Projects


def _from_project(project: Any, file: str) -> LabelConfig:
    if not isinstance(project, dict) or not ({"label_config", "parsed_label_config"} & set(project)):
        raise DataError(
            "is neither a label config in XML nor a project with a label_config; save what GET /api/projects/ID "
            "returns for one project",
            file=file,
        )
    xml = project.get("label_config")
    if isinstance(xml, str) and xml.strip():
        return _from_xml(xml, file)
    parsed = project.get("parsed_label_config")
    if not isinstance(parsed, dict):
        raise DataError(f"{validation.shown(parsed)} is not an object", file=file, column="parsed_label_config")
    controls = [_parsed_control(name, tag, file) for name, tag in parsed.items() if _kind(tag) in KINDS]
    fields = {
        str(names[0]): str(source["value"])
        for tag in parsed.values() if isinstance(tag, dict)
        if isinstance(names := tag.get("to_name"), list) and len(names) == 1
        if isinstance(sources := tag.get("inputs"), list) and len(sources) == 1
        if isinstance(source := sources[0], dict) and isinstance(source.get("value"), str)
    }  # fmt: skip
    return LabelConfig(file, tuple(controls), fields)


def _kind(tag: Any) -> str:
    return str(tag.get("type", "")).lower() if isinstance(tag, dict) else ""


def _parsed_control(name: str, tag: Mapping[str, Any], file: str) -> Control:
    if _kind(tag) == "taxonomy":
        raise DataError(
            "the parsed_label_config does not say how a taxonomy is nested; give the label_config as well",
            file=file,
            column=name,
        )
    labels, to_names = _texts(tag.get("labels")), _texts(tag.get("to_name"))
    if labels is None or not to_names:
        raise DataError("needs lists of labels and of to_name", file=file, column=name)
    limits.check_n_fields(len(labels), file, what="choices")
    return Control(name, to_names[0], _kind(tag), tuple((label,) for label in labels), bool(tag.get("dynamic_labels")))


def _texts(value: Any) -> Sequence[str] | None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return [item.strip() for item in value if item.strip()]
