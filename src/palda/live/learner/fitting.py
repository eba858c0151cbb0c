"""A full fit in a process of its own, at low priority: ``python -m palda.live.learner.fitting``.

The process reads its order from standard input, the store, and writes the model to a temporary folder of its own. When
it has finished, it prints where, and waits until standard input is closed; then it removes the folder and ends. It ends
in the same way when the learner that started it is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sqlalchemy import select

from palda.data import Corpus, TextWords, Votes, names_array
from palda.errors import DataError, PaldaError
from palda.estimators import CrowdPALDA
from palda.live import schema
from palda.live.learner import log_columns
from palda.live.learner.options import FitOptions
from palda.live.service.projects import head_position, read_labels
from palda.live.store import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from palda.live.learner.log_columns import VoteColumns

MIN_JUDGED = 10
"""Documents with a vote before the first fit, or all of a smaller project."""

MIN_JUDGED_FOR_WORDS = 50
"""With fewer documents with votes, words are always left out: evidence from them would make the labels far too certain
(newsroom of 40 documents with one vote each: 0.1% of the labels expected wrong with words, 22% without, 14% true).
Estimates before that are provisional. Nobody has judged the same document, so that rates of annotators and classes are
guesses: after 10 votes on 80 or 100 documents, 18% to 30% of the labels were expected wrong and 25% to 35% were; after
20 votes, 26% to 29% and 21% to 25%. The first number is the one that can be too small, and rises at the second fit."""

MIN_JUDGED_TWICE, MIN_JUDGED_ONCE = 25, 400
"""Words take part if so many documents were judged by two people or have known labels, or so many were judged at all.

