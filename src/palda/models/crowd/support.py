"""The default annotator model: support of labels on a grid, between Dawid and Skene's model and the vote share.

Given a label that is present or absent, votes of real crowds on one document are not independent: some documents are
hard for everybody, and people make the same mistakes. A model that takes them as independent multiplies evidence that
is shared, and becomes certain of wrong labels. Here each (document, class) has a support s instead, the log-odds with
which a typical annotator says yes; votes are independent given the support (maths, eqs. 64-68):

    P(s = x_j) = w_ij                           weights of a grid per class, learned
    P(y_k = 1 | s) = expit(a_k s + e_k + f_ki)  traits of annotator k: slope, offset, offset per class
    P(present | s) = expit(κ_i s + δ_i)         the link to the truth

If the votes come from two kinds of labels, as simulated ones do, the weights become two spikes, and the model is that
of Dawid and Skene; if they spread out, it is close to a vote share. An adversary has a negative slope; the slope of
somebody who answers at random is near 0.

The support is summed out for each state of the label, so that label-set profiles, classifiers and known labels join
votes as they do with other annotator models. Symbols: k annotator, i class, j point of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.special import expit

from palda import kernels
from palda.data import ArraySpec, prefixed
from palda.kernels import GridEvidence, GridPrior, LabelVotes
from palda.models.crowd.annotator_model import AnnotatorBelief, PerClassModel, VoteEvidence, with_levels
from palda.models.crowd.held_out import HeldOutVotes
from palda.models.crowd.label_sets import vote_arrays
from palda.models.crowd.panel import (
    PANEL_ARRAYS,
    PanelBelief,
    evidence_of_panel,
    panel_of_people,
    panel_support,
    predicted_votes,
    votes_of_people,
)
from palda.models.crowd.traits import (
    CLASS_SPREAD,
    OFFSET_SPREAD,
    POINTS,
    SLOPE_SPREAD,
    Traits,
    limited,
    solve_pair,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array, Votes
    from palda.models.crowd.annotator_history import AnnotatorHistory

KAPPA = 2.2
"""Slope of the link without gold labels.

