"""Fitted numbers of this code against those of an earlier commit, bit by bit, on this machine.

The commit is unpacked into a temporary folder, which is removed at the end; nothing is left in ``.git``. The same fits
then run under its source and under that of the working tree, each in a process of its own with the interpreter that
runs this file: both sides so have the same libraries, and a difference can only come from palda. ``PYTHONPATH`` puts a
side's source before the installed package, and each process checks that it imported that source. Compared are the
public attributes of fitted models, what their methods say, and every array of the files they save. A commit whose
dependencies are no longer installed cannot be compared.

Each side has a cache of compiled code of its own, filled by an earlier process: Numba does not notice that a function
which a cached kernel calls has changed, and a process that compiles a kernel may round differently from one that finds
it in the cache.

``python -m benchmarks golden [--base COMMIT] [FIT ...]``; the exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

ROOT = Path(__file__).resolve().parents[1]
BASE = "c7ea588"
COMMON: dict[str, Any] = {"random_state": 0, "n_jobs": 2}
N_DOCS, N_NEW, N_CLASSES, N_ANNOTATORS, N_WORDS, N_TOPICS = 600, 40, 6, 15, 500, 12
DOC_LENGTH, LOOKS_PER_DOC, SHARE_WITHOUT_VOTES = 90, 4, 0.05
NOT_COMPARED = {"head_"}  # its fields are in the saved file
PLUGGED_IN = "plugged_in"


# What is fitted. Only public names of palda: the same lines run under both versions of it.


class World(NamedTuple):
    """Simulated documents with a crowd; the last ``N_NEW`` documents are kept for prediction."""

    counts: NDArray[np.int64]  # (documents, words)
    labels: NDArray[np.int8]  # (documents, classes)
    votes: NDArray[np.int8]  # (documents, annotators, classes), -1 where nobody judged


def world() -> World:
    """Label sets of three kinds, topics of classes, two annotators of 15 who say anything, one who errs on purpose."""
    rng = np.random.default_rng(20)
    n_docs = N_DOCS + N_NEW
    rates = np.array([[0.7, 0.6, 0.1, 0.1, 0.05, 0.2], [0.1, 0.2, 0.7, 0.5, 0.1, 0.1], [0.1, 0.1, 0.1, 0.2, 0.6, 0.5]])
    labels = (rng.random((n_docs, N_CLASSES)) < rates[rng.integers(3, size=n_docs)]).astype(np.int8)
    topics = rng.dirichlet(np.full(N_WORDS, 0.15), size=N_TOPICS)
    liked = rng.dirichlet(np.full(N_TOPICS, 0.4), size=(N_CLASSES, 2))
    liked[:, 0] = 0.3 * liked[:, 0] + 0.7 * liked[:, 0].mean(axis=0)
    shares = np.stack([liked[np.arange(N_CLASSES), row].mean(axis=0) for row in labels])
    counts = np.stack([rng.multinomial(rng.poisson(DOC_LENGTH) + 5, share @ topics) for share in shares])
    rate_yes, rate_no = rng.uniform(0.6, 0.95, size=(2, N_ANNOTATORS))
    rate_yes[:2], rate_no[:2] = 0.5, 0.5
    rate_yes[2], rate_no[2] = 0.2, 0.25
    right = rng.random((n_docs, N_ANNOTATORS, N_CLASSES)) < np.where(
        labels[:, None, :] == 1, rate_yes[:, None], rate_no[:, None]
    )
    votes = np.where(right, labels[:, None, :], 1 - labels[:, None, :]).astype(np.int8)
    looked = rng.random((n_docs, N_ANNOTATORS)).argsort(axis=1) < LOOKS_PER_DOC
    looked[rng.random(n_docs) < SHARE_WITHOUT_VOTES] = False
    judged = looked[:, :, None] & (rng.random(votes.shape) < 0.9)
    return World(counts, labels, np.where(judged, votes, -1).astype(np.int8))


def default_crowd(data: World) -> Arrays:
    from palda import CrowdPALDA

    return of_crowd(CrowdPALDA(**COMMON).fit(data.counts[:N_DOCS], data.votes[:N_DOCS]), data)


def per_class(data: World) -> Arrays:
    """Rates of each annotator in each class, with gold labels of a tenth of the documents."""
    from palda import CrowdPALDA

    gold = np.where(np.arange(N_DOCS)[:, None] % 10 == 0, data.labels[:N_DOCS], -1)
    model = CrowdPALDA(annotators="per_class", **COMMON)
    return of_crowd(model.fit(data.counts[:N_DOCS], data.votes[:N_DOCS], gold), data)


def base_rate(data: World) -> Arrays:
    from palda import CrowdPALDA

    model = CrowdPALDA(label_prior="base_rate", **COMMON)
    return of_crowd(model.fit(data.counts[:N_DOCS], data.votes[:N_DOCS]), data)


def as_published(data: World) -> Arrays:
    """Mean field, one coin; also with smoothing and two starts."""
    from palda import CrowdPALDA

    inputs = data.counts[:N_DOCS], data.votes[:N_DOCS]
    plain = CrowdPALDA.as_published(N_TOPICS, max_iter=40, **COMMON).fit(*inputs)
    smoothed = CrowdPALDA.as_published(8, max_iter=15, smoothing=True, n_init=2, **COMMON).fit(*inputs)
    return of_crowd(plain, data) | prefixed("smoothed", of_crowd(smoothed, data))


def votes_alone(data: World) -> Arrays:
    """``aggregate`` with every model of annotators."""
    from palda import aggregate

    found: Arrays = {}
    for annotators in ("two_coin", "one_coin", "per_class"):
        said = aggregate(data.votes[:N_DOCS], annotators=annotators, n_jobs=2)
        found |= prefixed(annotators, dict(flattened("attribute", said)))
    history = {str(number): 0.9 for number in range(3, 8)}
    said = aggregate(data.votes[:N_DOCS], n_profiles=3, gold=data.labels[:N_DOCS], annotator_prior=history, n_jobs=2)
    return found | prefixed("with gold and a prior", dict(flattened("attribute", said)))


def on_labels(data: World) -> Arrays:
    """PALDA, some labels unknown: stacked, on topics, and with base rates."""
    from palda import PALDA

    rng = np.random.default_rng(3)
    labels = np.where(rng.random((N_DOCS, N_CLASSES)) < 0.1, -1, data.labels[:N_DOCS])
    found: Arrays = {}
    for prior, settings in (
        ("stacked", {}),
        ("topics", {"thresholds": "macro_f1", "n_profiles": 2}),
        ("base_rate", {"smoothing": False, "thresholds": "jaccard"}),
    ):
        model = PALDA(10, label_prior=prior, **settings, **COMMON).fit(data.counts[:N_DOCS], labels)
        found |= prefixed(prior, of_model(model, data))
    return found


def as_they_arrive(data: World) -> Arrays:
    """``partial_fit`` in two batches, the second with more votes on documents of the first."""
    from palda import PALDA, CrowdPALDA

    first, again = slice(0, 400), slice(380, N_DOCS)
    ids = [f"d{number}" for number in range(N_DOCS)]
    later = data.votes.copy()
    earlier = data.votes.copy()
    earlier[380:400, ::2], later[380:400, 1::2] = -1, -1
    crowd = CrowdPALDA(10, **COMMON)
    crowd.partial_fit(data.counts[first], earlier[first], doc_ids=ids[first])
    crowd.partial_fit(data.counts[again], later[again], doc_ids=ids[again])
    labels = PALDA(10, label_prior="base_rate", **COMMON)
    labels.partial_fit(data.counts[first], data.labels[first])
    labels.partial_fit(data.counts[400:N_DOCS], data.labels[400:N_DOCS])
    return of_crowd(crowd, data) | prefixed("on labels", of_model(labels, data))


def plugged_in(data: World) -> Arrays:
    """A scikit-learn classifier as the label prior."""
    from sklearn.linear_model import LogisticRegression

    from palda import CrowdPALDA

    model = CrowdPALDA(8, label_prior=LogisticRegression(C=0.1, max_iter=300), annotators="one_coin", **COMMON)
    return of_crowd(model.fit(data.counts[:300], data.votes[:300]), data)


def online(data: World) -> Arrays:
    from palda import CrowdPALDA

    model = CrowdPALDA(10, algorithm="online", max_iter=20, **COMMON)
    return of_crowd(model.fit(data.counts[:N_DOCS], data.votes[:N_DOCS]), data)


def from_files(data: World) -> Arrays:
    """Texts and votes from CSV files, a prior of words, a file that keeps words, texts and votes; values as words."""
    from palda import CrowdPALDA, TextWords, ValueWords, read_documents, read_votes

    some = 200
    ids = [f"d{number:03}" for number in range(some)]
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "documents.csv", Path(folder) / "votes.csv"
        spellings = _spellings()
        spelled = [" ".join(np.repeat(spellings, row)) for row in data.counts[:some]]
        rows = [f"{name},{text}" for name, text in zip(ids, spelled, strict=True)]
        files[0].write_text("\n".join(["doc,text", *rows]))
        told = [f"{ids[d]},a{j},c{i},{data.votes[d, j, i]}" for d, j, i in np.argwhere(data.votes[:some] >= 0)]
        files[1].write_text("\n".join(["doc,annotator,label,value", *told]))
        documents, votes = read_documents(files[0]), read_votes(files[1])
    words = TextWords()
    counts = words.fit_transform(documents)
    model = CrowdPALDA(6, label_prior="words", **COMMON).fit(counts, votes, doc_ids=documents.doc_ids)
    found = dict(public_attributes(model)) | in_file(model, words=words, texts=documents, votes=votes)
    found |= {f"votes {name}": getattr(votes, name) for name in ("doc", "annotator", "label", "value")}
    binned = ValueWords().fit_transform(np.random.default_rng(5).normal(size=(some, 7)).round(2))
    for name, matrix in (("text words", counts), ("value words", binned)):
        found |= {f"{name} {part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    return found | {"text words names": words.get_feature_names_out().astype(str)}


def _spellings() -> NDArray[np.str_]:
    """A made-up word for every column."""
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    rng = np.random.default_rng(8)
    made: dict[str, None] = {}
    while len(made) < N_WORDS:
        made["".join(rng.choice(list(letters)) for letters in (consonants, vowels) * 3)] = None
    return np.array(list(made))


FITS: dict[str, Callable[[World], Arrays]] = {
    "default crowd": default_crowd,
    "per class": per_class,
    "base rate": base_rate,
    "as published": as_published,
    "aggregate": votes_alone,
    "on labels": on_labels,
    "partial fit": as_they_arrive,
    "plugged-in classifier": plugged_in,
    "online": online,
    "from files": from_files,
}


# What is compared.


def of_crowd(model: Any, data: World) -> Arrays:
    """All of a model of a crowd: what any model has, and what it says about votes."""
    found = of_model(model, data)
    found["call consensus"] = model.consensus(data.counts[N_DOCS:], data.votes[N_DOCS:])
    return found | dict(flattened("call suggest", model.suggest(30)))


def of_model(model: Any, data: World) -> Arrays:
    """Public attributes, what is said about new documents, and the arrays of the saved file."""
    new = data.counts[N_DOCS:]
    found = dict(public_attributes(model))
    found |= {f"call {name}": getattr(model, name)(new) for name in ("predict_proba", "predict", "transform")}
    if model.inference == "joint" and isinstance(model.label_prior, str):
        found |= dict(flattened("call explain", model.explain(new[:5])))
    return found | in_file(model, new=new)


def public_attributes(model: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    for name in sorted(dir(model)):
        if name.endswith("_") and not name.startswith("_") and name not in NOT_COMPARED:
            yield from flattened(f"attribute {name}", getattr(model, name))


def flattened(name: str, value: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays inside a value, by name; objects that hold no numbers are left out."""
    if isinstance(value, (np.ndarray, np.generic, bool, int, float, list, tuple)):
        array = np.asarray(value)
        yield name, array.astype(str) if array.dtype == object else array
    elif hasattr(value, "columns"):
        for column in value.columns:
            yield from flattened(f"{name}.{column}", value[column].to_numpy())
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from flattened(f"{name}.{field.name}", getattr(value, field.name))


