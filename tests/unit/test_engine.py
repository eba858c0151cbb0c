"""Threads: order of results, concurrency, errors, and the number of threads."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Sequence

import numpy as np
import pytest
from joblib import Parallel, delayed

from palda.engine import Threads, resolve_n_jobs, tree_sum


def slow_square(number: int) -> int:
    time.sleep(0.002 * (number % 3))
    return number * number


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n_shards", [0, 1, 2, 23])
def test_results_come_in_the_order_of_the_shards(n_jobs: int, n_shards: int) -> None:
    assert list(Threads(n_jobs).map(slow_square, range(n_shards))) == [k * k for k in range(n_shards)]


def test_two_threads_process_shards_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(shard: int) -> int:
        both.wait()
        return shard

    assert list(Threads(2).map(meet, [1, 2])) == [1, 2]


def test_a_single_job_runs_in_the_thread_of_the_caller() -> None:
    here = threading.get_ident()
    assert list(Threads(1).map(lambda _: threading.get_ident(), range(3))) == [here] * 3


def test_at_most_two_shards_per_thread_are_read_ahead() -> None:
    taken = []

    class Watched(Sequence[int]):
        def __len__(self) -> int:
            return 50

        def __getitem__(self, position):  # type: ignore[no-untyped-def]
            if position >= 50:
                raise IndexError
            taken.append(position)
            return position

    results = Threads(2).map(slow_square, Watched())
    next(results)
    assert len(taken) <= 4
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_first_error_is_raised(n_jobs: int) -> None:
    def fail_at_four(shard: int) -> int:
        if shard == 4:
            raise ArithmeticError("shard 4")
        return shard

    with pytest.raises(ArithmeticError, match="shard 4"):
        list(Threads(n_jobs).map(fail_at_four, range(40)))


def test_n_jobs_counts_as_in_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    assert [resolve_n_jobs(n) for n in (None, 1, 3, 9, -1, -2, -9)] == [4, 1, 3, 9, 4, 3, 1]


def test_zero_jobs_are_refused() -> None:
    with pytest.raises(ValueError, match="n_jobs is 0"):
        resolve_n_jobs(0)


def test_one_thread_is_used_inside_another_thread_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    resolved = Parallel(n_jobs=2, backend="threading")(delayed(resolve_n_jobs)(asked) for asked in (None, None, 2))
    assert resolved == [1, 1, 2]
    assert resolve_n_jobs(None) == 4


def test_one_thread_is_used_inside_another_process_pool() -> None:
    def resolve_on_four_cores(asked: int | None) -> int:
        from unittest import mock

        with mock.patch("os.sched_getaffinity", create=True, return_value=range(4)):
            return resolve_n_jobs(asked)

    resolved = Parallel(n_jobs=2, backend="loky")(delayed(resolve_on_four_cores)(asked) for asked in (None, None, 2))
    assert resolved == [1, 1, 2]
    assert resolve_on_four_cores(None) == 4


def test_sums_are_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        total = weakref.ref(tree_sum(np.ones(3) for _ in range(20)))
        assert total() is None
    finally:
        gc.enable()
