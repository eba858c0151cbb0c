"""Copies and collusion: annotators who agree beyond what the labels explain.

If annotators are independent given the labels, the correlation of the votes of two of them is the product of a loading
per annotator: how well each follows what the whole crowd sees. Documents that are hard for everybody change the
loadings, not that structure. A pair whose correlation exceeds the product shares something that the crowd does not: one
repeats the other, or both have the same source. The loadings are estimated without the pairs that stand out, so that
many copies cannot pass for the truth. The consensus is not used: copies may dominate it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackError, eigsh
from scipy.special import ndtri

from palda.models.crowd.vote_pairs import gold_pairs, vote_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Strings, VoteRows
    from palda.models.crowd.vote_pairs import VotePairs

    Ints = NDArray[np.int64]

MIN_COMMON_DOCS = 20
"""Documents that both annotators of a pair must have judged to be reported."""

MIN_COPY_SHARE = 0.4
"""Mean share of repeated votes from which a group is reported. The best annotators of a crowd whose documents differ
much in difficulty reach .35: they err on the same documents."""

MIN_MODEL_SHARE = 0.2
"""The same for a group of models: nobody is accused, and siblings of one model are to be expected."""

_LEVEL = 0.01  # probability that any pair of a crowd without copies is reported, under the model
_MIN_FIT_DOCS = 5  # common documents of a pair that helps to estimate loadings
_MIN_CROWD = 5  # annotators of a crowd that may have copies
_MIN_PARTNERS = 3  # other annotators, outside of the group, whom each of a pair must be compared with
_WEAK = 0.75  # of the threshold of z; enough for a pair with an annotator who is reported already
_MIN_Z = 4.0  # with few pairs and documents the tails of z are heavier than normal
_TRIMMED = 0.25  # share of pairs that the first fit leaves out: those of one half of the annotators with each other
_FIRST_SPREAD = 0.05  # standard deviation beyond sampling that is assumed until it is estimated
_MIN_SPREAD = 0.02  # its estimate is at least this
_MAX_Z = 10.0  # a single pair counts at most this in the comparison of explanations
_COST = 5.0  # nats per annotator that an explanation reports: about 1 in 150 copies others
_PERSON_COST = 20.0  # of those who are not models, if models are compared with them
_TIE = 6.0  # nats; explanations that differ by less are equally good,
_FEW = 2  # and a group that has so many members fewer has no advantage
_SIDE = 0.25  # min component of the leading eigenvector on a side, relative to the largest
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
    """Excess of the correlation of two members in standard errors: the lowest of the pairs that stand out."""


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
    stands_out: NDArray[np.bool_]
    """Whether z is beyond its threshold and the share above ``MIN_MODEL_SHARE``."""

    def select(self, which: NDArray[np.bool_]) -> CopyPairs:
        """Some of the pairs."""
        return CopyPairs(*(getattr(self, spec.name)[which] for spec in fields(self)))


@dataclass(frozen=True)
class CopyGroups:
    """Result of ``find_copies``."""

    groups: tuple[CopyGroup, ...]
    rivals: tuple[CopyGroup, ...]
    """Groups that explain the votes about as well as ``groups``: the votes do not tell which of both are copies."""
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
    included: NDArray[np.bool_]  # (pairs,): which the loadings were fitted to


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
        eq. 86).
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
    *,
    seed: int = 0,
) -> CopyGroups:
    """Groups of annotators who agree beyond what the labels explain (maths, eqs. 83-86).

    ``votes`` may be in memory or stored. Only annotators who judged the same documents can be grouped, and only if both
    can be compared with three others outside of the group: two who agree may be the only good ones. ``seed`` selects
    documents if the votes are too many to be compared.

    If two camps agree among themselves more than with each other, either may be the copies. The explanation with the
    lower cost is used: one share of repeated votes per group should explain all pairs, and few annotators should be in
    groups. ``known`` labels, (documents, classes) with -1 for unknown, count as one more annotator, who copies nobody.
    Annotators whose kind is "model" may be in groups at no cost. If another explanation is about as good, its groups
    are in ``rivals``: then one of both camps is made of copies, but nobody can be named.
    """
    found = vote_pairs(votes, _MIN_FIT_DOCS, seed)
    if known is not None and known.max(initial=-1) >= 0:
        found = found + gold_pairs(votes, known, _MIN_FIT_DOCS)
    n_tested = int(np.sum(found.n_docs >= MIN_COMMON_DOCS))
    min_z = max(float(-ndtri(_LEVEL / max(n_tested, 1))), _MIN_Z)
    is_model = np.zeros(votes.n_annotators, dtype=bool)
    if len(votes.annotator_kinds):
        is_compared = np.isin(np.arange(votes.n_annotators), (found.first, found.second))
        is_model = np.asarray(votes.annotator_kinds == "model") & is_compared
    best, rivals = _search(found, is_model, min_z)

    def is_strong(group: CopyGroup) -> bool:
        return group.copy_share >= (MIN_MODEL_SHARE if is_model[list(group.members)].all() else MIN_COPY_SHARE)

    groups = tuple(filter(is_strong, best.groups))
    group_of = np.arange(votes.n_annotators)
    for group in groups:
        group_of[list(group.members)] = group.members[0]
    pairs = best.pairs.select(best.pairs.second < votes.n_annotators)  # without those with known labels
    return CopyGroups(groups, tuple(filter(is_strong, rivals)), group_of, pairs, best.spread, min_z)


def _search(pairs: VotePairs, is_model: NDArray[np.bool_], min_z: float) -> tuple[_Explanation, tuple[CopyGroup, ...]]:
    """The explanation with the lowest cost, and the groups of another one that is about as good."""
    start = np.full(len(is_model) + 1, _LOADING)  # the last one is that of known labels
    costs = np.where(is_model, 0.0, _PERSON_COST if is_model.any() else _COST)
    plain = _fit(pairs, np.ones(len(pairs), dtype=bool), _FIRST_SPREAD, start)
    if _explains_all(pairs, plain):
        return _explanation(pairs, plain, min_z), ()
    starts = [plain, _trimmed(pairs, plain)]
    starts += [_fit(pairs, ~inside, _FIRST_SPREAD, start) for inside in _camps(pairs, plain)]
    explanations = [_explanation(pairs, fit, min_z) for fit in starts]
    spread = min(explanation.spread for explanation in explanations)
    ranked = sorted(explanations, key=lambda explanation: explanation.cost(spread, costs))
    best = ranked[0]
    for other in ranked[1:]:
        margin = _TIE + _COST * min(abs(len(other.members) - len(best.members)), _FEW)
        tie = other.cost(spread, costs) < best.cost(spread, costs) + margin
        if tie and other.members and best.members and not other.members & best.members:
            return best, other.groups
    return best, ()


def _explains_all(pairs: VotePairs, fit: _Fit) -> bool:
    """Whether one factor explains every pair up to sampling; then nobody copies, and no other fit is needed."""
    z = (pairs.correlation - fit.expected) / np.sqrt(fit.variance + _MIN_SPREAD**2)
    return bool(np.abs(z).max(initial=0.0) < _MIN_Z)


def _explanation(found: VotePairs, fit: _Fit, min_z: float) -> _Explanation:
    fit, spread, z, reported = _without_reported(found, fit, min_z)
    pairs = _described(found, fit, z, reported)
    linked = (z > _WEAK * min_z) & (pairs.copy_share > MIN_MODEL_SHARE) & _testable(found, fit)
    groups = tuple(_group(members, pairs) for members in _clusters(pairs, linked))
    return _Explanation(pairs, groups, fit.variance, spread)


def _described(found: VotePairs, fit: _Fit, z: Array, reported: NDArray[np.bool_]) -> CopyPairs:
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
        z,
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
    try:
        vector = eigsh(excess + excess.T, k=1, which="LA", v0=start)[1][:, 0]
    except ArpackError:  # no division stands out
        return []
    sides = (vector > _SIDE * vector.max(), vector < _SIDE * vector.min())
    return [side[pairs.first] & side[pairs.second] for side in sides]


def _copy_share(pairs: VotePairs, fit: _Fit) -> Array:
    """ρ, (pairs,): r = r₀ + ρ (1 - r₀) if a share ρ of the votes is repeated (maths, eq. 85)."""
    share: Array = np.clip((pairs.correlation - fit.expected) / (1.0 - fit.expected), 0.0, 1.0)
    return share


def _fit(pairs: VotePairs, included: NDArray[np.bool_], spread: float, start: Array) -> _Fit:
    """Loadings that explain the included pairs best, by weighted least squares (maths, eq. 84).

    Half steps of alternating least squares; full ones would swing between too large and too small.
    """
    first, second, correlation = pairs.first, pairs.second, pairs.correlation
    prior = 1.0 / _LOADING_SD**2
    n_annotators, loadings = len(start), start
    for _ in range(_FIT_ROUNDS):
        weights = included / (pairs.variance(loadings[first] * loadings[second]) + spread**2)
        of_second, of_first = weights * loadings[second], weights * loadings[first]
        slopes = prior * _LOADING + _sums(pairs, of_second * correlation, of_first * correlation, n_annotators)
        precisions = prior + _sums(pairs, of_second * loadings[second], of_first * loadings[first], n_annotators)
        change = np.clip(slopes / precisions, -1.0, 1.0) - loadings
        loadings = loadings + change / 2.0
        if np.abs(change).max() < _FIT_TOL:
            break
    n_partners = _sums(pairs, included.astype(np.float64), included.astype(np.float64), n_annotators)
    partners = np.full(len(pairs), np.inf)
    alone, errors = [], []
    for own, other, weighted in ((first, second, of_second), (second, first, of_first)):  # each end, without this pair
        precision = precisions[own] - weighted * loadings[other]
        alone.append(np.clip((slopes[own] - weighted * correlation) / precision, -1.0, 1.0))
        errors.append(1.0 / precision)
        partners = np.minimum(partners, n_partners[own] - included)
    expected = np.minimum(alone[0] * alone[1], 1.0 - _MIN_SPREAD)
    variance = pairs.variance(expected) + alone[1] ** 2 * errors[0] + alone[0] ** 2 * errors[1]
    return _Fit(loadings, expected, variance, partners, included)


def _sums(
    pairs: VotePairs, of_first: Array | NDArray[np.bool_], of_second: Array | NDArray[np.bool_], n_annotators: int
) -> Array:
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


def _without_reported(pairs: VotePairs, fit: _Fit, min_z: float) -> tuple[_Fit, float, Array, NDArray[np.bool_]]:
    """Fit without the pairs that stand out, the spread of the others, z of all pairs, and which are reported."""
    enough = _testable(pairs, fit)
    spread, z = _excess(pairs, fit)
    for _ in range(_REPORT_ROUNDS):
        outlying = enough & (z > min_z) & (_copy_share(pairs, fit) > MIN_MODEL_SHARE / 2.0)
        if np.array_equal(outlying, ~fit.included):
            break
        fit = _fit(pairs, ~outlying, spread, fit.loadings)
        spread, z = _excess(pairs, fit)
    reported = enough & (z > min_z) & (_copy_share(pairs, fit) > MIN_MODEL_SHARE) & (fit.partners >= _MIN_PARTNERS)
    return fit, spread, z, reported


def _testable(pairs: VotePairs, fit: _Fit) -> NDArray[np.bool_]:
    """(pairs,): whether a pair has enough common documents and is one of annotators, not with known labels."""
    result: NDArray[np.bool_] = (pairs.n_docs >= MIN_COMMON_DOCS) & (pairs.second < len(fit.loadings) - 1)
    return result


def _excess(pairs: VotePairs, fit: _Fit) -> tuple[float, Array]:
    """Spread of the correlations beyond sampling, and z of each pair (maths, eq. 85).

    The scale of z is the largest of the crowd's spread and of the spreads of both annotators about their other pairs:
    whose correlations the loadings explain badly cannot be accused because of one of them.
    """
    excess = pairs.correlation - fit.expected
    spread = _spread(pairs, fit)
    misfit = np.where(fit.included, excess**2 - fit.variance, 0.0)
    n_annotators = len(fit.loadings)
    n_pairs = _sums(pairs, fit.included, fit.included, n_annotators)
    own = (_sums(pairs, misfit, misfit, n_annotators) + spread**2) / (n_pairs + 1.0)
    variance = np.maximum(np.maximum(own[pairs.first], own[pairs.second]), spread**2)
    return spread, excess / np.sqrt(fit.variance + variance)


def _spread(pairs: VotePairs, fit: _Fit) -> float:
    """Standard deviation of correlations beyond sampling that gives the excess the median of a normal variable."""
    excess, variance = np.abs(pairs.correlation - fit.expected)[fit.included], fit.variance[fit.included]
    low, high = _MIN_SPREAD, 1.0
    if not len(excess) or np.median(excess / np.sqrt(variance + low**2)) <= _MEDIAN_OF_NORMAL:
        return low
    while high - low > _FIT_TOL / 10.0:
        middle = (low + high) / 2.0
        too_low = np.median(excess / np.sqrt(variance + middle**2)) > _MEDIAN_OF_NORMAL
        low, high = (middle, high) if too_low else (low, middle)
    return high


def _clusters(pairs: CopyPairs, linked: NDArray[np.bool_]) -> list[tuple[int, ...]]:
    """Groups by average linkage: two are joined while the mean share between them is above its threshold.

    The share of two annotators without common documents is 0, so that a chain does not join everybody. The strongest
    link comes first. Annotators of pairs that stand out take part, and those who are linked to one of them; a group
    without a pair that stands out is none.
    """
    accused = np.union1d(pairs.first[pairs.stands_out], pairs.second[pairs.stands_out])
    beside = linked & (np.isin(pairs.first, accused) | np.isin(pairs.second, accused))
    accused = np.union1d(pairs.first[beside], pairs.second[beside])
    share = np.zeros((len(accused), len(accused)))
    inside = np.isin(pairs.first, accused) & np.isin(pairs.second, accused)
    rows, columns = (np.searchsorted(accused, ends[inside]) for ends in (pairs.first, pairs.second))
    share[rows, columns] = share[columns, rows] = pairs.copy_share[inside]
    sizes = np.ones(len(accused))
    members: list[tuple[int, ...]] = [(int(annotator),) for annotator in accused]
    while len(members) > 1:
        low, high = sorted(np.unravel_index(int(np.argmax(share)), share.shape))
        if share[low, high] <= MIN_MODEL_SHARE:
            break
        share[low] = (sizes[low] * share[low] + sizes[high] * share[high]) / (sizes[low] + sizes[high])
        share[:, low] = share[low]
        share[low, low] = 0.0
        share = np.delete(np.delete(share, high, axis=0), high, axis=1)
        sizes[low] += sizes[high]
        sizes = np.delete(sizes, high)
        members[low] = tuple(sorted(members[low] + members.pop(high)))
    return sorted(some for some in members if (pairs.stands_out & _within(some, pairs)).any())


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
    z = float(pairs.z[inside & pairs.stands_out].min())
    return CopyGroup(members, share, agreement, expected, int(weights.sum()), z)
