"""The kernels compiled: the same functions as in reference.py."""

from palda.kernels.explaining_away import explain_away
from palda.kernels.joint import joint
from palda.kernels.logistic import add_word_scores, lbfgs_direction, logistic_pass, platt_sums
from palda.kernels.mean_field import mean_field
from palda.kernels.profiles import label_sets

__all__ = [
    "add_word_scores",
    "explain_away",
    "joint",
    "label_sets",
    "lbfgs_direction",
    "logistic_pass",
    "mean_field",
    "platt_sums",
]
