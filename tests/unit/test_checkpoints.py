"""A fit that is stopped and goes on ends in the same parameters, bit for bit, wherever it was stopped."""

from __future__ import annotations

import itertools
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from palda import PALDA, Checkpoint, CrowdPALDA
from palda import journal as journals
from palda.base_estimator import TopicEstimator
from palda.data import simulate
from palda.errors import PaldaError, PaldaWarning
from palda.fit import Settings
from palda.journal import FolderJournal, Journal, JournalError, Record
from palda.persist import load_state
from palda.progress import Progress

NEWS = simulate.newsroom(80, seed=1)
COUNTS = NEWS.corpus.counts
VOTES = simulate.crowd(NEWS, "paper", votes_per_doc=3, seed=0)[0]

pytestmark = pytest.mark.filterwarnings("ignore:EM did not converge")


class Killed(BaseException):
    """The end, without any ceremony."""


def fitted(folder: Path | None, label_prior: Any = "stacked", *, crowd: bool = True, **settings: Any) -> TopicEstimator:
    checkpoint = None if folder is None else Checkpoint(folder, minutes=0)
    given = {"n_topics": 3, "max_iter": 4, "tol": 1e-6, "n_jobs": 1, "random_state": 0} | settings
    if crowd:
        return CrowdPALDA(label_prior=label_prior, **given).fit(COUNTS, VOTES, checkpoint=checkpoint)
    return PALDA(label_prior=label_prior, **given).fit(COUNTS, NEWS.labels, checkpoint=checkpoint)


def everything(model: TopicEstimator, folder: Path) -> dict[str, Any]:
    model.save(folder / "model")
    saved = load_state(folder / "model")
    return {name: array for name, array in saved.arrays.items() if name != "plugged_in"} | {"state": saved.state}


def assert_same(one: TopicEstimator, other: TopicEstimator, folder: Path) -> None:
    ours, theirs = everything(one, folder), everything(other, folder)
    assert ours.pop("state") == theirs.pop("state")
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)
    np.testing.assert_array_equal(one.predict_proba(COUNTS), other.predict_proba(COUNTS))


def stop_after(monkeypatch: pytest.MonkeyPatch, n_writes: int) -> None:
    """The process dies the moment that so many files were written."""
    countdown = itertools.count(1)
    write_whole = journals._write_whole

    def write(*arguments: Any) -> None:
        write_whole(*arguments)
        if next(countdown) == n_writes:
            raise Killed

    monkeypatch.setattr(journals, "_write_whole", write)
    monkeypatch.setattr(FolderJournal, "__exit__", Journal.__exit__)


@pytest.mark.parametrize("crowd", [True, False], ids=["crowd", "labels"])
@pytest.mark.parametrize(
    ("label_prior", "settings"),
    [
        ("stacked", {}),
        ("words", {"n_profiles": 2}),
        ("topics", {"random_state": None}),
        ("base_rate", {"n_init": 2}),
        ("base_rate", {"inference": "mean_field", "smoothing": False}),
        ("stacked", {"n_init": 2, "n_jobs": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_a_fit_that_is_killed_again_and_again_ends_as_if_it_had_not_been(
    tmp_path: Path, label_prior: str, settings: dict[str, Any], *, crowd: bool
) -> None:
    """Every file that is written is once the last one: the end of every stage, and every round of EM."""
    folder = tmp_path / "checkpoint"
    for n_killed in range(500):  # noqa: B007
        with pytest.MonkeyPatch.context() as monkeypatch:
            stop_after(monkeypatch, 2)  # the first repeats what was there already, so that the fit moves on
            try:
                resumed = fitted(folder, label_prior, crowd=crowd, **settings)
                break
            except Killed:
                continue
    assert n_killed > 5
    if settings.get("random_state", 0) is None:  # what was drawn is known to the journal alone
        settings["random_state"] = _Drawn(folder)
    uninterrupted = fitted(None, label_prior, crowd=crowd, **settings)
    resumed.random_state = uninterrupted.random_state = 0
    assert_same(resumed, uninterrupted, tmp_path)


class _Drawn(np.random.RandomState):
    """Draws what the journal says was drawn."""

    def __init__(self, folder: Path) -> None:
        super().__init__(0)
        self._folder = folder

    def randint(self, *bounds: Any, size: int) -> Any:  # type: ignore[override]
        del bounds
        (drawn,) = (np.load(path)["seeds"] for path in self._folder.glob("*-seeds.npz"))
        assert len(drawn) == size
        return drawn
