"""What is to be said about a crowd in which models vote: how many there are, and what they are worth together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palda.data import vote_blocks
from palda.models.crowd.panel import effective_votes, start_panel

if TYPE_CHECKING:
    from palda.data import Array, VoteRows, Votes

MAX_SHARE_BY_PEOPLE = 0.05
"""Share of the judged labels that people have judged, up to which a consensus is one of models alone."""

N_GOLD_DOCS = 30
"""Random documents to label where only models voted."""


@dataclass(frozen=True)
class PanelSummary:
    """Models among the annotators.

    Attributes
    ----------
    n_models, n_people : int
        Annotators of the kind ``"model"``, and all others.
    effective_votes : float
        Independent votes that all models together are worth.
    share_by_people : float
        Share of the judged labels that people have judged.
    n_gold_docs : int
        Documents with known labels.
    """

    n_models: int
    n_people: int
    effective_votes: float
    share_by_people: float
    n_gold_docs: int

    @property
    def is_alone(self) -> bool:
        """Whether nearly all labels are those of models alone."""
        return self.share_by_people <= MAX_SHARE_BY_PEOPLE

    @property
    def text(self) -> str:
        """What to know of the models, and advice if nobody else has judged."""
        models = "1 model" if self.n_models == 1 else f"{self.n_models:,} models"
        worth = f"worth about {self.effective_votes:.1f} independent votes" + (" together" if self.n_models > 1 else "")
        if not self.is_alone:
            return f"{models} of {self.n_models + self.n_people:,} annotators, {worth}"
        who = "all" if self.n_people == 0 else "nearly all"
        advice = f"; label {N_GOLD_DOCS} random documents (gold labels): votes do not show what all models get wrong"
        return f"{who} votes are by {models}, {worth}{advice if self.n_gold_docs < N_GOLD_DOCS else ''}"


def panel_summary(votes: Votes, label_probs: Array, n_gold_docs: int) -> PanelSummary | None:
    """Summary of the models among the annotators; None without models that have voted."""
    panel = start_panel(votes)
    if panel is None:
        return None
    voted = np.zeros(votes.n_annotators, dtype=bool)
    voted[votes.annotator] = True
    n_models = int(np.count_nonzero(voted & panel.is_model))
    if not n_models:
        return None
    n_people = int(np.count_nonzero(voted & ~panel.is_model))
    worth = min(max(effective_votes(votes, panel, label_probs), 1.0), float(n_models))
    return PanelSummary(n_models, n_people, worth, share_judged_by_people(votes), n_gold_docs)


def share_judged_by_people(votes: VoteRows) -> float:
    """Share of the judged labels that people have judged; 1 if no annotator is a model, or nobody has voted."""
    is_model = votes.annotator_kinds == "model" if len(votes.annotator_kinds) else np.zeros(votes.n_annotators, bool)
    if not is_model.any():
        return 1.0
    n_judged = n_by_people = 0
    for _, some in vote_blocks(votes):
        n_judged += int(np.count_nonzero(some.per_pair()))
        n_by_people += int(np.count_nonzero(some.select(~is_model[some.annotator]).per_pair()))
    return n_by_people / n_judged if n_judged else 1.0