Of the crowds of people with a reference (``python -m benchmarks real_gold``: arq with 2, 3 and 5 people, hin, ambient,
csta with three answers) the log-likelihood of the labels is within .004 of its best at 2 to 2.5, and .79 to 1.22 times
as many labels are expected to be wrong as are. Clear-cut test questions want more; models join as a panel.
"""

_MIN_PROB = 1e-6  # P(vote) is never closer to 0
_MAX_STEPS, _STEP_TOL = 30, 1e-4  # of scoring for traits from counts
_MIN_RATE, _MAX_STRENGTH = 1e-4, 1e5  # of the Beta distributions that traits are reported as
_HELD_OUT_CELLS = 100_000  # (document, class, point) cells that are computed at a time: they stay in the cache
_NONE = np.empty((0, 0))
NOTHING_GIVEN = GridEvidence(_NONE, _NONE, _NONE, np.empty(0), 0.0)

SUPPORT_ARRAYS = {
    "slopes": ArraySpec(("annotators",), low=-100.0, high=100.0),
    "offsets": ArraySpec(("annotators",), low=-100.0, high=100.0),
    "by_class": ArraySpec(("annotators", "classes"), low=-100.0, high=100.0),
    "anchor_slopes": ArraySpec(("annotators",), low=-100.0, high=100.0),
    "anchor_offsets": ArraySpec(("annotators",), low=-100.0, high=100.0),
    "anchor_by_class": ArraySpec(("annotators", "classes"), low=-100.0, high=100.0),
    "weights": ArraySpec(("classes", len(POINTS)), above=0.0, high=1.0 + 1e-6, sum_axis=1),
    "link": ArraySpec(("classes", 2), low=-100.0, high=100.0),
    "overall": ArraySpec(("annotators", 2, 2), above=0.0),
    "sharpness": ArraySpec(("classes",), low=0.0, high=1e6, group="answers"),
    **prefixed("panel", PANEL_ARRAYS),
}
"""Schema of what a ``SupportBelief`` adds to the arrays of beliefs in a file."""


@dataclass(frozen=True)
class SupportBelief(AnnotatorBelief):
    """Traits of annotators, weights of the grid, and the link from support to truth.

    ``posterior`` states the traits as Beta beliefs about sensitivity and specificity per class, for reports and for the
    choice of documents; ``pool`` is that of an annotator without votes.
    """

    overall: Array = field(kw_only=True)  # (annotators, states, 2): Beta beliefs about mean rates over classes
    traits: Traits = field(kw_only=True)
    anchor: Traits = field(kw_only=True)
    """Traits that follow from expected counts alone, which ``update`` compares new counts with."""
    weights: Array = field(kw_only=True)  # w, (classes, points)
    link: Array = field(kw_only=True)  # κ and δ, (classes, 2)
    panel: PanelBelief | None = None  # what the votes of models say; None without models
    sharpness: Array | None = None
    """(classes,): of the answers of a classifier about the support; None if other evidence is about labels, in nats."""
    is_start: bool = False  # whether nothing has been learned from votes yet

    @property
    def history(self) -> Array:
        """(annotators, states, 2): earlier correct and wrong votes; NaN without a history."""
        return self.own[:, 0]

    @cached_property
    def grid(self) -> GridPrior:
        """Distributions of the support of all, present and absent labels."""
        present = expit(self.link[:, :1] * POINTS + self.link[:, 1:])
        joint, other = self.weights * present, self.weights * (1.0 - present)
        return GridPrior(
            POINTS,
            self.weights,
            joint / joint.sum(axis=1, keepdims=True),
            other / other.sum(axis=1, keepdims=True),
        )

    @property
    def prevalence(self) -> Array:
        """(classes,): share of labels that are present."""
        share: Array = np.sum(self.weights * expit(self.link[:, :1] * POINTS + self.link[:, 1:]), axis=1)
        return share

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Beliefs about other annotators, or in another order; each has that of the annotator at a position."""
        plain = super().take(rows)
        panel = None if self.panel is None else self.panel.take(rows)
        traits, anchor = self.traits.take(rows), self.anchor.take(rows)
        return replace(plain, overall=self.overall[rows], traits=traits, anchor=anchor, panel=panel)

    def with_new_annotators(self, families: NDArray[np.int64]) -> SupportBelief:
        """The same beliefs plus typical annotators; models among them are part of the panel.

        Nobody has fitted the new models yet. But they share mistakes: as people, they would outvote those there are.
        """
        n_new, panel = len(families), self.panel
        plain = super().with_new_annotators(families)
        if panel is None and (families >= 0).any():
            panel = panel_of_people(len(self.posterior), self.weights)
        typical = Traits.typical(n_new, len(self.weights))
        traits, anchor = (
            Traits(*(np.concatenate(pair) for pair in zip(old, typical, strict=True)))
            for old in (self.traits, self.anchor)
        )
        return SupportBelief(
            plain.posterior, plain.pool, plain.own, plain.levels,
            overall=np.concatenate((self.overall, np.broadcast_to(self.pool.mean(axis=0), (n_new, 2, 2)))),
            traits=traits, anchor=anchor, weights=self.weights, link=self.link, is_start=self.is_start,
            panel=None if panel is None else panel.with_new_annotators(families), sharpness=self.sharpness,
        )  # fmt: skip

    def rates_over_classes(self) -> Array:
        """(annotators, states, 2): beliefs about mean rates over all classes that anybody has judged.

        Every annotator is described by the same classes, so that those who judged different ones can be compared.
        """
        return self.overall

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What the class adds to the arrays of a file."""
        anchor = {f"anchor_{name}": value for name, value in self.anchor._asdict().items()}
        panel = {} if self.panel is None else {f"panel.{name}": value for name, value in self.panel.arrays().items()}
        own = {"weights": self.weights, "link": self.link, "overall": self.overall}
        if self.sharpness is not None:
            own["sharpness"] = self.sharpness
        return {**self.traits._asdict(), **anchor, **own, **panel}

    @classmethod
    def with_arrays(cls, plain: AnnotatorBelief, arrays: Mapping[str, NDArray[Any]]) -> SupportBelief:
        """The belief whose ``arrays`` these are, and those of a plain belief."""
        return cls(
            plain.posterior, plain.pool, plain.own, plain.levels,
            overall=arrays["overall"],
            traits=Traits(*(arrays[name] for name in Traits._fields)),
            anchor=Traits(*(arrays[f"anchor_{name}"] for name in Traits._fields)),
            weights=arrays["weights"],
            link=arrays["link"],
            sharpness=arrays.get("sharpness"),
            panel=PanelBelief.from_arrays(
                {name.removeprefix("panel."): value for name, value in arrays.items() if name.startswith("panel.")}
            ),
        )  # fmt: skip


class SupportModel(PerClassModel):
    """Votes are independent given the support of a label; see the module (maths, eqs. 64-68)."""

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> SupportBelief:
        """Typical annotators, except those with a history, which counts as earlier votes on one more class."""
        own = np.full((n_annotators, n_classes, 2, 2), np.nan)
        if prior is not None:
            own[:] = prior.betas((2,))[:, None]
        typical = Traits.typical(n_annotators, n_classes)
        weights = np.full((n_classes, len(POINTS)), 1.0 / len(POINTS))
        link = np.tile((KAPPA, 0.0), (n_classes, 1))
        betas = np.ones((n_annotators, n_classes, 2, 2))
        belief = SupportBelief(
            betas,
            betas[0],
            own,
            overall=betas[:, 0],
            traits=typical,
            anchor=typical,
            weights=weights,
            link=link,
            is_start=True,
        )
        return self.update(np.zeros_like(own), belief)

    def evidence(self, votes: Votes, belief: AnnotatorBelief, other: Array | None = None) -> VoteEvidence:
        """Log-likelihoods of votes and answers in each state, the support summed out (maths, eq. 65)."""
        belief = as_support(belief)
        people, given = people_and_panel(votes, belief)
        judged = judged_cells(people)
        given, other = with_answers(given, belief, other)
        log_odds, absent = kernels.active().support_evidence(
            label_votes(people, judged), vote_probs(belief, judged), belief.grid, given
        )
        return with_levels(VoteEvidence(absent + log_odds, absent), votes, belief.levels, shared=True).joined(other)

    def update(self, counts: Array, belief: AnnotatorBelief) -> SupportBelief:
        """Traits moved as far as those that follow from the counts alone have moved (maths, eq. 103).

        Expected counts of correct and wrong votes hold less than the votes themselves; their change is what matters
        after a fit.
        """
        belief = as_support(belief)
        anchor = traits_from_counts(counts, belief)
        return described(replace(belief, traits=belief.traits.moved(anchor, belief.anchor), anchor=anchor), counts)

    def held_out(self, hidden: Votes, visible: Votes, belief: AnnotatorBelief) -> HeldOutVotes:
        """Votes that go with the visible ones on the same label even if its state is known."""
        belief = as_support(belief)
        everybody = visible
        visible, given = people_and_panel(visible, belief)
        judged = judged_cells(visible) | judged_cells(hidden)
        probs, grid = vote_probs(belief, judged), belief.grid
        cell = np.cumsum(judged).reshape(judged.shape)[hidden.annotator, hidden.label] - 1
        expected = [np.empty(len(hidden)), np.empty(len(hidden))]
        n_docs = max(1, _HELD_OUT_CELLS // belief.weights.size)
        for first in range(0, visible.n_docs, n_docs):
            rows = slice(first, min(first + n_docs, visible.n_docs))
            some = label_votes(visible.take(rows), judged)
            table = kernels.active().support_likelihoods(some, probs, grid, given.take(rows)).reshape(-1, len(POINTS))
            inside = slice(hidden.doc_starts[rows.start], hidden.doc_starts[rows.stop])
            own, label = probs[cell[inside], hidden.value[inside]], hidden.label[inside]
            likelihoods = table[hidden.pair[inside] - first * hidden.n_classes]
            for part, weights in zip(expected, (grid.absent, grid.present), strict=True):
                support = likelihoods * weights[label]
                part[inside] = np.einsum("vj,vj->v", own, support) / support.sum(axis=1)
        if belief.panel is not None:
            of_models = np.flatnonzero(belief.panel.is_model[hidden.annotator])
            by_panel = predicted_votes(hidden.select(of_models), everybody, belief.panel, belief.traits, belief.link)
            for part, of_panel in zip(expected, by_panel, strict=True):
                part[of_models] = of_panel
        return HeldOutVotes(hidden, *expected)

    def divergence(self, belief: AnnotatorBelief) -> float:
        """Minus the log prior of the traits, up to a constant."""
        return -trait_log_prior(as_support(belief).traits)


def as_support(belief: AnnotatorBelief) -> SupportBelief:
    """The belief, if it is one of this model."""
    if not isinstance(belief, SupportBelief):
        raise TypeError("beliefs of another annotator model")
    return belief


def people_and_panel(votes: Votes, belief: SupportBelief) -> tuple[Votes, GridEvidence]:
    """The votes of people, and what those of models say about people's support."""
    if belief.panel is None:
        return votes, NOTHING_GIVEN
    found = panel_support(votes, belief.panel, belief.traits)
    people = votes_of_people(votes, belief.panel)
    return people, evidence_of_panel(found, belief.panel, people.per_pair() > 0)


