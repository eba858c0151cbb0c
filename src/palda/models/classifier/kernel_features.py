"""Kernel features: a linear model of them approximates one with a Laplacian kernel (maths, eqs. 88 and 89).

The kernel exp(-rate · Σ |difference|) of two documents' standardised columns is compared with that of some training
documents, the landmarks (Nyström approximation), and reduced to principal components. Documents that are close in most
columns get similar labels, which a linear model of the columns cannot express.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from palda.data import ArraySpec
from palda.engine import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array, EncodedFeatures

MAX_LANDMARKS, MAX_KERNEL_COLUMNS, KERNEL_RATE = 1500, 400, 2.0
"""Landmarks, principal components that are kept, and the rate of the kernel in units of 1 / median distance.

Log-likelihood per label of held-out training documents of yeast and scene, kernel and columns alone: with a quarter,
half and all of the documents as landmarks -.426 -.424 -.422 and -.184 -.181 -.178; with 200 and 400 components -.422
-.422 and -.178 -.177; with rates of 1, 2 and 3 -.425 -.424 -.426 and -.179 -.181 -.184.
"""
_MAX_OPERATIONS = 4e9  # documents · landmarks · columns: about two seconds
_MIN_LANDMARKS = 50
_N_PAIRS = 1000  # random pairs of documents, for the median distance
_SQUARED_LENGTH = 200.0  # mean squared length of a document's features, so that penalties are comparable
_MIN_EIGENVALUE = 1e-6  # of the kernel of the landmarks, relative to the largest
_MIN_CHANGE = 1e-9  # of a distance, below which it is not divided among columns
_DOCS_PER_BLOCK = 1024

KERNEL_ARRAYS = {
    "kernel.landmarks": ArraySpec(("landmarks", "feature columns"), "float32", group="kernel"),
    "kernel.rate": ArraySpec((), above=0.0, group="kernel"),
    "kernel.mixing": ArraySpec(("landmarks", "kernel features"), group="kernel"),
    "kernel.offset": ArraySpec(("kernel features",), group="kernel"),
}
"""Schema of kernel features in a file."""


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """Maps standardised columns of documents to kernel features."""

    landmarks: NDArray[np.float32]  # (landmarks, columns)
    rate: float
    mixing: Array  # (landmarks, features)
    offset: Array  # (features,)

    def similarities(self, columns: NDArray[Any]) -> Array:
        """Kernel (documents, landmarks) of documents and landmarks."""
        from scipy.spatial.distance import cdist

        kernel: Array = cdist(columns, self.landmarks, "cityblock")
        kernel *= -self.rate
        return np.exp(kernel, out=kernel)

    def apply(self, columns: NDArray[Any]) -> Array:
        """Features (documents, features) of documents, from their standardised columns."""
        with one_blas_thread():
            features: Array = self.similarities(columns) @ self.mixing + self.offset
        return features

    def column_shares(self, columns: Array, coef: Array) -> Array:
        """Share (documents, columns, classes) of each column in scores with coefficients (features, classes).

        Between the mean document, whose columns are 0, and this one, the change of a kernel is divided in proportion to
        what each column adds to the distance. Shares add up to the score minus that of the mean document.
        """
        weights = self.mixing @ coef  # (landmarks, classes)
        at_mean = np.exp(-self.rate * np.abs(self.landmarks).sum(axis=1, dtype=np.float64))
        shares = np.empty((*columns.shape, coef.shape[1]))
        for row, document in enumerate(columns):
            changes = np.abs(document - self.landmarks) - np.abs(self.landmarks)  # (landmarks, columns)
            total = changes.sum(axis=1)
            is_zero = np.abs(total) < _MIN_CHANGE
            difference = self.similarities(document[None])[0] - at_mean
            slopes = np.where(is_zero, -self.rate * at_mean, difference / np.where(is_zero, 1.0, total))
            shares[row] = changes.T @ (slopes[:, None] * weights)
        return shares

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All fields as arrays of a file."""
        own = {"landmarks": self.landmarks, "rate": np.asarray(self.rate), "mixing": self.mixing, "offset": self.offset}
        return {f"kernel.{name}": array for name, array in own.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """The features among arrays of a file, if there are any."""
        if "kernel.rate" not in arrays:
            return None
        names = ("landmarks", "rate", "mixing", "offset")
        landmarks, rate, mixing, offset = (arrays[f"kernel.{name}"] for name in names)
        return cls(landmarks, float(rate), mixing, offset)


def fit_kernel_features(features: EncodedFeatures, seed: int) -> KernelFeatures | None:
    """Kernel features with random training documents as landmarks; None if most documents are alike."""
    rng = np.random.default_rng(seed)
    n_docs = features.n_docs
    affordable = int(_MAX_OPERATIONS / (max(n_docs, 1) * len(features.columns)))
    n_landmarks = min(n_docs, max(_MIN_LANDMARKS, min(MAX_LANDMARKS, affordable)))
    chosen = np.sort(rng.choice(n_docs, n_landmarks, replace=False))
    landmarks = features.standardised(chosen, np.float32)
    here, there = rng.integers(0, n_landmarks, (2, _N_PAIRS))
    distance = float(np.median(np.abs(landmarks[here] - landmarks[there]).sum(axis=1, dtype=np.float64)))
    if distance <= _MIN_CHANGE:
        return None
    raw = KernelFeatures(landmarks, KERNEL_RATE / distance, np.eye(n_landmarks), np.zeros(n_landmarks))
    with one_blas_thread():
        return _principal_components(raw)


def _principal_components(raw: KernelFeatures) -> KernelFeatures:
    """The features reduced to the principal components of the landmarks, in units in which documents are comparable.

    With K the kernel of the landmarks, K^(-1/2) times the kernel of a document is its place in the space of the kernel.
    """
    kernel = raw.similarities(raw.landmarks)
    values, vectors = np.linalg.eigh(kernel)
    kept = values > _MIN_EIGENVALUE * values[-1]
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    places = kernel @ whitening
    mean = places.mean(axis=0)
    places -= mean
    _, components = np.linalg.eigh(places.T @ places)
    directions = components[:, ::-1][:, :MAX_KERNEL_COLUMNS]
    length = np.sqrt(np.mean(np.sum(np.square(places @ directions), axis=1)))
    mixing = np.ascontiguousarray(whitening @ directions) * (np.sqrt(_SQUARED_LENGTH) / length)
    offset = -(mean @ directions) * (np.sqrt(_SQUARED_LENGTH) / length)
    return KernelFeatures(raw.landmarks, raw.rate, mixing, offset)


def kernel_rows(features: EncodedFeatures, kernel: KernelFeatures | None, dtype: Any) -> NDArray[Any] | None:
    """Kernel features (documents, features), computed block by block."""
    if kernel is None:
        return None
    values = np.empty((features.n_docs, len(kernel.offset)), dtype=dtype)
    for start in range(0, len(values), _DOCS_PER_BLOCK):
        rows = slice(start, start + _DOCS_PER_BLOCK)
        values[rows] = kernel.apply(features.standardised(rows))
    return values
