"""``ValueWords``: a transformer from real-valued features to word counts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from palda.data import validation
from palda.data.documents import Values
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data.documents import Counts
    from palda.data.frozen_arrays import Strings

    Floats = NDArray[np.float64]
    RandomState = np.random.RandomState

_N_STARTS = 3
_START_SAMPLE = 20_000
_MAX_LLOYD_STEPS = 300


class ValueWords(TransformerMixin, BaseEstimator):
    """Counts of words made from real values, so that a topic model can use images, genes or measurements.

    With ``scope="feature"`` a word is a feature together with a bin of its values, so a row has one word per feature.
    With ``scope="pooled"`` the values of all features are clustered together and a row is the counts of its nearest
    clusters, as in the published model; the features are not distinguished.

    Values outside the range of the training data fall into the outermost bin or cluster. A missing value (NaN) gives no
    word. A constant feature has one bin, a feature without any value has none, and repeated values give fewer bins, not
    empty ones.

    Parameters
    ----------
    n_bins : int, default 5
        Maximum number of bins per feature, for ``scope="feature"``.
    scope : {"feature", "pooled"}, default "feature"
        Meaning of a word: a bin of a feature, or a cluster of all values.
    strategy : {"quantile", "kmeans"}, default "quantile"
        Bins with equally many values, or clusters of the feature. Pooled words are always clusters.
    n_words : int, default 100
        Number of clusters for ``scope="pooled"``; the paper does not state it.
    random_state : int, RandomState or None, default 0
        Random seed of the k-means++ starts, which use at most 20,000 evenly spaced order statistics; the iterations
        use every value.

    Attributes
    ----------
    edges_ : list of arrays
        Inner bin edges per feature (None for a feature without values), for ``scope="feature"``.
    centers_ : array of shape (n_words,)
        Cluster centres in ascending order, for ``scope="pooled"``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str, shape (n_features,)
        Names of the features, if the input has them.

    Examples
    --------
    >>> ValueWords(n_bins=2).fit([[0.0], [1.0], [2.0], [3.0]]).get_feature_names_out().tolist()
    ['x0<1.5', 'x0≥1.5']
    """

    def __init__(
        self,
        n_bins: int = 5,
        *,
        scope: Literal["feature", "pooled"] = "feature",
        strategy: Literal["quantile", "kmeans"] = "quantile",
        n_words: int = 100,
        random_state: Any = 0,
    ) -> None:
        self.n_bins = n_bins
        self.scope = scope
        self.strategy = strategy
        self.n_words = n_words
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> ValueWords:  # noqa: ARG002 - scikit-learn's contract
        """Learn the bins or clusters."""
        self._check_options()
        values = self._table(X, reset=True)
        if np.isnan(values).all():
            raise DataError("every value is missing; at least one is needed")
        random = check_random_state(self.random_state)
        if self.scope == "pooled":
            self.centers_ = _cluster_centres(_sorted_present(values), self.n_words, random)
        else:
            self.edges_ = [self._edges(_sorted_present(column), random) for column in values.T]
        return self

    def transform(self, X: Any) -> Counts:
        """Word counts: (rows, words), sparse 32-bit integers."""
        check_is_fitted(self)
        values = self._table(X, reset=False)
        if self.scope == "pooled":
            words = np.searchsorted(_midpoints(self.centers_), values)
            return _bags(words, ~np.isnan(values), len(self.centers_))
        first_word = np.concatenate(([0], np.cumsum(self._bins_per_feature())))
        words = np.zeros(values.shape, dtype=np.int64)
        present = ~np.isnan(values)
        for feature, edges in enumerate(self.edges_):
            if edges is None:
                present[:, feature] = False
            else:
                words[:, feature] = first_word[feature] + np.searchsorted(edges, values[:, feature], side="right")
        return _bags(words, present, int(first_word[-1]))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Strings:
        """Readable words: ``Att1<0.21``, ``Att1[0.21,0.35)``, ``Att1≥0.35``, or ``value≈0.21``."""
        check_is_fitted(self)
        features = self._input_names(input_features)
        if self.scope == "pooled":
            names = [f"value≈{centre}" for centre in _number_texts(self.centers_)]
        else:
            pairs = zip(features, self.edges_, strict=True)
            names = [name for feature, edges in pairs if edges is not None for name in _bin_names(feature, edges)]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _check_options(self) -> None:
        validation.require_choice(self.scope, ("feature", "pooled"), "scope")
        validation.require_choice(self.strategy, ("quantile", "kmeans"), "strategy")
        validation.require_count(self.n_bins, "n_bins", minimum=2)
        validation.require_count(self.n_words, "n_words", minimum=2)

    def _table(self, X: Any, *, reset: bool) -> Floats:
        """Input as floats that are finite or NaN."""
        if isinstance(X, Values):
            import pandas as pd

            X = pd.DataFrame(X.values, columns=X.features)
        if sparse.issparse(X):
            raise DataError("values must be dense; sparse counts need no ValueWords")
        # Feature names first and separately: scikit-learn prescribes the message of several lines about them.
        validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)
        try:
            values: Floats = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
        except ValueError as error:
            raise DataError(str(error)) from error
        infinite = np.argwhere(np.isinf(values))
        if len(infinite):
            row, feature = (int(place) for place in infinite[0])
            name = self._input_names(None)[feature]
            raise DataError(
                f"{values[row, feature]} in row {row} (counted from 0), column {name!r} is not a finite value"
            )
        return values

    def _edges(self, ordered: Floats, random: RandomState) -> Floats | None:
        """Inner edges of one feature's bins."""
        if not len(ordered):
            return None
        if self.strategy == "kmeans":
            return _cluster_edges(ordered, self.n_bins, random)
        return _quantile_edges(ordered, self.n_bins)

    def _bins_per_feature(self) -> list[int]:
        return [0 if edges is None else len(edges) + 1 for edges in self.edges_]

    def _input_names(self, given: Sequence[str] | None) -> Sequence[str]:
        known = getattr(self, "feature_names_in_", None)
        if given is None:
            return [f"x{feature}" for feature in range(self.n_features_in_)] if known is None else list(known)
        if known is not None and list(given) != list(known):
            raise DataError("input_features is not equal to feature_names_in_")
        if len(given) != self.n_features_in_:
            raise DataError(f"input_features should have length equal to number of features ({self.n_features_in_})")
        return given


