"""Parameters that PALDA, CrowdPALDA and aggregate share: which values each of them accepts."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_parameter_constraints

from palda.models.crowd import OneCoinModel, PerClassModel, TwoCoinModel

if TYPE_CHECKING:
    from palda.models.crowd import AnnotatorModel

ANNOTATOR_MODELS: dict[str, type[AnnotatorModel]] = {
    "one_coin": OneCoinModel,
    "two_coin": TwoCoinModel,
    "per_class": PerClassModel,
}

_COUNT = Interval(Integral, 1, None, closed="left")
_AUTO = StrOptions({"auto"})

CONSTRAINTS: dict[str, Any] = {
    "n_topics": [_COUNT, _AUTO],
    "annotators": [StrOptions(set(ANNOTATOR_MODELS))],
    "inference": [StrOptions({"joint", "mean_field"})],
    "absence": [StrOptions({"shared", "per_class"})],
    "label_prior": [StrOptions({"stacked", "topics", "words", "base_rate"}), HasMethods(["fit", "get_params"])],
    "n_profiles": [_COUNT, _AUTO],
    "smoothing": ["boolean"],
    "thresholds": [Interval(Real, 0, 1, closed="neither"), StrOptions({"micro_f1", "macro_f1", "jaccard"})],
    "n_init": [_COUNT],
    "algorithm": [StrOptions({"batch", "online"})],
    "max_iter": [_COUNT],
    "tol": [Interval(Real, 0, None, closed="left"), _AUTO],
    "n_jobs": [Integral, None],
    "engine": "no_validation",  # checked when it is opened
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
"""Accepted values, in the form of scikit-learn's ``_parameter_constraints``."""


def check_parameters(caller: str, parameters: dict[str, Any], **own: list[Any]) -> None:
    """Raise scikit-learn's ``InvalidParameterError`` for the first wrong value; ``own`` replaces shared constraints."""
    validate_parameter_constraints(CONSTRAINTS | own, parameters, caller_name=caller)
