"""The topic model: parameters, E-step, M-step, bound, EM, and prediction of labels from words."""

from __future__ import annotations

from palda.models.topics.cross_fitting import (
    CrossFittedTopics,
    TopicPlan,
    cross_fit_topics,
    fit_topics,
    labelled_shards,
    start_params,
)
from palda.models.topics.dirichlet import LARGEST, SMALLEST, fit_dirichlet, fit_symmetric_dirichlet
from palda.models.topics.e_step import bags_of, fresh_beliefs, joined_bags
from palda.models.topics.em import (
    DocumentShard,
    EMResult,
    EMSettings,
    TrainingData,
    carried_beliefs,
    cut_shards,
    e_step_statistics,
    em_rounds,
    evidence_of_shards,
    label_probs,
    lower_bound,
    place_shards,
    run_em,
    topic_shares_of_shards,
    unlabelled_shards,
    update_params,
    word_evidence_model,
)
from palda.models.topics.held_out import FoldModel, choose_temperature, fit_folds, label_likelihoods
from palda.models.topics.implied_statistics import implied_stats
from palda.models.topics.m_step import update_topics
from palda.models.topics.online_em import OnlineRounds
from palda.models.topics.parameter_arrays import (
    belief_from_arrays,
    belief_to_arrays,
    params_from_arrays,
    params_to_arrays,
)
from palda.models.topics.parameters import Params, ShardStats, StepInfo
from palda.models.topics.prediction import (
    Temperature,
    WordEvidenceModel,
    class_word_probs,
    fit_temperature,
    for_prediction,
    word_evidence_of,
    word_weights,
)
from palda.models.topics.start import default_n_topics, first_params

__all__ = [
    "LARGEST",
    "SMALLEST",
    "CrossFittedTopics",
    "DocumentShard",
    "EMResult",
    "EMSettings",
    "FoldModel",
    "OnlineRounds",
    "Params",
    "ShardStats",
    "StepInfo",
    "Temperature",
    "TopicPlan",
    "TrainingData",
    "WordEvidenceModel",
    "bags_of",
    "belief_from_arrays",
    "belief_to_arrays",
    "carried_beliefs",
    "choose_temperature",
    "class_word_probs",
    "cross_fit_topics",
    "cut_shards",
    "default_n_topics",
    "e_step_statistics",
    "em_rounds",
    "evidence_of_shards",
    "first_params",
    "fit_dirichlet",
    "fit_folds",
    "fit_symmetric_dirichlet",
    "fit_temperature",
    "fit_topics",
    "for_prediction",
    "fresh_beliefs",
    "implied_stats",
    "joined_bags",
    "label_likelihoods",
    "label_probs",
    "labelled_shards",
    "lower_bound",
    "params_from_arrays",
    "params_to_arrays",
    "place_shards",
    "run_em",
    "start_params",
    "topic_shares_of_shards",
    "unlabelled_shards",
    "update_params",
    "update_topics",
    "word_evidence_model",
    "word_evidence_of",
    "word_weights",
]