def _bags(words: NDArray[np.int64], present: NDArray[np.bool_], n_words: int) -> Counts:
    """Counts of the words that are present in each row."""
    row_ends = np.concatenate(([0], np.cumsum(present.sum(axis=1))))
    indices = words[present].astype(np.int32)
    ones = np.ones(len(indices), dtype=np.int32)
    bags: Counts = sparse.csr_array((ones, indices, row_ends), shape=(len(words), n_words))
    bags.sum_duplicates()
    return bags


def _sorted_present(values: Floats) -> Floats:
    present: Floats = np.sort(values[~np.isnan(values)])
    return present


def _scaled(ordered: Floats) -> tuple[Floats, int]:
    """Values divided by a power of two, so that they are at most 1: exact, and sums do not overflow."""
    exponent = int(np.frexp(np.abs(ordered).max())[1])
    return np.ldexp(ordered, -exponent), exponent


def _quantile_edges(ordered: Floats, n_bins: int) -> Floats:
    """Edges between equally filled bins, halfway between neighbouring values.

    Equal values stay in one bin: an edge moves down to the start of its value. An edge at the smallest value moves up
    instead, so that a feature that is mostly zero still distinguishes zero from the rest.
    """
    n_below = np.arange(1, n_bins) * len(ordered) // n_bins
    n_below = np.searchsorted(ordered, ordered[n_below])
    n_below[n_below == 0] = np.searchsorted(ordered, ordered[0], side="right")
    n_below = np.unique(n_below[n_below < len(ordered)])
    below, above = ordered[n_below - 1], ordered[n_below]
    halfway = below / 2 + above / 2
    return np.where(halfway > below, halfway, above)  # there may be no number in between


def _midpoints(centres: Floats) -> Floats:
    below, above = centres[:-1], centres[1:]
    halfway = below / 2 + above / 2
    return np.where(halfway < above, halfway, below)  # there may be no number in between


def _cluster_edges(ordered: Floats, n_bins: int, random: RandomState) -> Floats:
    """Edges between clusters, halfway between their centres."""
    edges = _midpoints(_cluster_centres(ordered, n_bins, random))
    n_below, first = np.unique(np.searchsorted(ordered, edges), return_index=True)
    return edges[first[(n_below > 0) & (n_below < len(ordered))]]


def _cluster_centres(ordered: Floats, n_clusters: int, random: RandomState) -> Floats:
    """Centres of k-means on a line, ascending: the best of a few k-means++ starts.

    Clusters of numbers are intervals, so with cumulative sums an iteration costs one binary search per cluster.
    """
    from sklearn.cluster import kmeans_plusplus

    distinct = np.unique(ordered)
    if len(distinct) <= n_clusters:
        return distinct
    scaled, exponent = _scaled(ordered)
    sample = np.unique(scaled[np.linspace(0, len(scaled) - 1, min(_START_SAMPLE, len(scaled))).astype(np.int64)])
    starts = [
        kmeans_plusplus(sample[:, None], min(n_clusters, len(sample)), random_state=random)[0] for _ in range(_N_STARTS)
    ]
    solutions = [_lloyd(scaled, np.unique(start)) for start in starts]
    return np.ldexp(min(solutions, key=lambda centres: _squared_distance(scaled, centres)), exponent)


def _squared_distance(ordered: Floats, centres: Floats) -> float:
    nearest = centres[np.searchsorted(_midpoints(centres), ordered)]
    return float(np.square(ordered - nearest).sum())


def _lloyd(ordered: Floats, centres: Floats) -> Floats:
    sums = np.concatenate(([0.0], np.cumsum(ordered)))
    ends = np.empty(0, dtype=np.int64)
    for _ in range(_MAX_LLOYD_STEPS):
        previous_ends = ends
        ends = np.concatenate((np.searchsorted(ordered, _midpoints(centres)), [len(ordered)]))
        ends = np.unique(ends[ends > 0])  # an interval without values is not a cluster
        if np.array_equal(ends, previous_ends):
            break
        starts = np.concatenate(([0], ends[:-1]))
        means = (sums[ends] - sums[starts]) / (ends - starts)
        centres = np.clip(means, ordered[starts], ordered[ends - 1])  # rounding must not reorder the centres
    return centres


def _number_texts(numbers: Floats) -> list[str]:
    """Numbers with three digits, or with more if needed to be distinct."""
    for digits in range(3, 18):
        texts = [f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(texts):
            break
    return texts


def _bin_names(feature: str, edges: Floats) -> list[str]:
    if not len(edges):
        return [feature]
    texts = _number_texts(edges)
    inner = [f"{feature}[{low},{high})" for low, high in pairwise(texts)]
    return [f"{feature}<{texts[0]}", *inner, f"{feature}≥{texts[-1]}"]
