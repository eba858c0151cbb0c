from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from palda import metrics, simulate
from palda.data import Dataset, Values, Votes, names_array
from palda.io import catalog
from palda.paper import (
    METHODS,
    Cell,
    Method,
    MethodFit,
    Task,
    execution,
    load_task,
    methods,
    new_cell,
    published_values,
    run_cell,
    sample_rows,
    task_labels,
    tasks,
)
from palda.paper.baselines import aggregate_labels, vote_shares


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[catalog.Split]:
    """A small simulated data set that replaces those of the catalog."""
    toy = simulate.documents(160, 3, 6, 60, seed=1, doc_length=40)
    data = Dataset.of(toy.corpus, gold=toy.labels, classes=toy.classes)
    split = catalog.Split(data.take(range(120)), data.take(range(120, 160)))
    monkeypatch.setattr(catalog, "load", lambda *_, **__: split)
    with threadpool_limits(1):  # on small data, BLAS threads mostly wait for each other
        yield split
    for cache in (tasks._split, tasks._task):
        cache.cache_clear()


class Guess:
    """Gives every document the same probabilities: .6 for the first class, .4 for the others."""

    def get_params(self, **_: Any) -> dict[str, Any]:
        return {"certainty": 0.6, "random_state": 3, "n_jobs": 2}

    def fit(self, _X: Any, _Y: Any) -> Guess:
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.tile([0.6, 0.4, 0.4], (X.shape[0], 1))

    def predict(self, X: Any) -> Any:
        return np.zeros((X.shape[0], 3), dtype=np.int8)


def guess(thresholds: Any) -> Method:
    def fit(model: Any, features: Any, task: Task, cell: Cell) -> MethodFit:
        model.fit(features, task.train.Y)
        quality = None if task.true_quality is None else np.maximum(task.true_quality - 0.1, 0.0)
        labels = None if cell.source == "gold" else task.train.Y
        return MethodFit(model, thresholds, labels, quality, 1.0, 2.0)

    return Method("guess", "Guess", ("gold", "votes"), "words", lambda *_, **__: Guess(), fit)


@pytest.fixture
def with_guess(monkeypatch: pytest.MonkeyPatch) -> Method:
    method = guess(np.array([0.7, 0.3, 0.3]))
    for module in (methods, execution):
        monkeypatch.setattr(module, "METHODS", {**METHODS, "guess": method})
    methods._settings.cache_clear()
    return method


def test_measures_are_those_of_the_metrics_at_half_and_at_the_thresholds(
    toys: catalog.Split, with_guess: Method
) -> None:
    found = run_cell(new_cell("toys", "guess", "gold", 0)).measures
    truth, n_docs = toys.test.Y, len(toys.test)
    half, chosen = (np.tile(row, (n_docs, 1)) for row in ([1, 0, 0], [0, 1, 1]))
    for name in ("hamming_accuracy", "jaccard_accuracy", "micro_f1", "macro_f1", "subset_accuracy"):
        assert found[name] == getattr(metrics, name)(truth, half)
        assert found[f"{name}_chosen"] == getattr(metrics, name)(truth, chosen)
    probs = np.tile([0.6, 0.4, 0.4], (n_docs, 1))
    assert found["log_likelihood"] == pytest.approx(metrics.class_log_likelihood(truth, probs))
    assert found["calibration_error"] == pytest.approx(metrics.expected_calibration_error(truth, probs))
    assert (found["fit_seconds"], found["choose_seconds"]) == (1.0, 2.0)
    assert found["predict_seconds"] >= 0
    assert "annotator_rmse" not in found


def test_a_crowd_adds_measures_of_annotators_oracle_and_consensus(toys: catalog.Split, with_guess: Method) -> None:
    cell = new_cell("toys", "guess", "votes", 0)
    record = run_cell(cell, 1)
    assert record.measures["annotator_rmse"] == pytest.approx(0.1)
    votes, annotators = simulate.crowd(toys.train.Y, "paper", votes_per_doc=5, seed=0)
    assert record.measures["oracle_rmse"] == metrics.oracle_rmse(votes, toys.train.Y, annotators.quality)
    assert record.measures["consensus_micro_f1"] == 1.0
    assert record.details["true_quality"] == pytest.approx(annotators.quality, abs=1e-6)
    assert record.cell is cell
    assert record.versions["palda"]
    assert record.finished.endswith("+00:00")


