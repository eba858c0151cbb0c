"""Agreement within a crowd: Krippendorff's alpha for single classes and for whole label sets.

Alpha is 1 - observed / expected disagreement. Observed disagreement is the mean distance between two judgements of one
document, expected disagreement that between any two judgements. Documents with a single judgement are left out of both.
1 is perfect agreement, 0 agreement by chance, below 0 systematic disagreement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from palda.errors import DataError
from palda.metrics.inputs import ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.metrics.inputs import Floats

    Ints: TypeAlias = NDArray[np.int64]
    Sizes: TypeAlias = NDArray[np.int32]
    SetDistance: TypeAlias = Callable[[Sizes, Sizes, Sizes], Floats]

_BLOCK_PAIRS = 1 << 16
"""Pairs of sets compared at a time: few enough for the processor's cache."""

_MIN_PAIRS = 1000
"""Minimum number of sampled pairs."""

_MAX_SETS_PER_STEP = 100
"""Documents with more distinct sets than this are processed one by one."""

_MIN_DOCS = 5
"""Minimum number of documents for a standard error."""

_TINY_SHARE = 1e-9  # of the expected disagreement: what rounding leaves of 0

_NAN = float("nan")


def krippendorff_alpha(votes: Votes) -> Floats:
    """Nominal alpha of each class, over the documents where at least two annotators judged it.

    Parameters
    ----------
    votes : Votes
        The votes.

    Returns
    -------
    array of shape (classes,)
        Alpha of each class; NaN if no document has two judgements of the class, or if all votes on it are equal.

    Examples
    --------
    >>> from palda import Votes, metrics
    >>> votes = Votes.from_array([[[1], [1]], [[0], [0]], [[1], [0]]])  # 3 documents, 2 annotators, 1 class
    >>> metrics.krippendorff_alpha(votes).round(3)
    array([0.444])
    """
    label, yes, no = _judged_cells(votes)
    repeated = yes + no >= 2
    label, yes, no = label[repeated], yes[repeated], no[repeated]

    def by_class(values: NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(label, weights=values, minlength=votes.n_classes), dtype=np.float64)

    disagreement, n_yes, n_no = by_class(yes * no / (yes + no - 1)), by_class(yes), by_class(no)
    return 1 - ratio((n_yes + n_no - 1) * disagreement, n_yes * n_no)


def _judged_cells(votes: Votes) -> tuple[Ints, Ints, Ints]:
    """Class, votes for "present" and votes for "absent" of every (document, class) that has votes."""
    cell = votes.doc.astype(np.int64) * votes.n_classes + votes.label
    # sorting cell and vote as one number is several times faster than sorting by cell
    codes, count = np.unique(2 * cell + votes.value, return_counts=True)
    cell, is_yes = np.divmod(codes, 2)
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    if not len(starts):
        return cell, cell, cell
    yes, no = np.add.reduceat(count * is_yes, starts), np.add.reduceat(count * (1 - is_yes), starts)
    return cell[starts] % votes.n_classes, yes, no


@dataclass(frozen=True)
class SetAgreement:
    """Krippendorff's alpha of label sets.

    Attributes
    ----------
    alpha : float
        1 - ``observed`` / ``expected``.
    observed, expected : float
        Observed and expected disagreement.
    standard_error : float
        Standard error of alpha over documents like these, judged by the same annotators: a jackknife that leaves out
        one document at a time, and the error of sampled pairs. NaN if it cannot be computed: with fewer than 5
        documents, without any disagreement, or if all sets but those of one document are equal.
    n_docs, n_annotations : int
        Number of documents and of complete annotations used.
    n_partial : int
        Number of annotations left out because they do not judge every class.
    """

    alpha: float
    observed: float
    expected: float
    standard_error: float
    n_docs: int
    n_annotations: int
    n_partial: int


