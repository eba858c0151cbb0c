"""Labels while people go on voting: updates after new votes, which document to whom next, and when to stop."""

from __future__ import annotations

from palda.models.assignment.batch import Assignment, Candidates, choose_pairs
from palda.models.assignment.check_votes import (
    check_documents,
    check_looks,
    is_check_pair,
    name_hashes,
    rates_given_others,
    split_looks,
)
from palda.models.assignment.fixed_overlap import fixed_overlap_errors, votes_needed
from palda.models.assignment.gain import (
    Rates,
    TypicalVotes,
    document_gains,
    expected_wrong,
    label_gains,
    rates_by_annotator,
    typical_votes,
)
from palda.models.assignment.label_update import (
    LabelState,
    TouchedDocuments,
    evidence_besides_votes,
    update_all_labels,
    update_labels,
)
from palda.models.assignment.profile_gain import profile_factors, wrong_in_sets
from palda.models.assignment.quotas import choose_check_pairs, choose_gold_pairs, n_due, without_pairs
from palda.models.assignment.record import RECORD_ARRAYS, LabellingRecord
from palda.models.assignment.stopping import (
    Calibration,
    ExpectedQuality,
    LabelHistogram,
    calibrate,
    micro_f1,
    no_calibration,
    slope_log_likelihoods,
    vote_log_likelihoods,
)
from palda.models.assignment.stopping_quality import (
    CheckEvidence,
    HeldBackLabels,
    StoppingInputs,
    StoppingQuality,
    check_targets,
    link_spread,
    report_fields,
    stopping_quality,
)
from palda.models.assignment.stopping_report import StoppingReport
from palda.models.assignment.vote_store import WITHDRAWN, VoteChanges, VoteStore

__all__ = [
    "RECORD_ARRAYS",
    "WITHDRAWN",
    "Assignment",
    "Calibration",
    "Candidates",
    "CheckEvidence",
    "ExpectedQuality",
    "HeldBackLabels",
    "LabelHistogram",
    "LabelState",
    "LabellingRecord",
    "Rates",
    "StoppingInputs",
    "StoppingQuality",
    "StoppingReport",
    "TouchedDocuments",
    "TypicalVotes",
    "VoteChanges",
    "VoteStore",
    "calibrate",
    "check_documents",
    "check_looks",
    "check_targets",
    "choose_check_pairs",
    "choose_gold_pairs",
    "choose_pairs",
    "document_gains",
    "evidence_besides_votes",
    "expected_wrong",
    "fixed_overlap_errors",
    "is_check_pair",
    "label_gains",
    "link_spread",
    "micro_f1",
    "n_due",
    "name_hashes",
    "no_calibration",
    "profile_factors",
    "rates_by_annotator",
    "rates_given_others",
    "report_fields",
    "slope_log_likelihoods",
    "split_looks",
    "stopping_quality",
    "typical_votes",
    "update_all_labels",
    "update_labels",
    "vote_log_likelihoods",
    "votes_needed",
    "without_pairs",
    "wrong_in_sets",
]
