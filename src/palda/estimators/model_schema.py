"""What a model file may hold: the keys of its JSON state, and the schema of its arrays.

Array names are part of the file format and never change. The schemas of the parts are declared beside the classes that
own the arrays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from palda.data import FEATURE_COLUMN_ARRAYS, ArraySpec, Schema, prefixed
from palda.estimators.parameters import ANNOTATOR_MODELS, parameters_from_file
from palda.io import WORDS_ARRAYS, check_words_state, has_array, json_rules
from palda.models.assignment import RECORD_ARRAYS
from palda.models.classifier import CLASSIFIER_ARRAYS, COMBINATION_ARRAYS, EXTERNAL_ARRAYS, VOTE_SHARE_ARRAYS
from palda.models.crowd import EFFECT_ARRAYS, GOLD_CHECK_ARRAYS, KEPT_ARRAYS, SOURCE_ARRAYS, SupportModel
from palda.models.topics import EVIDENCE_ARRAYS, PARAMS_ARRAYS, belief_arrays
from palda.training import PAST_ARRAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palda.io.json_rules import Rule

_ROUNDING = 1e-9
_MAX_VOTES = 1e12  # of an annotator on a class; sums of such numbers are exact as integers
_NAMES = json_rules.list_of(json_rules.TEXT)

_STATE: dict[str, Rule] = {
    "estimator": json_rules.one_of("PALDA", "CrowdPALDA"),
    "settings": json_rules.mapping_of(json_rules.ANY),
    "converged": json_rules.FLAG,
    "lower_bound": json_rules.NUMBER_OR_INFINITE,
    "worst_fall": json_rules.NUMBER_OR_INFINITE,
    "temper": json_rules.list_of(json_rules.number(0.0, 1e12), 3),
    "classes": json_rules.list_of(json_rules.NAME),
}
_OPTIONAL_STATE: dict[str, Rule] = {
    "vocabulary": _NAMES,
    "feature_names": _NAMES,
    "words": json_rules.ANY,
    "features": json_rules.ANY,
}
_FEATURES: dict[str, Rule] = {
    "names": json_rules.list_of(json_rules.UNICODE),
    "categories": json_rules.list_of(json_rules.ANY),
}
_CROWD_STATE: dict[str, Rule] = dict.fromkeys(("annotators", "doc_ids"), json_rules.list_of(json_rules.UNICODE))
_TRAITS: dict[str, Rule] = {
    "annotator_kinds": json_rules.list_of(json_rules.one_of("person", "model", "")),
    "annotator_families": json_rules.list_of(json_rules.UNICODE),
}

_FIT_ARRAYS: Schema = {
    **prefixed("feature_columns", FEATURE_COLUMN_ARRAYS),
    "lower_bounds": ArraySpec(("iterations",), infinite=True),
    "thresholds": ArraySpec(("classes",), low=-1.0, high=2.0),
    **prefixed("memory", PAST_ARRAYS, group="memory"),
    "out_of_fold_probs": ArraySpec(("documents", "classes"), "float32", low=0.0, high=1.0, group="out of fold"),
    "texts": ArraySpec(("bytes of texts",), "uint8", group="texts"),
}
_PRIOR = "label prior"
_COMBINATIONS: Schema = {
    **prefixed("for_votes", COMBINATION_ARRAYS, _PRIOR, own=["profiles"]),
    **prefixed("for_words", COMBINATION_ARRAYS, _PRIOR, own=["profiles"]),
}
_BUILT_IN_PRIOR: Schema = {
    "evidence_shares": ArraySpec((3, "classes"), low=0.0, high=1.0 + _ROUNDING, group=f"{_PRIOR}/evidence shares"),
    **prefixed("head", CLASSIFIER_ARRAYS, _PRIOR),
    **_COMBINATIONS,
    **{f"reader.{name}": replace(spec, group=f"{_PRIOR}/head dense") for name, spec in EVIDENCE_ARRAYS.items()},
}
_EXTERNAL_PRIOR: Schema = {
    "plugged_in": ArraySpec(("bytes of the classifier",), "uint8"),
    **prefixed("head", EXTERNAL_ARRAYS, _PRIOR),
    **_COMBINATIONS,
}
_VOTE_COLUMNS: Schema = {
    "doc": ArraySpec(("votes",), "integer", low=0, below="documents", ascending=True),
    "annotator": ArraySpec(("votes",), "integer", low=0, below="annotators"),
    "label": ArraySpec(("votes",), "integer", low=0, below="classes"),
    "value": ArraySpec(("votes",), "integer", low=0, high=1),
    "abstained": ArraySpec(("abstentions", 2), "integer", low=0, high=2**31),
    "probability": ArraySpec(("votes",), "float32", low=0, high=1, nan=True, group="probabilities"),
    "time": ArraySpec(("votes",), nan=True, group="times"),
}
_VOTES: Schema = prefixed("votes", _VOTE_COLUMNS, "votes")
_KEPT_PRIORS: Schema = prefixed("effects", EFFECT_ARRAYS, "effects") | prefixed("kept", KEPT_ARRAYS, "kept")
_RECORD: Schema = {
    **prefixed("record", RECORD_ARRAYS, "record"),
    **prefixed("record.votes", _VOTE_COLUMNS, "record/stored votes", own=["votes", "abstentions"]),
}


def model_schema(state: Any) -> tuple[Schema, dict[str, int]]:
    """Schema of the arrays of a model file with this state, and the sizes that the state gives.

    Raises ``ValueError`` with a message of one line if a value of the state is not one that a model may have.
    """
    kind = state.get("estimator") if isinstance(state, dict) else None
    is_crowd = kind == "CrowdPALDA"
    required, optional = (_STATE | _CROWD_STATE, _OPTIONAL_STATE | _TRAITS) if is_crowd else (_STATE, _OPTIONAL_STATE)
    json_rules.check_object(state, required, optional, "the model")
    settings = parameters_from_file(state["estimator"], state["settings"])
    if len(set(state["classes"])) != len(state["classes"]):
        raise json_rules.ValueRuleError("a class is listed twice")
    schema: dict[str, ArraySpec] = {**PARAMS_ARRAYS, **_FIT_ARRAYS}
    schema |= _EXTERNAL_PRIOR if settings["label_prior"] is None else _BUILT_IN_PRIOR
    sizes = {"classes": len(state["classes"]), "dense columns": len(state["classes"])}
    if is_crowd:
        schema |= _crowd_arrays(settings)
        sizes |= {"annotators": len(state["annotators"]), "documents": len(state["doc_ids"])}
        if any(len(state[name]) != sizes["annotators"] for name in _TRAITS if name in state):
            raise json_rules.ValueRuleError("the numbers of annotators differ")
    if "features" in state:
        sizes["features"] = _n_features(state["features"])
    if "words" in state:
        words = check_words_state(state["words"])
        schema |= {name: replace(spec, group="") for name, spec in WORDS_ARRAYS.items() if has_array(words, spec)}
    lists = [state[name] for name in ("vocabulary", "feature_names") if name in state]
    lists += [state["words"]["vocabulary"]] if "vocabulary" in state.get("words", {}) else []
    if len({len(names) for names in lists}) > 1:
        raise json_rules.ValueRuleError("the numbers of words differ")
    return schema, sizes | ({"words": len(lists[0])} if lists else {})


def _n_features(state: Any) -> int:
    """Number of columns of the feature table, after a check of their names and categories."""
    json_rules.check_object(state, _FEATURES, {}, "the features")
    names, categories = state["names"], state["categories"]
    for own in categories:
        if own is not None:
            json_rules.check_value(own, _FEATURES["names"], "the categories")
            if len(set(own)) != len(own):
                raise json_rules.ValueRuleError("a category is listed twice")
    if len(names) != len(categories) or len(set(names)) != len(names):
        raise json_rules.ValueRuleError("the names of the features do not fit")
    return len(names)


def _crowd_arrays(settings: Mapping[str, Any]) -> Schema:
    model: Any = ANNOTATOR_MODELS[settings["annotators"]]
    rate_shape = ("classes",) * model.by_class + (2,) * model.by_state
    has_support = issubclass(model, SupportModel)
    belief = belief_arrays(rate_shape, has_support=has_support)
    if has_support:
        belief |= _KEPT_PRIORS
    counts = ArraySpec(("annotators", *rate_shape, 2), low=-_ROUNDING, high=_MAX_VOTES)
    return {
        **prefixed("annotators", belief, own=["annotators", "families"]),  # of sources, which may be more
        "vote_counts": replace(counts, shape=("annotators annotators", *rate_shape, 2)),
        **prefixed("sources", SOURCE_ARRAYS),
        **prefixed("gold_check", GOLD_CHECK_ARRAYS),
        **prefixed("individuals", {**belief, "counts": counts}, "individuals", own=["families", "sources with levels"]),
        "annotator_documents": ArraySpec(("annotators", 2), "integer", low=0, group="annotator documents"),
        "confirmed_verdicts": ArraySpec(("annotators",), "integer", low=0, high=1, group="confirmed verdicts"),
        "consensus": ArraySpec(("documents", "classes"), low=-_ROUNDING, high=1.0 + _ROUNDING),
        "vote_log_likelihoods": ArraySpec(("turns",), infinite=True),
        **prefixed("vote_share", VOTE_SHARE_ARRAYS, group="vote share"),
        **_VOTES,
        **_RECORD,
    }
