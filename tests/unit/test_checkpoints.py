"""A fit that is killed and resumed ends with the same bits, wherever it was killed."""

from __future__ import annotations

import itertools
import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import MultinomialNB

from palda import PALDA, Checkpoint, CrowdPALDA, simulate
from palda.data import ArraySpec, Dataset
from palda.engine import CheckpointError, FolderStageStore, RecordSchema, StageRecord, StageStore, Threads
from palda.engine import stage_store as journals
from palda.errors import PaldaError, PaldaWarning
from palda.estimators import Progress, TopicEstimator, load_state
from palda.io import FolderLock, write_shards
from palda.io.atomic import temporary_name
from palda.models.topics import EMSettings, StepInfo

NEWS = simulate.newsroom(80, seed=1)
COUNTS = NEWS.corpus.counts
VOTES = simulate.crowd(NEWS, "paper", votes_per_doc=3, seed=0)[0]
ANYTHING = RecordSchema({}, ({}, {"a": ArraySpec((30,))}))

pytestmark = pytest.mark.filterwarnings("ignore:EM did not converge")


class Killed(BaseException):
    """Stands for a process that is killed: nothing catches it."""


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


def kill_after(monkeypatch: pytest.MonkeyPatch, n_writes: int) -> None:
    """Kill the fit as soon as it has written so many files."""
    countdown = itertools.count(1)
    write_whole = journals._write_whole

    def write(*arguments: Any) -> None:
        write_whole(*arguments)
        if next(countdown) == n_writes:
            raise Killed

    monkeypatch.setattr(journals, "_write_whole", write)
    monkeypatch.setattr(FolderStageStore, "__exit__", lambda self, *_: self._release())