def label_set_alpha(
    votes: Votes,
    distance: Literal["masi", "jaccard"] = "masi",
    *,
    max_pairs: int = 300_000_000,
    random_state: int = 0,
) -> SetAgreement:
    """Alpha of label sets: a judgement is the set of all classes that an annotator marked in a document.

    The Jaccard distance of two sets is ``1 - |both| / |either|``. MASI (Passonneau 2006) multiplies that ratio by 1 for
    equal sets, 2/3 if one contains the other and 1/3 if they overlap otherwise. Two empty sets are equal. Only
    annotations of every class that has votes are used.

    Parameters
    ----------
    votes : Votes
        The votes.
    distance : "masi" or "jaccard", default "masi"
        Distance of two label sets.
    max_pairs : int, default 300,000,000
        Above this number of pairs of distinct sets, the expected disagreement is estimated, without bias, from as many
        random pairs of annotations. Otherwise it is exact, as the observed disagreement always is.
    random_state : int, default 0
        Random seed of the sampled pairs.

    Returns
    -------
    SetAgreement
        Alpha and its parts; alpha is NaN if no document has two complete annotations, or if all sets are equal.

    Examples
    --------
    >>> from palda import Votes, metrics
    >>> votes = Votes.from_array([[[1, 1], [1, 0]], [[0, 1], [0, 1]]])  # 2 documents, 2 annotators, 2 classes
    >>> round(metrics.label_set_alpha(votes, "jaccard").alpha, 3)
    0.571
    """
    measure = _DISTANCES.get(distance)
    if measure is None:
        raise DataError(f"distance is {distance!r}; choose 'masi' or 'jaccard'")
    if max_pairs < _MIN_PAIRS:
        raise DataError(f"max_pairs is {max_pairs}; fewer than {_MIN_PAIRS} pairs do not give a usable estimate")
    doc, marks, n_partial = _complete_annotations(votes)
    n_annotations = np.bincount(doc, minlength=votes.n_docs)
    paired = n_annotations[doc] >= 2
    doc, marks = doc[paired], marks[paired]
    if not len(doc):
        return SetAgreement(_NAN, _NAN, _NAN, _NAN, n_docs=0, n_annotations=0, n_partial=n_partial)
    sets, code = _LabelSets.distinct(marks)
    within = _distances_within(doc, code, sets, n_annotations, measure)
    observed = float(within.sum()) / len(doc)
    anywhere = _distances_anywhere(code, sets, measure, max_pairs, np.random.default_rng(random_state))
    expected = float(anywhere.means.mean())
    sampling_error = observed / expected**2 * anywhere.error if expected else _NAN
    return SetAgreement(
        alpha=1 - observed / expected if expected else _NAN,
        observed=observed,
        expected=expected,
        standard_error=float(np.hypot(_jackknife_error(doc, within, anywhere.means), sampling_error)),
        n_docs=int(np.count_nonzero(n_annotations >= 2)),
        n_annotations=len(doc),
        n_partial=n_partial,
    )


def _jaccard(shared: Sizes, size: Sizes, other_size: Sizes) -> Floats:
    return 1 - shared / (size + other_size - shared)


def _masi(shared: Sizes, size: Sizes, other_size: Sizes) -> Floats:
    either: Sizes = size + other_size - shared
    # 3 thirds for equal sets, 2 if one contains the other, 1 if they overlap; disjoint sets have shared == 0
    thirds: Sizes = 1 + (shared == size).view(np.int8) + (shared == other_size)
    return 1 - shared * thirds / (3 * either)


_DISTANCES: dict[str, SetDistance] = {"masi": _masi, "jaccard": _jaccard}
"""Distances from the number of shared classes and the size of each set; no set may be empty."""


def _complete_annotations(votes: Votes) -> tuple[Ints, NDArray[np.bool_], int]:
    """Documents and marks (annotations, judged classes) of complete annotations, and the number of partial ones."""
    n_judged = np.count_nonzero(np.bincount(votes.label, minlength=votes.n_classes))
    annotation = votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator
    starts = np.flatnonzero(np.diff(annotation, prepend=-1))
    complete = np.diff(starts, append=len(votes)) == n_judged
    # votes are sorted by class within an annotation, so columns of complete annotations are the same classes
    rows = starts[complete][:, np.newaxis] + np.arange(n_judged)
    return votes.doc[starts[complete]].astype(np.int64), votes.value[rows] == 1, int(np.count_nonzero(~complete))


