"""Share of people who would vote "present", for labels that are a matter of opinion.

The share m expected from the words alone is the label's log-odds under the words, recalibrated per class against votes
instead of labels (maths, eq. 80). Votes that exist are added as in a Beta-binomial distribution, in which m counts as κ
votes (maths, eq. 81). κ maximises the probability of each vote given the others on the same label (maths, eq. 82).
Every vote counts the same, whatever the quality of its annotator: the result is about people, not about the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, xlogy

from palda.data import ArraySpec, vote_blocks
from palda.models.classifier.calibration import PLATT_ARRAYS, Platt, fit_platt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows

_MIN_PROB = 1e-6  # distance of probabilities from 0 and 1
_STRENGTHS = (0.1, 1000.0)  # bounds of κ
_MAX_VOTES = 1e9  # on one label, in a file

VOTE_SHARE_ARRAYS = {
    **PLATT_ARRAYS,
    "strength": ArraySpec((), low=0.0, high=1e6),
    "n_yes": ArraySpec(("documents", "classes"), "integer", low=0, high=_MAX_VOTES),
    "n_votes": ArraySpec(("documents", "classes"), "integer", low=0, high=_MAX_VOTES),
    "probs": ArraySpec(("documents", "classes"), "float32", low=0.0, high=1.0, group="probs"),
}
"""Schema of ``VoteShares`` in a model file; ``probs`` is left out if the file has out-of-fold probabilities."""


class VoteNumbers(NamedTuple):
    """Numbers of yes votes and of votes, (documents, classes)."""

    n_yes: NDArray[np.int32]
    n_votes: NDArray[np.int32]

    @classmethod
    def of(cls, votes: VoteRows) -> VoteNumbers:
        """Votes of people per label; if all annotators are models, the votes of all."""
        kinds = votes.annotator_kinds
        counts = np.asarray(kinds != "model") if len(kinds) else np.ones(votes.n_annotators, dtype=bool)
        if not counts.any():
            counts[:] = True
        parts = []
        for _, some in vote_blocks(votes):
            chosen = some if counts.all() else some.select(counts[some.annotator])
            parts.append((chosen.yes_per_pair(), chosen.per_pair()))
        return cls(*(np.concatenate(column).astype(np.int32) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class VoteShares:
    """The fitted model of vote shares, and what is known of the training documents."""

    platt: Platt  # from log-odds of labels to log-odds of yes votes
    strength: float  # κ, in votes
    numbers: VoteNumbers
    probs: NDArray[np.float32]  # (documents, classes): of the labels, from the words, without the document's votes

    @classmethod
    def fit(cls, probs: Array, numbers: VoteNumbers) -> VoteShares:
        """Recalibration and strength from probabilities (documents, classes) of labels that did not see the votes."""
        single = probs.astype(np.float32)  # as in a file, so that a loaded model gives the same shares
        n_votes = numbers.n_votes.astype(np.float64)
        shares = numbers.n_yes / np.maximum(n_votes, 1.0)
        platt = fit_platt(_log_odds(single), shares, n_votes)
        expected = expit(platt.apply(_log_odds(single)))
        return cls(platt, _fit_strength(expected, numbers), numbers, single)

    def expected(self, probs: NDArray[Any]) -> Array:
        """Shares (documents, classes) for documents without votes, from probabilities of labels (maths, eq. 80)."""
        shares: Array = expit(self.platt.apply(_log_odds(probs)))
        return shares

    def shares(self) -> Array:
        """Shares (documents, classes) for the training documents, from words and votes (maths, eq. 81)."""
        expected = self.expected(self.probs)
        shares: Array = (self.numbers.n_yes + self.strength * expected) / (self.numbers.n_votes + self.strength)
        return shares

    def with_documents(self, probs: Array, numbers: VoteNumbers) -> VoteShares:
        """The model fitted again with further documents."""
        tables = (np.concatenate(pair) for pair in zip(self.numbers, numbers, strict=True))
        return VoteShares.fit(np.concatenate((self.probs, probs)), VoteNumbers(*tables))

    def with_numbers(self, positions: NDArray[np.int64], numbers: VoteNumbers) -> VoteShares:
        """The model with other votes on the documents at ``positions``; recalibration and strength stay."""
        tables = [table.copy() for table in self.numbers]
        for table, changed in zip(tables, numbers, strict=True):
            table[positions] = changed
        return replace(self, numbers=VoteNumbers(*tables))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All fields as arrays of a file."""
        numbers = self.numbers._asdict()
        return {**self.platt.arrays(), "strength": np.array(self.strength), "probs": self.probs, **numbers}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> VoteShares | None:
        """The model among arrays of a file; None if the file has none."""
        if not {"strength", "probs"} <= arrays.keys():
            return None
        numbers = VoteNumbers(*(arrays[name].astype(np.int32, copy=False) for name in VoteNumbers._fields))
        if (numbers.n_yes > numbers.n_votes).any():
            raise ValueError("a label has more yes votes than votes")
        return cls(Platt.from_arrays(arrays), float(arrays["strength"]), numbers, arrays["probs"])


def _log_odds(probs: NDArray[Any]) -> Array:
    log_odds: Array = logit(np.clip(probs.astype(np.float64), _MIN_PROB, 1.0 - _MIN_PROB))
    return log_odds


def _fit_strength(expected: Array, numbers: VoteNumbers) -> float:
    """κ that predicts each vote best from the expected share and the other votes on the label (maths, eq. 82)."""
    rows = numbers.n_votes > 0
    share, n_yes, n_votes = (table[rows] for table in (expected, numbers.n_yes, numbers.n_votes))
    n_no = n_votes - n_yes

    def loss(log_strength: float) -> float:
        strength = np.exp(log_strength)
        yes = np.maximum(n_yes - 1, 0) + strength * share
        no = np.maximum(n_no - 1, 0) + strength * (1.0 - share)
        return float(np.sum(n_votes * np.log(n_votes - 1 + strength) - xlogy(n_yes, yes) - xlogy(n_no, no)))

    low, high = np.log(_STRENGTHS)
    return float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x))