def given_weights(mean: Array, precision: Array, weights: Array, doubt: float) -> Array:
    """Weights (..., points) of the grid where normal distributions stand in place of those of the classes.

    The latter, ``weights``, hold where ``precision`` is 0, and else with probability ``doubt``.
    """
    distance = (POINTS - mean[..., None]) ** 2
    distance -= distance.min(axis=-1, keepdims=True)  # a mean may be far from all points
    density = np.exp(-0.5 * precision[..., None] * distance)
    density /= density.sum(axis=-1, keepdims=True)
    mixed: Array = np.where(precision[..., None] > 0.0, (1.0 - doubt) * density + doubt * weights, weights)
    return mixed


def with_answers(given: GridEvidence, belief: SupportBelief, other: Array | None) -> tuple[GridEvidence, Array | None]:
    """What is known of the support, with a classifier's answers; and other evidence about labels, in nats."""
    if other is None or belief.sharpness is None:
        return given, other
    return given._replace(answers=np.ascontiguousarray(other, dtype=np.float64), sharpness=belief.sharpness), None


def judged_cells(votes: Votes) -> NDArray[np.bool_]:
    """(annotators, classes): whether an annotator judged a class."""
    judged = np.zeros((votes.n_annotators, votes.n_classes), dtype=bool)
    judged[votes.annotator, votes.label] = True
    return judged


