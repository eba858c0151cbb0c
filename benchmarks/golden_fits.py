"""The fits that ``golden.py`` compares, and the process that runs them: ``golden_fits.py SOURCE RESULTS [FIT ...]``.

They use only public names of palda, so that the same lines run with both versions. Each fit gives named arrays: public
attributes of fitted models, the results of their methods, and every array of the files they save.
"""

from __future__ import annotations

import dataclasses
import io
import sys
import tempfile
import warnings
import zipfile
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

__all__ = ["FITS", "SPACING"]

SPACING = 65536  # bytes between arrays that kernels allocate: see golden.py
COMMON: dict[str, Any] = {"random_state": 0, "n_jobs": 2}
N_DOCS, N_NEW, N_CLASSES, N_ANNOTATORS, N_WORDS, N_TOPICS = 600, 40, 6, 15, 500, 12
DOC_LENGTH, ANNOTATORS_PER_DOC, SHARE_WITHOUT_VOTES = 90, 4, 0.05
NOT_COMPARED = {"head_"}  # its fields are in the saved file
PLUGGED_IN = "plugged_in"


class World(NamedTuple):
    """Simulated documents with votes; the last ``N_NEW`` documents are used for prediction only."""

    counts: NDArray[np.int64]  # (documents, words)
    labels: NDArray[np.int8]  # (documents, classes)
    votes: NDArray[np.int8]  # (documents, annotators, classes), -1 where not judged


def world() -> World:
    """Label sets of three profiles; of the 15 annotators two vote at random and one is adversarial."""
    rng = np.random.default_rng(20)
    n_docs = N_DOCS + N_NEW
    rates = np.array([[0.7, 0.6, 0.1, 0.1, 0.05, 0.2], [0.1, 0.2, 0.7, 0.5, 0.1, 0.1], [0.1, 0.1, 0.1, 0.2, 0.6, 0.5]])
    labels = (rng.random((n_docs, N_CLASSES)) < rates[rng.integers(3, size=n_docs)]).astype(np.int8)
    topics = rng.dirichlet(np.full(N_WORDS, 0.15), size=N_TOPICS)
    class_topics = rng.dirichlet(np.full(N_TOPICS, 0.4), size=(N_CLASSES, 2))
    class_topics[:, 0] = 0.3 * class_topics[:, 0] + 0.7 * class_topics[:, 0].mean(axis=0)
    shares = np.stack([class_topics[np.arange(N_CLASSES), row].mean(axis=0) for row in labels])
    counts = np.stack([rng.multinomial(rng.poisson(DOC_LENGTH) + 5, share @ topics) for share in shares])
    rate_yes, rate_no = rng.uniform(0.6, 0.95, size=(2, N_ANNOTATORS))
    rate_yes[:2], rate_no[:2] = 0.5, 0.5
    rate_yes[2], rate_no[2] = 0.2, 0.25
    right = rng.random((n_docs, N_ANNOTATORS, N_CLASSES)) < np.where(
        labels[:, None, :] == 1, rate_yes[:, None], rate_no[:, None]
    )
    votes = np.where(right, labels[:, None, :], 1 - labels[:, None, :]).astype(np.int8)
    assigned = rng.random((n_docs, N_ANNOTATORS)).argsort(axis=1) < ANNOTATORS_PER_DOC
    assigned[rng.random(n_docs) < SHARE_WITHOUT_VOTES] = False
    judged = assigned[:, :, None] & (rng.random(votes.shape) < 0.9)
    return World(counts, labels, np.where(judged, votes, -1).astype(np.int8))


def default_crowd(data: World) -> Arrays:
    from palda import CrowdPALDA

    return of_crowd(CrowdPALDA(**COMMON).fit(data.counts[:N_DOCS], data.votes[:N_DOCS]), data)


def per_class(data: World) -> Arrays:
    """Rates per annotator and class, with gold labels for a tenth of the documents."""
    from palda import CrowdPALDA

    gold = np.where(np.arange(N_DOCS)[:, None] % 10 == 0, data.labels[:N_DOCS], -1)
    model = CrowdPALDA(annotators="per_class", **COMMON)
    return of_crowd(model.fit(data.counts[:N_DOCS], data.votes[:N_DOCS], gold), data)


def base_rate(data: World) -> Arrays:
    from palda import CrowdPALDA

    model = CrowdPALDA(label_prior="base_rate", **COMMON)
    return of_crowd(model.fit(data.counts[:N_DOCS], data.votes[:N_DOCS]), data)


def as_published(data: World) -> Arrays:
    """Mean field and one coin; then the same with smoothing and two starts."""
    from palda import CrowdPALDA

    inputs = data.counts[:N_DOCS], data.votes[:N_DOCS]
    plain = CrowdPALDA.as_published(N_TOPICS, max_iter=40, **COMMON).fit(*inputs)
    smoothed = CrowdPALDA.as_published(8, max_iter=15, smoothing=True, n_init=2, **COMMON).fit(*inputs)
    return of_crowd(plain, data) | prefixed("smoothed", of_crowd(smoothed, data))