def in_file(model: Any, *, new: NDArray[Any] | None = None, **kept: Any) -> Arrays:
    """Arrays of the file that the model saves, and what the loaded model predicts."""
    from palda import load

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.palda"
        model.save(path, **kept)
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist() if name.endswith(".npy")}
        loaded = load(path)
    found: Arrays = {}
    for member, blob in members.items():
        name, array = member.removesuffix(".npy"), np.load(io.BytesIO(blob))
        if name == PLUGGED_IN:
            found |= inside_skops(array.tobytes())
        else:
            found[f"file {name}"] = array
    return found if new is None else found | {"loaded predict_proba": loaded.predict_proba(new)}


def inside_skops(blob: bytes) -> Arrays:
    """Arrays of the classifiers in the order they were written; their names are addresses in memory."""
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
        arrays = [np.load(io.BytesIO(archive.read(name))) for name in members]
    return {f"file {PLUGGED_IN} {number}": array for number, array in enumerate(arrays)}


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}: {name}": array for name, array in arrays.items()}


# Two processes, and the comparison.


def compile_kernels(data: World) -> None:
    """Small fits that use every kernel."""
    from palda import CrowdPALDA, aggregate

    counts, votes, new = data.counts[:120], data.votes[:120], data.counts[N_DOCS:]
    common: dict[str, Any] = COMMON | {"max_iter": 2}
    CrowdPALDA(4, n_profiles=2, **common).fit(counts, votes).transform(new)
    CrowdPALDA(4, label_prior="base_rate", **common).fit(counts, votes).transform(new)
    CrowdPALDA.as_published(4, **common).fit(counts, votes).transform(new)
    aggregate(votes, n_profiles=2, n_jobs=2)


