"""Models of votes: annotator rates, label-set profiles, and EM over both."""

from __future__ import annotations

from palda.models.crowd.annotator_history import CAP, annotator_prior
from palda.models.crowd.annotator_model import AnnotatorBelief, AnnotatorModel, VoteEvidence
from palda.models.crowd.assignment import TypicalRates, expected_gain, typical_rates
from palda.models.crowd.coins import Coins
from palda.models.crowd.em import (
    N_FIFTHS,
    CrowdFit,
    CrowdSettings,
    CrowdState,
    choose_n_profiles,
    consensus_em,
    count_votes,
    cut_votes,
    fifths_of_rows,
    fit_crowd,
    posterior,
    start_state,
    subset,
    votes_log_likelihood,
    with_profiles,
)
from palda.models.crowd.label_sets import ProfilePrior, Profiles, ProfileStats, e_step, log_prior, m_step, seeded
from palda.models.crowd.one_coin import OneCoinModel
from palda.models.crowd.per_class import PerClassModel
from palda.models.crowd.published import PublishedCoin
from palda.models.crowd.quality import AnnotatorSummary, quality_table, rates_by_class, summary
from palda.models.crowd.two_coin import TwoCoinModel
from palda.models.crowd.verdicts import VERDICTS, verdicts

__all__ = [
    "CAP",
    "N_FIFTHS",
    "VERDICTS",
    "AnnotatorBelief",
    "AnnotatorModel",
    "AnnotatorSummary",
    "Coins",
    "CrowdFit",
    "CrowdSettings",
    "CrowdState",
    "OneCoinModel",
    "PerClassModel",
    "ProfilePrior",
    "ProfileStats",
    "Profiles",
    "PublishedCoin",
    "TwoCoinModel",
    "TypicalRates",
    "VoteEvidence",
    "annotator_prior",
    "choose_n_profiles",
    "consensus_em",
    "count_votes",
    "cut_votes",
    "e_step",
    "expected_gain",
    "fifths_of_rows",
    "fit_crowd",
    "log_prior",
    "m_step",
    "posterior",
    "quality_table",
    "rates_by_class",
    "seeded",
    "start_state",
    "subset",
    "summary",
    "typical_rates",
    "verdicts",
    "votes_log_likelihood",
    "with_profiles",
]
