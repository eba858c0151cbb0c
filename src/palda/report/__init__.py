"""The HTML report on a fitted model, and the summaries and tables of the command line."""

from __future__ import annotations

from palda.report.annotator_findings import date_text
from palda.report.inputs import ReportInputs, report_inputs
from palda.report.page import render_report, report_parts, write_report
from palda.report.summaries import FitSummary, crowd_summary, fit_summary
from palda.report.tables import (
    TableView,
    annotator_table,
    assignment_table,
    change_table,
    class_table,
    copy_table,
    label_records,
    majority_shares,
    rate_table,
    score_table,
    suggestion_table,
    topic_table,
)
from palda.report.topics import display_words

__all__ = [
    "FitSummary",
    "ReportInputs",
    "TableView",
    "annotator_table",
    "assignment_table",
    "change_table",
    "class_table",
    "copy_table",
    "crowd_summary",
    "date_text",
    "display_words",
    "fit_summary",
    "label_records",
    "majority_shares",
    "rate_table",
    "render_report",
    "report_inputs",
    "report_parts",
    "score_table",
    "suggestion_table",
    "topic_table",
    "write_report",
]
