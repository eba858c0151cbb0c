"""The kernels compiled: the same functions as in reference.py."""

from palda.kernels.explaining_away import explain_away
from palda.kernels.joint import joint
from palda.kernels.mean_field import mean_field
from palda.kernels.profiles import label_sets

__all__ = ["explain_away", "joint", "label_sets", "mean_field"]
