"""Loads files in which one JSON value after the other is replaced, under an audit hook. Prints the findings as JSON.

Run as a process of its own, because an audit hook cannot be removed: ``python audited_loading.py FOLDER N``. Each value
is replaced in N ways, which differ from value to value. The walk is recursive, so new keys are covered as they come.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import math
import os
import shutil
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
MODULE = "xml.dom.pulldom"  # a module that nothing else imports

REPLACEMENTS: list[Any] = [
    "tcp://127.0.0.1:1",
    "dask",
    "/etc/hostname",
    "../../manifest.json",
    "shard-99999.arrow",
    "os.system",
    MODULE,
    {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"},
    {"engine": "tcp://127.0.0.1:1"},
    [["tcp://127.0.0.1:1"]],
    [],
    {},
    "",
    None,
    True,
    -1,
    1.5,
    10**30,
    1e308,
    math.nan,
    math.inf,
]

PLAUSIBLE = (-1, 1.5, True)
"""Replacements that are ordinary numbers: where they are accepted, they may change results, as content does."""

# The audit hook

_FORBIDDEN = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn",
    "ctypes.dlopen", "pickle.find_class", "webbrowser.", "urllib.", "http.", "ftplib.", "smtplib.", "shutil.",
    "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.chown", "os.truncate",
    "os.putenv", "os.remove",
)  # fmt: skip
_COMPARED = ("import", "open", "exec")  # allowed if loading the untouched file does the same


@dataclass
class Audit:
    """Records what happens while it is on; forbids what is not recorded while it is strict."""

    mode: str = "off"  # "off", "record" or "strict"
    known: set[tuple[str, str]] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    may_remove: str = ""

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.mode == "off" or not (event in _COMPARED or event.startswith(_FORBIDDEN)):
            return
        first = args[0] if args else ""
        if event == "open" and isinstance(first, int):
            return  # a file that is open already
        if event == "os.remove" and self.may_remove and str(first).startswith(self.may_remove):
            return
        name = (
            f"{first.co_filename}:{first.co_name}"
            if event == "exec"
            else os.fsdecode(first)
            if isinstance(first, bytes)
            else str(first)
        )
        if self.mode == "record":
            self.known.add((event, name))
        elif event not in _COMPARED or (event, name) not in self.known:
            self.violations.append(f"{event} {name}")
            raise RuntimeError("forbidden by the audit hook")


AUDIT = Audit()
sys.addaudithook(AUDIT.hook)


# Samples: a JSON document, how to write it into a file, and how to use the file


@dataclass
class Sample:
    name: str
    document: Any
    write: Callable[[Any], None]
    use: Callable[[], Any]
    strict: bool = True  # whether a file that is accepted must give equal results
    every: int = 1  # only every n-th value is replaced, for long documents
    may_remove: str = ""


def zip_with(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def used_model(path: Path) -> Any:
    """Predictions of a model file; also what a file must never set."""
    import palda
    from palda.data import FeatureTable

    model = palda.load(path)
    assert model.engine is None
    assert model.n_jobs is None
    assert not model.verbose
    model.n_jobs = 1
    counts = np.arange(3 * model.n_features_in_).reshape(3, -1) % 4
    columns = model._feature_columns
    features = None
    if columns is not None:
        features = FeatureTable(np.zeros((3, len(columns.names))), columns.names, columns.categories)
    probs = model.predict_proba(counts, features=features)
    assert np.isfinite(probs).all()
    if hasattr(model, "annotators_"):
        assert np.isfinite(model.annotator_quality_["quality"]).all()
    return probs


def model_samples(folder: Path) -> Iterator[Sample]:
    import pandas as pd

    import palda
    from palda import PALDA, ValueWords

    values = np.random.default_rng(0).normal(size=(60, 3))
    for scope in ("feature", "pooled"):
        words = ValueWords(n_bins=3, n_words=5, scope=scope, random_state=0)  # type: ignore[arg-type]
        counts = words.fit_transform(values)
        model = PALDA(2, label_prior="base_rate", max_iter=2, random_state=0).fit(counts, values[:, :2] > 0)
        model.save(folder / f"values-{scope}.palda", words=words)
    table = pd.DataFrame({"length": values[:, 0], "desk": np.where(values[:, 1] > 0, "a", "b")})
    described = PALDA(2, label_prior="words", n_profiles=1, max_iter=2, tol=0.1, random_state=0)
    described.fit(values[:, 1:] > 0, values[:, :2] > 0, features=table).save(folder / "features.palda")
    for name in ("model-0.1.palda", "model-0.1-base-rate.palda", "model-0.1-plugged-in.palda"):
        shutil.copy(FIXTURES / name, folder / name)
        palda.load(folder / name)
    for path in sorted(folder.glob("*.palda")):
        members = members_of(path)

        def write(document: Any, path: Path = path, members: dict[str, bytes] = members) -> None:
            zip_with(path, members | {"manifest.json": json.dumps(document).encode()})

        yield Sample(path.name, json.loads(members["manifest.json"]), write, lambda path=path: used_model(path))
        if "plugged_in.npy" in members:
            yield classifier_sample(path, members)


def classifier_sample(path: Path, members: dict[str, bytes]) -> Sample:
    """The skops file inside of a model file."""
    blob = np.load(io.BytesIO(members["plugged_in.npy"])).tobytes()
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}

    def write(document: Any) -> None:
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as archive:
            for name, content in (parts | {"schema.json": json.dumps(document).encode()}).items():
                archive.writestr(name, content)
        array = io.BytesIO()
        np.save(array, np.frombuffer(inner.getvalue(), dtype=np.uint8))
        manifest = json.loads(members["manifest.json"])
        manifest["arrays"]["plugged_in"] = hashlib.sha256(array.getvalue()).hexdigest()
        changed = {"manifest.json": json.dumps(manifest).encode(), "plugged_in.npy": array.getvalue()}
        zip_with(path, members | changed)

    return Sample(
        "classifier in a model",
        json.loads(parts["schema.json"]),
        write,
        lambda: used_model(path),
        strict=False,
        every=15,
    )


def used_shards(path: Path) -> Any:
    from palda import open_shards
    from palda.io.shards import reader

    reader._open_reader.cache_clear()
    folder = open_shards(path)
    whole = folder.dataset()
    assert folder.words is None or folder.words.transform(["the war of words"]).shape[1] == folder.manifest.words
    return whole.corpus.counts.toarray(), whole.votes.value, whole.gold


def shard_samples(folder: Path) -> Iterator[Sample]:
    from palda import TextWords, simulate, write_shards
    from palda.data import Dataset

    news = simulate.newsroom(12, seed=0)
    votes, _ = simulate.crowd(news, [0.9, 0.8], votes_per_doc=1, seed=0)
    words = TextWords()
    corpus = words.fit_transform(news.documents.texts)
    from palda.data import Corpus

    made = Corpus(corpus, words.get_feature_names_out(), news.documents.doc_ids, news.documents.texts)
    path = write_shards(folder / "shards", Dataset.of(made, votes, news.labels), docs_per_shard=7, words=words).path
    for name in ("manifest.json", "names.json", "words.json"):
        file = path / name
        yield Sample(
            f"shards, {name}",
            json.loads(file.read_text()),
            lambda document, file=file: file.write_text(json.dumps(document)),
            lambda: used_shards(path),
        )


def checkpoint_samples(folder: Path) -> Iterator[Sample]:
    from palda import Checkpoint, CrowdPALDA, simulate

    news = simulate.documents(60, 2, 2, 12, seed=0, doc_length=8)
    votes, _ = simulate.crowd(news, [0.9, 0.8], votes_per_doc=1, seed=0)
    for label_prior in ("base_rate", "words"):
        place, whole = folder / f"checkpoint-{label_prior}", folder / f"whole-{label_prior}"

        def fit(minutes: float, place: Path = place, label_prior: str = label_prior) -> Any:
            settings = {"label_prior": label_prior, "n_profiles": "auto" if label_prior == "base_rate" else 1}
            model = CrowdPALDA(2, max_iter=2, tol=0.1, random_state=0, n_jobs=1, **settings)  # type: ignore[arg-type]
            model.fit(news.corpus, votes, checkpoint=Checkpoint(place, minutes=minutes))
            return model.consensus_, model.predict_proba(news.corpus)

        fit(0)
        shutil.copytree(place, whole)
        names = {path.name.split("-")[-1]: path.name for path in sorted(whole.iterdir())}  # one file of each kind
        for name in names.values():
            if name == "journal.json":
                document = json.loads((whole / name).read_text())
            else:
                members = members_of(whole / name)
                document = json.loads(np.load(io.BytesIO(members["state.npy"])).tobytes())

            def write(document: Any, name: str = name, place: Path = place, whole: Path = whole) -> None:
                shutil.rmtree(place)
                shutil.copytree(whole, place)
                text = json.dumps(document).encode()
                if name == "journal.json":
                    (place / name).write_bytes(text)
                    return
                state = io.BytesIO()
                np.save(state, np.frombuffer(text, dtype=np.uint8))
                zip_with(place / name, members_of(whole / name) | {"state.npy": state.getvalue()})

            use = lambda fit=fit: fit(1e6)  # noqa: E731
            yield Sample(f"{place.name}, {name}", document, write, use, may_remove=str(place))


def cell_samples(folder: Path) -> Iterator[Sample]:
    from palda.paper import Cell, CellRecord, Store

    cell = Cell("scene", "forest", "votes", 3, 0.5, "paper", 5, (("n_topics", 20),), (("tol", 0.1),))
    store = Store(folder / "results")
    record = CellRecord(cell, {"micro_f1": 0.75}, {"quality": [0.5]}, ("a warning",), 2.5, 2, "now", {"palda": "1"})
    path = store.save(record)

    def use() -> Any:
        everything = store.load_everything()
        assert all(0 <= one.cell.seed <= 10_000 for one in everything)
        found = store.load(cell)
        return None if found is None else np.zeros(1)

    yield Sample(
        "cell", json.loads(path.read_text()), lambda document: path.write_text(json.dumps(document)) and None, use
    )


# Tampering


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to every value; of a list the first, the second and the last entry."""
    yield path
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, (*path, key))
    elif isinstance(document, list):
        for position in sorted({0, 1, len(document) - 1} & set(range(len(document)))):
            yield from places(document[position], (*path, position))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