@pytest.mark.parametrize("name", ["nothing", "majority"])
def test_constant_baselines_score_as_in_the_metrics(toys: catalog.Split, name: str) -> None:
    found = run_cell(new_cell("toys", name, "gold", 0)).measures
    expected = metrics.baseline_scores(toys.train.Y, toys.test.Y)[name]
    for measure in ("hamming_accuracy", "jaccard_accuracy", "micro_f1"):
        assert found[measure] == getattr(expected, measure)
        assert f"{measure}_chosen" not in found  # they have no thresholds


@pytest.mark.parametrize(("name", "source"), [("logistic", "gold"), ("forest", "majority"), ("raykar", "votes")])
def test_baselines_learn_from_labels_and_votes(toys: catalog.Split, name: str, source: Any) -> None:
    found = run_cell(new_cell("toys", name, source, 0, quick=True)).measures
    nothing = metrics.baseline_scores(toys.train.Y, toys.test.Y)["nothing"]
    assert found["hamming_accuracy"] > nothing.hamming_accuracy
    assert all(math.isfinite(value) for value in found.values())
    assert ("consensus_micro_f1" in found) == (source != "gold")


def test_thresholds_are_not_chosen_with_choose_false(toys: catalog.Split) -> None:
    chosen, at_half = (
        run_cell(new_cell("toys", "forest", "gold", 0, quick=True, options=options)).measures
        for options in ({}, {"choose": False})
    )
    assert chosen["micro_f1"] == at_half["micro_f1"]
    assert "micro_f1_chosen" in chosen
    assert "micro_f1_chosen" not in at_half
    assert math.isnan(at_half["choose_seconds"])


def squared_shares(votes: Votes, *_: Any) -> Any:
    return vote_shares(votes) ** 2


@pytest.mark.parametrize("rule", ["majority", "dawid_skene"])
def test_votes_of_a_task_are_aggregated_once(toys: catalog.Split, rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palda.paper.baselines.aggregation.dawid_skene", squared_shares)  # crowd-kit loads slowly
    task = load_task(Cell("toys", "forest", rule, 0, 1.0, "paper", 5))
    assert task.votes is not None
    expected = aggregate_labels(task.votes, rule)
    labels, _ = task_labels(task, rule)
    np.testing.assert_array_equal(labels.labels, expected.labels)
    np.testing.assert_array_equal(labels.targets, expected.targets)
    assert task_labels(load_task(Cell("toys", "other", rule, 0, 1.0, "paper", 5)), rule)[0] is labels


@pytest.mark.slow
@pytest.mark.parametrize("source", ["gold", "votes"])
@pytest.mark.parametrize("name", ["palda", "published"])
def test_palda_gives_equal_measures_on_one_and_two_threads(toys: catalog.Split, name: str, source: Any) -> None:
    cell = new_cell("toys", name, source, 0, options={"n_topics": 6, "max_iter": 10})
    records = [run_cell(cell, n_threads) for n_threads in (1, 2)]
    first, second = (
        {key: value for key, value in record.measures.items() if "seconds" not in key} for record in records
    )
    assert first == pytest.approx(second, rel=1e-9)
    assert 0 < first["micro_f1_chosen"] <= 1
    assert ("annotator_rmse" in first) == (source == "votes")
    assert len(records[0].details.get("quality", [])) == (50 if source == "votes" else 0)


def test_a_smaller_sample_of_documents_is_contained_in_a_larger_one(toys: catalog.Split) -> None:
    samples = [set(sample_rows(120, fraction, seed=5).tolist()) for fraction in (0.1, 0.5, 1.0)]
    assert [len(sample) for sample in samples] == [12, 60, 120]
    assert samples[0] < samples[1] < samples[2]
    assert set(sample_rows(120, 0.1, seed=6).tolist()) != samples[0]


def test_a_sample_of_documents_keeps_its_votes(toys: catalog.Split) -> None:
    cell = Cell("toys", "guess", "votes", 2, 0.5, "paper", 5)
    task = load_task(cell)
    assert task.votes is not None
    assert task.train.doc_ids.tolist() == task.votes.doc_ids.tolist()
    all_votes, _ = simulate.crowd(toys.train.Y, "paper", votes_per_doc=5, seed=2, doc_ids=toys.train.doc_ids)
    rows = sample_rows(120, 0.5, 2)
    np.testing.assert_array_equal(task.votes.value, all_votes.take(rows).value)
    np.testing.assert_array_equal(task.test.Y, toys.test.Y)


def test_real_values_become_words_learned_from_training_documents_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)

    def part(name: str, n_docs: int, scale: float) -> Dataset:
        ids = names_array(f"{name}{place}" for place in range(n_docs))
        values = Values(scale * rng.random((n_docs, 3)), names_array("abc"), ids)
        return Dataset.of(values, gold=np.ones((n_docs, 1)), classes=["x"])

    task = Task(part("train", 60, 1.0), part("test", 20, 100.0))
    assert task.features("values")[0] is task.train.X
    words, test_words = task.features("words")
    assert words.shape == (60, 15)
    assert test_words.sum() == 60
    assert (test_words.toarray()[:, [4, 9, 14]].sum()) > 50  # nearly all beyond the highest edge
    pooled, test_pooled = task.features("pooled")
    assert pooled.shape[1] == test_pooled.shape[1] == 100


