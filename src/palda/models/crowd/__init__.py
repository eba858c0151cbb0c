"""Models of votes: annotator rates, label-set profiles, and EM over both."""

from __future__ import annotations

from palda.models.crowd.annotator_history import MAX_HISTORY_VOTES, parse_annotator_prior
from palda.models.crowd.annotator_model import AnnotatorBelief, AnnotatorModel, VoteEvidence
from palda.models.crowd.assignment import TypicalRates, expected_gain, typical_rates
from palda.models.crowd.coins import CoinModel
from palda.models.crowd.em import (
    N_VOTE_FOLDS,
    CrowdFit,
    CrowdSettings,
    CrowdState,
    choose_n_profiles,
    consensus_em,
    count_votes,
    cut_votes,
    fit_crowd,
    label_posterior,
    select_votes,
    start_state,
    vote_folds,
    votes_log_likelihood,
    with_profiles,
)
from palda.models.crowd.initial_labels import initial_label_probs, mean_where_unknown
from palda.models.crowd.label_sets import (
    ProfilePrior,
    Profiles,
    ProfileStats,
    initial_profiles,
    profile_e_step,
    profile_log_prior,
    profile_m_step,
)
from palda.models.crowd.one_coin import OneCoinModel
from palda.models.crowd.per_class import PerClassModel
from palda.models.crowd.published import PublishedCoin
from palda.models.crowd.quality import AnnotatorSummary, quality_table, rates_by_class, summarize_annotators
from palda.models.crowd.two_coin import TwoCoinModel
from palda.models.crowd.verdicts import VERDICTS, verdicts

__all__ = [
    "MAX_HISTORY_VOTES",
    "N_VOTE_FOLDS",
    "VERDICTS",
    "AnnotatorBelief",
    "AnnotatorModel",
    "AnnotatorSummary",
    "CoinModel",
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
    "choose_n_profiles",
    "consensus_em",
    "count_votes",
    "cut_votes",
    "expected_gain",
    "fit_crowd",
    "initial_label_probs",
    "initial_profiles",
    "label_posterior",
    "mean_where_unknown",
    "parse_annotator_prior",
    "profile_e_step",
    "profile_log_prior",
    "profile_m_step",
    "quality_table",
    "rates_by_class",
    "select_votes",
    "start_state",
    "summarize_annotators",
    "typical_rates",
    "verdicts",
    "vote_folds",
    "votes_log_likelihood",
    "with_profiles",
]