def votes_alone(data: World) -> Arrays:
    """``aggregate`` with every annotator model."""
    from palda import aggregate

    found: Arrays = {}
    for annotators in ("two_coin", "one_coin", "per_class"):
        result = aggregate(data.votes[:N_DOCS], annotators=annotators, n_jobs=2)
        found |= prefixed(annotators, dict(flattened("attribute", result)))
    prior = {str(number): 0.9 for number in range(3, 8)}
    result = aggregate(data.votes[:N_DOCS], n_profiles=3, gold=data.labels[:N_DOCS], annotator_prior=prior, n_jobs=2)
    return found | prefixed("with gold and a prior", dict(flattened("attribute", result)))


def on_labels(data: World) -> Arrays:
    """PALDA with some labels unknown and with three label priors: stacked, topics, base rates."""
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


def partial_fit(data: World) -> Arrays:
    """Two batches, the second with more votes on documents of the first."""
    from palda import PALDA, CrowdPALDA

    first, second = slice(0, 400), slice(380, N_DOCS)
    ids = [f"d{number}" for number in range(N_DOCS)]
    earlier, later = data.votes.copy(), data.votes.copy()
    earlier[380:400, ::2], later[380:400, 1::2] = -1, -1
    crowd = CrowdPALDA(10, **COMMON)
    crowd.partial_fit(data.counts[first], earlier[first], doc_ids=ids[first])
    crowd.partial_fit(data.counts[second], later[second], doc_ids=ids[second])
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
    """Texts and votes from CSV files, a label prior on words, and a file with vocabulary, texts and votes."""
    from palda import CrowdPALDA, TextWords, ValueWords, read_documents, read_votes

    some = 200
    ids = [f"d{number:03}" for number in range(some)]
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "documents.csv", Path(folder) / "votes.csv"
        syllables = product("bdfgk", "aeiou", "lmnpr", "aeiou", "stvz")
        spellings = np.array(["".join(letters) for letters in islice(syllables, N_WORDS)])
        texts = [" ".join(np.repeat(spellings, row)) for row in data.counts[:some]]
        files[0].write_text("\n".join(["doc,text", *map(",".join, zip(ids, texts, strict=True))]))
        rows = [f"{ids[d]},a{j},c{i},{data.votes[d, j, i]}" for d, j, i in np.argwhere(data.votes[:some] >= 0)]
        files[1].write_text("\n".join(["doc,annotator,label,value", *rows]))
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


FITS: dict[str, Callable[[World], Arrays]] = {
    "default crowd": default_crowd,
    "per class": per_class,
    "base rate": base_rate,
    "as published": as_published,
    "aggregate": votes_alone,
    "on labels": on_labels,
    "partial fit": partial_fit,
    "plugged-in classifier": plugged_in,
    "online": online,
    "from files": from_files,
}


# The arrays that are compared.


def of_crowd(model: Any, data: World) -> Arrays:
    """Arrays of a CrowdPALDA: those of any model, its consensus on new documents, and its suggestions."""
    found = of_model(model, data)
    found["call consensus"] = model.consensus(data.counts[N_DOCS:], data.votes[N_DOCS:])
    return found | dict(flattened("call suggest", model.suggest(30)))


def of_model(model: Any, data: World) -> Arrays:
    """Public attributes, predictions for new documents, and the arrays of the saved file."""
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
    """Arrays inside a value, by name; objects without numbers are left out."""
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
    """Arrays of the model's file, and predictions of the loaded model."""
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
    """Arrays of plugged-in classifiers in the order of writing; their names in the file are memory addresses."""
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
        arrays = [np.load(io.BytesIO(archive.read(name))) for name in members]
    return {f"file {PLUGGED_IN} {number}": array for number, array in enumerate(arrays)}


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}: {name}": array for name, array in arrays.items()}


# The process of one side.


def compile_kernels(data: World) -> None:
    """Small fits that use every kernel."""
    from palda import CrowdPALDA, aggregate

    counts, votes, new = data.counts[:120], data.votes[:120], data.counts[N_DOCS:]
    common: dict[str, Any] = COMMON | {"max_iter": 2}
    CrowdPALDA(4, n_profiles=2, **common).fit(counts, votes).transform(new)
    CrowdPALDA(4, label_prior="base_rate", **common).fit(counts, votes).transform(new)
    CrowdPALDA.as_published(4, **common).fit(counts, votes).transform(new)
    aggregate(votes, n_profiles=2, n_jobs=2)


def space_out_kernel_arrays() -> None:
    """Align every array that a kernel allocates to ``SPACING``, which leaves unused memory around it."""
    from numba.core.runtime.context import NRTContext

    allocate = NRTContext.meminfo_alloc_aligned

    def allocate_spaced(self: Any, builder: Any, size: Any, align: Any) -> Any:  # noqa: ARG001 - Numba's signature
        return allocate(self, builder, size, SPACING)

    NRTContext.meminfo_alloc_aligned = allocate_spaced


def work(source: Path, results: Path, names: list[str]) -> None:
    """Run the named fits with the palda on PYTHONPATH and write their arrays; without names, only compile."""
    space_out_kernel_arrays()
    import palda

    imported = Path(str(palda.__file__)).resolve()
    assert imported.is_relative_to(source.resolve()), f"{imported} was imported, not the source in {source}"
    warnings.simplefilter("ignore")
    data = world()
    if not names:
        compile_kernels(data)
    for name in names:
        np.savez(results / f"{name}.npz", **FITS[name](data))


if __name__ == "__main__":
    work(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