def label_votes(votes: Votes, judged: NDArray[np.bool_]) -> LabelVotes:
    """The votes in the order of labels; the cells are the annotators and classes that are ``judged``."""
    cell_of = (np.cumsum(judged) - 1).astype(np.int32)
    ordered: LabelVotes = kernels.active().votes_by_label(vote_arrays(votes), cell_of, votes.n_classes)
    return ordered


def vote_probs(belief: SupportBelief, judged: NDArray[np.bool_]) -> Array:
    """Probabilities (cells, 2, points) of votes, for the annotators and classes that are ``judged``."""
    annotator, _ = np.nonzero(judged)
    traits = belief.traits
    scores = traits.slopes[annotator, None] * POINTS + (traits.offsets[annotator] + traits.by_class[judged])[:, None]
    yes = np.clip(expit(scores), _MIN_PROB, 1.0 - _MIN_PROB)
    return np.stack((1.0 - yes, yes), axis=1)


def trait_log_prior(traits: Traits) -> float:
    """Log-density of the traits under their prior, up to a constant."""
    squares = (traits.slopes - 1.0) / SLOPE_SPREAD, traits.offsets / OFFSET_SPREAD, traits.by_class / CLASS_SPREAD
    return -0.5 * float(sum(np.sum(np.square(each)) for each in squares))


