"""PALDA, CrowdPALDA and aggregate: parameters and attributes in the manner of scikit-learn, and model files."""

from __future__ import annotations

from palda.estimators.aggregation import ANNOTATOR_MODELS, Aggregation, aggregate
from palda.estimators.base import TopicEstimator
from palda.estimators.checkpoints import Checkpoint
from palda.estimators.explanation import REST
from palda.estimators.inputs import as_votes, initial_label_probs, known_votes, label_table, mean_where_unknown
from palda.estimators.model_file import FORMAT_VERSION, ModelFileError, load_state, save_state
from palda.estimators.palda import PALDA, CrowdPALDA, load
from palda.estimators.progress import Progress

__all__ = [
    "ANNOTATOR_MODELS",
    "FORMAT_VERSION",
    "PALDA",
    "REST",
    "Aggregation",
    "Checkpoint",
    "CrowdPALDA",
    "ModelFileError",
    "Progress",
    "TopicEstimator",
    "aggregate",
    "as_votes",
    "initial_label_probs",
    "known_votes",
    "label_table",
    "load",
    "load_state",
    "mean_where_unknown",
    "save_state",
]
