"""Threads, a folder of shards and Dask give the same bits."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palda import PALDA, CrowdPALDA, load, simulate
from palda.data import Dataset
from palda.engine import FAN_IN, Dask, tree_sum
from palda.io import ShardFolder, catalog, open_shards, write_shards
from palda.models.topics import params_to_arrays

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'palda[dask]'")
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of workers that were killed
]

WORLD = simulate.documents(240, 4, 6, 120, seed=6, doc_length=40)
VOTES, _ = simulate.crowd(WORLD, [0.9, 0.8, 0.7, 0.4, 0.8], seed=6, votes_per_doc=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ShardFolder:
    path = tmp_path_factory.mktemp("shards") / "corpus"
    write_shards(path, Dataset.of(WORLD.corpus, VOTES), docs_per_shard=70)
    return open_shards(path)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> ShardFolder:
    path = tmp_path_factory.mktemp("shards") / "known"
    return write_shards(path, Dataset.of(WORLD.corpus, gold=WORLD.labels, classes="abcd"), docs_per_shard=90)


def fitted(X: Any, votes: Any = None, **settings: Any) -> CrowdPALDA:
    model = CrowdPALDA(6, random_state=0, n_jobs=1, **({"max_iter": 6} | settings))
    return model.fit(X, votes)


def fitted_on_labels(X: Any, labels: Any = None, **settings: Any) -> PALDA:
    return PALDA(6, label_prior="words", n_profiles=1, random_state=0, max_iter=2, **settings).fit(X, labels)


def assert_same(one: CrowdPALDA, other: CrowdPALDA, X: Any = WORLD.corpus) -> None:
    np.testing.assert_array_equal(one.consensus_, other.consensus_)
    for name, array in params_to_arrays(one._params).items():
        np.testing.assert_array_equal(array, params_to_arrays(other._params)[name], err_msg=name)
    np.testing.assert_array_equal(one.annotator_quality_["quality"], other.annotator_quality_["quality"])
    other.set_params(engine=None)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


SETTINGS: list[dict[str, Any]] = [
    {"label_prior": "stacked", "n_profiles": 2},
    {"label_prior": "base_rate"},
    {"label_prior": "base_rate", "inference": "mean_field", "annotators": "one_coin", "smoothing": False},
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_folder_gives_the_same_bits_as_memory(folder: ShardFolder, settings: dict[str, Any]) -> None:
    assert_same(fitted(WORLD.corpus, VOTES, **settings), fitted(folder, **settings))


@pytest.mark.cluster
def test_dask_gives_the_same_bits_as_threads(dask_client: Any, folder: ShardFolder) -> None:
    threads = fitted(WORLD.corpus, VOTES, label_prior="base_rate")
    assert_same(threads, fitted(folder, label_prior="base_rate", engine=dask_client))
    assert_same(threads, fitted(WORLD.corpus, VOTES, label_prior="base_rate", engine=dask_client))


@pytest.mark.cluster
def test_a_single_dask_worker_gives_the_same_bits_as_threads(folder: ShardFolder) -> None:
    threads = fitted(WORLD.corpus, VOTES, label_prior="base_rate")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        assert_same(threads, fitted(folder, label_prior="base_rate", engine=client))


@pytest.mark.cluster
def test_a_classifier_fitted_on_dask_workers_has_the_same_bits(dask_client: Any, known: ShardFolder) -> None:
    threads, dask = (fitted_on_labels(known, engine=engine) for engine in (None, dask_client))
    np.testing.assert_array_equal(threads.head_.coef, dask.head_.coef)
    np.testing.assert_array_equal(threads.out_of_fold_probs_, dask.out_of_fold_probs_)


@pytest.mark.cluster
def test_predictions_on_dask_workers_have_the_same_bits(dask_client: Any, folder: ShardFolder) -> None:
    for model in (fitted_on_labels(WORLD.corpus, WORLD.labels), fitted(folder, label_prior="base_rate")):
        threads = model.predict_proba(WORLD.corpus), model.transform(WORLD.corpus)
        model.set_params(engine=dask_client)
        dask = model.predict_proba(folder), model.transform(folder)
        for expected, found in zip(threads, dask, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_known_labels_in_a_folder_are_learned_from(known: ShardFolder) -> None:
    from_folder, from_memory = fitted_on_labels(known), fitted_on_labels(WORLD.corpus, WORLD.labels)
    np.testing.assert_array_equal(from_folder.predict_proba(WORLD.corpus), from_memory.predict_proba(WORLD.corpus))
    assert list(from_folder.classes_) == list("abcd")


@pytest.mark.cluster
@pytest.mark.parametrize("classifier", [pytest.param(False, marks=pytest.mark.long), True])
def test_dask_workers_killed_during_a_fit_change_nothing(
    folder: ShardFolder, known: ShardFolder, monkeypatch: pytest.MonkeyPatch, classifier: bool
) -> None:
    def fit(engine: Any = None) -> Any:
        if classifier:
            return fitted_on_labels(known, engine=engine)
        return fitted(folder, label_prior="base_rate", max_iter=3, engine=engine)

    undisturbed = fit()
    killed: list[int] = []
    total = Dask.total

    def total_after_a_kill(self: Dask, function: Any, shards: Any, shared: Any) -> Any:
        if len(killed) < 2:  # in the first round, and in the one after it
            victim = sorted(self.client.run(os.getpid).values())[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
        return total(self, function, shards, shared)

    monkeypatch.setattr(Dask, "total", total_after_a_kill)
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        disturbed = fit(client)
    assert len(set(killed)) == 2
    np.testing.assert_array_equal(undisturbed.topic_words_, disturbed.topic_words_)
    disturbed.set_params(engine=None)
    np.testing.assert_array_equal(undisturbed.predict_proba(WORLD.corpus), disturbed.predict_proba(WORLD.corpus))


def test_sums_are_added_in_a_fixed_tree() -> None:
    parts = np.random.default_rng(0).normal(size=100) * 10.0 ** np.arange(100)

    def in_groups(level: list[float]) -> float:
        while len(level) > 1:
            level = [sum(level[k + 1 : k + FAN_IN], start=level[k]) for k in range(0, len(level), FAN_IN)]
        return level[0]

    for size in (1, 2, 7, 8, 9, 63, 64, 65, 72, 100):
        assert tree_sum(iter(parts[:size])) == in_groups(list(parts[:size]))
    with pytest.raises(ValueError, match="nothing to add"):
        tree_sum([])


@pytest.mark.cluster
def test_a_model_file_does_not_keep_the_engine(dask_client: Any, folder: ShardFolder, tmp_path: Path) -> None:
    model = fitted(folder, label_prior="base_rate", max_iter=2, engine=dask_client)
    model.save(tmp_path / "model.palda")
    assert load(tmp_path / "model.palda").engine is None


@pytest.mark.parametrize("engine", ["spark", 3, "tcp"])
def test_an_unknown_engine_is_refused(engine: Any) -> None:
    with pytest.raises(ValueError, match=r"engine=.* is not known; choose None"):
        CrowdPALDA(6, engine=engine).fit(WORLD.corpus, VOTES)


@pytest.mark.cluster
def test_engine_dask_without_a_client_starts_a_cluster_on_this_machine(folder: ShardFolder) -> None:
    assert_same(
        fitted(folder, label_prior="base_rate", max_iter=2),
        fitted(folder, label_prior="base_rate", max_iter=2, engine="dask"),
    )


def test_a_folder_with_another_vocabulary_is_refused(folder: ShardFolder, tmp_path: Path) -> None:
    other = write_shards(tmp_path / "other", simulate.documents(60, 4, 6, 50, seed=1).corpus)
    with pytest.raises(ValueError, match="has 50 words, but the model was fitted on 120"):
        fitted(folder, label_prior="base_rate", max_iter=2).predict_proba(other)


@pytest.mark.data
@pytest.mark.cluster
@pytest.mark.long
def test_a_crowd_on_reuters_gives_the_same_bits_everywhere(dask_client: Any, tmp_path: Path) -> None:
    train = catalog.load("reuters")[0]
    votes, _ = simulate.crowd(train, seed=0)
    folder = write_shards(tmp_path / "reuters", Dataset.of(train.corpus, votes))
    settings: dict[str, Any] = {"label_prior": "base_rate", "max_iter": 2}
    threads = fitted(train.corpus, votes, **settings)
    assert_same(threads, fitted(folder, **settings), train.corpus)
    assert_same(threads, fitted(folder, engine=dask_client, **settings), train.corpus)