class _Rates(NamedTuple):
    """P(yes) of annotators in each class and state, (annotators, classes, 2), and derivatives by slope and offset."""

    yes: Array
    by_slope: Array
    by_offset: Array


def _rates(traits: Traits, grid: GridPrior) -> _Rates:
    scores = traits.slopes[:, None, None] * POINTS + (traits.offsets[:, None] + traits.by_class)[:, :, None]
    probs = expit(scores)
    slopes = probs * (1.0 - probs)
    states = np.stack((grid.absent, grid.present))  # (2, classes, points)
    yes, by_offset = (np.einsum("kij,sij->kis", table, states) for table in (probs, slopes))
    by_slope = np.einsum("kij,sij->kis", slopes, states * POINTS)
    return _Rates(np.clip(yes, _MIN_RATE, 1.0 - _MIN_RATE), by_slope, by_offset)


def _with_history(belief: SupportBelief, counts: Array) -> tuple[Array, GridPrior]:
    """Counts and distributions with one more class, on which earlier votes were given."""
    history = np.nan_to_num(belief.history)[:, None]
    grid = belief.grid
    mean = GridPrior(POINTS, *(np.vstack((table, table.mean(axis=0))) for table in grid[1:]))
    return np.concatenate((counts, history), axis=1), mean


def _padded(traits: Traits) -> Traits:
    return traits._replace(by_class=np.pad(traits.by_class, ((0, 0), (0, 1))))


class _Information(NamedTuple):
    """Precision of slope and offset given the offsets per class, (annotators,), and of the latter."""

    slope: Array
    offset: Array
    both: Array
    by_class: Array  # (annotators, classes)
    mixed: Array  # of slope and offset in a class, (annotators, classes)


def _information(rates: _Rates, n_votes: Array) -> _Information:
    weight = n_votes / (rates.yes * (1.0 - rates.yes))
    by_class = np.sum(weight * rates.by_offset**2, axis=2)
    mixed = np.sum(weight * rates.by_slope * rates.by_offset, axis=2)
    return _Information(
        np.sum(weight * rates.by_slope**2, axis=(1, 2)) + SLOPE_SPREAD**-2,
        by_class.sum(axis=1) + OFFSET_SPREAD**-2,
        mixed.sum(axis=1),
        by_class + CLASS_SPREAD**-2,
        mixed,
    )


def traits_from_counts(counts: Array, belief: SupportBelief) -> Traits:
    """Most probable traits given expected correct and wrong votes (annotators, classes, states, 2) (maths, eq. 103)."""
    counts, grid = _with_history(belief, counts)
    n_votes = counts.sum(axis=3)
    n_yes = np.stack((counts[:, :, 0, 1], counts[:, :, 1, 0]), axis=2)
    traits = belief.anchor
    for _ in range(_MAX_STEPS):
        rates = _rates(_padded(traits), grid)
        known = _information(rates, n_votes)
        residual = (n_yes - n_votes * rates.yes) / (rates.yes * (1.0 - rates.yes))
        by_offset = np.sum(residual * rates.by_offset, axis=2)
        slope = np.sum(residual * rates.by_slope, axis=(1, 2)) - (traits.slopes - 1.0) / SLOPE_SPREAD**2
        offset = by_offset.sum(axis=1) - traits.offsets / OFFSET_SPREAD**2
        by_class = by_offset[:, :-1] - traits.by_class / CLASS_SPREAD**2
        # Offsets per class are eliminated, so that a step moves all traits together.
        inverse, with_slope = 1.0 / known.by_class[:, :-1], known.mixed[:, :-1]
        with_offset = known.by_class[:, :-1] - CLASS_SPREAD**-2
        moved = solve_pair(
            known.slope - np.sum(with_slope**2 * inverse, axis=1),
            known.offset - np.sum(with_offset**2 * inverse, axis=1),
            known.both - np.sum(with_slope * with_offset * inverse, axis=1),
            slope - np.sum(with_slope * by_class * inverse, axis=1),
            offset - np.sum(with_offset * by_class * inverse, axis=1),
        )
        by_class -= with_slope * moved[0][:, None] + with_offset * moved[1][:, None]
        step = limited(Traits(*moved, by_class * inverse))
        traits = Traits(*(own + part for own, part in zip(traits, step, strict=True)))
        if max(np.abs(part).max(initial=0.0) for part in step) < _STEP_TOL:
            break
    return belief.anchor.where_model(belief.panel, traits)


