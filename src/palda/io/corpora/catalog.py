"""Named public data sets: found in a data folder, else downloaded and verified."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from palda.data import Corpus, Dataset, Documents, names_array, validation
from palda.errors import PaldaError
from palda.io.corpora.arff import read_arff
from palda.io.corpora.reuters import read_reuters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class Split(NamedTuple):
    """A data set in two parts with the same classes and features."""

    train: Dataset
    test: Dataset


def names() -> tuple[str, ...]:
    """Names of the data sets."""
    return tuple(_SOURCES)


def load(name: str, *, download: bool = False, folder: str | os.PathLike[str] | None = None, seed: int = 0) -> Split:
    """Load a public data set, split into training and test part and prepared as in the paper.

    ``"bibtex"`` and ``"enron"`` are word counts, ``"scene"`` and ``"yeast"`` real values (see ``ValueWords``), all four
    in the split that Mulan distributes. ``"reuters"`` is word counts, made from the raw Reuters-21578 stories:

    1. Select stories with TOPICS="YES", at least one topic and a body: 10,369, the number in the paper.
    2. Split the bodies into words without English stop words, reduce them to Porter stems, and keep stems that occur
       more than 50 times: 1985 (1996 in the paper). As in the paper, the vocabulary comes from the whole collection,
       including test documents but not their labels.
    3. Keep stories with more than 20 different stems of the vocabulary. (The paper says "more than 20 words"; counting
       repetitions as well would leave 7506 stories in the end.)
    4. The ten most frequent topics are the classes; stories with none of them are dropped: 6558 remain (6547 in the
       paper).
    5. A random 80% are for training.

    Of the interpretations of the paper that were tried, this one is closest: including the words of titles gives 7060
    stories and 2086 words, excluding numbers 5580 and 1776. The texts of the corpus are titles and bodies.

    Parameters
    ----------
    name : str
        One of ``names()``.
    download : bool, default False
        Download files that are not found from their public address; each is verified by its checksum.
    folder : str or path-like, optional
        Data folder with one subfolder per data set, instead of ``$PALDA_DATA`` and the user's cache.
    seed : int, default 0
        Random seed of the split of ``"reuters"``.

    Returns
    -------
    Split
        The data sets ``train`` and ``test``.
    """
    source = _SOURCES.get(name)
    if source is None:
        near = difflib.get_close_matches(str(name), names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names())}"
        raise PaldaError(f"there is no data set {name!r}; {hint}")
    files = _find(name, source, folder, download)
    if name == "reuters":
        return _prepare_reuters(read_reuters(files.values()), seed)
    return Split(*(_read_part(name, part, files) for part in ("train", "test")))


def _read_part(name: str, part: str, files: Mapping[str, Path]) -> Dataset:
    """One part of a Mulan data set; its rows are named after the part, so that no two documents share an id."""
    data = read_arff(files[f"{name}-{part}.arff"], files[f"{name}.xml"])
    doc_ids = names_array(f"{part}-{row}" for row in range(len(data)))
    return Dataset.of(replace(data.corpus, doc_ids=doc_ids), gold=data.gold, classes=data.classes)


# Reuters as prepared in the paper

_MIN_COUNT = 51
_MIN_DIFFERENT_WORDS = 21
_N_TOPICS = 10
_TRAINING_SHARE = 0.8


def _prepare_reuters(collection: Dataset, seed: int) -> Split:
    stories, gold = _with_topic_and_body(collection)
    corpus = _stems_of_bodies(stories)
    long_enough = np.diff(corpus.counts.indptr) >= _MIN_DIFFERENT_WORDS
    topics = _most_frequent(gold[long_enough])
    gold = gold[:, topics]
    kept = np.flatnonzero(long_enough & gold.any(axis=1))
    data = Dataset.of(corpus.take(kept), gold=gold[kept], classes=collection.classes[topics])
    return _random_split(data, seed)


def _with_topic_and_body(collection: Dataset) -> tuple[Documents, NDArray[np.int8]]:
    documents = cast("Documents", collection.corpus)
    fields = documents.fields
    has_topic = (collection.gold == 1).any(axis=1)
    chosen = np.flatnonzero(has_topic & (fields["topics"] == "YES") & (fields["kind"] == "NORM"))
    return documents.take(chosen), collection.gold[chosen]


def _stems_of_bodies(stories: Documents) -> Corpus:
    from palda.data import TextWords

    words = TextWords("porter", min_count=_MIN_COUNT)
    bodies = [text[len(title) :] for text, title in zip(stories, stories.fields["title"], strict=True)]
    counts = words.fit_transform(bodies)
    return Corpus(counts, names_array(words.get_feature_names_out()), stories.doc_ids, stories.texts)


def _most_frequent(gold: NDArray[np.int8]) -> NDArray[np.int64]:
    """Columns of the most frequent topics, ascending."""
    return np.sort(np.argsort(-gold.sum(axis=0, dtype=np.int64), kind="stable")[:_N_TOPICS])


def _random_split(data: Dataset, seed: int) -> Split:
    validation.require_count(seed, "seed", minimum=0)
    order = np.random.default_rng(seed).permutation(len(data))
    n_train = round(_TRAINING_SHARE * len(data))
    return Split(data.take(order[:n_train]), data.take(order[n_train:]))


# Files


@dataclass(frozen=True)
class _Source:
    """Files of a data set: their folder, their public address, and the SHA-256 of each."""

    folder: str
    url: str
    checksums: Mapping[str, str]


def _find(name: str, source: _Source, folder: str | os.PathLike[str] | None, download: bool) -> dict[str, Path]:
    """Path of each file of a data set, gzipped or not."""
    places = [Path(folder)] if folder is not None else _usual_places()
    for place in places:
        found = _files_in(place / source.folder, source)
        if found is not None:
            return found
    if not download:
        looked = " or ".join(str(place / source.folder) for place in places)
        raise PaldaError(
            f"the data set {name!r} is not in {looked}; set PALDA_DATA to the folder that has {source.folder}/ in it, "
            "or download it with download=True"
        )
    return _download(name, source, places[-1] / source.folder)


def _usual_places() -> list[Path]:
    """$PALDA_DATA if it is set, and the user's cache."""
    import pooch

    given = os.environ.get("PALDA_DATA")
    return [*([Path(given).expanduser()] if given else []), Path(pooch.os_cache("palda"))]


