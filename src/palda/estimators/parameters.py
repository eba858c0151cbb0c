"""Constraints of the estimators' parameters, and the parameters that a model file may set."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    make_constraint,
    validate_parameter_constraints,
)

from palda.io import json_rules
from palda.models.crowd import OneCoinModel, PerClassModel, SupportModel, TwoCoinModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palda.models.crowd import AnnotatorModel

ANNOTATOR_MODELS: dict[str, type[AnnotatorModel]] = {
    "auto": SupportModel,
    "one_coin": OneCoinModel,
    "two_coin": TwoCoinModel,
    "per_class": PerClassModel,
}

_COUNT = Interval(Integral, 1, None, closed="left")
_AUTO = StrOptions({"auto"})
_REQUIRED = object()


class Parameter(NamedTuple):
    """A parameter of an estimator.

    Attributes
    ----------
    accepted
        Accepted values, in the form of scikit-learn's ``_parameter_constraints``.
    in_files
        Whether a model file sets it. Where and how work is done never comes from a file.
    in_old_files
        Value for files of versions that did not have the parameter.
    only_of
        The one estimator that has it; "" if all have it.
    """

    accepted: list[Any] | str
    in_files: bool = True
    in_old_files: Any = _REQUIRED
    only_of: str = ""


PARAMETERS = {
    "n_topics": Parameter([_COUNT, _AUTO]),
    "annotators": Parameter([StrOptions(set(ANNOTATOR_MODELS))], only_of="CrowdPALDA"),
    "copies": Parameter(["boolean"], in_old_files=False, only_of="CrowdPALDA"),
    "drift": Parameter(["boolean"], in_old_files=False, only_of="CrowdPALDA"),
    "inference": Parameter([StrOptions({"joint", "mean_field"})]),
    "absence": Parameter([StrOptions({"shared", "per_class"})], in_old_files="per_class"),
    "label_prior": Parameter(
        [StrOptions({"stacked", "topics", "words", "base_rate"}), HasMethods(["fit", "get_params"])]
    ),
    "n_profiles": Parameter([_COUNT, _AUTO]),
    "smoothing": Parameter(["boolean"]),
    "thresholds": Parameter([Interval(Real, 0, 1, closed="neither"), StrOptions({"micro_f1", "macro_f1", "jaccard"})]),
    "n_init": Parameter([_COUNT]),
    "algorithm": Parameter([StrOptions({"batch", "online"})]),
    "max_iter": Parameter([_COUNT]),
    "tol": Parameter([Interval(Real, 0, None, closed="left"), _AUTO]),
    "random_state": Parameter(["random_state"]),
    "n_jobs": Parameter([Integral, None], in_files=False),
    "engine": Parameter("no_validation", in_files=False),  # checked when it is opened
    "verbose": Parameter(["verbose"], in_files=False),
}
"""All parameters; a new one is a line here."""

CONSTRAINTS: dict[str, Any] = {name: parameter.accepted for name, parameter in PARAMETERS.items()}
"""Accepted values by name."""


def check_parameters(caller: str, parameters: dict[str, Any], **own: list[Any]) -> None:
    """Raise scikit-learn's ``InvalidParameterError`` for the first wrong value; ``own`` replaces shared constraints."""
    validate_parameter_constraints(CONSTRAINTS | own, parameters, caller_name=caller)


def parameters_from_file(estimator: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that a model file sets, each one a plain value that its constraints accept.

    Those that files do not set are left out, whatever the file says. A classifier as label prior is None here; it is
    stored apart. Raises ``json_rules.ValueRuleError``.
    """
    known = {name: parameter for name, parameter in PARAMETERS.items() if parameter.only_of in ("", estimator)}
    unknown = [name for name in stored if name not in known]
    if unknown:
        raise json_rules.ValueRuleError(f"the setting {unknown[0]!r} is unknown")
    values = {}
    for name, parameter in known.items():
        if parameter.in_files:
            value = stored.get(name, parameter.in_old_files)
            if value is _REQUIRED:
                raise json_rules.ValueRuleError(f"the setting {name!r} is missing")
            values[name] = json_rules.check_value(value, _file_rule(name, parameter), f"the setting {name!r}")
    return values


def _file_rule(name: str, parameter: Parameter) -> json_rules.Rule:
    constraints = [make_constraint(constraint) for constraint in parameter.accepted]

    def accepts(value: Any) -> bool:
        if not json_rules.is_plain(value):
            return False
        if name in ("label_prior", "random_state") and value is None:
            return True
        if type(value) is bool and "boolean" not in parameter.accepted:
            return False
        return any(constraint.is_satisfied_by(value) for constraint in constraints)

    return json_rules.Rule("a value that the estimator accepts", accepts)
