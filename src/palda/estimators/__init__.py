"""PALDA, CrowdPALDA and aggregate with the parameters and attributes of scikit-learn, and model files."""

from __future__ import annotations

from palda.estimators.aggregation import Aggregation, aggregate
from palda.estimators.base import TopicEstimator
from palda.estimators.checkpoint import Checkpoint
from palda.estimators.crowd_palda import CrowdPALDA
from palda.estimators.explanation import REST
from palda.estimators.inputs import as_votes, known_votes, label_table
from palda.estimators.model_file import FORMAT_VERSION, ModelFileError, load_state, save_state
from palda.estimators.palda import PALDA, load
from palda.estimators.parameters import ANNOTATOR_MODELS, PARAMETERS
from palda.estimators.progress import Progress

__all__ = [
    "ANNOTATOR_MODELS",
    "FORMAT_VERSION",
    "PALDA",
    "PARAMETERS",
    "REST",
    "Aggregation",
    "Checkpoint",
    "CrowdPALDA",
    "ModelFileError",
    "Progress",
    "TopicEstimator",
    "aggregate",
    "as_votes",
    "known_votes",
    "label_table",
    "load",
    "load_state",
    "save_state",
]