With single votes, rates per class may fit the words with labels that contradict the votes (newsroom of 100 documents,
20 annotators, 50 to 100 single votes: 42% to 44% wrong with a bound of 21% to 31%; votes alone: 16% to 25% with a bound
of 25% to 32%). With 25 second votes on 60 documents, 17% were wrong with a bound of 17%; with 400 single votes 9% with
a bound of 9%; but with 10 annotators whose rates differ much between classes 19% with a bound of 13%."""

_PRIORITY = 19
_MIN_COUNT = 2  # occurrences of a word in the texts, as in ``palda fit``


class FitResult(NamedTuple):
    """A finished fit; the file is there until the fit is closed."""

    path: Path
    position: int  # last entry of the log that it has seen
    label_ids: list[int]
    n_docs: int
    seconds: float


class TrainingSnapshot(NamedTuple):
    """Everything that a fit reads, at one position of the log."""

    position: int
    label_ids: list[int]
    doc_ids: list[str]
    texts: list[str]
    votes: Votes
    gold: NDArray[np.int8]  # (documents, classes), -1 for unknown

    @property
    def has_enough_for_words(self) -> bool:
        """Whether so many documents have votes or known labels that words take part."""
        n_people = max(self.votes.n_annotators, 1)
        looks = np.unique(self.votes.doc.astype(np.int64) * n_people + self.votes.annotator) // n_people
        n_looks = np.bincount(looks, minlength=len(self.doc_ids)) + 2 * (self.gold >= 0).any(axis=1)
        n_judged, n_twice = (int((n_looks >= n).sum()) for n in (1, 2))
        return n_judged >= MIN_JUDGED_FOR_WORDS and (n_twice >= MIN_JUDGED_TWICE or n_judged >= MIN_JUDGED_ONCE)


def read_snapshot(connection: Connection, project_id: int) -> TrainingSnapshot:
    """Documents, current votes and known labels of a project."""
    position = head_position(connection)
    labels = read_labels(connection, project_id)
    document = schema.document.c
    query = select(document.id, document.name, document.text).where(document.project_id == project_id)
    rows = connection.execute(query.order_by(document.id)).all()
    document_ids = np.array([row[0] for row in rows], dtype=np.int64)
    label_ids = np.array([label.id for label in labels], dtype=np.int64)
    entries = log_columns.vote_columns(connection, project_id, 0).last_per_vote()
    names = log_columns.person_names(connection, np.unique(entries.person).tolist())
    doc_ids = names_array([row[1] for row in rows])
    votes = current_votes(entries, document_ids, doc_ids, label_ids, names_array([one.name for one in labels]), names)
    gold = np.full((len(rows), len(labels)), -1, dtype=np.int8)
    known = log_columns.gold_rows(connection, project_id)
    if known:
        place, column = (
            places(ids, np.array([row[which] for row in known], dtype=np.int64))
            for which, ids in enumerate((document_ids, label_ids))
        )
        gold[place, column] = [row.value for row in known]
    return TrainingSnapshot(position, label_ids.tolist(), doc_ids.tolist(), [row[2] for row in rows], votes, gold)


def current_votes(
    entries: VoteColumns,
    document_ids: NDArray[np.int64],
    doc_ids: NDArray[Any],
    label_ids: NDArray[np.int64],
    classes: NDArray[Any],
    names: dict[int, str],
) -> Votes:
    """Votes from the last entries of the log."""
    people = np.array(sorted(names, key=names.__getitem__), dtype=np.int64)
    doc, annotator, label = (
        places(ids, values)
        for ids, values in ((document_ids, entries.document), (people, entries.person), (label_ids, entries.label))
    )
    kept = (doc >= 0) & (annotator >= 0) & (label >= 0) & (entries.value != log_columns.WITHDRAWN)
    return Votes.from_codes(
        doc[kept], annotator[kept], label[kept], entries.value[kept], doc_ids=names_array(doc_ids),
        annotators=names_array([names[int(one)] for one in people]), classes=names_array(classes),
        time=entries.time[kept],
    )  # fmt: skip


def places(ids: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each value in ``ids``; -1 where it is not among them."""
    if not len(ids):
        return np.full(len(values), -1, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    found = np.minimum(np.searchsorted(ids[order], values), len(ids) - 1)
    place = order[found]
    return np.where(ids[place] == values, place, -1)


def fit_model(data: TrainingSnapshot, options: FitOptions) -> tuple[CrowdPALDA, TextWords | None]:
    """The fitted model, and the transformer of its texts if words take part."""
    gold = data.gold if (data.gold >= 0).any() else None
    shared: dict[str, Any] = {"n_jobs": options.jobs, "engine": options.engine, "random_state": 0}
    words = _words(data.texts) if data.has_enough_for_words else None
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # few documents, EM that stops early: the dashboard shows how certain labels are
        if words is None:
            same = Corpus.from_counts(sparse.csr_array(np.ones((len(data.texts), 1))), ["text"], data.doc_ids)
            return CrowdPALDA(1, label_prior="base_rate", **shared).fit(same, data.votes, gold), None
        transformer, counts = words
        corpus = Corpus.from_counts(counts, transformer.get_feature_names_out(), data.doc_ids)
        return CrowdPALDA(**shared).fit(corpus, data.votes, gold), transformer


def _words(texts: Sequence[str]) -> tuple[TextWords, Any] | None:
    """Words of the texts and their counts; None if there are no words that occur twice."""
    words = TextWords(min_count=_MIN_COUNT)
    try:
        return words, words.fit_transform(texts)
    except DataError:
        return None


def write_fit(url: str, project_id: int, options: FitOptions, folder: Path) -> FitResult:
    """Fit the model of a project and write it to a file in ``folder``."""
    start = time.monotonic()
    with closing(open_store(url, as_learner=True)) as store:
        data = store.read(lambda connection: read_snapshot(connection, project_id))
    model, words = fit_model(data, options)
    path = folder / "model.palda"
    model.save(path, words=words, votes=data.votes)
    return FitResult(path, data.position, data.label_ids, len(data.doc_ids), time.monotonic() - start)


class FitProcess:
    """A fit in another process."""

    def __init__(self, url: str, project_id: int, options: FitOptions) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "palda.live.learner.fitting"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True,
        )  # fmt: skip
        order = {"url": url, "project_id": project_id, "options": asdict(options)}
        self._answer = b""
        self._reader = threading.Thread(target=self._run, args=(json.dumps(order).encode() + b"\n",), daemon=True)
        self._reader.start()

    def _run(self, order: bytes) -> None:
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("no pipes")
        try:
            self._process.stdin.write(order)
            self._process.stdin.flush()
            self._answer = self._process.stdout.readline()
        except (OSError, ValueError):
            return  # it has ended

    def result(self) -> FitResult | None:
        """The result, None while it runs; raises ``PaldaError`` with one line if it failed."""
        if self._reader.is_alive():
            return None
        if self._answer.endswith(b"\n"):
            answer = json.loads(self._answer)
            return FitResult(Path(answer.pop("path")), **answer)
        raise PaldaError(self._failure(self._process.wait()))

    def _failure(self, code: int) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        if code < 0:
            return f"the fit was ended by signal {-code}; is there enough memory?"
        return f"the fit failed: {lines[-1]:.300}" if lines else f"the fit failed with exit code {code}"

    def close(self) -> None:
        """End it and remove its files."""
        if self._process.stdin is not None:
            with suppress(OSError):  # it has ended
                self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


def main() -> None:
    """Run one fit; see the module."""
    os.nice(_PRIORITY)
    if hasattr(os, "SCHED_IDLE"):  # Linux: whoever answers requests need not wait for the end of a time slice
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    order = json.loads(sys.stdin.buffer.readline())
    folder = Path(tempfile.mkdtemp(prefix="palda-fit-"))
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    try:
        result = write_fit(order["url"], order["project_id"], FitOptions(**order["options"]), folder)
        sys.stdout.write(json.dumps({**result._asdict(), "path": str(result.path)}) + "\n")
        sys.stdout.flush()
        del result
        threading.Event().wait()  # until ``_end_with_parent`` ends the process
    except Exception as error:  # noqa: BLE001 - one line for the dashboard
        sys.stderr.write(" ".join(f"{type(error).__name__}: {error}".split()) + "\n")
        sys.stderr.flush()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def _end_with_parent(folder: Path) -> None:
    """Remove the folder and end the process when standard input is closed, whatever it is doing."""
    while os.read(0, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
