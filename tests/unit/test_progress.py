"""Progress of EM on standard error."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from palda import PALDA, CrowdPALDA, simulate
from palda.estimators import Progress
from palda.io import duration
from palda.models.topics import StepInfo

LINE = re.compile(r"palda: iteration +(\d+)  bound (-?[\d.e+]+)(  change [+-]\d\.\de[+-]\d\d)?  (done|about .* left)")


def info(iteration: int, bound: float, change: float, *, converged: bool = False) -> StepInfo:
    return StepInfo(iteration, bound, change, 0.0, 10, 0, newton_converged=True, converged=converged)


def test_line_has_iteration_bound_change_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(verbose=1, max_iter=100, tol=1e-5)
    progress.step(info(1, -12345.6789, np.inf))
    progress.step(info(2, -12000.0, 2.9e-2))
    progress.step(info(3, -11999.0, 1e-6, converged=True))
    out, err = capsys.readouterr()
    assert out == ""
    first, second, third = err.splitlines()
    assert re.fullmatch(r"palda: iteration   1  bound -12345\.7  about \d+ s left", first)
    assert re.fullmatch(r"palda: iteration   2  bound -12000  change \+2\.9e-02  about \d+ s left", second)
    assert third == "palda: iteration   3  bound -11999  change +1.0e-06  done"


def test_nothing_is_written_without_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    Progress(verbose=0, max_iter=10, tol=1e-5).step(info(1, -5.0, np.inf))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("changes", "max_iter", "tol", "n_left"),
    [
        ([np.inf, *(2.0**-k for k in range(6))], 100, 2.0**-15, 10),  # halve from 2^-5 to 2^-15
        ([np.inf, 0.1, 0.1, 0.2], 20, 1e-5, 16),  # do not shrink
        ([np.inf, 0.1, 0.01], 20, 0.0, 17),  # never reach a tolerance of 0
    ],
)
def test_time_left_follows_shrinking_changes_to_the_tolerance_or_max_iter(
    changes: list[float], max_iter: int, tol: float, n_left: int,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    clock = iter(float(second) for second in range(1000))  # one second per iteration
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    progress = Progress(verbose=1, max_iter=max_iter, tol=tol)
    for position, change in enumerate(changes, start=1):
        progress.step(info(position, -100.0, change))
    monkeypatch.undo()
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"about {n_left} s left")


@pytest.mark.parametrize("seconds", [0.2, 40.0, 600.0, 9000.0])
def test_durations_are_in_seconds_minutes_or_hours(seconds: float) -> None:
    expected = {0.2: "0 s", 40.0: "40 s", 600.0: "10 min", 9000.0: "2.5 h"}
    assert duration(seconds) == expected[seconds]


@pytest.mark.parametrize("crowd", [False, True])
def test_verbose_fit_writes_one_line_per_iteration_to_standard_error(
    capsys: pytest.CaptureFixture[str], crowd: bool
) -> None:
    world = simulate.documents(30, 2, 2, 15, seed=0, doc_length=12)
    settings = {"n_topics": 2, "tol": 1e-2, "random_state": 0, "n_jobs": 1, "verbose": 1}
    if crowd:
        votes, _ = simulate.crowd(world, [0.9, 0.8, 0.7], seed=0, votes_per_doc=2)
        model = CrowdPALDA(**settings).fit(world.corpus, votes)
    else:
        model = PALDA(**settings).fit(world.corpus, world.labels)
    out, err = capsys.readouterr()
    assert out == ""
    lines = [LINE.fullmatch(line) for line in err.splitlines()]
    assert all(lines)
    numbers = [int(line.group(1)) for line in lines if line]
    assert all(later == earlier + 1 for earlier, later in pairwise(numbers))
    assert len(lines) == model.n_iter_


STAGES = re.compile(
    r"palda: (turn \d+: )?(votes|classifier and its penalties|classifier|labels|topics|final classifier)"
    r"(  about .* left)?"
)


@pytest.mark.parametrize("label_prior", ["stacked", "words"])
@pytest.mark.parametrize("crowd", [False, True])
def test_verbose_fit_names_every_stage_and_estimates_the_time_left_of_the_whole_fit(
    capsys: pytest.CaptureFixture[str], crowd: bool, label_prior: str
) -> None:
    news = simulate.newsroom(120, seed=0)
    settings = {"n_topics": 5, "label_prior": label_prior, "random_state": 0, "n_jobs": 1, "verbose": 1}
    if crowd:
        CrowdPALDA(**settings).fit(news.corpus.counts, simulate.crowd(news.labels, "paper", seed=0)[0])
    else:
        PALDA(**settings).fit(news.corpus, news.labels)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"palda: done in \d+ s", lines[-1])
    stages = [STAGES.fullmatch(line) for line in lines[:-1] if "iteration" not in line]
    assert all(stages)
    kinds = [stage.group(2) for stage in stages if stage]
    assert set(kinds) >= {"classifier and its penalties", "labels", "topics", "final classifier"}
    assert ("votes" in kinds) == crowd
    assert all(stage.group(3) for stage in stages[1:] if stage)
    assert not any("about 0 s" in line for line in lines)


def test_time_left_is_that_of_the_stages_to_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typical fit whose stages take ten times their relative costs in seconds."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = Progress(verbose=1, max_iter=10, tol=1e-3, stages="votes and topics")
    costs = {"votes": 3.0, "penalties": 10.0, "labels": 1.0, "classifier": 1.2, "topics": 11.0, "final classifier": 3.0}
    kinds = [
        *("votes", "penalties", "labels", "classifier", "labels", "classifier", "labels", "classifier", "labels"),
        *("topics", "penalties", "labels", "classifier", "labels", "final classifier"),
    ]
    left = []
    for position, kind in enumerate(kinds):
        progress.stage(kind)
        left.append(sum(costs[later] for later in kinds[position:]))
        now[0] += costs[kind]
    monkeypatch.undo()
    shown = re.findall(r"about (\d+) s left", capsys.readouterr().err)
    assert [int(seconds) for seconds in shown] == [round(seconds) for seconds in left[1:]]


def test_additional_turns_do_not_shorten_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = Progress(verbose=1, max_iter=10, tol=1e-3, stages="votes and topics")
    for kind in ("votes", "penalties", "labels", *("classifier", "labels") * 3):
        progress.stage(kind)
        now[0] += 10.0
    capsys.readouterr()
    left = []
    for _ in range(4):
        progress.stage("classifier")
        left += re.findall(r"about (.*) left", capsys.readouterr().err)
        now[0] += 10.0
    monkeypatch.undo()
    assert len(left) == 4
    assert len(set(left)) == 1
