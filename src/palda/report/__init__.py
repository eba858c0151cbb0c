"""The HTML report about a fitted model."""

from __future__ import annotations

from palda.report.documents import selected_documents
from palda.report.page import render_report, write_report
from palda.report.views import (
    CrowdSummary,
    FitSummary,
    View,
    annotator_view,
    class_view,
    crowd_summary,
    fit_summary,
    label_records,
    majority_shares,
    rate_view,
    score_view,
    shown_words,
    suggestion_view,
    topic_view,
)

__all__ = [
    "CrowdSummary",
    "FitSummary",
    "View",
    "annotator_view",
    "class_view",
    "crowd_summary",
    "fit_summary",
    "label_records",
    "majority_shares",
    "rate_view",
    "render_report",
    "score_view",
    "selected_documents",
    "shown_words",
    "suggestion_view",
    "topic_view",
    "write_report",
]