@pytest.mark.slow
@pytest.mark.parametrize("crowd", [True, False], ids=["crowd", "labels"])
@pytest.mark.parametrize(
    ("label_prior", "settings"),
    [
        ("words", {"n_profiles": 2}),
        ("topics", {"random_state": None}),
        ("base_rate", {"n_init": 2}),
        ("base_rate", {"inference": "mean_field", "smoothing": False}),
        ("stacked", {"n_init": 2, "n_jobs": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
@pytest.mark.parametrize("n_writes", [9, pytest.param(2, marks=pytest.mark.long, id="every-write")])
def test_a_fit_killed_again_and_again_ends_with_the_same_bits(
    tmp_path: Path, label_prior: str, settings: dict[str, Any], *, crowd: bool, n_writes: int
) -> None:
    """With ``n_writes=2`` the fit is killed after every file; the first write of a resumed fit repeats the last one.

    With 9 it is killed after every eighth file. EM writes five files here, so the kills fall on different rounds.
    """
    folder = tmp_path / "checkpoint"
    for n_kills in range(500):  # noqa: B007
        with pytest.MonkeyPatch.context() as monkeypatch:
            kill_after(monkeypatch, n_writes)
            try:
                resumed = fitted(folder, label_prior, crowd=crowd, **settings)
                break
            except Killed:
                continue
    assert n_kills >= (1 if n_writes > 2 else 5)
    if settings.get("random_state", 0) is None:  # only the checkpoint knows the seeds that were drawn
        settings = settings | {"random_state": _StoredSeeds(folder)}
    uninterrupted = fitted(None, label_prior, crowd=crowd, **settings)
    resumed.random_state = uninterrupted.random_state = 0
    assert_same(resumed, uninterrupted, tmp_path)


class _StoredSeeds(np.random.RandomState):
    """Draws the seeds that a checkpoint holds."""

    def __init__(self, folder: Path) -> None:
        super().__init__(0)
        self._folder = folder

    def randint(self, *bounds: Any, size: int) -> Any:  # type: ignore[override]
        del bounds
        (drawn,) = (np.load(path)["seeds"] for path in self._folder.glob("*-seeds.npz"))
        assert len(drawn) == size
        return drawn


def test_an_external_classifier_is_stored_only_if_loading_it_executes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class UnknownToSkops(MultinomialNB):  # type: ignore[misc]
        """skops trusts the classes of scikit-learn alone."""

    fits: list[object] = []
    fit = MultinomialNB.fit

    def counted_fit(self: MultinomialNB, *data: Any, **options: Any) -> Any:
        fits.append(self)
        return fit(self, *data, **options)

    monkeypatch.setattr(MultinomialNB, "fit", counted_fit)
    for classifier, is_stored in ((MultinomialNB(alpha=0.5), True), (UnknownToSkops(alpha=0.5), False)):
        folder = tmp_path / type(classifier).__name__
        with monkeypatch.context() as patched:
            patched.setattr(Progress, "step", _raise(Killed))  # in the first round of EM
            with pytest.raises(Killed):
                fitted(folder, classifier, crowd=False)
        fits.clear()
        resumed = fitted(folder, classifier, crowd=False)
        n_resumed = len(fits)
        fits.clear()
        uninterrupted = fitted(None, classifier, crowd=False)
        assert (n_resumed == 0) == is_stored
        assert n_resumed < len(fits) / 2  # the predictions of the folds are stored in both cases
        np.testing.assert_array_equal(resumed.predict_proba(COUNTS), uninterrupted.predict_proba(COUNTS))
        np.testing.assert_array_equal(resumed.topic_words_, uninterrupted.topic_words_)


def _raise(kind: type[BaseException]) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise kind

    return refuse


def test_a_finished_fit_is_restored_without_computing(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    first = fitted(folder)
    written = {path.name: path.stat().st_ino for path in folder.iterdir()}
    again = fitted(folder, n_jobs=2)  # the number of threads is no part of the fingerprint
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == written  # each stage computed is a new file
    again.n_jobs = 1
    assert_same(first, again, tmp_path)


def test_a_fit_on_shards_resumes_and_refuses_other_shards(tmp_path: Path) -> None:
    unknown = np.full(NEWS.labels.shape, -1, dtype=np.int8)
    votes = replace(VOTES, doc_ids=NEWS.corpus.doc_ids)
    first, other = (
        write_shards(tmp_path / name, Dataset(NEWS.corpus, said, unknown), docs_per_shard=30)
        for name, said in (("first", votes), ("other", replace(votes, value=1 - votes.value)))
    )

    def model() -> CrowdPALDA:
        return CrowdPALDA(3, label_prior="base_rate", max_iter=4, n_jobs=1, random_state=0)

    checkpoint = Checkpoint(tmp_path / "checkpoint", minutes=0)
    with pytest.MonkeyPatch.context() as monkeypatch:
        kill_after(monkeypatch, 4)
        with pytest.raises(Killed):
            model().fit(first, checkpoint=checkpoint)
    with pytest.raises(CheckpointError, match=r"another fit \(the votes differ\)$"):
        model().fit(other, checkpoint=checkpoint)
    assert_same(model().fit(first, checkpoint=checkpoint), model().fit(first), tmp_path)


def test_damaged_stage_files_are_recomputed_with_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    first = fitted(folder, crowd=False)
    for number, path in enumerate(sorted(folder.glob("*.npz"))):
        content = path.read_bytes()
        halves = (content[: len(content) // 2], b"", content[:-40] + bytes(40), b"PK" + content[2:][::-1])
        path.write_bytes(halves[number % len(halves)])
    with pytest.warns(PaldaWarning, match="is damaged .*; recomputing this part of the fit") as caught:
        again = fitted(folder, crowd=False)
    n_warnings = sum(issubclass(warning.category, PaldaWarning) for warning in caught)
    assert n_warnings == len(list(folder.glob("*.npz")))
    assert_same(first, again, tmp_path)
    assert_same(first, fitted(folder, crowd=False), tmp_path)  # the files were written again


def test_a_changed_byte_never_changes_a_result(tmp_path: Path) -> None:
    fingerprint = {"seed": 1}
    with FolderStageStore(tmp_path / "j", fingerprint, 0) as journal:
        journal.stage("em").keep(lambda: StageRecord({"a": np.arange(30.0)}, {"b": 0.1}))
    (path,) = (tmp_path / "j").glob("*.npz")
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PaldaWarning)
            found = FolderStageStore(tmp_path / "j", fingerprint, 0).stage("em").recall(lambda record: record, ANYTHING)
        if found is not None:  # the byte has no effect: a date, for example
            np.testing.assert_array_equal(found.arrays["a"], np.arange(30.0))
            assert found.state["b"] == 0.1


def test_stages_of_other_inputs_are_recomputed_and_rounding_is_tolerated(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(50, 4))
    with FolderStageStore(tmp_path, {}, 0) as journal:
        for kind in ("em", "head", "em"):
            journal.stage(kind, inputs).keep(lambda: StageRecord({}, {"found": 1}))

    def recalled(journal: FolderStageStore, kind: str, given: np.ndarray) -> object:
        return journal.stage(kind, given).recall(lambda record: record.state["found"], ANYTHING)

    with FolderStageStore(tmp_path, {}, 0) as rounded:
        assert [recalled(rounded, kind, inputs * (1 + 1e-12)) for kind in ("em", "head", "em")] == [1, 1, 1]
    other = FolderStageStore(tmp_path, {}, 0)
    assert recalled(other, "em", inputs) == 1
    with pytest.warns(PaldaWarning, match="0002-head.npz: checkpoint does not match this fit"):
        assert recalled(other, "head", inputs + 1e-3) is None
    assert recalled(other, "em", inputs) is None  # nor is any later stage used
    assert [path.name for path in sorted(tmp_path.glob("*.npz"))] == ["0001-em.npz"]


def test_the_checkpoint_of_another_fit_is_refused_with_the_difference(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    fitted(folder, "base_rate")
    with pytest.raises(CheckpointError, match=r"another fit \(max_iter was 4, not 5\)$"):
        fitted(folder, "base_rate", max_iter=5)
    with pytest.raises(CheckpointError, match=r"another fit \(random_state was 0, not 1\)$"):
        fitted(folder, "base_rate", random_state=1)
    model = CrowdPALDA(3, label_prior="base_rate", max_iter=4, tol=1e-6, n_jobs=1, random_state=0)
    rows = np.arange(80)[::-1]
    with pytest.raises(CheckpointError, match=r"another fit \(the counts of words differ\)$"):
        model.fit(COUNTS[rows], VOTES, checkpoint=folder)
    with pytest.raises(CheckpointError, match=r"another fit \(the votes differ\)$"):
        model.fit(COUNTS, VOTES.take(rows), checkpoint=folder)
    gold = np.full(NEWS.labels.shape, -1)
    gold[0] = NEWS.labels[0]
    with pytest.raises(CheckpointError, match=r"another fit \(the known labels differ\)$"):
        model.fit(COUNTS, VOTES, gold=gold, checkpoint=folder)
    quality = {str(VOTES.annotators[0]): 0.9}
    with pytest.raises(CheckpointError, match=r"another fit \(the prior beliefs about annotators differ\)$"):
        model.fit(COUNTS, VOTES, annotator_prior=quality, checkpoint=folder)
    manifest = json.loads((folder / "journal.json").read_text())
    manifest["fit"]["palda"] = "0.0.1"
    (folder / "journal.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=r"palda was 0\.0\.1, not "):
        model.fit(COUNTS, VOTES, checkpoint=folder)
    for damage in ("", "[]", "{", '{"format": "palda-journal"}'):
        (folder / "journal.json").write_text(damage)
        with pytest.raises(CheckpointError, match=r"journal\.json is damaged"):
            model.fit(COUNTS, VOTES, checkpoint=folder)


def test_a_folder_that_cannot_hold_checkpoints_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="is a file; checkpoints need a folder"):
        fitted(tmp_path / "file")
    with pytest.raises(CheckpointError, match="contains other files than checkpoints"):
        fitted(tmp_path)
    for wrong in (Checkpoint(tmp_path / "new", minutes=-1), Checkpoint(tmp_path / "new", minutes=float("nan")), 3):
        with pytest.raises(PaldaError, match="checkpoint"):
            PALDA(3, max_iter=2).fit(COUNTS, NEWS.labels, checkpoint=wrong)  # type: ignore[arg-type]


def test_a_full_disk_gives_one_warning_and_the_fit_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(journals, "_write_record", full)
        with pytest.warns(PaldaWarning, match="cannot write checkpoints: No space left on device") as caught:
            survivor = fitted(tmp_path / "checkpoint", "base_rate")
    assert len([warning for warning in caught if issubclass(warning.category, PaldaWarning)]) == 1
    assert_same(survivor, fitted(None, "base_rate"), tmp_path)
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == ["journal.json"]


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_written_before_the_interval_is_over_and_then_everything(tmp_path: Path) -> None:
    clock, said = Clock(), list[str]()
    folder = tmp_path / "checkpoint"
    with FolderStageStore(folder, {}, 10, say=said.append, clock=clock) as journal:
        first = journal.stage("votes")
        first.keep(lambda: StageRecord({}, {}))
        running = journal.stage("em")
        clock.now = 599.0
        running.keep(lambda: StageRecord({}, {"round": 1}), finished=False)
        assert not folder.exists()
        clock.now = 600.0
        running.keep(lambda: StageRecord({}, {"round": 2}), finished=False)
        assert sorted(path.name for path in folder.glob("*.npz")) == ["0001-votes.npz", "0002-em.npz"]
        clock.now = 1199.0
        running.keep(lambda: StageRecord({}, {"round": 3}), finished=False)
        assert _round_in(folder) == 2
    assert _round_in(folder) == 3  # a fit that ends after a checkpoint writes all that is left
    assert said == [f"long fit: writing checkpoints to {folder}"]


def _round_in(folder: Path) -> object:
    with np.load(folder / "0002-em.npz") as stored:
        return json.loads(stored["state"].tobytes())["round"]


def test_writing_takes_at_most_three_percent_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    write_record = journals._write_record

    def slow(*arguments: Any) -> None:
        clock.now += 60.0
        write_record(*arguments)

    monkeypatch.setattr(journals, "_write_record", slow)
    journal = FolderStageStore(tmp_path / "checkpoint", {}, 1, clock=clock)
    running = journal.stage("em")
    begun = clock.now
    n_writes = 0
    while clock.now < 100_000:
        before = clock.now
        running.keep(lambda: StageRecord({}, {}), finished=False)
        n_writes += clock.now > before
        clock.now += 20.0
    assert n_writes > 10
    assert n_writes * 60.0 < 0.03 * (clock.now - begun)


def test_unfinished_files_of_a_killed_write_are_removed(tmp_path: Path) -> None:
    fitted(tmp_path / "checkpoint", "base_rate")
    left = tmp_path / "checkpoint" / temporary_name("0003-em.npz")
    left.write_bytes(b"half")
    fitted(tmp_path / "checkpoint", "base_rate")
    assert not left.exists()


def test_removing_a_checkpoint_keeps_other_files(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint", minutes=0)
    checkpoint.remove()
    assert not checkpoint.exists
    fitted(tmp_path / "checkpoint", "base_rate")
    assert Checkpoint(tmp_path / "checkpoint").exists
    (tmp_path / "checkpoint" / "notes.txt").write_text("mine")
    checkpoint.remove()
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == ["notes.txt"]


def test_pickled_settings_carry_no_checkpoint(tmp_path: Path) -> None:
    journal = FolderStageStore(tmp_path, {}, 0)
    journal.stage("em").keep(lambda: StageRecord({}, {}))
    copied = pickle.loads(pickle.dumps(EMSettings(engine=Threads(1), stages=journal)))  # noqa: S301 - our own bytes
    assert type(copied.stages) is StageStore


def test_a_resumed_fit_estimates_its_time_from_its_own_rounds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([0.0, 10.0])
    monkeypatch.setattr("palda.estimators.progress.time.monotonic", lambda: next(moments))
    Progress(verbose=1, max_iter=105, tol=0.0).step(StepInfo(100, -1.0, 0.1, 0.0, 1, 0, True, False))
    assert "about 50 s left" in capsys.readouterr().err


def test_a_second_fit_with_the_same_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    first = fitted(folder, "base_rate")
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    with FolderLock(folder):  # as the process of another fit holds it
        with pytest.raises(CheckpointError, match="another fit is writing its checkpoints there; use another folder"):
            fitted(folder, "base_rate")
        with pytest.raises(CheckpointError, match="another fit is writing"):
            Checkpoint(folder).remove()
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before
    assert_same(first, fitted(folder, "base_rate"), tmp_path)


def test_a_folder_that_another_fit_took_meanwhile_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    with FolderStageStore(folder, {"fit": "second"}, 0) as second:
        with FolderStageStore(folder, {"fit": "first"}, 0) as first:
            first.stage("em").keep(lambda: StageRecord({}, {"of": "first"}))
            with pytest.warns(PaldaWarning, match="cannot write checkpoints: .*another fit is writing"):
                second.stage("em").keep(lambda: StageRecord({}, {"of": "second"}))
        second.stage("em").keep(lambda: StageRecord({}, {"of": "second"}))  # the first has ended; its files stay
    assert json.loads((folder / "journal.json").read_bytes())["fit"] == {"fit": "first"}
    assert sorted(path.name for path in folder.iterdir()) == ["0001-em.npz", "journal.json"]


@pytest.mark.parametrize("content", ['{"my": "diary"}', "{", '{"format": "other", "format_version": 2, "fit": {}}'])
def test_a_folder_with_a_foreign_journal_is_neither_used_nor_removed(content: str, tmp_path: Path) -> None:
    (tmp_path / "journal.json").write_text(content)
    (tmp_path / "0001-em.npz").write_text("mine")
    with pytest.raises(CheckpointError, match=r"journal\.json is"):
        Checkpoint(tmp_path).remove()
    with pytest.raises(CheckpointError, match=r"journal\.json is"):
        fitted(tmp_path, "base_rate")
    assert (tmp_path / "journal.json").read_text() == content
    assert (tmp_path / "0001-em.npz").read_text() == "mine"
