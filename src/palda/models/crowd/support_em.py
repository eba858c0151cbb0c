"""EM of the support model: weights of the grid, traits of annotators and label-set profiles (maths, eqs. 66-68).

Plain EM moves slowly along the directions in which few votes per label say little: the spread of the support, and the
scale of the slopes. Every step therefore goes where the last ones point to (Anderson acceleration; Henderson and
Varadhan 2019), and is taken back if the objective falls. SQUAREM took twice as many steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import expit, logit

from palda import kernels
from palda.models.crowd.annotator_model import votes_per_cell
from palda.models.crowd.confidence import (
    learned_levels,
    shared_level_evidence,
)
from palda.models.crowd.extrapolation import Extrapolation
from palda.models.crowd.label_sets import (
    Profiles,
    ProfileStats,
    profile_e_step,
    profile_log_prior,
    profile_m_step,
    profiles_at,
    read_only,
)
from palda.models.crowd.link import learned_link, link_log_prior
from palda.models.crowd.panel import (
    PanelSupport,
    PeopleMoments,
    evidence_of_panel,
    fit_panel,
    learned_relation,
    panel_support,
    votes_of_people,
)
from palda.models.crowd.support import (
    NOTHING_GIVEN,
    SupportBelief,
    as_support,
    described,
    given_weights,
    judged_cells,
    label_votes,
    trait_log_prior,
    traits_from_counts,
    vote_probs,
    with_answers,
)
from palda.models.crowd.traits import (
    CLASS_SPREAD,
    OFFSET_SPREAD,
    POINTS,
    SLOPE_SPREAD,
    Traits,
    base_weights,
    limited,
    solve_pair,
)
from palda.models.crowd.typical import EarlierVotes, centre_slopes, centre_weights, mean_centre, robust_centre

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palda.data import Array, Votes
    from palda.kernels import GridEvidence, LabelVotes
    from palda.models.crowd.em import CrowdSettings, CrowdState, VoteShard

BASE_DOCUMENTS = 2.0
"""Pseudo-documents with the base weights, in the prior of the weights of each class.

