"""Features of a shard folder, read when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Rows
    from palda.io.shards.reader import ShardReader


class MappedFeatures:
    """Features (documents, columns) on disk; rows are read when they are asked for. Pickled as the path."""

    def __init__(self, reader: ShardReader) -> None:
        self.reader = reader

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedFeatures, (self.reader,)

    def __repr__(self) -> str:
        n_docs, n_columns = self.shape
        return f"MappedFeatures({n_docs:,} x {n_columns:,}, {self.dtype} in {str(self.reader.path)!r})"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of columns."""
        return self.reader.manifest.documents, self.reader.manifest.features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Single or double precision."""
        return np.dtype(self.reader.manifest.feature_type)

    def __getitem__(self, rows: Rows) -> NDArray[np.floating[Any]]:
        """Some rows, in memory."""
        chosen = self.reader.selected(rows)
        values = np.empty((chosen.length, self.shape[1]), dtype=self.dtype)
        start = 0
        for number, within in chosen.pieces:
            part: Any = self.reader.shard(number).features
            stop = start + (within.stop - within.start if isinstance(within, slice) else len(within))
            values[start:stop] = part[within]
            start = stop
        return values if chosen.order is None else values[chosen.order]
