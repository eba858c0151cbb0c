"""Copies and collusion: annotators who agree beyond what the labels explain.

If annotators are independent given the labels, the correlation of the votes of two of them is the product of a loading
per annotator: how well each follows what the whole crowd sees. Documents that are hard for everybody change the
loadings, not that structure. A pair whose correlation exceeds the product shares something that the crowd does not: one
repeats the other, or both have the same source. The loadings are estimated without the pairs that stand out, so that
many copies cannot pass for the truth. The consensus is not used: copies may dominate it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh
from scipy.special import ndtri

from palda.models.crowd.vote_pairs import gold_pairs, vote_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Strings, VoteRows
    from palda.models.crowd.vote_pairs import VotePairs

    Ints = NDArray[np.int64]

MIN_COMMON_DOCS = 20
"""Documents that both annotators of a pair must have judged to be reported."""

MIN_COPY_SHARE = 0.25
"""Share of repeated votes from which a pair is reported."""

_LEVEL = 0.01  # probability that any pair of a crowd without copies is reported, under the model
_MIN_FIT_DOCS = 5  # common documents of a pair that helps to estimate loadings
_MIN_CROWD = 5  # annotators of a crowd that may have copies
_MIN_PARTNERS = 3  # other annotators, outside of the group, whom each of a pair must be compared with
_MIN_Z = 4.0  # with few pairs and documents the tails of z are heavier than normal
_TRIMMED = 0.25  # share of pairs that the first fit leaves out: those of one half of the annotators with each other
_FIRST_SPREAD = 0.05  # standard deviation beyond sampling that is assumed until it is estimated
_MIN_SPREAD = 0.02  # its estimate is at least this
_MAX_Z = 10.0  # a single pair counts at most this in the comparison of explanations
_COST = 5.0  # nats per annotator that an explanation reports: about 1 in 150 copies others
_TIE = 3.0  # nats; explanations that differ by less are equally good
_SIDE = 0.25  # component of the leading eigenvector, relative to the largest, from which an annotator is on a side
_MEDIAN_OF_NORMAL = 0.6745  # median of |z|
_LOADING, _LOADING_SD = 0.5, 0.5  # prior of a loading
_TRIM_ROUNDS, _REPORT_ROUNDS, _FIT_ROUNDS = 20, 20, 200
_FIT_TOL = 1e-7


@dataclass(frozen=True)
class CopyGroup:
    """Annotators who count as one source."""

    members: tuple[int, ...]
    """Positions of the annotators, ascending."""
    copy_share: float
    """Share of votes that are repeated, ρ: mean over the pairs of members, weighted by their common judgements."""
    agreement: float
    """Share of common judgements on which two members agree."""
    expected_agreement: float
    """The same if the members were independent given the labels."""
    n_common: int
    """Common judgements, (document, class), of two members, summed over the pairs."""
    z: float
    """Excess of the correlation of two members in standard errors: the lowest of the pairs that are reported."""


@dataclass(frozen=True)
class CopyPairs:
    """What was found about each pair of annotators that can be compared; arrays (pairs,)."""

    first: Ints
    second: Ints
    n_docs: Ints
    n_common: Ints
    agreement: Array
    expected_agreement: Array
    correlation: Array
    expected_correlation: Array
    copy_share: Array
    """ρ: share of repeated votes that explains the correlation; 0 if they are independent."""
    z: Array
    """Excess of the correlation in standard errors."""
    reported: NDArray[np.bool_]
    """Whether both the excess and the share are beyond their thresholds."""


@dataclass(frozen=True)
class CopyGroups:
    """Result of ``find_copies``."""

    groups: tuple[CopyGroup, ...]
    rivals: tuple[CopyGroup, ...]
    """Groups of which some, but not all, are copies: two camps that the votes alone cannot tell apart."""
    group_of: Ints
    """(annotators,): the lowest position in the group of each annotator; its own if it is in none."""
    pairs: CopyPairs
    spread: float
    """Standard deviation of the correlations of honest pairs beyond sampling: what the model does not explain."""
    min_z: float
    """Threshold of ``z``, for as many pairs as were compared."""

    def __bool__(self) -> bool:
        return bool(self.groups)

    def names(self, annotators: Strings) -> list[list[str]]:
        """Names of the members of each group."""
        return [[str(annotators[member]) for member in group.members] for group in self.groups]


class _Fit(NamedTuple):
    """Loadings, and per pair what they make of it without the pair itself."""

    loadings: Array  # (annotators,)
    expected: Array  # (pairs,): correlation expected
    variance: Array  # (pairs,): of the correlation about that, by sampling of votes and by that of the loadings
    partners: Array  # (pairs,): number of other annotators behind the loadings, the lower one of both


class _Explanation(NamedTuple):
    """The pairs and groups that a fit reports."""

    pairs: CopyPairs
    groups: tuple[CopyGroup, ...]
    variance: Array  # (pairs,): of the correlations by sampling
    spread: float

    @property
    def members(self) -> set[int]:
        """Annotators who are in a group."""
        return {member for group in self.groups for member in group.members}

    def cost(self, spread: float, annotator_costs: Array) -> float:
        """½ Σ z² of what one share per group leaves unexplained, plus the cost of each annotator in a group, in nats.

        The same ``spread`` of correlations beyond sampling makes the costs of two explanations comparable (maths,
        eq. 83).
        """
        pairs, explained = self.pairs, self.pairs.expected_correlation.copy()
        for group in self.groups:
            inside = _within(group.members, pairs)
            explained[inside] += group.copy_share * (1.0 - explained[inside])
        z = (pairs.correlation - explained) / np.sqrt(self.variance + spread**2)
        return float(np.sum(np.minimum(np.abs(z), _MAX_Z) ** 2) / 2.0 + annotator_costs[list(self.members)].sum())


def find_copies(
    votes: VoteRows,
    known: NDArray[np.int8] | None = None,
    kinds: Strings | None = None,
    *,
    min_copy_share: float = MIN_COPY_SHARE,
    seed: int = 0,
) -> CopyGroups:
    """Groups of annotators who agree beyond what the labels explain (maths, eqs. 80-83).

    ``votes`` may be in memory or stored. Only annotators who judged the same documents can be grouped, and only if both
    can be compared with three others outside of the group: two who agree may be the only good ones. ``seed`` selects
    documents if the votes are too many to be compared.

    If two camps agree among themselves more than with each other, either may be the copies. The explanation with the
    lower cost is used: one share of repeated votes per group should explain all pairs, and few annotators should be in
    groups. ``known`` labels, (documents, classes) with -1 for unknown, count as one more annotator, who copies nobody.
    ``kinds`` (annotators,) says who is a "model"; models may be in groups at no cost. If two explanations are equally
    good, no group is reported, and both are in ``rivals``.
    """
    found = vote_pairs(votes, _MIN_FIT_DOCS, seed)
    if known is not None and known.max(initial=-1) >= 0:
        found = found + gold_pairs(votes, known, _MIN_FIT_DOCS)
    n_tested = int(np.sum(found.n_docs >= MIN_COMMON_DOCS))
    min_z = max(float(-ndtri(_LEVEL / max(n_tested, 1))), _MIN_Z)
    best, rivals = _search(found, votes.n_annotators, kinds, min_z, min_copy_share)
    group_of = np.arange(votes.n_annotators)
    for group in best.groups:
        group_of[list(group.members)] = group.members[0]
    return CopyGroups(best.groups, rivals, group_of, best.pairs, best.spread, min_z)


def _search(
    pairs: VotePairs, n_annotators: int, kinds: Strings | None, min_z: float, min_share: float
) -> tuple[_Explanation, tuple[CopyGroup, ...]]:
    """The explanation with the lowest cost, and the groups that compete if it is not unique."""
    start = np.full(n_annotators + 1, _LOADING)  # the last one is that of known labels
    costs = np.full(n_annotators, _COST)
    if kinds is not None:
        costs[kinds == "model"] = 0.0
    plain = _fit(pairs, np.ones(len(pairs), dtype=bool), _FIRST_SPREAD, start)
    starts = [plain, _trimmed(pairs, plain)]
    starts += [_fit(pairs, ~inside, _FIRST_SPREAD, start) for inside in _camps(pairs, plain)]
    explanations = [_explanation(pairs, fit, min_z, min_share) for fit in starts]
    spread = min(explanation.spread for explanation in explanations)
    ranked = sorted(explanations, key=lambda explanation: explanation.cost(spread, costs))
    best = ranked[0]
    for other in ranked[1:]:
        tie = other.cost(spread, costs) < best.cost(spread, costs) + _TIE
        if tie and other.members and best.members and not other.members & best.members:
            nobody = best._replace(groups=(), pairs=replace(best.pairs, reported=np.zeros(len(pairs), dtype=bool)))
            return nobody, best.groups + other.groups
    return best, ()


def _explanation(found: VotePairs, fit: _Fit, min_z: float, min_share: float) -> _Explanation:
    fit, spread, reported = _without_reported(found, fit, min_z, min_share)
    pairs = _described(found, fit, spread, reported)
    groups = tuple(_group(members, pairs) for members in _clusters(pairs, min_share))
    return _Explanation(pairs, groups, fit.variance, spread)


def _described(found: VotePairs, fit: _Fit, spread: float, reported: NDArray[np.bool_]) -> CopyPairs:
    excess = found.correlation - fit.expected
    return CopyPairs(
        found.first,
        found.second,
        found.n_docs,
        found.n_votes,
        found.agreement,
        found.agreement - 2.0 * excess * found.scale / found.n_votes,
        found.correlation,
        fit.expected,
        _copy_share(found, fit),
        excess / np.sqrt(fit.variance + spread**2),
        reported,
    )


def _camps(pairs: VotePairs, fit: _Fit) -> list[NDArray[np.bool_]]:
    """Pairs within each side of the strongest division of the annotators: who exceeds the fit together, and who else.

    The division is the leading eigenvector of the excess correlations of all pairs.
    """
    n_annotators = len(fit.loadings)
    if n_annotators < _MIN_CROWD or not len(pairs):
        return []
    z = (pairs.correlation - fit.expected) / np.sqrt(fit.variance + _FIRST_SPREAD**2)
    shape = (n_annotators, n_annotators)
    excess = sparse.csr_array((z, (pairs.first, pairs.second)), shape=shape)
    start = np.random.default_rng(0).random(n_annotators)
    vector = eigsh(excess + excess.T, k=1, which="LA", v0=start)[1][:, 0]
    sides = (vector > _SIDE * vector.max(), vector < _SIDE * vector.min())
    return [side[pairs.first] & side[pairs.second] for side in sides]


def _copy_share(pairs: VotePairs, fit: _Fit) -> Array:
    """ρ, (pairs,): r = r₀ + ρ (1 - r₀) if a share ρ of the votes is repeated (maths, eq. 82)."""
    share: Array = np.clip((pairs.correlation - fit.expected) / (1.0 - fit.expected), 0.0, 1.0)
    return share


def _fit(pairs: VotePairs, included: NDArray[np.bool_], spread: float, start: Array) -> _Fit:
    """Loadings that explain the included pairs best, by weighted least squares (maths, eq. 81).

    Half steps of alternating least squares; full ones would swing between too large and too small.
    """
    first, second, correlation = pairs.first, pairs.second, pairs.correlation
    prior = 1.0 / _LOADING_SD**2
    n_annotators, loadings = len(start), start
    for _ in range(_FIT_ROUNDS):
        expected = loadings[first] * loadings[second]
        weights = included / (pairs.variance(expected) + spread**2)
        of_second, of_first = weights * loadings[second], weights * loadings[first]
        slopes = prior * _LOADING + _sums(pairs, of_second * correlation, of_first * correlation, n_annotators)
        curvatures = prior + _sums(pairs, of_second * loadings[second], of_first * loadings[first], n_annotators)
        change = np.clip(slopes / curvatures, -1.0, 1.0) - loadings
        loadings = loadings + change / 2.0
        if np.abs(change).max() < _FIT_TOL:
            break
    partners = np.full(len(pairs), np.inf)
    ends = ((first, second, of_second), (second, first, of_first))
    n_partners = _sums(pairs, included.astype(np.float64), included.astype(np.float64), n_annotators)
    alone, errors = [], []
    for own, other, weighted in ends:  # the loading of each end, without this pair
        information = weighted * loadings[other]
        curvature = curvatures[own] - information
        alone.append(np.clip((slopes[own] - weighted * correlation) / curvature, -1.0, 1.0))
        errors.append(1.0 / curvature)
        partners = np.minimum(partners, n_partners[own] - included)
    expected = np.minimum(alone[0] * alone[1], 1.0 - _MIN_SPREAD)
    variance = pairs.variance(expected) + alone[1] ** 2 * errors[0] + alone[0] ** 2 * errors[1]
    return _Fit(loadings, expected, variance, partners)


def _sums(pairs: VotePairs, of_first: Array, of_second: Array, n_annotators: int) -> Array:
    """(annotators,): sums over the pairs of each annotator."""
    sums = np.bincount(pairs.first, of_first, n_annotators) + np.bincount(pairs.second, of_second, n_annotators)
    return sums.astype(np.float64, copy=False)


def _trimmed(pairs: VotePairs, fit: _Fit) -> _Fit:
    """Fit without the quarter of the pairs that exceed it most (least trimmed squares by concentration steps)."""
    included = np.ones(len(pairs), dtype=bool)
    n_kept = len(pairs) - int(_TRIMMED * len(pairs))
    for _ in range(_TRIM_ROUNDS):
        z = (pairs.correlation - fit.expected) / np.sqrt(fit.variance + _FIRST_SPREAD**2)
        kept = np.zeros(len(pairs), dtype=bool)
        kept[np.argsort(z, kind="stable")[:n_kept]] = True
        if np.array_equal(kept, included):
            break
        included = kept
        fit = _fit(pairs, included, _FIRST_SPREAD, fit.loadings)
    return fit


def _without_reported(
    pairs: VotePairs, fit: _Fit, min_z: float, min_share: float
) -> tuple[_Fit, float, NDArray[np.bool_]]:
    """Fit without the pairs that are reported, the spread of the others, and which are reported."""
    spread = _spread(pairs, fit, np.ones(len(pairs), dtype=bool))
    enough = (pairs.n_docs >= MIN_COMMON_DOCS) & (pairs.second < len(fit.loadings) - 1)  # not with known labels
    for _ in range(_REPORT_ROUNDS):
        z = (pairs.correlation - fit.expected) / np.sqrt(fit.variance + spread**2)
        outlying = enough & (z > min_z) & (_copy_share(pairs, fit) > min_share / 2.0)
        fit = _fit(pairs, ~outlying, spread, fit.loadings)
        before, spread = spread, _spread(pairs, fit, ~outlying)
        if abs(spread - before) < _FIT_TOL:
            break
    z = (pairs.correlation - fit.expected) / np.sqrt(fit.variance + spread**2)
    reported = enough & (z > min_z) & (_copy_share(pairs, fit) > min_share) & (fit.partners >= _MIN_PARTNERS)
    return fit, spread, reported


def _spread(pairs: VotePairs, fit: _Fit, which: NDArray[np.bool_]) -> float:
    """Standard deviation of correlations beyond sampling that gives the excess z the median of a normal variable."""
    excess, variance = np.abs(pairs.correlation - fit.expected)[which], fit.variance[which]
    low, high = _MIN_SPREAD, 1.0
    if not len(excess) or np.median(excess / np.sqrt(variance + low**2)) <= _MEDIAN_OF_NORMAL:
        return low
    while high - low > _FIT_TOL / 10.0:
        middle = (low + high) / 2.0
        too_low = np.median(excess / np.sqrt(variance + middle**2)) > _MEDIAN_OF_NORMAL
        low, high = (middle, high) if too_low else (low, middle)
    return high


def _clusters(pairs: CopyPairs, min_share: float) -> list[tuple[int, ...]]:
    """Groups by average linkage: two are joined while the mean share between them is above the threshold.

    The share of two annotators without common documents is 0, so that a chain does not join everybody. The strongest
    link comes first.
    """
    accused = np.unique(np.concatenate((pairs.first[pairs.reported], pairs.second[pairs.reported])))
    share = np.zeros((len(accused), len(accused)))
    inside = np.isin(pairs.first, accused) & np.isin(pairs.second, accused)
    rows, columns = (np.searchsorted(accused, ends[inside]) for ends in (pairs.first, pairs.second))
    share[rows, columns] = share[columns, rows] = pairs.copy_share[inside]
    sizes = np.ones(len(accused))
    members: list[tuple[int, ...]] = [(int(annotator),) for annotator in accused]
    while len(members) > 1:
        low, high = sorted(np.unravel_index(int(np.argmax(share)), share.shape))
        if share[low, high] <= min_share:
            break
        share[low] = (sizes[low] * share[low] + sizes[high] * share[high]) / (sizes[low] + sizes[high])
        share[:, low] = share[low]
        share[low, low] = 0.0
        share = np.delete(np.delete(share, high, axis=0), high, axis=1)
        sizes[low] += sizes[high]
        sizes = np.delete(sizes, high)
        members[low] = tuple(sorted(members[low] + members.pop(high)))
    return sorted(some for some in members if len(some) > 1)


def _within(members: tuple[int, ...], pairs: CopyPairs) -> NDArray[np.bool_]:
    """(pairs,): whether both annotators are members."""
    inside: NDArray[np.bool_] = np.isin(pairs.first, members) & np.isin(pairs.second, members)
    return inside


def _group(members: tuple[int, ...], pairs: CopyPairs) -> CopyGroup:
    inside = _within(members, pairs)
    weights = pairs.n_common[inside]
    share, agreement, expected = (
        float(np.average(values[inside], weights=weights))
        for values in (pairs.copy_share, pairs.agreement, pairs.expected_agreement)
    )
    z = float(pairs.z[inside & pairs.reported].min())
    return CopyGroup(members, share, agreement, expected, int(weights.sum()), z)
