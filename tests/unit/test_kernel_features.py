"""Kernel features: they reproduce the kernel, and divide a score among columns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from palda.data import EncodedFeatures, FeatureTable, learn_feature_columns
from palda.models.classifier import ClassifierSettings, fit_classifier
from palda.models.classifier.kernel_features import KernelFeatures, fit_kernel_features, kernel_rows

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(240, 4))


def encoded(values: NDArray[np.float64]) -> EncodedFeatures:
    table = FeatureTable.of(values)
    return EncodedFeatures(table.values, learn_feature_columns(table).columns)


def fitted(values: NDArray[np.float64] = VALUES) -> tuple[EncodedFeatures, KernelFeatures]:
    features = encoded(values)
    kernel = fit_kernel_features(features, 0)
    assert kernel is not None
    return features, kernel


def test_products_of_features_are_the_centred_kernel() -> None:
    features, kernel = fitted()
    table = features.standardised()
    distances = np.abs(table[:, None] - table[None]).sum(axis=2)
    expected = np.exp(-kernel.rate * distances)
    expected = expected - expected.mean(axis=0) - expected.mean(axis=1)[:, None] + expected.mean()
    found = kernel.apply(table)
    found = found @ found.T
    np.testing.assert_allclose(found / found.trace(), expected / expected.trace(), atol=1e-6)


def test_rows_are_the_same_in_blocks() -> None:
    features, kernel = fitted(RNG.normal(size=(1500, 3)))
    rows = kernel_rows(features, kernel, np.float64)
    assert rows is not None
    np.testing.assert_allclose(rows[1200:1300], kernel.apply(features.standardised(slice(1200, 1300))), atol=1e-9)


def test_shares_of_columns_add_up_to_the_change_of_the_score() -> None:
    features, kernel = fitted()
    coef = RNG.normal(size=(len(kernel.offset), 2))
    table = features.standardised(slice(0, 5))
    shares = kernel.column_shares(table, coef)
    change = kernel.apply(table) @ coef - kernel.apply(np.zeros((1, 4))) @ coef
    np.testing.assert_allclose(shares.sum(axis=1), change, atol=1e-9)


def test_a_column_at_its_mean_has_no_share() -> None:
    features, kernel = fitted()
    document = features.standardised(slice(0, 1))
    document[0, 2] = 0.0
    shares = kernel.column_shares(document, RNG.normal(size=(len(kernel.offset), 1)))
    assert shares[0, 2, 0] == 0.0
    assert np.abs(shares[0, 0, 0]) > 0.0


def test_documents_that_are_all_alike_have_no_kernel_features() -> None:
    values = np.zeros((200, 1))
    values[0] = 1.0
    assert fit_kernel_features(encoded(values), 0) is None


def test_features_survive_a_file() -> None:
    features, kernel = fitted()
    again = KernelFeatures.from_arrays(kernel.arrays())
    assert again is not None
    np.testing.assert_array_equal(again.apply(features.standardised()), kernel.apply(features.standardised()))
    assert KernelFeatures.from_arrays({}) is None


@pytest.mark.slow
def test_labels_that_no_line_divides_are_learned() -> None:
    values = RNG.normal(size=(600, 2))
    inside = (np.square(values).sum(axis=1) < 1.4).astype(np.float64)[:, None]
    train, test = encoded(values[:400]), values[400:]
    fit = fit_classifier(inside[:400], columns=train, settings=ClassifierSettings(n_folds=3))
    probs = expit(fit.classifier.log_odds(None, None, train.columns.apply(test)))
    assert np.mean((probs >= 0.5) == (inside[400:] == 1)) > 0.9