def described(belief: SupportBelief, counts: Array) -> SupportBelief:
    """The belief with its traits stated as Beta beliefs about sensitivity and specificity (maths, eq. 104).

    Means are the rates of the traits; variances follow from the information in ``counts`` by the delta method.
    """
    counts, grid = _with_history(belief, counts)
    rates = _rates(_padded(belief.traits), grid)
    known = _information(rates, counts.sum(axis=3))
    shared = _trait_variance(known, rates.by_slope[:, :-1], rates.by_offset[:, :-1])
    own = rates.by_offset[:, :-1] ** 2 / known.by_class[:, :-1, None]
    yes = rates.yes[:, :-1]
    judged = counts[:, :-1].any(axis=(0, 2, 3))  # traits say nothing about classes that nobody has judged
    judged = judged if judged.any() else ~judged
    mean_slope, mean_offset = (table[:, :-1][:, judged].mean(axis=1, keepdims=True) for table in rates[1:])
    overall = _trait_variance(known, mean_slope, mean_offset)[:, 0] + own[:, judged].sum(axis=1) / judged.sum() ** 2
    typical = _rates(Traits.typical(1, len(belief.weights)), belief.grid)
    spread = (SLOPE_SPREAD * typical.by_slope) ** 2 + (OFFSET_SPREAD**2 + CLASS_SPREAD**2) * typical.by_offset**2
    posterior, over_all, pool = (
        _betas(yes, shared + own), _betas(yes[:, judged].mean(axis=1), overall), _betas(typical.yes, spread)[0]
    )  # fmt: skip
    if belief.panel is not None:  # traits of models are about their own support: their rates are counted
        models = belief.panel.is_model
        posterior[models] = pool + counts[models, :-1]
        over_all[models] = pool[judged].mean(axis=0) + counts[models].sum(axis=1)  # earlier votes included
    return replace(belief, posterior=posterior, overall=over_all, pool=pool)


def _trait_variance(known: _Information, by_slope: Array, by_offset: Array) -> Array:
    """Variance (annotators, classes, 2) of rates by the uncertainty of slope and offset."""
    determinant = (known.slope * known.offset - known.both**2)[:, None, None]
    one, two, both = (part[:, None, None] for part in known[:3])
    variance: Array = (two * by_slope**2 + one * by_offset**2 - 2.0 * both * by_slope * by_offset) / determinant
    return variance


def _betas(yes: Array, variance: Array) -> Array:
    """Beta distributions (..., states, 2) of correct and wrong votes with these moments of P(yes) (..., states)."""
    strength = np.clip(yes * (1.0 - yes) / np.maximum(variance, 1e-12) - 1.0, 1.0, _MAX_STRENGTH)
    correct = np.stack((1.0 - yes[..., 0], yes[..., 1]), axis=-1)
    return np.stack((correct, 1.0 - correct), axis=-1) * strength[..., None]
