"""The report: one self-contained HTML page on a fitted model.

The page needs no network. It contains the data as JSON, which its own script draws; a content security policy allows
no other script, so that names and texts cannot run as code.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palda.errors import PaldaError
from palda.io import replacing, visible
from palda.report.annotator_charts import confidence_curves, quality_curves, rate_heatmap
from palda.report.annotator_findings import change_rows, copy_groups, finding_totals
from palda.report.annotators import agreement_heatmap, annotator_rows, extreme_pairs, verdict_rows
from palda.report.classes import class_rows, correlation_heatmap
from palda.report.documents import selected_documents
from palda.report.evidence import evidence_sources
from palda.report.inputs import report_inputs
from palda.report.overview import fit_course, gold_check, notes, overview
from palda.report.topics import WordNumbers, class_topics, topics
from palda.report.values import script_json, shortened

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from palda.data import Documents, Strings, Votes
    from palda.estimators import PALDA, CrowdPALDA
    from palda.report.inputs import ReportInputs
    from palda.report.tables import TableView

_TEMPLATES = Path(__file__).parent / "templates"
_SCRIPT_DATA = (
    "summary", "agreement", "classes", "correlation", "topics", "class_topics", "documents", "fit", "class_names",
    "vocabulary", "has_crowd", "quality_curves", "confidence_curves", "rates", "gold_check",
)  # fmt: skip
"""Parts that the page's script draws; the template writes the others."""


def write_report(
    model: PALDA | CrowdPALDA,
    path: str | os.PathLike[str],
    *,
    texts: Mapping[Any, str] | Sequence[str] | Strings | Documents | None = None,
    votes: Votes | None = None,
    X: Any = None,
    features: Any = None,
    words: Iterable[object] | None = None,
    title: str = "palda report",
    tables: Sequence[TableView] = (),
    force: bool = False,
) -> Path:
    """Write an HTML report on a fitted model.

    The file is written completely or not at all.

    Parameters
    ----------
    model : PALDA or CrowdPALDA
        Fitted model.
    path : str or path-like
        File to write; missing folders are created.
    texts : mapping from document id to text, Documents, or sequence of str, optional
        Texts of the documents; a sequence has one text per training document, in their order. Without texts the page
        shows document ids.
    votes : Votes, optional
        Votes to which the model was fitted; matched by document id, annotator and class. ``CrowdPALDA`` only.
    X : array or sparse array of shape (n_docs, n_words), or Corpus, optional
        Word counts to which the model was fitted. With them the page shows the words with evidence for and against
        each label.
    features : array-like of shape (n_docs, n_columns), DataFrame or FeatureTable, optional
        Features to which the model was fitted, for the evidence in each document; matched by id where both have ids.
    words : iterable of n_words names, optional
        Names of the columns of X, such as ``spellings_`` of ``TextWords``. The default are the names that the model or
        the ``Corpus`` has.
    title : str, default="palda report"
        Heading of the page.
    tables : sequence of TableView, default=()
        Further tables, shown after those on annotators.
    force : bool, default=False
        Overwrite an existing file.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    PaldaError
        If the file exists and ``force`` is false, or cannot be written.
    DataError
        If votes, X, features, texts or words do not match the model.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from palda import CrowdPALDA, simulate
    >>> from palda.report import write_report
    >>> news = simulate.newsroom(30, seed=0)
    >>> votes, _ = simulate.crowd(news, "paper", votes_per_doc=3, seed=0)
    >>> model = CrowdPALDA(2, label_prior="base_rate", tol=0.1, random_state=0).fit(news.corpus, votes)
    >>> write_report(model, mkdtemp() + "/report.html", votes=votes, X=news.corpus).name
    'report.html'
    """
    target = Path(path)
    if target.exists() and not force:
        raise PaldaError(f"{target} already exists; choose another name, or overwrite it with force=True (--force)")
    page = render_report(
        model, texts=texts, votes=votes, X=X, features=features, words=words, title=title, tables=tables
    )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as unfinished:
            unfinished.write_bytes(page.encode("utf-8", "replace"))
    except OSError as error:
        raise PaldaError(f"{target} cannot be written: {error.strerror or error}") from error
    return target


def render_report(
    model: PALDA | CrowdPALDA,
    *,
    texts: Mapping[Any, str] | Sequence[str] | Strings | Documents | None = None,
    votes: Votes | None = None,
    X: Any = None,
    features: Any = None,
    words: Iterable[object] | None = None,
    title: str = "palda report",
    tables: Sequence[TableView] = (),
) -> str:
    """The HTML that ``write_report`` writes, with the same parameters."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    parts = report_parts(report_inputs(model, texts, votes, X, words, features))
    script, style = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.js", "report.css"))
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fixed"] = _fixed
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html").render(
        title=visible(title),
        tables=tables,
        script=Markup(script),  # noqa: S704 - a file of this package
        style=Markup(style),  # noqa: S704 - a file of this package
        script_hash=digest,
        data=Markup(script_json({name: parts[name] for name in _SCRIPT_DATA})),  # noqa: S704 - escaped
        **parts,
    )


def report_parts(inputs: ReportInputs) -> dict[str, Any]:
    """Everything that the page shows, by section: lists, dicts, texts and numbers."""
    classes = class_rows(inputs)
    numbers = WordNumbers(inputs.words)
    most_similar, most_opposed = extreme_pairs(inputs)
    return {
        "summary": overview(inputs),
        "notes": notes(inputs),
        "annotators": annotator_rows(inputs) if inputs.has_crowd else [],
        "verdicts": verdict_rows(inputs) if inputs.has_crowd else [],
        "agreement": agreement_heatmap(inputs),
        "copies": copy_groups(inputs),
        "changes": change_rows(inputs),
        "totals": finding_totals(inputs),
        "quality_curves": quality_curves(inputs),
        "confidence_curves": confidence_curves(inputs),
        "rates": rate_heatmap(inputs, classes),
        "gold_check": gold_check(inputs),
        "classes": classes,
        "correlation": correlation_heatmap(inputs, classes),
        "evidence": evidence_sources(inputs, classes),
        "topics": topics(inputs),
        "class_topics": class_topics(inputs, classes, numbers),
        "documents": selected_documents(inputs),
        "fit": fit_course(inputs),
        "class_names": [shortened(name) for name in inputs.classes],
        "vocabulary": numbers.names(),
        "most_similar": most_similar,
        "most_opposed": most_opposed,
        "has_crowd": inputs.has_crowd,
        "has_votes": inputs.votes is not None,
    }


def _fixed(value: float, digits: int) -> str:
    """A number with a minus sign (U+2212), and without one before zero."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")
