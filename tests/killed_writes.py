"""Kills processes while they write, checks what they leave behind, and runs them again.

``python -m tests.killed_writes FOLDER KILLS [SCENARIO ...]`` prints one JSON object per scenario. Everything is
imported once; each write is a forked process that kills itself at a chosen line of the code that writes. At every other
kill, temporary files are cut to a random length first, as a machine that stops may leave them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import palda
from palda import CrowdPALDA, TextEmbedding, simulate
from palda.cli import main as command_line
from palda.data import ArraySpec
from palda.engine import FolderStageStore, RecordSchema, StageRecord
from palda.io import Sources, Treatment, open_shards, shard_files, write_shards
from palda.io.embedding_cache import EmbeddingCache, text_keys
from palda.report import page, write_report

_WRITING_CODE = (
    "palda/io/atomic.py", "palda/io/embedding_cache.py",
    "palda/io/shards/build.py", "palda/io/shards/format.py", "palda/io/shards/replacement.py",
    "palda/io/shards/unfinished.py", "palda/io/shards/vote_sorting.py", "palda/io/shards/writer.py",
    "palda/estimators/model_file.py", "palda/engine/stage_store.py", "palda/report/page.py", "palda/cli/output.py",
    "zipfile.py", "pathlib.py",
)  # fmt: skip

_TEXTS = [f"text {number}" for number in range(30)]
_STAGE = RecordSchema({}, ({"array": ArraySpec((1000,))},))


@dataclass
class Scenario:
    """A target that is written in versions 0 and 1."""

    target: str
    write: Callable[[Path, int], object]
    """Writes a version; it also finishes what a killed process has begun."""
    version: Callable[[Path], int]
    """The version that is there; raises if it is not whole."""


def _scenarios(folder: Path) -> dict[str, Scenario]:
    news = simulate.newsroom(60, seed=1)
    votes = simulate.crowd(news, "paper", votes_per_doc=3, seed=0)[0]
    models = [
        CrowdPALDA(2, label_prior="base_rate", max_iter=n, n_jobs=1, random_state=0).fit(news.corpus, votes)
        for n in (2, 3)
    ]
    pages = [page.render_report(model) for model in models]
    corpora = [news.corpus.take(slice(n)) for n in (40, 60)]
    files = [_files(folder, n) for n in (20, 23)]

    def write_page(target: Path, version: int) -> None:
        page.render_report = lambda *_, **__: pages[version]  # type: ignore[assignment]
        write_report(models[version], target, force=True)

    def shard(target: Path, version: int) -> None:
        shard_files(target, files[version], Treatment(docs_per_shard=6), resume=True, force=True)

    def aggregate(target: Path, version: int) -> None:
        quick = ["--profiles", "1", "--annotators", "two_coin", "--no-copies", "--no-drift", "-j", "1", "--quiet"]
        sys.argv = ["palda", "aggregate", str(files[version].votes), "-o", str(target), "--force", *quick]
        try:
            command_line()
        except SystemExit as stop:
            if stop.code:
                raise

    aggregate(folder / "first.csv", 0)  # loads what every forked process would load otherwise
    return {
        "model": Scenario(
            "m.palda",
            lambda target, version: models[version].save(target),
            lambda target: [2, 3].index(int(palda.load(target).n_iter_)),
        ),
        "report": Scenario("r.html", write_page, lambda target: pages.index(target.read_text(encoding="utf-8"))),
        "shards": Scenario("corpus", shard, lambda target: [20, 23].index(_n_docs(target))),
        "shards from memory": Scenario(
            "corpus",
            lambda target, version: write_shards(target, corpora[version], docs_per_shard=15, force=True),
            lambda target: [40, 60].index(_n_docs(target)),
        ),
        "checkpoint": Scenario("checkpoint", _write_stages, _stage_version),
        "embeddings": Scenario("cache", _embed, lambda target: [20, 23].index(_n_embeddings(target))),
        "table": Scenario(
            "labels.csv", aggregate, lambda target: [20, 23].index(len(target.read_text().split("\n")) - 2)
        ),
    }


def _files(folder: Path, n_docs: int) -> Sources:
    documents, votes = folder / f"documents-{n_docs}.csv", folder / f"votes-{n_docs}.csv"
    documents.write_text("doc,text\n" + "".join(f"d{n},ships carry wheat{n % 5}\n" for n in range(n_docs)))
    rows = [f"d{n},x{who},{'a;b' if (n + who) % 3 else 'b'}\n" for who in range(3) for n in range(n_docs)]
    votes.write_text("doc,annotator,labels\n" + "".join(rows))
    return Sources(documents, votes)


def _n_docs(target: Path) -> int:
    folder = open_shards(target)
    folder.verify()
    return len(folder.dataset())


def _write_stages(target: Path, version: int) -> None:
    """A stand-in for a fit of four stages; those of version 0 are the first two."""
    with FolderStageStore(target, {"fit": 1}, 0) as store:
        for number in range(2 + 2 * version):
            store.stage("em").remember(
                lambda number=number: number,  # type: ignore[misc]
                lambda number: StageRecord({"array": np.full(1000, float(number))}, {"number": number}),
                _number_of,
                _STAGE,
            )


class _Lengths:
    """A stand-in for an embedding model."""

    cache_key = "lengths"

    def encode(self, texts: list[str]) -> Any:
        return np.array([[len(text), 1.0] for text in texts])


def _embed(target: Path, version: int) -> None:
    TextEmbedding(_Lengths(), cache=target).fit_transform(_TEXTS[: 20 + 3 * version])


def _n_embeddings(target: Path) -> int:
    """Number of stored vectors; those that were not written as a whole are not found."""
    cache = EmbeddingCache(next(target.iterdir()))
    found = [positions for positions, _ in cache.find(np.sort(text_keys(_TEXTS)))]
    return len(np.unique(np.concatenate(found)))


def _number_of(record: StageRecord) -> int:
    number = int(record.state["number"])
    if not (record.arrays["array"] == number).all():
        raise ValueError("a stage file is not whole")
    return number


def _stage_version(target: Path) -> int:
    n_stages = len(list(target.glob("*.npz")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a damaged file would be computed again, with a warning
        with FolderStageStore(target, {"fit": 1}, 0) as store:
            for number in range(n_stages):
                assert store.stage("em").recall(_number_of, _STAGE) == number
    return int(n_stages > 2)


# Forked processes


def _forked(work: Callable[[], object]) -> int:
    """Exit status of a process that does the work."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        work()
        status = 0
    except BaseException as error:  # noqa: BLE001 - the parent must see the failure, whatever it is
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(status)


