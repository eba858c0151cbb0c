"""Real crowds with a reference for ``real_gold``: votes, texts, and the labels that consensus is compared with.

| crowd | votes | reference |
|---|---|---|
| ``arq2``, ``arq3``, ``arq5`` | 2, 3 or 5 random people of up to 9 on each document | majority of the people left out |
| ``hin2`` | 2 random people of 5 | majority of the people left out |
| ``ambient`` | 2 of 28 linguists | label sets validated by the authors |
| ``csta1``, ``csta2`` | one wave of crowd workers each | 109 test questions |
| ``csta1_3``, ``csta2_3`` | the same, but 3 random answers to each test question | the same |
| ``premo`` | 40 prompts of language models and 5 tools | polarity agreed by people |
| ``premo60``, ``premo180`` | the same and people on 60 or 180 random documents | the same, elsewhere |
| ``premo_all`` | the same and people on all documents | the same, on all documents |
| ``babe``, ``babe_all`` | 13 language models with one prompt; the same with all prompts | label of experts |

Test questions have 12 to 24 answers in a wave, other documents 3: ``csta1`` and ``csta2`` say nothing about documents
with few votes, ``csta1_3`` and ``csta2_3`` do.

A majority of people left out counts where at least three of them judged the label and there is no tie.

The reference of ``premo`` was agreed by three people who knew the context of the message. Their answers are not
independent of it: ``premo_all`` is partly circular with them. ``people`` says whose answers are added:

- ``"first"`` (default): the first answers of the three, without the context. The same people, but the reference was
  not made of these answers.
- ``"one"``: one random person of the three on each document, with the context. Circular in ``premo_all``, where the
  document is also evaluated; not in ``premo60`` and ``premo180``.
- ``"context"``: the three answers with the context, which the reference is the majority of. Circular likewise.

The people of ``premo`` are a role and a position in the file ("comp-2"), not persons.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from palda import read_votes
from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Votes

    Array = NDArray[np.float64]

NOT_CLASSES = {"doc_id", "annotator", "timestamp", "kind", "family"}
MIN_OTHERS = 3  # people left out, for their majority to be a reference
POLARITY = ["positive", "negative"]  # people judged seven more classes, which neither models nor the reference have
PEOPLE = ("first", "one", "context")


class Crowd(NamedTuple):
    """Where a crowd is read from and what is drawn of it."""

    folder: str
    answers: str = "annotations"
    people_of: int = 0  # people per document whose votes are used; the others are the reference
    answers_to_gold: int = 0  # answers that documents with a reference keep; 0: all
    people_on: int | None = None  # documents on which people are added to the models; 0: all
    n_gold: int = 30  # documents whose reference is given, in the variant with gold labels

    def is_drawn(self, people: str) -> bool:
        """Whether another seed gives other votes."""
        return bool(self.people_of or self.answers_to_gold or self.people_on) or (
            self.people_on is not None and people == "one"
        )


CROWDS = {
    "arq2": Crowd("crowd_brighter_arq", people_of=2),
    "arq3": Crowd("crowd_brighter_arq", people_of=3),
    "arq5": Crowd("crowd_brighter_arq", people_of=5),
    "hin2": Crowd("crowd_brighter_hin", people_of=2),
    "ambient": Crowd("crowd_ambient"),
    "csta1": Crowd("crowd_csta_immigration", "annotations_wave1"),
    "csta2": Crowd("crowd_csta_immigration", "annotations_wave2"),
    "csta1_3": Crowd("crowd_csta_immigration", "annotations_wave1", answers_to_gold=3),
    "csta2_3": Crowd("crowd_csta_immigration", "annotations_wave2", answers_to_gold=3),
    "premo": Crowd("crowd_premo_llm"),
    "premo60": Crowd("crowd_premo_llm", people_on=60),
    "premo180": Crowd("crowd_premo_llm", people_on=180),
    "premo_all": Crowd("crowd_premo_llm", people_on=0),
    "babe": Crowd("jury_babe", n_gold=50),
    "babe_all": Crowd("jury_babe", n_gold=50),
}
HIDDEN_CROWDS = {
    "so_emotions": Crowd("crowd_so_emotions"),
    "csta": Crowd("crowd_csta_immigration"),
    "appropriateness": Crowd("crowd_appropriateness"),
    "homepage": Crowd("crowd_homepage_mturk"),
    "premo_votes": Crowd("crowd_premo_llm"),
}
"""Crowds of which votes are hidden and predicted; they need no reference."""


@dataclass(frozen=True, eq=False)
class Case:
    """Votes of a crowd and a reference for its labels.

    Attributes
    ----------
    name, draw : str, int
        Crowd and seed.
    votes : Votes
        What a method may use.
    texts : list of str
        Texts of the documents.
    gold : array of shape (documents, classes)
        Reference: 1, 0, and NaN where there is none or where it must not be used to evaluate.
    people : Votes, optional
        Votes of people alone, in crowds of people and models.
    """

    name: str
    draw: int
    votes: Votes
    texts: list[str]
    gold: Array
    people: Votes | None = None

    @property
    def known_documents(self) -> NDArray[np.int64]:
        """Documents with a reference."""
        return np.flatnonzero(~np.isnan(self.gold).all(axis=1))

    def gold_documents(self, seed: int) -> NDArray[np.int64]:
        """Random documents whose reference a method may learn from; at most a third of those with one."""
        rows = self.known_documents
        n_chosen = min(CROWDS[self.name].n_gold, len(rows) // 3)
        return np.sort(np.random.default_rng(seed).choice(rows, n_chosen, replace=False))


def data_folder() -> Path:
    """$PALDA_DATA, or shared/data beside the checkout."""
    return Path(os.environ.get("PALDA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


@cache
def _table(folder: str, file: str) -> pd.DataFrame:
    path = data_folder() / folder / f"{file}.csv.gz"
    if not path.is_file():
        raise PaldaError(f"{path} was not found; set PALDA_DATA to the folder that contains {folder}/")
    # "NA" and "None" are texts like any other; only an empty cell is missing
    names = dict.fromkeys(("doc_id", "annotator", "text"), str)
    return pd.read_csv(path, dtype=names, keep_default_na=False, na_values=[""])


def load(name: str, draw: int = 0, people: str = "first") -> Case:
    """A crowd of ``CROWDS``.

    Parameters
    ----------
    name : str
        Crowd.
    draw : int
        Seed of the people whose votes are used, or of the documents that people judge.
    people : {"first", "one", "context"}
        Answers of people in ``premo60``, ``premo180`` and ``premo_all``; see the top of this file.

    Returns
    -------
    Case
        Votes, texts and reference; documents nobody voted on are left out.
    """
    crowd = CROWDS[name]
    answers = _answers(name, crowd)
    docs = _table(crowd.folder, "docs")
    docs = docs[docs["doc_id"].isin(answers["doc_id"])].reset_index(drop=True)
    classes = _classes(crowd, answers)
    ids, texts = docs["doc_id"].tolist(), docs["text"].fillna("").tolist()
    if crowd.people_of:
        answers, others = _split_people(answers, crowd.people_of, draw)
        return Case(name, draw, _votes(answers, ids, classes), texts, _majority(others, ids, classes))
    gold = (
        docs[[f"gold_{name}" for name in classes]].apply(pd.to_numeric, errors="coerce").to_numpy(np.float64, copy=True)
    )
    if crowd.answers_to_gold:
        has_gold = answers["doc_id"].isin(docs["doc_id"][~np.isnan(gold).all(axis=1)])
        few, _ = _split_people(answers[has_gold], crowd.answers_to_gold, draw)
        answers = pd.concat([few, answers[~has_gold]])
    if crowd.people_on is None:
        return Case(name, draw, _votes(answers, ids, classes), texts, gold)
    judging = _people(people, draw)
    if crowd.people_on:
        judged = np.random.default_rng(draw).choice(ids, crowd.people_on, replace=False)
        judging = judging[judging["doc_id"].isin(judged)]
        gold[np.isin(ids, judged)] = np.nan
    votes = _votes(pd.concat([judging, answers], ignore_index=True), ids, classes)
    return Case(name, draw, votes, texts, gold, _votes(judging, ids, classes))


def load_hidden(name: str) -> tuple[Votes, list[str]]:
    """Votes and texts of a crowd of ``HIDDEN_CROWDS``."""
    crowd = HIDDEN_CROWDS[name]
    answers, docs = _answers(name, crowd), _table(crowd.folder, "docs")
    return _votes(answers, docs["doc_id"].tolist(), _classes(crowd, answers)), docs["text"].fillna("").tolist()


def _answers(name: str, crowd: Crowd) -> pd.DataFrame:
    answers = _table(crowd.folder, crowd.answers)
    if crowd.folder == "crowd_premo_llm":
        answers = answers[answers["kind"] != "person"]
    if name == "babe":
        answers = answers[answers["annotator"].str.endswith("/zero-shot")]
    return answers


def _classes(crowd: Crowd, answers: pd.DataFrame) -> list[str]:
    if crowd.folder == "crowd_premo_llm":
        return POLARITY
    return [column for column in answers.columns if column not in NOT_CLASSES]


def _split_people(answers: pd.DataFrame, n_people: int, draw: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers of ``n_people`` random people on each document, and those of the others."""
    order = pd.Series(np.random.default_rng(draw).random(len(answers)), answers.index)
    used = order.groupby(answers["doc_id"]).rank() <= n_people
    return answers[used], answers[~used]


def _majority(answers: pd.DataFrame, ids: Sequence[str], classes: list[str]) -> Array:
    """1 or 0 as most people say; NaN with a tie or with fewer than three people."""
    by_doc = answers.groupby("doc_id")[classes]
    share, n_people = (table.reindex(ids).to_numpy(np.float64) for table in (by_doc.mean(), by_doc.count()))
    known = (n_people >= MIN_OTHERS) & (share != 0.5)
    return np.where(known, share > 0.5, np.nan)


def _people(which: str, draw: int) -> pd.DataFrame:
    """Answers of people to the documents of ``premo``."""
    if which not in PEOPLE:
        raise PaldaError(f"people is {which!r}; choose from {', '.join(PEOPLE)}")
    answers = _table("crowd_premo_llm", "annotations_without_context" if which == "first" else "annotations")
    answers = answers[answers["kind"] == "person"]
    return _split_people(answers, 1, draw)[0] if which == "one" else answers


def _votes(answers: pd.DataFrame, ids: Sequence[str], classes: list[str]) -> Votes:
    given = [column for column in answers.columns if column in NOT_CLASSES]
    answers = answers[[*given, *classes]]
    return read_votes(answers.astype(dict.fromkeys(given, object)), ids, classes=classes, layout="wide")
