"""Models of votes: annotator rates, label-set profiles, and EM over both."""

from __future__ import annotations

from palda.models.crowd.annotator_history import MAX_HISTORY_VOTES, parse_annotator_prior
from palda.models.crowd.annotator_model import (
    AnnotatorBelief,
    AnnotatorModel,
    CoinModel,
    OneCoinModel,
    PerClassModel,
    PublishedCoin,
    TwoCoinModel,
    VoteEvidence,
)
from palda.models.crowd.assignment import TypicalRates, expected_gain, typical_rates
from palda.models.crowd.em import (
    CrowdFit,
    CrowdSettings,
    CrowdState,
    count_votes,
    cut_votes,
    fit_crowd,
    label_posterior,
    start_state,
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
from palda.models.crowd.model_selection import (
    MIN_STANDARD_ERRORS,
    N_VOTE_FOLDS,
    choose_candidate,
    choose_n_profiles,
    select_votes,
    vote_folds,
    votes_log_likelihood,
)
from palda.models.crowd.quality import (
    VERDICTS,
    AnnotatorSummary,
    quality_table,
    rates_by_class,
    summarize_annotators,
    verdicts,
)

__all__ = [
    "MAX_HISTORY_VOTES",
    "MIN_STANDARD_ERRORS",
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
    "choose_candidate",
    "choose_n_profiles",
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
