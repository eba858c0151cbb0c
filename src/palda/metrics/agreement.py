"""How far a crowd agrees with itself: Krippendorff's alpha for single classes and for whole label sets.

Alpha is 1 - observed / expected disagreement. Observed is the mean distance between two judgements of one document,
expected the mean distance between any two judgements; documents with a single judgement say nothing and are left out
of both. 1 is perfect agreement, 0 what chance gives, below 0 systematic disagreement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from palda.errors import DataError
from palda.metrics.tables import ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.metrics.tables import Floats

    Ints: TypeAlias = NDArray[np.int64]
    Sizes: TypeAlias = NDArray[np.int32]
    SetDistance: TypeAlias = Callable[[Sizes, Sizes, Sizes], Floats]

__all__ = ["SetAgreement", "krippendorff_alpha", "label_set_alpha"]

_BLOCK_PAIRS = 1 << 16
"""Pairs of sets that are compared at a time: few enough to stay in the processor's cache."""

_FEWEST_PAIRS = 1000
"""Smallest sample of pairs that gives a usable estimate."""

_MANY_SETS = 100
"""A document with more distinct sets than this is worth a table of its own."""

_NAN = float("nan")


def krippendorff_alpha(votes: Votes) -> Floats:
    """Nominal alpha of each class, over the documents where at least two annotators judged it.

    NaN for a class that no document has two judgements of, and for one that got the same vote everywhere: where
    nothing varies, agreement cannot be told from habit.
    """
    label, yes, no = _judged_cells(votes)
    several = yes + no >= 2
    label, yes, no = label[several], yes[several], no[several]

    def by_class(amount: NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(label, weights=amount, minlength=votes.n_classes), dtype=np.float64)

    clashes, n_yes, n_no = by_class(yes * no / (yes + no - 1)), by_class(yes), by_class(no)
    return 1 - ratio((n_yes + n_no - 1) * clashes, n_yes * n_no)


def _judged_cells(votes: Votes) -> tuple[Ints, Ints, Ints]:
    """Class, votes for "present" and votes for "absent" of every (document, class) that has votes."""
    cell = votes.doc.astype(np.int64) * votes.n_classes + votes.label
    # sorting cell and vote as one number is several times faster than sorting votes by cell
    found, count = np.unique(2 * cell + votes.value, return_counts=True)
    cell, is_yes = np.divmod(found, 2)
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    if not len(starts):
        return cell, cell, cell
    yes, no = np.add.reduceat(count * is_yes, starts), np.add.reduceat(count * (1 - is_yes), starts)
    return cell[starts] % votes.n_classes, yes, no


