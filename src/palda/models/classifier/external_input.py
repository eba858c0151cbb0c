"""What an external classifier reads: word counts, and the columns of a feature table beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from palda.errors import DataError

if TYPE_CHECKING:
    from palda.data import Counts, EncodedFeatures, Strings


def takes_named_columns(classifier: Any) -> bool:
    """Whether a classifier is a pipeline that starts with a ``ColumnTransformer``, which selects columns by name."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    while isinstance(classifier, Pipeline) and classifier.steps:
        classifier = classifier.steps[0][1]
    return isinstance(classifier, ColumnTransformer)


def external_input(counts: Counts, features: EncodedFeatures | None, word_names: Strings | None = None) -> Any:
    """Documents as an external classifier reads them.

    Without features, word counts as they are. With features, a sparse matrix of word counts and standardised columns;
    or, with ``word_names``, a data frame with one column per feature and per word, both by name, in which features are
    as they were given: numbers, or categories.
    """
    if word_names is not None:
        return _frame(counts, features, word_names)
    if features is None:
        return counts
    return sparse.csr_array(sparse.hstack([counts, sparse.csr_array(features.standardised())]))


def check_column_names(features: EncodedFeatures | None, word_names: Strings | None) -> None:
    """Raise ``DataError`` if a feature has the name of a word."""
    if features is None or word_names is None:
        return
    both = set(features.columns.names) & set(word_names)
    if both:
        raise DataError(f"the feature {min(both)!r} has the name of a word; rename the feature")


def _frame(counts: Counts, features: EncodedFeatures | None, word_names: Strings) -> Any:
    import pandas as pd

    from_sparse: Any = pd.DataFrame.sparse
    words = from_sparse.from_spmatrix(counts, columns=[str(name) for name in word_names])
    if features is None:
        return words
    rows = features.values[:]  # noqa: PD011 - no data frame
    columns: dict[str, Any] = {}
    for position, name in enumerate(features.columns.names):
        categories = features.columns.categories[position]
        columns[name] = rows[:, position]
        if categories is not None:
            codes = np.nan_to_num(rows[:, position], nan=-1.0).astype(np.int64)
            columns[name] = np.append(categories, [None])[codes]  # None is at -1
    return pd.concat([pd.DataFrame(columns), words], axis=1)