def without(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return changed


def tampered(document: Any, path: tuple[Any, ...]) -> list[tuple[str, Callable[[], Any], bool]]:
    """What is done to one value, the result, and whether a reader that accepts it must give equal results."""
    value = document
    for key in path:
        value = value[key]
    ways: list[tuple[str, Callable[[], Any], bool]] = [
        (f"{list(path)} = {other!r}", lambda other=other: replaced(document, path, other), other not in PLAUSIBLE)
        for other in REPLACEMENTS
    ]
    if path:
        ways.append((f"{list(path)} removed", lambda: without(document, path), True))
    if isinstance(value, dict):
        for key in ("engine", "path", "__reduce__"):
            more = value | {key: "tcp://127.0.0.1:1"}
            ways.append((f"{list(path)} with {key!r}", lambda more=more: replaced(document, path, more), True))
    return ways


def cases_of(sample: Sample, n_ways: int) -> list[tuple[str, Callable[[], Any], bool]]:
    cases = []
    for number, path in enumerate(places(sample.document)):
        if number % sample.every == 0:
            ways = tampered(sample.document, path)
            step = max(1, len(ways) // n_ways)
            cases += ways[(5 * number) % step :: step][:n_ways]
    return cases


def run(sample: Sample, n_ways: int) -> tuple[int, list[str]]:
    from palda.errors import PaldaError

    problems: list[str] = []
    expected = None
    AUDIT.known, AUDIT.may_remove = set(), sample.may_remove
    for mode in ("off", "record"):  # the first use imports and compiles
        sample.write(sample.document)
        AUDIT.mode = mode
        expected = sample.use()
        AUDIT.mode = "off"
    cases = cases_of(sample, n_ways)
    for what, make, is_strict in cases:
        sample.write(make())
        modules = set(sys.modules)
        AUDIT.violations.clear()
        AUDIT.mode = "strict"
        try:
            found = sample.use()
        except PaldaError as error:
            found = None
            if "\n" in str(error) or not str(error):
                problems.append(f"{sample.name}: {what}: message {str(error)!r}")
        except Exception as error:  # noqa: BLE001 - what this script looks for
            found = None
            problems.append(f"{sample.name}: {what}: {type(error).__name__}: {error}"[:300])
        AUDIT.mode = "off"
        problems += [f"{sample.name}: {what}: {violation}" for violation in AUDIT.violations]
        problems += [f"{sample.name}: {what}: imported {module}" for module in set(sys.modules) - modules]
        if found is not None and sample.strict and is_strict and not same(found, expected):
            problems.append(f"{sample.name}: {what}: accepted, with other results")
    sample.write(sample.document)
    return len(cases), problems


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, tuple):
        return all(same(*pair) for pair in zip(found, expected, strict=True))
    return bool(np.array_equal(found, expected))


def control() -> list[str]:
    """What the hook reports when code does what no file may make it do."""
    import importlib
    import socket

    def acts() -> Iterator[Callable[[], object]]:
        yield socket.socket
        yield lambda: os.system("true")  # noqa: S605, S607
        yield lambda: Path("/etc/hostname").read_bytes()
        yield lambda: importlib.import_module(MODULE)
        yield lambda: __import__(MODULE)

    AUDIT.known, AUDIT.may_remove = set(), ""
    AUDIT.violations.clear()
    for act in acts():
        AUDIT.mode = "strict"
        with contextlib.suppress(RuntimeError):
            act()
        AUDIT.mode = "off"
    return [violation.split()[0] for violation in AUDIT.violations]


def main() -> None:
    folder, n_ways = Path(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore")
    counts, problems = {}, []
    for make in (model_samples, shard_samples, checkpoint_samples, cell_samples):
        place = folder / make.__name__
        place.mkdir()
        for sample in make(place):
            counts[sample.name], found = run(sample, n_ways)
            problems += found
    print(json.dumps({"control": control(), "cases": counts, "problems": problems}))  # noqa: T201


if __name__ == "__main__":
    main()
