"""Models as a panel: annotators of the kind "model" share mistakes, and so are one witness beside people.

Votes of models alone give a panel support s^M, with supports of families of models around it. What it says about the
support s^P of people is learned where both have judged, with a prior where nobody has (maths, eqs. 105-107):

    s^F | s^M ~ N(s^M, τ_F²)                                          families f of models
    s^P | panel ~ N(α_i + β_i m + Σ_f d_f r_f, σ_i² + β_i² v)         m, v: mean and variance of s^M
                  or, with probability ε, as without a panel          r_f: what family f adds to what the panel expects

So forty models never outvote three people who agree, and five good ones still help. Every family counts once in what
is typical.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, logsumexp

from palda.data import ArraySpec
from palda.kernels import GridEvidence
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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data import Array, Strings, VoteRows, Votes

    Ints = NDArray[np.int64]

# Constants were chosen on premo (45 models, with people on 60 and 180 documents) and on babe (13 and 64 models).
FAMILY_SPREAD, _FAMILY_PAIRS = 0.5, 20.0  # τ before any vote, and pseudo-documents behind it
RELATION_SLOPE, _SLOPE_SPREAD, _INTERCEPT_SPREAD = 1.0, 0.5, 0.5
RELATION_SPREAD, _SPREAD_DOCS = 1.2, 4.0  # σ, and pseudo-documents behind it
_MAX_PRECISION = 0.25  # largest information of one typical vote about the support: p (1 - p)
DOUBT, _DOUBT_DOCS = 0.05, 20.0  # ε, and pseudo-labels behind it
_FAMILY_WEIGHT_SPREAD = 0.15  # of d_f around 0, which are equal weights
_MIN_SPREAD = 0.3  # of τ and σ; the points of the grid are .5 apart
_BASE_DOCUMENTS = 2.0
_MAX_ROUNDS, _TOL = 60, 1e-6
_INNER_STEPS = 2
_REFERENCE_WIDTHS = 0.7, 0.4  # of Huber's centre of offsets, and of offsets per class
_REFERENCE_ROUNDS = 20
_MAX_CELLS = 2_000_000  # (document, class, family, point) cells that are computed at a time
_SHARE_RANGE = 0.02, 0.98
_MIN_PROB = 1e-6  # of a predicted vote

PANEL_ARRAYS = {
    "is_model": ArraySpec(("annotators",), "integer", low=0, high=1, group="panel"),
    "family_of": ArraySpec(("annotators",), "integer", low=-1, below="panel families", group="panel"),
    "family_spreads": ArraySpec(("panel families",), above=0.0, high=100.0, group="panel"),
    "weights": ArraySpec(("classes", len(POINTS)), above=0.0, high=1.0 + 1e-6, sum_axis=1, group="panel"),
    "intercepts": ArraySpec(("classes",), low=-100.0, high=100.0, group="panel"),
    "slopes": ArraySpec(("classes",), low=-100.0, high=100.0, group="panel"),
    "spreads": ArraySpec(("classes",), above=0.0, high=100.0, group="panel"),
    "family_weights": ArraySpec(("panel families",), low=-100.0, high=100.0, group="panel"),
    "doubt": ArraySpec((), low=0.0, high=1.0, group="panel"),
}
"""Schema of a ``PanelBelief`` in a file; crowds without models have none."""


@dataclass(frozen=True, eq=False)
class PanelBelief:
    """The models of a crowd, and what their panel says about people's support."""

    is_model: NDArray[np.bool_]  # (annotators,)
    family_of: Ints  # (annotators,): family of a model; -1 for people
    family_spreads: Array  # τ, (families,)
    weights: Array  # of the grid of s^M, (classes, points)
    intercepts: Array  # α, (classes,)
    slopes: Array  # β, (classes,)
    spreads: Array  # σ, (classes,)
    family_weights: Array  # d, (families,)
    doubt: Array  # ε, (): share of labels on which the panel says nothing about people

    def take(self, rows: Ints) -> PanelBelief:
        """The panel with annotators in another order."""
        return replace(self, is_model=self.is_model[rows], family_of=self.family_of[rows])

    def with_new_annotators(self, families: Ints) -> PanelBelief:
        """The panel with more annotators; ``families`` are those among the new models, -1 for people.

        New models are of new families, about which nothing is known.
        """
        n_old, n_new = len(self.family_spreads), int(families.max(initial=-1)) + 1
        return replace(
            self,
            is_model=np.append(self.is_model, families >= 0),
            family_of=np.append(self.family_of, np.where(families >= 0, n_old + families, -1)),
            family_spreads=np.append(self.family_spreads, np.full(n_new, FAMILY_SPREAD)),
            family_weights=np.append(self.family_weights, np.zeros(n_new)),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The panel as arrays of a file."""
        arrays = {name: np.asarray(getattr(self, name)) for name in PANEL_ARRAYS}
        return arrays | {"is_model": self.is_model.astype(np.int8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PanelBelief | None:
        """The panel whose ``arrays`` these are; None without arrays."""
        if not arrays:
            return None
        fields = {name: arrays[name] for name in PANEL_ARRAYS}
        fields |= {"is_model": fields["is_model"] > 0, "family_of": fields["family_of"].astype(np.int64)}
        return cls(**fields)


class PanelSupport(NamedTuple):
    """What a panel says about some documents."""

    mean: Array  # m, (documents, classes)
    variance: Array  # v
    residuals: Array  # r, (documents, classes, families)
    asked: NDArray[np.bool_]  # (documents, classes): whether any model has judged

    def take(self, rows: Ints) -> PanelSupport:
        """What it says about some of them."""
        return PanelSupport(self.mean[rows], self.variance[rows], self.residuals[rows], self.asked[rows])

    @classmethod
    def joined(cls, parts: Sequence[PanelSupport]) -> PanelSupport:
        """What it says about the documents of all parts."""
        columns: list[Any] = [np.concatenate(tables) for tables in zip(*parts, strict=True)]
        return cls(*columns)


def model_families(kinds: Strings, families: Strings, n_annotators: int) -> Ints:
    """(annotators,): number of the family of each model, -1 for people. A model without a family is one of its own.

    ``kinds`` and ``families`` are of length 0 if all are unknown.
    """
    family_of = np.full(n_annotators, -1)
    is_model = np.asarray(kinds == "model") if len(kinds) else np.zeros(n_annotators, dtype=bool)
    if is_model.any():
        names = np.array([f"\0{k}" for k in range(n_annotators)], dtype=object)
        if len(families):
            names = np.where(families == "", names, families)
        _, family_of[is_model] = np.unique(names[is_model].astype(str), return_inverse=True)
    return family_of


def start_panel(votes: VoteRows) -> PanelBelief | None:
    """The panel before any vote; None if no annotator is a model."""
    families = model_families(votes.annotator_kinds, votes.annotator_families, votes.n_annotators)
    if (families < 0).all():
        return None
    weights = np.full((votes.n_classes, len(POINTS)), 1.0 / len(POINTS))
    return panel_of_people(0, weights).with_new_annotators(families)


def panel_of_people(n_annotators: int, weights: Array) -> PanelBelief:
    """A panel without models yet, beside some people, and weights (classes, points) of its grid."""
    n_classes, nobody = len(weights), np.empty(0)
    return PanelBelief(
        np.zeros(n_annotators, dtype=bool),
        np.full(n_annotators, -1),
        nobody,
        weights,
        np.zeros(n_classes),
        np.full(n_classes, RELATION_SLOPE),
        np.full(n_classes, RELATION_SPREAD),
        nobody,
        np.array(DOUBT),
    )


def votes_of_models(votes: Votes, panel: PanelBelief) -> Votes:
    """The votes of models."""
    return votes.select(panel.is_model[votes.annotator])


def votes_of_people(votes: Votes, panel: PanelBelief) -> Votes:
    """The votes of people."""
    return votes.select(~panel.is_model[votes.annotator])


class _Block:
    """Votes of models on some documents, in an order that makes sums over families and over annotators fast."""

    def __init__(self, votes: Votes, panel: PanelBelief) -> None:
        n_families, n_classes = len(panel.family_spreads), votes.n_classes
        self.shape = votes.n_docs, n_classes, n_families
        group = (votes.doc.astype(np.int64) * n_classes + votes.label) * n_families + panel.family_of[votes.annotator]
        order = np.argsort(group, kind="stable")
        self.group, self.first = np.unique(group[order], return_index=True)
        self.annotator, self.label, self.value = (part[order] for part in (votes.annotator, votes.label, votes.value))
        self.group_of_vote = np.repeat(np.arange(len(self.group)), np.diff(np.append(self.first, len(order))))
        cell = self.annotator.astype(np.int64) * n_classes + self.label
        self.by_cell = np.argsort(cell, kind="stable")
        self.cell, self.first_of_cell = np.unique(cell[self.by_cell], return_index=True)

    def likelihoods(self, yes: Array) -> Array:
        """(documents, classes, families, points): of the votes, up to a factor; 1 where a family was not asked."""
        probs = yes[self.annotator, self.label]
        table = np.ones((int(np.prod(self.shape)), len(POINTS)))
        if not len(probs):
            return table.reshape(*self.shape, len(POINTS))
        logs = np.log(np.where(self.value[:, None] == 1, probs, 1.0 - probs))
        sums = np.add.reduceat(logs, self.first, axis=0)
        table[self.group] = np.exp(sums - sums.max(axis=1, keepdims=True))
        return table.reshape(*self.shape, len(POINTS))

    def counts(self, posterior: Array, n_cells: int) -> tuple[Array, Array]:
        """Expected votes (cells, points), all and yes, from the supports of families."""
        own = posterior.reshape(-1, len(POINTS))[self.group][self.group_of_vote][self.by_cell]
        total, yes = np.zeros((2, n_cells, len(POINTS)))
        total[self.cell] = np.add.reduceat(own, self.first_of_cell, axis=0)
        yes[self.cell] = np.add.reduceat(own * self.value[self.by_cell, None], self.first_of_cell, axis=0)
        return total, yes


def fit_panel(parts: Sequence[Votes], panel: PanelBelief, traits: Traits) -> tuple[PanelBelief, Traits]:
    """The panel and the traits of its models, from their votes alone; those of people stay (maths, eq. 105)."""
    blocks = [block for votes in parts for block in _blocks(votes, panel)]
    if not blocks:
        return panel, traits
    n_annotators, n_classes = traits.by_class.shape
    balance, rates = _balanced_votes(blocks, panel, n_annotators, n_classes)
    base = base_weights(rates)
    panel = replace(panel, weights=base)
    members = np.bincount(panel.family_of[panel.is_model], minlength=len(panel.family_spreads))
    square, previous = (POINTS[:, None] - POINTS) ** 2, -np.inf
    for _ in range(_MAX_ROUNDS):
        yes_probs, kernels = _yes_probs(traits), _family_kernels(panel)
        weights, objective = _BASE_DOCUMENTS * base, 0.0
        total, yes = np.zeros((2, n_annotators * n_classes, len(POINTS)))
        pairs = np.zeros((len(members), len(POINTS), len(POINTS)))
        for block in blocks:
            local = block.likelihoods(yes_probs)
            messages, posterior, norm = _panel_posterior(local, kernels, panel.weights)
            objective += norm
            cavity = posterior[:, :, None] / messages
            own = np.einsum("difj,fjl->difl", cavity, kernels) * local
            asked = (local != 1.0).any(axis=3)
            own /= own.sum(axis=3, keepdims=True)
            block_total, block_yes = block.counts(own, len(total))
            total += block_total
            yes += block_yes
            for family in np.flatnonzero(members > 1):  # one annotator alone cannot tell the spread of a family
                mine = asked[:, :, family]
                joint = cavity[:, :, family][mine].T @ local[:, :, family][mine]
                pairs[family] += joint * kernels[family]
            weights = weights + (posterior * asked.any(axis=2)[:, :, None]).sum(axis=0)
        spreads = panel.family_spreads.copy()
        for family in np.flatnonzero(members > 1):
            found = float(np.sum(pairs[family] * square)) + _FAMILY_PAIRS * FAMILY_SPREAD**2
            spreads[family] = max(np.sqrt(found / (pairs[family].sum() + _FAMILY_PAIRS)), _MIN_SPREAD)
        panel = replace(panel, weights=weights / weights.sum(axis=1, keepdims=True), family_spreads=spreads)
        traits = _improved_traits(traits, total, yes, panel, balance)
        if objective - previous < _TOL * abs(objective):
            break
        previous = objective
    return panel, traits


def _blocks(votes: Votes, panel: PanelBelief) -> list[_Block]:
    """Votes of models in blocks of documents."""
    cells = votes.n_classes * len(panel.family_spreads) * len(POINTS)
    size = max(1, _MAX_CELLS // cells)
    parts = (votes.take(np.arange(first, min(first + size, votes.n_docs))) for first in range(0, votes.n_docs, size))
    models = (votes_of_models(part, panel) for part in parts)
    return [_Block(part, panel) for part in models if len(part)]


def _balanced_votes(blocks: list[_Block], panel: PanelBelief, n_annotators: int, n_classes: int) -> tuple[Array, Array]:
    """Weights (annotators, classes) in which every family counts once, and smoothed shares of yes votes (classes,)."""
    total, yes = np.zeros((2, n_annotators * n_classes))
    for block in blocks:
        cell = block.annotator.astype(np.int64) * n_classes + block.label
        total += np.bincount(cell, minlength=len(total))
        yes += np.bincount(cell, block.value, minlength=len(total))
    total, yes = total.reshape(n_annotators, n_classes), yes.reshape(n_annotators, n_classes)
    family = np.where(panel.family_of < 0, 0, panel.family_of)
    by_family = np.bincount(family, total.sum(axis=1), len(panel.family_spreads))
    balance = total / np.maximum(by_family[family], 1.0)[:, None]
    rates = np.sum((yes + 0.5) / (total + 1.0) * balance, axis=0) / np.maximum(balance.sum(axis=0), 1e-12)
    return balance, np.clip(rates, 0.01, 0.99)


def _yes_probs(traits: Traits) -> Array:
    """(annotators, classes, points): P(yes | s)."""
    scores = traits.slopes[:, None, None] * POINTS + (traits.offsets[:, None] + traits.by_class)[:, :, None]
    return np.clip(expit(scores), 1e-6, 1.0 - 1e-6)


def _family_kernels(panel: PanelBelief) -> Array:
    """(families, points of s^M, points of s^F): distributions of a family's support."""
    scaled = (POINTS[:, None] - POINTS) / panel.family_spreads[:, None, None]
    logs = -0.5 * scaled**2
    kernels: Array = np.exp(logs - logsumexp(logs, axis=2, keepdims=True))
    return kernels


def _panel_posterior(local: Array, kernels: Array, weights: Array) -> tuple[Array, Array, float]:
    """Messages of families, posterior of s^M (documents, classes, points), and the log-likelihood up to a constant."""
    messages = np.einsum("difl,fjl->difj", local, kernels) + 1e-300
    logs = np.log(weights) + np.log(messages).sum(axis=2)
    norm = logsumexp(logs, axis=2, keepdims=True)
    return messages, np.exp(logs - norm), float(norm.sum())


def _improved_traits(traits: Traits, total: Array, yes: Array, panel: PanelBelief, balance: Array) -> Traits:
    """Newton steps for the traits of models, relative to the centre of the families."""
    models = np.flatnonzero(panel.is_model)
    shape = (*traits.by_class.shape, len(POINTS))
    total, yes = total.reshape(shape)[models], yes.reshape(shape)[models]
    slopes, offsets, by_class = (part[models] for part in traits)
    for _ in range(_INNER_STEPS):
        probs = expit(slopes[:, None, None] * POINTS + (offsets[:, None] + by_class)[:, :, None])
        residual, curvature = yes - total * probs, total * probs * (1.0 - probs)
        slope = np.sum(residual * POINTS, axis=(1, 2)) - (slopes - 1.0) / SLOPE_SPREAD**2
        offset = residual.sum(axis=(1, 2)) - offsets / OFFSET_SPREAD**2
        known = (
            np.sum(curvature * POINTS**2, axis=(1, 2)) + SLOPE_SPREAD**-2,
            curvature.sum(axis=(1, 2)) + OFFSET_SPREAD**-2,
            np.sum(curvature * POINTS, axis=(1, 2)),
        )
        step = limited(Traits(*solve_pair(*known, slope, offset), by_class))
        slopes, offsets = slopes + step.slopes, offsets + step.offsets
        probs = expit(slopes[:, None, None] * POINTS + (offsets[:, None] + by_class)[:, :, None])
        gradient = np.sum(yes - total * probs, axis=2) - by_class / CLASS_SPREAD**2
        precision = np.sum(total * probs * (1.0 - probs), axis=2) + CLASS_SPREAD**-2
        by_class = by_class + limited(Traits(slopes, offsets, gradient / precision)).by_class
    own = balance[models]
    offsets = offsets - _huber_centre(offsets, own.sum(axis=1), _REFERENCE_WIDTHS[0])
    centres = [_huber_centre(by_class[:, i], own[:, i], _REFERENCE_WIDTHS[1]) for i in range(by_class.shape[1])]
    after = Traits(*(part.copy() for part in traits))
    after.slopes[models], after.offsets[models], after.by_class[models] = slopes, offsets, by_class - np.array(centres)
    return after


def _huber_centre(values: Array, weights: Array, width: float) -> float:
    """Weighted location between mean and median: a panel has few families, and none of them is typical."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    if not len(values) or cumulative[-1] <= 0.0:
        return 0.0
    centre = float(values[order][np.searchsorted(cumulative, cumulative[-1] / 2.0)])
    for _ in range(_REFERENCE_ROUNDS):
        own = weights * np.minimum(1.0, width / np.maximum(np.abs(values - centre), 1e-9))
        centre = float(np.sum(own * values) / max(own.sum(), 1e-12))
    return centre


def panel_support(votes: Votes, panel: PanelBelief, traits: Traits) -> PanelSupport:
    """What the models' votes among ``votes`` say (maths, eq. 105)."""
    n_docs, n_classes, n_families = votes.n_docs, votes.n_classes, len(panel.family_spreads)
    mean, variance = np.zeros((2, n_docs, n_classes))
    residuals, asked = np.zeros((n_docs, n_classes, n_families)), np.zeros((n_docs, n_classes), dtype=bool)
    yes_probs, kernels = _yes_probs(traits), _family_kernels(panel)
    size = max(1, _MAX_CELLS // (n_classes * n_families * len(POINTS)))
    for first in range(0, n_docs, size):
        rows = np.arange(first, min(first + size, n_docs))
        part = votes_of_models(votes.take(rows), panel)
        if not len(part):
            continue
        block = _Block(part, panel)
        _, posterior, _ = _panel_posterior(block.likelihoods(yes_probs), kernels, panel.weights)
        mean[rows] = posterior @ POINTS
        variance[rows] = posterior @ POINTS**2 - mean[rows] ** 2
        group = block.group[block.group_of_vote]
        doc = group // (n_classes * n_families)
        scores = traits.slopes[block.annotator] * mean[rows][doc, block.label]
        scores += traits.offsets[block.annotator] + traits.by_class[block.annotator, block.label]
        n_groups = int(np.prod(block.shape))
        n_votes, n_yes, expected = (
            np.bincount(group, own, n_groups).reshape(block.shape) for own in (None, block.value, expit(scores))
        )
        expected = np.clip(expected / np.maximum(n_votes, 1), *_SHARE_RANGE)
        surplus = logit((n_yes + expected) / (n_votes + 1.0)) - logit(expected)
        residuals[rows] = np.where(n_votes > 0, surplus, 0.0)
        asked[rows] = (n_votes > 0).any(axis=2)
    return PanelSupport(mean, variance, residuals, asked)


def predicted_votes(hidden: Votes, visible: Votes, panel: PanelBelief, traits: Traits, link: Array) -> Array:
    """(2, hidden votes): P(vote) of votes of models, if the label is absent and if it is present.

    Votes of models go together even if the label is known: it only says where the panel's support is likely to be
    (maths, eq. 106), beside what the visible votes say (eq. 105).
    """
    n_classes, n_families = visible.n_classes, len(panel.family_spreads)
    yes_probs, kernels = _yes_probs(traits), _family_kernels(panel)
    present = expit(link[:, :1] * POINTS + link[:, 1:])
    expected = panel.intercepts[:, None] + panel.slopes[:, None] * POINTS  # (classes, points of s^M)
    people = np.exp(-0.5 * ((POINTS - expected[:, :, None]) / panel.spreads[:, None, None]) ** 2)
    people /= people.sum(axis=2, keepdims=True)
    people = (1.0 - float(panel.doubt)) * people + float(panel.doubt) / len(POINTS)
    present_by_panel = np.einsum("ijl,il->ij", people, present)
    found = np.empty((2, len(hidden)))
    size = max(1, _MAX_CELLS // (n_classes * n_families * len(POINTS)))
    for first in range(0, visible.n_docs, size):
        last = min(first + size, visible.n_docs)
        mine = np.flatnonzero((hidden.doc >= first) & (hidden.doc < last))
        if not len(mine):
            continue
        part = votes_of_models(visible.take(np.arange(first, last)), panel)
        local = _Block(part, panel).likelihoods(yes_probs)
        messages, posterior, _ = _panel_posterior(local, kernels, panel.weights)
        annotator, label = hidden.annotator[mine], hidden.label[mine]
        doc, family = hidden.doc[mine] - first, panel.family_of[annotator]
        yes = yes_probs[annotator, label]
        probs = np.where(hidden.value[mine, None] == 1, yes, 1.0 - yes)
        # of a vote if the panel's support is at each point, given the other votes of the family
        of_family = local[doc, label, family]
        by_panel = np.einsum("vl,vl,vjl->vj", of_family, probs, kernels[family]) / messages[doc, label, family]
        for state, is_state in enumerate((1.0 - present_by_panel, present_by_panel)):
            weights = posterior[doc, label] * is_state[label]
            found[state, mine] = np.sum(weights * by_panel, axis=1) / weights.sum(axis=1)
    return np.clip(found, _MIN_PROB, 1.0)


def evidence_of_panel(found: PanelSupport, panel: PanelBelief, judged: NDArray[np.bool_] | None = None) -> GridEvidence:
    """Normal distributions of people's support, where a model has judged (maths, eq. 106).

    Where people have ``judged`` themselves (documents, classes), all models together say no more than one of them.
    """
    mean = panel.intercepts + panel.slopes * found.mean + found.residuals @ panel.family_weights
    precision = 1.0 / (panel.spreads**2 + panel.slopes**2 * found.variance)
    if judged is not None:
        precision = np.where(judged, np.minimum(precision, _MAX_PRECISION), precision)
    precision = np.where(found.asked, precision, 0.0)
    return GridEvidence(np.ascontiguousarray(mean), precision, np.empty((0, 0)), np.empty(0), float(panel.doubt))


class PeopleMoments(NamedTuple):
    """People's support where it follows the panel; all (documents, classes)."""

    mean: Array
    square: Array
    share: Array  # probability that it follows the panel; 0 where nobody has judged
    judged: NDArray[np.bool_]  # whether people, or gold labels, have spoken

    @classmethod
    def joined(cls, parts: Sequence[PeopleMoments]) -> PeopleMoments:
        """Those of the documents of all parts."""
        columns: list[Any] = [np.concatenate(tables) for tables in zip(*parts, strict=True)]
        return cls(*columns)


def learned_relation(found: PanelSupport, people: PeopleMoments, panel: PanelBelief, *, families: bool) -> PanelBelief:
    """Intercepts, slopes, weights of families and spreads, by Bayesian least squares (maths, eq. 107)."""
    both = people.judged & found.asked
    doc, label = np.nonzero(both)
    if not len(doc):
        return panel
    n_classes, n_families = len(panel.slopes), len(panel.family_weights) if families else 0
    design = np.zeros((len(doc), 2 * n_classes + n_families))
    design[np.arange(len(doc)), label] = 1.0
    design[np.arange(len(doc)), n_classes + label] = found.mean[doc, label]
    design[:, 2 * n_classes :] = found.residuals[doc, label, :n_families]
    prior = np.concatenate((np.zeros(n_classes), np.full(n_classes, RELATION_SLOPE), np.zeros(n_families)))
    widths = (_INTERCEPT_SPREAD,) * n_classes + (_SLOPE_SPREAD,) * n_classes + (_FAMILY_WEIGHT_SPREAD,) * n_families
    precision = np.array(widths) ** -2.0
    total = panel.spreads[label] ** 2 + panel.slopes[label] ** 2 * found.variance[doc, label]
    share = people.share[doc, label]
    scaled = design * (share / total)[:, None]
    covariance = np.linalg.inv(scaled.T @ design + np.diag(precision))
    mean, square = people.mean[doc, label], people.square[doc, label]
    theta = covariance @ (scaled.T @ mean + precision * prior)
    expected = design @ theta
    error = square - 2.0 * expected * mean + expected**2 + np.einsum("np,pq,nq->n", design, covariance, design)
    own = share * panel.spreads[label] ** 2 / total  # of the error that is the relation's, not the panel's own doubt
    sums = np.bincount(label, error * own, n_classes) + _SPREAD_DOCS * RELATION_SPREAD**2
    spreads = np.sqrt(sums / (np.bincount(label, share, n_classes) + _SPREAD_DOCS))
    weights = theta[2 * n_classes :] if families else panel.family_weights
    return replace(
        panel,
        intercepts=theta[:n_classes],
        slopes=theta[n_classes : 2 * n_classes],
        family_weights=weights,
        spreads=np.maximum(spreads, _MIN_SPREAD),
        doubt=np.array((np.sum(1.0 - share) + _DOUBT_DOCS * DOUBT) / (len(doc) + _DOUBT_DOCS)),
    )


def effective_votes(votes: Votes, panel: PanelBelief, label_probs: Array) -> float:
    """How many independent votes the models are worth: n · trace(S) / sum(S), S the covariance of their votes.

    It is that around their means given the truth, which is drawn from ``label_probs``; so no gold label is needed.
    """
    models, part = np.flatnonzero(panel.is_model), votes_of_models(votes, panel)
    place = np.full(votes.n_annotators, -1)
    place[models] = np.arange(len(models))
    sums, counts = np.zeros((2, len(models), len(models)))
    for label in range(votes.n_classes):
        mine = part.label == label
        value, seen = np.zeros((2, votes.n_docs, len(models)))
        cells = part.doc[mine], place[part.annotator[mine]]
        value[cells], seen[cells] = part.value[mine], 1.0
        for weight in (label_probs[:, label], 1.0 - label_probs[:, label]):
            mean = (weight @ value) / np.maximum(weight @ seen, 1e-12)
            residual = (value - mean) * seen
            sums += (residual * weight[:, None]).T @ residual
            counts += (seen * weight[:, None]).T @ seen
    covariance = sums / np.maximum(counts, 1e-12)
    return float(len(models) * np.trace(covariance) / max(covariance.sum(), 1e-12))