@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize(("name", "n_columns"), [("palda", 3), ("published", 0)])
def test_the_default_model_reads_real_values_beside_words_and_the_published_does_not(
    name: str, n_columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)

    def part(n_docs: int) -> Dataset:
        gold = rng.integers(0, 2, (n_docs, 2))
        values = np.column_stack((gold + rng.normal(scale=0.4, size=gold.shape), rng.random(n_docs)))
        documents = Values(values, names_array("abc"), names_array(range(n_docs)))
        return Dataset.of(documents, gold=gold, classes=["x", "y"])

    split = catalog.Split(part(80), part(40))
    monkeypatch.setattr(tasks, "_split", lambda *_: split)
    cell = new_cell("values", name, "gold", 0, options={"n_topics": 2, "max_iter": 3})
    task, method = load_task(cell), METHODS[name]
    fitted = method.fit(
        method.build("gold", 0, 1, True, **dict(cell.options)), task.features(method.features)[0], task, cell
    )
    names = fitted.model.feature_names_
    assert (0 if names is None else len(names)) == n_columns
    assert run_cell(cell).measures["micro_f1"] > 0.5
    tasks._task.cache_clear()


def test_cells_on_real_values_say_that_the_values_are_features() -> None:
    assert ("features", "values") in new_cell("yeast", "palda", "votes", 0).settings
    for data, method in (("yeast", "published"), ("bibtex", "palda")):
        assert "features" not in dict(new_cell(data, method, "votes", 0).settings)


def test_a_cell_includes_every_parameter_that_changes_results(with_guess: Method) -> None:
    cell = new_cell("toys", "guess", "gold", 0)
    assert cell.settings == (("certainty", 0.6),)
    forest = dict(new_cell("scene", "forest", "gold", 0).settings)
    quick = dict(new_cell("scene", "forest", "gold", 0, quick=True).settings)
    assert forest["n_trees"] != quick["n_trees"]
    crowd = dict(new_cell("scene", "forest", "dawid_skene", 0).settings)
    assert crowd.keys() - forest.keys() == {"crowd-kit version"}


def test_a_method_that_cannot_be_built_can_still_be_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    from palda.errors import MissingDependencyError

    def missing(*given: object, **options: object) -> None:
        raise MissingDependencyError("SLDA", "baselines")

    method = Method("gone", "Gone", ("gold",), "words", missing, guess(None).fit)
    monkeypatch.setattr(methods, "METHODS", {"gone": method})
    monkeypatch.setattr(execution, "METHODS", {"gone": method})
    methods._settings.cache_clear()
    cell = new_cell("toys", "gone", "gold", 0)
    assert cell.settings == ()


def test_warnings_of_a_method_are_stored_in_the_record(toys: catalog.Split) -> None:
    record = run_cell(new_cell("toys", "published", "gold", 0, options={"n_topics": 4, "max_iter": 1}))
    assert any("did not converge" in text for text in record.warnings)


@pytest.mark.data
@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(
    ("data", "method", "expected"),
    [
        ("scene", "nothing", 0.819),
        ("enron", "nothing", 0.937),
        ("yeast", "majority", 0.767),
        ("bibtex", "nothing", 0.985),
    ],
)
def test_constant_baselines_reach_the_published_hamming_accuracy(data: str, method: str, expected: float) -> None:
    found = run_cell(new_cell(data, method, "gold", 0)).measures["hamming_accuracy"]
    assert round(found, 3) == expected
    columns = [column for column in published_values.TABLE_1 if column.measure == "hamming_accuracy"]
    assert any(abs(column.values[data] - found) < 0.005 for column in columns)