@dataclass(frozen=True)
class SetAgreement:
    """Krippendorff's alpha of label sets and what it rests on.

    ``standard_error`` is what sampling pairs adds to alpha's uncertainty: 0 when every pair was compared.
    ``n_partial`` counts the annotations left out because they do not judge every class.
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
    """Alpha over documents where a judgement is the whole set of classes that an annotator marked.

    The Jaccard distance of two sets is ``1 - |both| / |either|``; MASI (Passonneau 2006) multiplies that ratio by 1
    for equal sets, 2/3 when one contains the other and 1/3 when they merely overlap. Two empty sets are equal.

    A set is known only when its annotator judged every class, so partial annotations are left out, and counted;
    classes without any vote are not asked for. Alpha is NaN when no document has two complete annotations, or when
    all sets are the same.

    Observed disagreement is exact. So is expected disagreement while there are at most ``max_pairs`` pairs of
    distinct sets; beyond that it is estimated from as many random pairs of annotations, without bias, seeded by
    ``random_state``.
    """
    measure = _DISTANCES.get(distance)
    if measure is None:
        raise DataError(f"distance is {distance!r}; choose 'masi' or 'jaccard'")
    if max_pairs < _FEWEST_PAIRS:
        raise DataError(f"max_pairs is {max_pairs}; fewer than {_FEWEST_PAIRS} pairs give no usable estimate")
    doc, marks, n_partial = _complete_annotations(votes)
    together = np.bincount(doc, minlength=votes.n_docs)
    paired = together[doc] >= 2
    doc, marks = doc[paired], marks[paired]
    if not len(doc):
        return SetAgreement(_NAN, _NAN, _NAN, _NAN, n_docs=0, n_annotations=0, n_partial=n_partial)
    sets, code = _LabelSets.distinct(marks)
    observed = _observed_disagreement(doc, code, sets, together, measure)
    expected, error = _expected_disagreement(code, sets, measure, max_pairs, np.random.default_rng(random_state))
    return SetAgreement(
        alpha=1 - observed / expected if expected else _NAN,
        observed=observed,
        expected=expected,
        standard_error=observed / expected**2 * error if expected else _NAN,
        n_docs=int(np.count_nonzero(together >= 2)),
        n_annotations=len(doc),
        n_partial=n_partial,
    )


def _jaccard(shared: Sizes, size: Sizes, other_size: Sizes) -> Floats:
    return 1 - shared / (size + other_size - shared)


def _masi(shared: Sizes, size: Sizes, other_size: Sizes) -> Floats:
    either: Sizes = size + other_size - shared
    # 3 thirds for equal sets, 2 when one contains the other, 1 when they overlap; disjoint sets share nothing anyway
    thirds: Sizes = 1 + (shared == size).view(np.int8) + (shared == other_size)
    return 1 - shared * thirds / (3 * either)


_DISTANCES: dict[str, SetDistance] = {"masi": _masi, "jaccard": _jaccard}
"""Both distances depend only on how many classes two sets share and how many each holds; no set may be empty."""


def _complete_annotations(votes: Votes) -> tuple[Ints, NDArray[np.bool_], int]:
    """Documents and marks (annotations, judged classes) of the complete annotations, and how many are partial."""
    n_judged = np.count_nonzero(np.bincount(votes.label, minlength=votes.n_classes))
    annotation = votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator
    starts = np.flatnonzero(np.diff(annotation, prepend=-1))
    complete = np.diff(starts, append=len(votes)) == n_judged
    # votes are sorted by class within an annotation, so the rows of complete ones line up
    rows = starts[complete][:, np.newaxis] + np.arange(n_judged)
    return votes.doc[starts[complete]].astype(np.int64), votes.value[rows] == 1, int(np.count_nonzero(~complete))


@dataclass(frozen=True, eq=False)
class _LabelSets:
    """Label sets as bits, so that an intersection is an AND and its size a popcount.

    The empty set is given one bit of its own: it then equals itself and shares nothing with any other set, which is
    what the distances should see, and no union is ever empty.
    """

    bits: tuple[NDArray[Any], ...]
    sizes: Sizes

    @classmethod
    def distinct(cls, marks: NDArray[np.bool_]) -> tuple[_LabelSets, Ints]:
        """Return the distinct sets among rows of marks, and which of them each row is."""
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
        """Distance of each set to the one at the same place; a column of sets is compared with every one."""
        shared = np.zeros(1, dtype=np.int32)
        for mine, theirs in zip(self.bits, others.bits, strict=True):
            shared = shared + np.bitwise_count(mine & theirs)
        return measure(shared, self.sizes, others.sizes)

    def column(self) -> _LabelSets:
        """Return the sets as a column, which broadcasts against a row of others."""
        return self.take((slice(None), np.newaxis))


def _observed_disagreement(doc: Ints, code: Ints, sets: _LabelSets, together: Ints, measure: SetDistance) -> float:
    """Mean distance of two annotations of one document, each annotation counting once."""
    held, n_equal = np.unique(doc * len(sets) + code, return_counts=True)
    doc_of, code_of = np.divmod(held, len(sets))
    n_held = np.bincount(doc_of)
    total = 0.0
    for crowded in np.flatnonzero(n_held > _MANY_SETS):
        inside = slice(*np.searchsorted(doc_of, [crowded, crowded + 1]))
        apart = _total_distance(sets.take(code_of[inside]), n_equal[inside], measure)
        total += apart / float(together[crowded] - 1)

    n_after = np.searchsorted(doc_of, doc_of, side="right") - np.arange(len(held)) - 1
    step, here = 1, np.flatnonzero((n_after >= 1) & (n_held[doc_of] <= _MANY_SETS))
    while len(here):  # all documents at once: each set against the one ``step`` places on in the same document
        there = here + step
        distances = sets.take(code_of[here]).distances(sets.take(code_of[there]), measure)
        total += float(distances @ (2 * n_equal[here] * n_equal[there] / (together[doc_of[here]] - 1)))
        step += 1
        here = here[n_after[here] >= step]
    return total / len(doc)


def _total_distance(sets: _LabelSets, counts: Ints, measure: SetDistance) -> float:
    """Sum of distances over all ordered pairs of annotations, of which ``counts`` hold each set."""
    height = max(1, _BLOCK_PAIRS // len(sets))
    total = 0.0
    for start in range(0, len(sets), height):
        rows = slice(start, start + height)
        weights = counts[start:].astype(np.float64)
        weights[height:] *= 2  # pairs that reach beyond this block are met once but come in two orders
        distances = sets.take(rows).column().distances(sets.take(slice(start, None)), measure)
        total += float(counts[rows] @ (distances @ weights))
    return total


def _expected_disagreement(
    code: Ints, sets: _LabelSets, measure: SetDistance, max_pairs: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean distance of any two annotations, and its standard error."""
    if len(sets) * (len(sets) - 1) // 2 > max_pairs:
        return _sampled_mean_distance(sets.take(rng.permutation(code)), measure, max_pairs, rng)
    return _total_distance(sets, np.bincount(code), measure) / (len(code) * (len(code) - 1)), 0.0


def _sampled_mean_distance(
    shuffled: _LabelSets, measure: SetDistance, max_pairs: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean distance over random rotations of the shuffled annotations against themselves.

    In a rotation every annotation takes part equally often, so that rare and common sets are met in their true
    proportion and the estimate varies less than one from independent pairs.
    """
    n = len(shuffled)
    n_shifts = (n - 1) // 2  # rotating by more gives the same pairs again
    shifts = 1 + rng.choice(n_shifts, size=min(max(2, max_pairs // n), n_shifts), replace=False)
    means = np.array([_rotated_mean(shuffled, int(shift), measure) for shift in shifts])
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))


def _rotated_mean(sets: _LabelSets, shift: int, measure: SetDistance) -> float:
    n = len(sets)
    total = 0.0
    for begin, end, offset in ((0, n - shift, shift), (n - shift, n, shift - n)):
        for start in range(begin, end, _BLOCK_PAIRS):
            here = slice(start, min(start + _BLOCK_PAIRS, end))
            there = slice(here.start + offset, here.stop + offset)
            total += float(sets.take(here).distances(sets.take(there), measure).sum())
    return total / n