def work(source: Path, results: Path, names: list[str]) -> None:
    """One side: run the fits with the palda that PYTHONPATH leads to, and write what they found.

    Without names of fits it only compiles.
    """
    import palda

    imported = Path(str(palda.__file__)).resolve()
    assert imported.is_relative_to(source.resolve()), f"{imported} was imported, not the source in {source}"
    warnings.simplefilter("ignore")
    data = world()
    if not names:
        compile_kernels(data)
    for name in names:
        np.savez(results / f"{name}.npz", **FITS[name](data))


def run_side(source: Path, folder: Path, names: list[str]) -> float:
    """Seconds that the fits took in new processes, the last of which compiled nothing."""
    cache = folder / "cache"
    cache.mkdir(parents=True)
    command = [sys.executable, "-P", __file__, "--work", str(source), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
    start = time.perf_counter()
    subprocess.run(command, env=environment, cwd=folder, check=True)
    for _ in range(3):
        before = set(cache.rglob("*.nbc"))
        subprocess.run([*command, *names], env=environment, cwd=folder, check=True)
        if set(cache.rglob("*.nbc")) == before:
            return time.perf_counter() - start
    sys.exit(f"the code in {source} is compiled anew in every process")


def unpack(commit: str, folder: Path) -> None:
    """The source of a commit, in a folder."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"]
    packed = subprocess.run(command, capture_output=True, check=False)
    if packed.returncode:
        sys.exit(f"commit {commit!r} cannot be unpacked: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")


def same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def difference(one: NDArray[Any], other: NDArray[Any]) -> str:
    """How two arrays differ, in words."""
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
        return f"{one.dtype} {one.shape} there, {other.dtype} {other.shape} here"
    if one.dtype.kind not in "fiub":
        return f"{np.count_nonzero(one != other)} of {one.size} entries differ"
    apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
    n_apart = np.count_nonzero((one != other) & ~(np.isnan(apart) & np.isnan(one) & np.isnan(other)))
    types = "" if one.dtype == other.dtype else f", {one.dtype} there, {other.dtype} here"
    return f"largest difference {np.nanmax(apart, initial=0.0):.3g}, {n_apart} of {one.size} entries{types}"


def compare(name: str, there: Arrays, here: Arrays) -> list[str]:
    """Print a line for a fit; give back what differs."""
    wrong = [f"{name}, {key}: is missing here" for key in there if key not in here]
    added = [key for key in here if key not in there]
    wrong += [f"{name}, {key}: is not there in the base" for key in added if "file " in key]
    common = [key for key in there if key in here]
    apart = [key for key in common if not same_bits(there[key], here[key])]
    wrong += [f"{name}, {key}: {difference(there[key], here[key])}" for key in apart]
    new = [key for key in added if "file " not in key]
    line = f"{name}: {len(common) - len(apart)} arrays equal"
    line += f", {len(wrong)} differ or are missing" if wrong else ""
    print(line + (f"; new here, not compared: {', '.join(new)}" if new else ""), flush=True)
    return wrong


def golden(base: str, names: list[str]) -> bool:
    """Whether all arrays are equal."""
    with tempfile.TemporaryDirectory(prefix="palda-golden-") as name:
        folder = Path(name)
        unpack(base, folder / "base")
        before = run_side(folder / "base" / "src", folder / "there", names)
        after = run_side(ROOT / "src", folder / "here", names)
        wrong: list[str] = []
        n_arrays = 0
        for fit in names:
            with np.load(folder / "there" / f"{fit}.npz") as there, np.load(folder / "here" / f"{fit}.npz") as here:
                n_arrays += len(there)
                wrong += compare(fit, dict(there), dict(here))
    print(f"{n_arrays} arrays of {len(names)} fits; {base} took {before:.0f} s, this code {after:.0f} s")
    print("\n".join(["DIFFERENT:", *wrong]) if wrong else f"equal to {base}, bit by bit")
    return not wrong


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks golden", description="Compare fits with those of a commit.")
    parser.add_argument("--base", default=BASE, metavar="COMMIT", help=f"what to compare with; default {BASE}")
    parser.add_argument("fits", nargs="*", metavar="FIT", help=f"all, or some of: {', '.join(FITS)}")
    chosen = parser.parse_args(sys.argv[2:] if arguments is None else arguments)
    strange = [name for name in chosen.fits if name not in FITS]
    if strange:
        parser.error(f"there is no fit {strange[0]!r}; choose from {', '.join(FITS)}")
    if not golden(chosen.base, chosen.fits or list(FITS)):
        sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
    else:
        main(sys.argv[1:])