With 4, weights of small crowds have fewer peaks by chance: three honest people disagree with 25 of the 3,000 labels of
their own majority, with 2 with 39. But the consensus of simulated crowds with rare classes loses .003 (enron). On arq,
hin, ambient and csta the log-likelihood per label differs by less than .001.
"""

_INFORMATION = 0.16  # of a vote about a score: p (1 - p)
_STOP_STEPS = 3  # over which growth is averaged
_MAX_TRAIT = 20.0
_MIN_WEIGHT, _TINY = 1e-9, 1e-300
_MIN_SHARE = 0.01  # of a class without votes, when its weights are chosen
_FIRST_STEPS = 24
_MIN_SAMPLE, _MAX_STRIDE = 2, 20  # of many shards, EM starts with at least so many, and one in so many
_LINK_ROUNDS = 8  # first steps of EM in which the link is learned from gold labels
_MIN_STEP_SHARE = 0.05  # of the traits' part of a step, before it is left out
_ROUNDING = 1e-9  # relative fall of the objective that is a rounding error


class Statistics(NamedTuple):
    """Additive statistics of the E-step of a shard."""

    votes: Array  # (cells, 2, points): expected votes by value and support
    labels: Array  # (classes, points): labels with votes by support
    profiles: ProfileStats
    log_likelihood: float

    def plus(self, other: Statistics) -> Statistics:
        """Statistics of both shards."""
        return Statistics(
            self.votes + other.votes,
            self.labels + other.labels,
            self.profiles + other.profiles,
            self.log_likelihood + other.log_likelihood,
        )


@dataclass(frozen=True)
class _Step:
    """A state, its objective, and what the E-step found under it."""

    state: CrowdState
    objective: float
    statistics: Statistics
    label_probs: list[Array]


class SupportEM:
    """EM over some shards of votes; what does not change between its steps is computed once."""

    def __init__(self, shards: Sequence[VoteShard], settings: CrowdSettings, belief: SupportBelief) -> None:
        self.shards, self.settings = shards, settings
        n_classes, panel = shards[0].known.shape[1], belief.panel
        self.ordered: dict[int, LabelVotes] = {}  # votes of people by label, per shard in memory
        self.found: list[PanelSupport] = []  # what the panel of models says, per shard
        if panel is not None:
            self.found = [panel_support(cast("Votes", shard.votes), panel, belief.traits) for shard in shards]
        everybody = reduce(np.add, (votes_per_cell(cast("Votes", shard.votes), n_classes) for shard in shards))
        n_votes = everybody if panel is None else np.where(panel.is_model[:, None, None], 0.0, everybody)
        self.judged = n_votes.sum(axis=2) > 0
        self.annotator, self.label = np.nonzero(self.judged)
        self.n_votes = n_votes.sum(axis=2)
        self.refer_to_informed(belief.traits.slopes)
        self.n_docs = sum(len(shard.known) for shard in shards)
        by_class = n_votes.sum(axis=0)
        all_votes = everybody.sum(axis=0)
        rates = (all_votes[:, 1] + 1.0) / (all_votes.sum(axis=1) + 2.0)
        if panel is not None:
            rates = (by_class[:, 1] + 2.0 * rates) / (by_class.sum(axis=1) + 2.0)
        self.known_shares = np.where(all_votes.any(axis=1), np.nan, _shares_known(shards))
        rates = np.where(np.isnan(self.known_shares), rates, np.clip(self.known_shares, _MIN_SHARE, 1.0 - _MIN_SHARE))
        self.base = base_weights(rates)
        self.earlier = EarlierVotes(replace(belief, weights=self.base) if belief.is_start else belief)
        unvoted = reduce(np.add, (self._unvoted(number) for number in range(len(shards))))
        self.unvoted = np.where(np.isnan(self.known_shares)[:, None], unvoted, 0)

    def _unvoted(self, number: int) -> Array:
        """(classes, 2): absent and present known labels of a shard about which nobody has voted."""
        shard = self.shards[number]
        unvoted = cast("Votes", shard.votes).per_pair() == 0
        return np.stack([np.sum(unvoted & (shard.known == state), axis=0) for state in (0, 1)], axis=1)

    def e_step(self, state: CrowdState) -> _Step:
        """Labels under a state, and the objective (maths, eq. 67)."""
        belief = as_support(state.belief)
        probs, grid = vote_probs(belief, self.judged), belief.grid

        def of_shard(number: int) -> tuple[Statistics, Array]:
            shard, active = self.shards[number], kernels.active()
            ordered, given = self._ordered_and_panel(number, belief)
            given, other = with_answers(given, belief, shard.extra)
            if belief.levels is not None:
                soft = shard.soft_votes(shard.votes, belief.levels)
                of_levels = shared_level_evidence(soft, belief.levels.log_ratios, shard.known.shape)
                other = of_levels if other is None else of_levels + other
            if len(state.profiles.weights) == 1:
                nats = np.empty((0, shard.known.shape[1])) if other is None else np.require(other, np.float64, ["C"])
                known = read_only(np.require(shard.known, np.int8, ["C"]))
                label_probs, log_likelihood, votes_sums, labels = active.support_step(
                    ordered, probs, grid, given, read_only(nats), known, state.profiles.rates[0]
                )
                sums = ProfileStats(np.array([float(len(label_probs))]), label_probs.sum(axis=0, keepdims=True))
            else:
                evidence, absent = active.support_evidence(ordered, probs, grid, given)
                posterior = profile_e_step(evidence if other is None else evidence + other, shard.known, state.profiles)
                label_probs, sums = posterior.label_probs, posterior.stats
                votes_sums, labels = active.support_counts(ordered, probs, grid, given, label_probs)
                log_likelihood = float(posterior.log_likelihoods.sum()) + float(absent.sum())
            return Statistics(votes_sums, labels, sums, log_likelihood), label_probs

        alone = len(self.shards) == 1  # then threads would only cost time
        numbers = range(len(self.shards))
        results = list(map(of_shard, numbers) if alone else self.settings.engine.map(of_shard, numbers))
        statistics = reduce(Statistics.plus, (own for own, _ in results))
        objective = statistics.log_likelihood + self.earlier.expected(belief.traits)[2]
        objective += trait_log_prior(belief.traits) + link_log_prior(belief.link)
        objective += BASE_DOCUMENTS * float(np.sum(self.base * np.log(belief.weights)))
        if len(state.profiles.weights) > 1:
            objective += profile_log_prior(state.profiles, state.prior)
        return _Step(state, objective, statistics, [probs for _, probs in results])

    def _ordered_and_panel(self, number: int, belief: SupportBelief) -> tuple[LabelVotes, GridEvidence]:
        """Votes of people of a shard by label, and what the panel says; kept from step to step if in memory."""
        ordered, panel = self.ordered.get(number), belief.panel
        if ordered is None:
            votes = cast("Votes", self.shards[number].votes)
            people = votes if panel is None else votes_of_people(votes, panel)
            ordered = label_votes(people, self.judged)
            if not isinstance(self.shards[number].source, tuple):
                self.ordered[number] = ordered
        if panel is None:
            return ordered, NOTHING_GIVEN
        judged = np.diff(ordered.starts).reshape(self.shards[number].known.shape) > 0
        return ordered, evidence_of_panel(self.found[number], panel, judged)

    def _people_and_panel(self, number: int, belief: SupportBelief) -> tuple[Votes, GridEvidence]:
        """Votes of people of a shard, and what the panel says about its documents."""
        votes = cast("Votes", self.shards[number].votes)
        if belief.panel is None:
            return votes, NOTHING_GIVEN
        people = votes_of_people(votes, belief.panel)
        return people, evidence_of_panel(self.found[number], belief.panel, people.per_pair() > 0)

    def _relation(self, step: _Step) -> SupportBelief:
        """The belief with the relation of panel and people learned from the labels of a step."""
        belief = as_support(step.state.belief)
        if belief.panel is None:
            return belief
        parts = []
        for number, shard in enumerate(self.shards):
            votes, given = self._people_and_panel(number, belief)
            given = evidence_of_panel(self.found[number], belief.panel)
            judged = (votes.per_pair() > 0) | (shard.known >= 0)
            rows = np.flatnonzero(judged.any(axis=1))
            given, _ = with_answers(given, belief, shard.extra)
            some = given.take(rows)
            support = support_posterior(votes.take(rows), belief, some, step.label_probs[number][rows])
            # The part of the posterior that follows the panel; the rest is where its word is worth nothing.
            everywhere = np.broadcast_to(belief.weights, support.shape)
            normal = given_weights(some.mean, some.precision, everywhere, 0.0) * (1.0 - some.doubt)
            support = support * normal / (normal + some.doubt * belief.weights)
            share = support.sum(axis=2)
            mean, square = (support @ power / np.maximum(share, _TINY) for power in (POINTS, POINTS**2))
            moments = PeopleMoments(mean, square, np.where(judged[rows], share, 0.0), judged[rows])
            parts.append((self.found[number].take(rows), moments))
        found = PanelSupport.joined([own for own, _ in parts])
        people = PeopleMoments.joined([own for _, own in parts])
        panel = learned_relation(found, people, belief.panel, families=bool(self.n_votes.any()))
        return replace(belief, panel=panel)

    def m_step(self, step: _Step, *, learns_link: bool) -> CrowdState:
        """The next state of plain EM."""
        state, found = step.state, step.statistics
        belief = self._relation(step)
        several = len(state.profiles.weights) > 1
        if self.settings.learn_profiles and not several:
            weights = BASE_DOCUMENTS * self.base + found.labels
            weights += self.unvoted[:, :1] * belief.grid.absent + self.unvoted[:, 1:] * belief.grid.present
            belief = replace(belief, weights=weights / weights.sum(axis=1, keepdims=True))
        traits = self._traits(belief, found.votes)
        if learns_link:
            belief = replace(belief, link=link_of_gold(self.shards, as_support(step.state.belief)))
        belief = replace(belief, traits=traits)
        profiles = state.profiles
        if self.settings.learn_profiles:
            profiles = single_profile(belief, self.known_shares)
            profiles = profile_m_step(found.profiles, state.prior) if several else profiles
        return replace(state, belief=belief, profiles=profiles)

    def _traits(self, belief: SupportBelief, votes: Array) -> Traits:
        """Traits after a Newton step, relative to the typical annotator (maths, eq. 68)."""
        traits = belief.traits
        history, history_yes, _ = self.earlier.expected(traits)
        slopes, offsets, by_class = (part.copy() for part in traits)
        n_annotators = len(slopes)

        def per_annotator(values: Array) -> Array:
            sums: Array = np.bincount(self.annotator, values, minlength=n_annotators).astype(np.float64, copy=False)
            return sums

        def sums_over_support() -> Array:
            """(5, cells): see ``trait_sums``."""
            of_cells = offsets[self.annotator] + by_class[self.annotator, self.label]
            sums: Array = kernels.active().trait_sums(POINTS, votes, slopes[self.annotator], of_cells)
            return sums.T

        residual, by_support, curvature, curvature_by_support, by_square = sums_over_support()
        earlier = expit(slopes[:, None] * POINTS + offsets[:, None])
        own, own_curvature = history_yes - history * earlier, history * earlier * (1.0 - earlier)
        slope = per_annotator(by_support) + own @ POINTS - (slopes - 1.0) / SLOPE_SPREAD**2
        offset = per_annotator(residual) + own.sum(axis=1) - offsets / OFFSET_SPREAD**2
        known = (
            per_annotator(by_square) + own_curvature @ POINTS**2 + SLOPE_SPREAD**-2,
            per_annotator(curvature) + own_curvature.sum(axis=1) + OFFSET_SPREAD**-2,
            per_annotator(curvature_by_support) + own_curvature @ POINTS,
        )
        # The step that keeps the typical annotator where it is: a shift of all offsets is not an improvement.
        pull = self.held[0] if self.held else centre_slopes(offsets, self.reference.sum(axis=1))
        nothing = np.zeros(n_annotators)
        by_pull = solve_pair(*known, nothing, pull)
        step = solve_pair(*known, slope, offset)
        shift = np.sum(pull * step[1]) / max(float(np.sum(pull * by_pull[1])), _TINY)
        moved = Traits(step[0] - shift * by_pull[0], step[1] - shift * by_pull[1], by_class)
        slopes, offsets = slopes + limited(moved).slopes, offsets + limited(moved).offsets
        residual, _, curvature, *_ = sums_over_support()
        gradient = residual - by_class[self.annotator, self.label] / CLASS_SPREAD**2
        change, inverse = np.zeros_like(by_class), np.zeros_like(by_class)
        inverse[self.annotator, self.label] = 1.0 / (curvature + CLASS_SPREAD**-2)
        change[self.annotator, self.label] = gradient
        change *= inverse
        pull = self.held[1] if self.held else centre_slopes(by_class, self.reference)
        scale = np.maximum(np.sum(pull**2 * inverse, axis=0), _TINY)
        change -= np.sum(pull * change, axis=0) / scale * pull * inverse
        by_class = by_class + limited(Traits(slopes, offsets, change)).by_class
        return traits.where_model(belief.panel, self.relative(Traits(slopes, offsets, by_class)))

    def refer_to_informed(self, slopes: Array) -> None:
        """Let votes define the typical annotator as far as they depend on the support.

        Those of random voters and liars do not: among four annotators, one who votes at random on everything made the
        offsets of the others .6, and two labels in three of theirs were lost.
        """
        self.reference = self.n_votes * np.clip(slopes, 0.0, 1.0)[:, None]
        self.held: tuple[Array, ...] = ()

    def hold_reference(self, traits: Traits) -> None:
        """Let annotators define the typical one with the weights that they have now.

        Where many annotators are far from typical, steps that follow a robust centre lower the objective; a mean with
        weights that do not change is kept exactly.
        """
        pairs = (traits.offsets, self.reference.sum(axis=1)), (traits.by_class, self.reference)
        self.held = tuple(centre_weights(*pair) for pair in pairs)

    def relative(self, traits: Traits) -> Traits:
        """The traits with the typical annotator as the zero of offsets, overall and in each class.

        Votes cannot tell a shift of all offsets from a shift of all supports. The typical annotator is a robust centre:
        with a mean, two of ten who always say no shifted all supports, and the consensus was empty.
        """
        if self.held:
            centres = [mean_centre(*pair) for pair in zip(traits[1:], self.held, strict=True)]
        else:
            pairs = (traits.offsets, self.reference.sum(axis=1)), (traits.by_class, self.reference)
            centres = [robust_centre(*pair) for pair in pairs]
        offsets = traits.offsets - np.where(self.n_votes.sum(axis=1) > 0, centres[0], 0.0)
        by_class = traits.by_class - np.where(self.judged, centres[1], 0.0)
        return Traits(np.clip(traits.slopes, -_MAX_TRAIT, _MAX_TRAIT), offsets, by_class)

    def centred(self, belief: SupportBelief) -> SupportBelief:
        """The belief relative to the typical annotator; the traits of models stay."""
        return replace(belief, traits=belief.traits.where_model(belief.panel, self.relative(belief.traits)))

    def extrapolated(self, following: CrowdState, steps: Extrapolation) -> CrowdState:
        """Where the last steps point to, of which ``following`` is the end."""
        belief, profiles = as_support(following.belief), following.profiles
        by_annotator = self.n_votes.sum(axis=1)
        by_trait = _INFORMATION * np.concatenate((by_annotator, by_annotator, self.n_votes.ravel()))
        several = len(profiles.weights) > 1
        shares = belief.weights.ravel()
        if several:
            by_rate = profiles.weights[:, None] * profiles.rates * (1.0 - profiles.rates)
            shares = np.concatenate((profiles.weights, by_rate.ravel()))
        point = steps.point(np.concatenate((self.n_docs * shares, by_trait)))
        n_annotators, n_shares = len(belief.traits.slopes), len(shares)
        logs, slopes, offsets, by_class = np.split(point, n_shares + np.array([0, 1, 2]) * n_annotators)
        traits = Traits(slopes, offsets, by_class.reshape(belief.traits.by_class.shape))
        clipped = Traits(*(np.clip(part, -_MAX_TRAIT, _MAX_TRAIT) for part in traits))
        belief = replace(belief, traits=self.relative(clipped))
        if self.settings.learn_profiles and several:
            log_weights, log_odds = np.split(logs, [len(profiles.weights)])
            profiles = profiles_at(log_weights, log_odds, following.prior)
        elif self.settings.learn_profiles:
            logs = logs.reshape(belief.weights.shape)
            weights = np.maximum(np.exp(logs - logs.max(axis=1, keepdims=True)), _MIN_WEIGHT)
            belief = replace(belief, weights=weights / weights.sum(axis=1, keepdims=True))
            profiles = single_profile(belief, self.known_shares)
        return replace(following, belief=belief, profiles=profiles)


def _shares_known(shards: Sequence[VoteShard]) -> Array:
    """(classes,): smoothed shares of known labels that are present."""
    n_present: Array = reduce(np.add, ((shard.known == 1).sum(axis=0) for shard in shards))
    n_known: Array = reduce(np.add, ((shard.known >= 0).sum(axis=0) for shard in shards))
    return (n_present + 1.0) / (n_known + 2.0)


def _vector(state: CrowdState) -> Array:
    """Logarithms of weights of the grid, or of profiles and the log-odds of their rates; and traits."""
    belief, profiles = as_support(state.belief), state.profiles
    shares = [np.log(belief.weights)]
    if len(profiles.weights) > 1:
        shares = [np.log(profiles.weights), logit(profiles.rates)]
    return np.concatenate([part.ravel() for part in (*shares, *belief.traits)])


def link_of_gold(shards: Sequence[VoteShard], belief: SupportBelief) -> Array:
    """Link learned from the known labels that have votes, and the support that votes give them.

    Known labels without votes say nothing about it.
    """
    supports, truths = [np.empty((0, *belief.weights.shape))], [shards[0].known[:0]]
    for shard in shards:
        rows = np.flatnonzero((shard.known >= 0).any(axis=1))
        if len(rows):
            votes = cast("Votes", shard.votes).take(rows)
            supports.append(support_posterior(votes, belief, NOTHING_GIVEN))
            truths.append(np.where(votes.per_pair() > 0, shard.known[rows], np.int8(-1)))
    return learned_link(np.concatenate(supports), np.concatenate(truths), belief.link)


def single_profile(belief: SupportBelief, known_shares: Array | float = np.nan) -> Profiles:
    """Independent classes at the shares that weights and link imply, or ``known_shares`` where these are not NaN."""
    shares = np.where(np.isnan(known_shares), belief.prevalence, known_shares)
    return Profiles(np.ones(1), np.clip(shares, 1e-6, 1.0 - 1e-6)[None])


def support_posterior(
    votes: Votes, belief: SupportBelief, given: GridEvidence, label_probs: Array | None = None
) -> Array:
    """(documents, classes, points): distribution of the support given the votes, and label probabilities if any."""
    judged = judged_cells(votes)
    ordered, probs = label_votes(votes, judged), vote_probs(belief, judged)
    likelihoods = kernels.active().support_likelihoods(ordered, probs, belief.grid, given)
    if label_probs is None:
        posterior: Array = likelihoods * belief.weights
        posterior /= posterior.sum(axis=2, keepdims=True)
        return posterior
    present, absent = likelihoods * belief.grid.present, likelihoods * belief.grid.absent
    share = label_probs[:, :, None]
    joint: Array = share * present / present.sum(axis=2, keepdims=True)
    joint += (1.0 - share) * absent / absent.sum(axis=2, keepdims=True)
    return joint


def _prepared(shards: Sequence[VoteShard], start: CrowdState, settings: CrowdSettings) -> tuple[SupportEM, CrowdState]:
    """EM, and its first state: the panel is fitted once, from the votes of models alone."""
    belief = as_support(start.belief)
    if belief.is_start and belief.panel is not None:
        parts = [cast("Votes", shard.votes) for shard in shards]
        panel, traits = fit_panel(parts, belief.panel, belief.traits)
        belief = replace(belief, panel=panel, traits=traits)
    em = SupportEM(shards, settings, belief)
    if belief.is_start:
        belief = replace(belief, weights=em.base, is_start=False)
    start = replace(start, belief=em.centred(belief))
    if settings.learn_profiles and len(start.profiles.weights) == 1:
        start = replace(start, profiles=single_profile(belief, em.known_shares))
    return em, start


def fit_support(
    shards: Sequence[VoteShard], start: CrowdState, settings: CrowdSettings
) -> tuple[CrowdState, list[Array], list[float], bool]:
    """Last state, its labels per shard, the objective after each step, and whether EM has converged.

    The first steps only tell whose votes depend on the support, which defines the typical annotator for the others. If
    there are many votes, EM starts from a fit to some of them.
    """
    belief, some = as_support(start.belief), sample_shards(shards)
    new_levels = belief.levels if belief.is_start else None
    if belief.is_start and belief.panel is None and len(some) < len(shards):
        # Not with levels: sources that have no vote in these shards have to learn theirs, too.
        start = fit_support(some, replace(start, belief=replace(belief, levels=None)), settings)[0]
        start = replace(start, belief=replace(start.belief, levels=new_levels))
    is_start = as_support(start.belief).is_start
    em, start = _prepared(shards, start, settings)
    if is_start and settings.max_iter > _FIRST_STEPS:
        start = _ascend(em, start, _FIRST_STEPS)[0].state
        belief = as_support(start.belief)
        em.refer_to_informed(belief.traits.slopes)
        em.earlier = EarlierVotes(belief)
        start = replace(start, belief=em.centred(belief))
    if new_levels is not None:
        # What strengths are worth is learned from labels that values alone give. Learned together with the labels, they
        # confirm themselves: strong votes make labels certain, and certain labels make strong votes worth more.
        by_values = _ascend(em, start, settings.max_iter)[0]
        soft = [shard.soft_votes(shard.votes, new_levels) for shard in shards]
        levels = learned_levels(soft, by_values.label_probs, new_levels)
        start = replace(by_values.state, belief=replace(by_values.state.belief, levels=levels))
    best, objectives, converged = _ascend(em, start, settings.max_iter)
    return best.state, best.label_probs, objectives, converged


def sample_shards(shards: Sequence[VoteShard]) -> Sequence[VoteShard]:
    """Some of the shards, if there are many: a fit to them is near that to all."""
    return shards[:: max(1, min(len(shards) // _MIN_SAMPLE, _MAX_STRIDE))]


def _ascend(em: SupportEM, start: CrowdState, max_iter: int) -> tuple[_Step, list[float], bool]:
    """Last step, the objective after each one, and whether EM has converged.

    The objective never falls: a step that would lower it is shortened, or not taken. The link is learned from known
    labels in the first steps, while nothing but votes speaks of labels.
    """
    learns_link = em.settings.learn_profiles and len(start.profiles.weights) == 1 and _has_gold(em.shards)
    learns_link &= as_support(start.belief).panel is None
    objectives: list[float] = []
    best: _Step | None = None
    candidate = following = start
    steps, is_plain, share = Extrapolation(), True, 1.0
    for _ in range(max_iter):
        step = em.e_step(candidate)
        if best is not None and step.objective < best.objective - _ROUNDING * abs(best.objective):
            if not is_plain:
                candidate, is_plain = following, True
                steps.refuse()
                continue
            if share == 0.0:
                return best, objectives, True
            # Far from an optimum the step of the traits may be too long: it keeps a robust centre in its place only to
            # first order, and is moved back to it. Without it nothing else can fall.
            if not em.held:
                em.hold_reference(as_support(best.state.belief).traits)
                following = em.m_step(best, learns_link=learns_link and len(objectives) <= _LINK_ROUNDS)
                candidate = following
            else:
                share = share / 4.0 if share > _MIN_STEP_SHARE else 0.0
                candidate = _shortened(best.state, following, share)
            steps.forget()
            continue
        share = 1.0
        if best is not None:
            step = replace(step, objective=max(step.objective, best.objective))
        best = step
        objectives.append(step.objective)
        if _has_converged(objectives, em.settings.tol):
            return best, objectives, True
        if not is_plain:
            steps.accept()
        following = em.m_step(step, learns_link=learns_link and len(objectives) <= _LINK_ROUNDS)
        steps.add(*(_vector(state) for state in (step.state, following)))
        is_plain = len(steps.moves) == 1
        candidate = following if is_plain else em.extrapolated(following, steps)
    if best is None:
        raise ValueError("max_iter must be at least 1")
    return best, objectives, False


def _has_converged(objectives: list[float], tol: float) -> bool:
    """Whether the last steps have raised the objective by less than ``tol`` of its size, on average."""
    if len(objectives) <= _STOP_STEPS:
        return False
    growth = (objectives[-1] - objectives[-1 - _STOP_STEPS]) / _STOP_STEPS
    return growth < tol * max(abs(objectives[-1]), 1.0)


def _shortened(before: CrowdState, after: CrowdState, share: float) -> CrowdState:
    """A step whose traits move by a share of it."""
    old, new = as_support(before.belief).traits, as_support(after.belief).traits
    traits = Traits(*(one + share * (two - one) for one, two in zip(old, new, strict=True)))
    return replace(after, belief=replace(as_support(after.belief), traits=traits))


def _has_gold(shards: Sequence[VoteShard]) -> bool:
    """Whether there are known labels with votes."""
    return any(((shard.known >= 0) & (cast("Votes", shard.votes).per_pair() > 0)).any() for shard in shards)


def final_belief(state: CrowdState, votes_by_state: Array) -> SupportBelief:
    """The belief of a fit, described by the expected counts (annotators, classes, states, 2) of its labels."""
    belief = as_support(state.belief)
    belief = replace(belief, anchor=belief.traits)
    anchor = traits_from_counts(votes_by_state, belief)
    return described(replace(belief, anchor=anchor), votes_by_state)
