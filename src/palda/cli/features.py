"""Features of documents: from files beside the documents, from shard folders, and from documents that are numbers."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palda.cli.options import FeatureFiles
    from palda.data import Dataset, FeatureTable
    from palda.estimators import PALDA, CrowdPALDA
    from palda.io import FeatureReader, FeatureSource, ShardFolder


def training_features(
    files: FeatureFiles, data: Dataset | ShardFolder, reading: dict[str, Any], label_prior: str
) -> FeatureTable | None:
    """Features of all documents: those of the file, else the values of documents that are numbers.

    None if there are none, or if they are those of a shard folder.
    """
    from palda.data import Dataset, Values
    from palda.io import load_features

    if label_prior == "base_rate":
        if files.path is not None:
            raise PaldaError("--label-prior base_rate reads no features; leave out --features, or use stacked")
        return None
    if files.path is not None:
        return load_features(_source(files, reading), data.doc_ids)
    is_numeric = isinstance(data, Dataset) and isinstance(data.corpus, Values)
    return data.corpus.feature_table() if is_numeric else None  # type: ignore[union-attr]


def _source(files: FeatureFiles, reading: dict[str, Any], categorical: frozenset[str] = frozenset()) -> FeatureSource:
    """The file of features; columns of the documents that were named may be in it as well."""
    from palda.io import FeatureSource

    if files.path is None:
        raise TypeError("there is no file of features")
    text = reading.get("text")
    return FeatureSource(
        files.path, files.ids, reading.get("id"), reading.get("encoding"), id_required=False,
        ignored=() if text is None else (text,), categorical=categorical,
    )  # fmt: skip


@dataclass(frozen=True)
class NewFeatures:
    """Features of new documents, as a model needs them."""

    model: PALDA | CrowdPALDA
    reader: FeatureReader | None

    def of(self, documents: Any, first: int = 0) -> FeatureTable | None:
        """Features of some documents, of which ``first`` is the number of documents before them."""
        from palda.data import Values

        if self.reader is not None:
            return self.reader.rows(documents.doc_ids, first)
        if self.model.feature_names_ is None:
            return None
        if isinstance(documents, Values):
            return documents.feature_table()
        raise _missing(self.model)

    def of_training(self) -> FeatureTable | None:
        """Features of the training documents from the file; None if there is no file."""
        if self.reader is None:
            return None
        doc_ids = getattr(self.model, "doc_ids_", None)  # a PALDA does not know them
        if doc_ids is None:
            return self.reader.table
        self.check_end(len(doc_ids))
        return self.reader.rows(doc_ids, 0)

    def of_folder(self, folder: ShardFolder, rows: slice) -> FeatureTable | None:
        """Features of some documents of a shard folder."""
        from palda.data import FeatureTable

        if self.reader is not None:
            return self.reader.rows(folder.ids(rows), rows.start)
        if self.model.feature_names_ is None:
            return None
        if folder.features is None:
            raise _missing(self.model)
        table = folder.features
        return FeatureTable(table.values[rows], table.names, table.categories)

    def check_end(self, n_docs: int) -> None:
        """Raise if the file has rows in the order of the documents, but not as many."""
        if self.reader is not None:
            self.reader.check_length(n_docs)


@contextmanager
def new_features(
    files: FeatureFiles, model: PALDA | CrowdPALDA, reading: dict[str, Any] | None = None
) -> Iterator[NewFeatures]:
    """Features of new documents; those of a table are in a temporary file as long as the context lasts."""
    from palda.io import open_features

    if files.path is None:
        yield NewFeatures(model, None)
        return
    if model.feature_names_ is None:
        raise PaldaError("the model was fitted without features; leave out --features, or fit it with features")
    with tempfile.TemporaryDirectory(prefix="palda-", ignore_cleanup_errors=True) as folder:
        categorical = frozenset(model.feature_categories_)
        yield NewFeatures(model, open_features(_source(files, reading or {}, categorical), Path(folder)))


def _missing(model: PALDA | CrowdPALDA) -> PaldaError:
    names = [] if model.feature_names_ is None else [str(name) for name in model.feature_names_[:3]]
    more = "" if model.feature_names_ is None or len(model.feature_names_) <= len(names) else ", ..."
    return PaldaError(
        f"the model was fitted with features ({', '.join(names)}{more}); give those of the documents with --features"
    )