def _files_in(folder: Path, source: _Source) -> dict[str, Path] | None:
    """All files of the data set, None if any is missing."""
    found = {}
    for file in source.checksums:
        path = next((path for path in (folder / file, folder / f"{file}.gz") if path.is_file()), None)
        if path is None:
            return None
        found[file] = path
    return found


def _download(name: str, source: _Source, folder: Path) -> dict[str, Path]:
    """Download every file; each is complete and verified before it gets its name."""
    import pooch

    found = {}
    for file, checksum in source.checksums.items():
        url = f"{source.url}/{file}"
        try:
            path = pooch.retrieve(url, known_hash=f"sha256:{checksum}", fname=file, path=folder)
        except ValueError:
            raise PaldaError(f"{url} has the wrong checksum for {name!r}; nothing was saved") from None
        except OSError as failed:
            raise PaldaError(" ".join(f"{name!r} could not be downloaded from {url}: {failed}".split())) from failed
        found[file] = Path(path)
    return found


_MULAN = "https://raw.githubusercontent.com/tsoumakas/mulan/43f6389095ad71984264db4387a8074b22bc7d4a/data/multi-label"
_REUTERS = "https://raw.githubusercontent.com/colibri17/TextCategorization/b6c2ca3d46a2540843400890792e5165448b4516/reuters21578"
_SOURCES: Mapping[str, _Source] = {
    "reuters": _Source(
        "reuters21578",
        _REUTERS,
        {
            "reut2-000.sgm": "0ec53cda8f6d605a3ba710df14be7f00fc02f0c222a14748101df22326afe0f6",
            "reut2-001.sgm": "1528e7e82d110d88d0234eb9619eadb7f9fd805711971df05975b92277dfdf4d",
            "reut2-002.sgm": "99f18068d0518952987dedd78c622e5c2a584e357d264d3754696c815f3e6628",
            "reut2-003.sgm": "78a3a8d7e04bc9d42c4614d5d5c60a4293dbe3f708df6fb5a71d9ef31f4b3fa3",
            "reut2-004.sgm": "726342c19a65873330b412378cd6a3f0d512035f5223146ddd60930c62eb6ff0",
            "reut2-005.sgm": "d09de619b6dd2d047d5124681f6df90550abaf592020d1c1ce338ae9b91522e7",
            "reut2-006.sgm": "b5535c0d66b01f4976f84621a4a795afbc00d2c4bd0a1b7ae426df6630fb361d",
            "reut2-007.sgm": "aa706007ec84a03537a3921ca976d60e11b3f99e4b9e9b2d5c81dd384d2c2062",
            "reut2-008.sgm": "a3994583694a00b7c744097c1d7eabfcf90f2e6650cc21663e46828035a336cb",
            "reut2-009.sgm": "29995f606dd1a9bdf907eacc9d879846c716860d9d9141676979474aaea39c7d",
            "reut2-010.sgm": "996df6008089bd09fa5b28a4d2eb0ee5f7b9d4601cde566fed3926ac82960fa3",
            "reut2-011.sgm": "d3a2782015247d9c2bffb8926267827fdd449c70d619435ef01a25a1c56a53ca",
            "reut2-012.sgm": "da31035d483851f2aebce5b66d779e5e2c0ac9dcfe098596c6d544e81c5604ab",
            "reut2-013.sgm": "8f7700bc0455fac3fcc12377ced4807b7df8aba1f21ecad059b9cc2b1cf0b8be",
            "reut2-014.sgm": "ef936bd3e0f36cf722afa9a6957563549775af32e9e28b4f539c8737ceda83ab",
            "reut2-015.sgm": "6d3bcec73eff871b8a5403588af814c4e50a0de6bc25707480522ab836f74026",
            "reut2-016.sgm": "be2f03a185fff70131f3b4fdbd6229b7ee2be077eba9691eaa597c8cfbda8812",
            "reut2-017.sgm": "f370e610b4b1342e41a98e0c426a08541044bd1d7e539674f32372a6060b73b5",
            "reut2-018.sgm": "a5f971bf25448e915781962309e669359a35fbcaf3017a806eca0590897f209a",
            "reut2-019.sgm": "d3b07097fba2633d130b4914aceba671645985248943ce9e39c289315339dffb",
            "reut2-020.sgm": "f6ad1b724125c202566c63b35ea0b5ee23881f8b7ed47a32829d5af05d8e860d",
            "reut2-021.sgm": "3f5196d32869723c9042aa5756805b4e90360f1f45ea17f4594fa0e2b3630b18",
        },
    ),
    "bibtex": _Source(
        "bibtex",
        f"{_MULAN}/bibtex",
        {
            "bibtex-train.arff": "8dcc9de6e0b2cebaec8c1f4fac78431adeeb73cfd3ab879b530a66d366e59174",
            "bibtex-test.arff": "9b03329cde64d3f994bdf7fbbac3f3b10fe185c311cb9ae725475f59c7f3f922",
            "bibtex.xml": "08fe20013c1e75dcf1888c185f5187c95e76495b8518ce289b4d3afce38d1232",
        },
    ),
    "enron": _Source(
        "enron",
        f"{_MULAN}/enron",
        {
            "enron-train.arff": "2988cefc1cdf7a8004a20ef84615cc8fa1b5d7434c16687283b41454e2d9d194",
            "enron-test.arff": "2f3aad54a8f54caaab4ab01246fe9dd385ba944a2633028f52747b57eac5474e",
            "enron.xml": "ed40c92d7f613eed51714912cab10dddc4ce456262137d8fef230d44c7f4457b",
        },
    ),
    "scene": _Source(
        "scene",
        f"{_MULAN}/scene",
        {
            "scene-train.arff": "b53ba93bdf412de922e3960389bcee24744fa3e872ce610511fc1d750888b64d",
            "scene-test.arff": "ea38d20296b3ff7e220f477a3b802a9bcb2d768881fe6ee163efbc97ea527a42",
            "scene.xml": "55d8b247b949ad5c52e5a73d8c6775ec6e5469ce9682465b45b333b68ee4bcc5",
        },
    ),
    "yeast": _Source(
        "yeast",
        f"{_MULAN}/yeast",
        {
            "yeast-train.arff": "e759dc991ff54694a4ff9c4314f3be0d6fd2b1994a4b563f57e416394c6aebbd",
            "yeast-test.arff": "4aaac102bff9669a765bf0b378602e5cc8c3b181048282e2f003117b496d552a",
            "yeast.xml": "c3056cc26444b5158b1588d1b73bec9c45429e10f0957ad085903423cb81f247",
        },
    ),
}
"""The data sets; checksums are those of the uncompressed files at the commits that the addresses name."""
