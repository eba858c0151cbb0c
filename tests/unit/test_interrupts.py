"""Ctrl-C inside a fit: the best model so far or KeyboardInterrupt, at once, and no thread or process is left."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from palda import CrowdPALDA, simulate
from palda.estimators import Progress
from palda.kernels.signal_safety import signal_safe

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="there is no pthread_kill here")


class _ArrivedError(Exception):
    pass


@pytest.fixture
def raising_handlers() -> Iterator[list[int]]:
    """Handlers that raise, as that of Ctrl-C does."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGALRM]

    def arrived(number: int, _frame: object) -> None:
        raise _ArrivedError(number)

    before = [signal.signal(number, arrived) for number in numbers]
    yield numbers
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_signals_wait_until_a_kernel_has_returned(raising_handlers: list[int]) -> None:
    finished: list[int] = []

    def kernel(number: int) -> int:
        signal.raise_signal(number)
        finished.append(number)
        return number

    handlers = [signal.getsignal(number) for number in raising_handlers]
    for number in raising_handlers:
        with pytest.raises(_ArrivedError) as caught:
            signal_safe(kernel)(number)
        assert caught.value.args == (number,)
    assert finished == raising_handlers
    assert [signal.getsignal(number) for number in raising_handlers] == handlers
    assert signal_safe(lambda: 5)() == 5


def test_an_exception_of_a_kernel_restores_the_handlers(raising_handlers: list[int]) -> None:
    handlers = [signal.getsignal(number) for number in raising_handlers]
    with pytest.raises(ZeroDivisionError):
        signal_safe(lambda: 1 // 0)()
    assert [signal.getsignal(number) for number in raising_handlers] == handlers


def test_kernels_in_other_threads_leave_the_handlers_alone() -> None:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(signal_safe(lambda: signal.getsignal(signal.SIGINT))()))
    thread.start()
    thread.join()
    assert results == [signal.getsignal(signal.SIGINT)]


def test_every_compiled_kernel_defers_signals() -> None:
    from palda.kernels import compiled

    for name in compiled.__all__:
        assert getattr(compiled, name).__code__ is signal_safe(print).__code__, name


@pytest.mark.slow
def test_ctrl_c_in_any_iteration_of_the_topics_gives_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    news = simulate.newsroom(120, seed=1)
    votes = simulate.crowd(news, "paper", votes_per_doc=3, seed=0)[0]
    n_interrupted = 0
    for number in range(1, 100):
        countdown = itertools.count(1)

        def step(_self: Progress, _info: object, *, countdown: Iterator[int] = countdown, number: int = number) -> None:
            if next(countdown) == number:
                raise KeyboardInterrupt

        monkeypatch.setattr(Progress, "step", step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = CrowdPALDA(3, max_iter=2, n_jobs=1, random_state=0).fit(news.corpus, votes)
        assert np.isfinite(model.predict_proba(news.corpus.counts[:5])).all()
        if not model.interrupted_:
            break
        n_interrupted += 1
    assert n_interrupted == 2  # as many as there are iterations


_FIT = """
    import signal, sys, threading, time, warnings
    from palda import CrowdPALDA, simulate

    def fit(n_docs, engine, label_prior):
        news = simulate.newsroom(n_docs, seed=1)
        votes = simulate.crowd(news, "paper", votes_per_doc=3, seed=0)[0]
        model = CrowdPALDA(10, label_prior=label_prior, max_iter=2000, tol=0.0, n_jobs=2, engine=engine, random_state=0)
        return model.fit(news.corpus, votes)

    if __name__ == "__main__":
        warnings.simplefilter("ignore")
        engine, label_prior, n_docs = sys.argv[1], sys.argv[2], int(sys.argv[3])
        CrowdPALDA(2, label_prior=label_prior, max_iter=2, n_jobs=2).fit(
            *(lambda news: (news.corpus, simulate.crowd(news, "paper", seed=0)[0]))(simulate.newsroom(60, seed=0))
        )
        signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background start with it ignored
        before = threading.active_count()
        print("ready", flush=True)
        try:
            outcome = "model" if fit(n_docs, engine, label_prior).interrupted_ else "finished"
        except KeyboardInterrupt:
            outcome = "interrupt"
        print(outcome, threading.active_count() - before)
"""


def _interrupted_fit(folder: Path, seconds: float, *arguments: object) -> tuple[str, float, str]:
    """Outcome of a fit that is interrupted after some seconds, the time until the process ends, and its messages."""
    script = folder / "fit.py"
    script.write_text(textwrap.dedent(_FIT))
    command_line = [sys.executable, str(script), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command_line, **pipes, text=True, start_new_session=True) as process:  # type: ignore[call-overload]  # noqa: S603
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        start = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        try:
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, err
    return out.strip(), time.monotonic() - start, err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label_prior", "n_docs", "seconds"),
    [
        ("stacked", 200, 0.7),
        *(
            pytest.param(prior, n_docs, seconds, marks=pytest.mark.long)
            for prior, n_docs in (("base_rate", 800), ("stacked", 1500), ("words", 2000))
            for seconds in (0.02, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0)
        ),
    ],
)
def test_ctrl_c_ends_a_fit_with_threads(label_prior: str, n_docs: int, seconds: float, tmp_path: Path) -> None:
    outcome, delay, err = _interrupted_fit(tmp_path, seconds, "threads", label_prior, n_docs)
    assert outcome in ("model 0", "interrupt 0")
    assert delay < 20
    assert err == ""


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize("seconds", [0.5, 3.0, 15.0])
def test_ctrl_c_ends_a_fit_on_a_local_cluster(seconds: float, tmp_path: Path) -> None:
    outcome, delay, err = _interrupted_fit(tmp_path, seconds, "dask", "base_rate", 400)
    assert outcome.split()[0] in ("model", "interrupt")
    assert delay < 60
    assert "KeyboardInterrupt" not in err  # no worker received it; what Dask logs while it ends is its own