def _traced(work: Callable[[], object], at_line: Callable[[], object]) -> None:
    """Do the work, and call a function before each line of the code that writes."""

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            at_line()
        return trace if frame.f_code.co_filename.endswith(_WRITING_CODE) else None

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)


def _count_lines(work: Callable[[], object], result: Path) -> int:
    counter = [0]

    def count() -> None:
        counter[0] += 1

    def counted() -> None:
        _traced(work, count)
        result.write_text(str(counter[0]))

    if _forked(counted):
        raise RuntimeError("the write failed without a kill")
    return int(result.read_text())


def _kill_at(line: int, work: Callable[[], object], cut: Path | None) -> bool:
    """Do the work in a process that kills itself before a line; whether it was killed."""
    remaining = [line]

    def count() -> None:
        remaining[0] -= 1
        if remaining[0] == 0:
            for path in cut.rglob(".palda-*.part") if cut else ():
                if path.is_file():
                    os.truncate(path, int(np.random.default_rng(line).integers(0, path.stat().st_size + 1)))
            os.kill(os.getpid(), signal.SIGKILL)

    return os.WIFSIGNALED(_forked(lambda: _traced(work, count)))


def _try_scenario(scenario: Scenario, folder: Path, n_kills: int) -> dict[str, Any]:
    place = folder / "place"
    target = place / scenario.target
    outcomes: Counter[str] = Counter()
    failures: list[str] = []

    def reset() -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        if _forked(lambda: scenario.write(target, 0)):
            raise RuntimeError("the first version could not be written")

    reset()
    n_lines = _count_lines(lambda: scenario.write(target, 1), folder / "count")
    everywhere, at_the_end = (
        np.linspace(1, n_lines, n_kills // 2),
        np.linspace(0.9 * n_lines, n_lines - 1, n_kills - n_kills // 2),
    )
    for number, line in enumerate(np.unique(np.concatenate((everywhere, at_the_end)).astype(int)).tolist()):
        reset()
        killed = _kill_at(line, lambda: scenario.write(target, 1), place if number % 2 else None)
        try:
            outcomes["kills"] += killed
            outcomes[("old", "new")[scenario.version(target)]] += 1
            outcomes["left behind"] += len(list(place.iterdir())) > 1
            if _forked(lambda: scenario.write(target, 1)):
                failures.append(f"line {line}: the next run failed")
            elif scenario.version(target) != 1:
                failures.append(f"line {line}: the next run wrote nothing")
            left = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.name.startswith(".palda-"))
            if left or [path.name for path in place.iterdir()] != [scenario.target]:
                failures.append(
                    f"line {line}: left after the next run: {sorted(path.name for path in place.iterdir())} {left}"
                )
        except Exception as error:  # noqa: BLE001 - counted, and reported by the test
            failures.append(f"line {line}: {type(error).__name__}: {error}")
    return {"lines": n_lines, "failures": failures, **outcomes}


def main() -> None:
    """Run the scenarios that the command line names, or all."""
    folder, n_kills, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    scenarios = _scenarios(folder)
    for name in names or scenarios:
        print(json.dumps({"scenario": name} | _try_scenario(scenarios[name], folder, n_kills)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