@dataclass(frozen=True, eq=False)
class _LabelSets:
    """Label sets as bits, so that an intersection is an AND and its size a popcount.

    The empty set has a bit of its own: it then equals itself and shares nothing with other sets, and no union is empty.
    """

    bits: tuple[NDArray[Any], ...]
    sizes: Sizes

    @classmethod
    def distinct(cls, marks: NDArray[np.bool_]) -> tuple[_LabelSets, Ints]:
        """Distinct sets among rows of marks, and the index of each row's set."""
        with_empty = np.column_stack((marks, ~marks.any(axis=1)))
        octets = np.packbits(with_empty, axis=1)
        n_octets = octets.shape[1]
        width = next((w for w in (1, 2, 4) if w >= n_octets), 8)
        padded = np.zeros((len(marks), -(-n_octets // width) * width), dtype=np.uint8)
        padded[:, :n_octets] = octets
        words = padded.view(f"u{width}").T
        code = np.zeros(len(marks), dtype=np.int64)
        for word in words:
            _, word_code = np.unique(word, return_inverse=True)
            _, first, code = np.unique(code * len(marks) + word_code, return_index=True, return_inverse=True)
        sizes = np.count_nonzero(with_empty[first], axis=1).astype(np.int32)
        return cls(tuple(word[first] for word in words), sizes), code

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, which: Any) -> _LabelSets:
        """Some of the sets."""
        return _LabelSets(tuple(word[which] for word in self.bits), self.sizes[which])

    def distances(self, others: _LabelSets, measure: SetDistance) -> Floats:
        """Distance of each set to the other set at the same position, with broadcasting."""
        shared = np.zeros(1, dtype=np.int32)
        for word, other in zip(self.bits, others.bits, strict=True):
            shared = shared + np.bitwise_count(word & other)
        return measure(shared, self.sizes, others.sizes)


def _distances_within(doc: Ints, code: Ints, sets: _LabelSets, n_annotations: Ints, measure: SetDistance) -> Floats:
    """(documents,): sum over an annotation's mean distances to the others of its document."""
    cells, n_equal = np.unique(doc * len(sets) + code, return_counts=True)
    doc_of, code_of = np.divmod(cells, len(sets))
    n_sets = np.bincount(doc_of)
    within = np.zeros(len(n_annotations))
    for one_doc in np.flatnonzero(n_sets > _MAX_SETS_PER_STEP):
        inside = slice(*np.searchsorted(doc_of, [one_doc, one_doc + 1]))
        counts = n_equal[inside]
        distances = _distance_sums(sets.take(code_of[inside]), counts, measure)
        within[one_doc] = float(counts @ distances) / float(n_annotations[one_doc] - 1)

    n_after = np.searchsorted(doc_of, doc_of, side="right") - np.arange(len(cells)) - 1
    step, here = 1, np.flatnonzero((n_after >= 1) & (n_sets[doc_of] <= _MAX_SETS_PER_STEP))
    while len(here):  # all documents at once: each set and the one ``step`` positions later in the same document
        there = here + step
        distances = sets.take(code_of[here]).distances(sets.take(code_of[there]), measure)
        weights = 2 * n_equal[here] * n_equal[there] / (n_annotations[doc_of[here]] - 1)
        within += np.bincount(doc_of[here], distances * weights, minlength=len(within))
        step += 1
        here = here[n_after[here] >= step]
    return within


def _distance_sums(sets: _LabelSets, counts: Ints, measure: SetDistance) -> Floats:
    """(sets,): sum of the distances of each set to all annotations; ``counts`` annotations have each set."""
    height = max(1, _BLOCK_PAIRS // len(sets))
    weights = counts.astype(np.float64)
    sums = np.zeros(len(sets))
    for start in range(0, len(sets), height):
        rows, later = slice(start, start + height), slice(start + height, None)
        distances = sets.take((rows, np.newaxis)).distances(sets.take(slice(start, None)), measure)
        sums[rows] += distances @ weights[start:]
        sums[later] += weights[rows] @ distances[:, height:]  # pairs that reach beyond this block are visited once
    return sums


class _PairDistances(NamedTuple):
    """Mean distance of each annotation to all others, and the standard error of the mean over all annotations."""

    means: Floats
    error: float = 0.0


def _distances_anywhere(
    code: Ints, sets: _LabelSets, measure: SetDistance, max_pairs: int, rng: np.random.Generator
) -> _PairDistances:
    """Distances of any two annotations: all of them, or sampled ones if there are more than ``max_pairs``."""
    if len(sets) * (len(sets) - 1) // 2 <= max_pairs:
        return _PairDistances(_distance_sums(sets, np.bincount(code), measure)[code] / (len(code) - 1))
    order = rng.permutation(len(code))
    shuffled, error = _sampled_distances(sets.take(code[order]), measure, max_pairs, rng)
    means = np.empty(len(code))
    means[order] = shuffled
    return _PairDistances(means, error)


def _sampled_distances(
    shuffled: _LabelSets, measure: SetDistance, max_pairs: int, rng: np.random.Generator
) -> _PairDistances:
    """Mean distances over random rotations of the shuffled annotations against themselves.

    Every annotation occurs equally often in a rotation, so the estimate varies less than one from independent pairs.
    """
    n = len(shuffled)
    n_shifts = (n - 1) // 2  # larger shifts give the same pairs
    shifts = 1 + rng.choice(n_shifts, size=min(max(2, max_pairs // n), n_shifts), replace=False)
    sums = np.zeros(n)
    rotation_means = np.array([_add_rotation(sums, shuffled, int(shift), measure) for shift in shifts])
    return _PairDistances(sums / (2 * len(shifts)), float(rotation_means.std(ddof=1) / np.sqrt(len(shifts))))


def _add_rotation(sums: Floats, sets: _LabelSets, shift: int, measure: SetDistance) -> float:
    """Add the distances of all pairs that are ``shift`` apart to the sums of both annotations; returns their mean."""
    n = len(sets)
    total = 0.0
    for begin, end, offset in ((0, n - shift, shift), (n - shift, n, shift - n)):
        for start in range(begin, end, _BLOCK_PAIRS):
            here = slice(start, min(start + _BLOCK_PAIRS, end))
            there = slice(here.start + offset, here.stop + offset)
            distances = sets.take(here).distances(sets.take(there), measure)
            sums[here] += distances
            sums[there] += distances
            total += float(distances.sum())
    return total / n


def _jackknife_error(doc: Ints, within: Floats, means: Floats) -> float:
    """Standard error of alpha from its values without one document each.

    ``within`` (documents,) is that of ``_distances_within``, ``means`` (annotations,) the mean distance of each
    annotation to all others. Documents are the sampling units: judgements of one document are not independent.
    """
    n_total = len(doc)
    own = np.bincount(doc, minlength=len(within))
    used = own >= 2
    n_docs = int(np.count_nonzero(used))
    if n_docs < _MIN_DOCS or not within.any():
        return _NAN
    sums = np.bincount(doc, means * (n_total - 1), minlength=len(within))[used]  # distances to all annotations
    own, within_used = own[used], within[used]
    rest = n_total - own
    observed = (within.sum() - within_used) / rest
    # a pair inside of the document is in the sum of either annotation, but in the total of ordered pairs only once each
    ordered = means.sum() * (n_total - 1) - 2 * sums + within_used * (own - 1)
    expected = ordered / (rest * (rest - 1))
    if expected.min() <= _TINY_SHARE * means.mean():
        return _NAN
    alphas = 1 - observed / expected
    return float(np.sqrt((n_docs - 1) / n_docs * np.sum((alphas - alphas.mean()) ** 2)))
