"""The report: one self-contained page about a fitted model, its crowd, classes, topics and documents.

The page needs no network and opens from a file. Data stands in it as JSON and is drawn by the page's own script; a
content security policy lets nothing else run, so that names and texts stay text even if a browser disagreed with us.
"""

from __future__ import annotations

import base64
import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from palda.data import Corpus, Documents, names_array, validation
from palda.errors import DataError, PaldaError
from palda.estimators import PALDA, CrowdPALDA, known_votes
from palda.io import replacing
from palda.report import annotators as people
from palda.report import records
from palda.report.documents import selected_documents
from palda.report.views import shown_words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from palda.data import Counts, Strings, Votes

__all__ = ["render_report", "write_report"]

_TEMPLATES = Path(__file__).parent / "templates"
_DRAWN = (
    "summary", "agreement", "classes", "correlation", "topics", "class_topics", "documents", "fit", "class_names",
    "vocabulary", "has_crowd",
)  # fmt: skip
"""What the page's script works with; the template writes the rest."""


def write_report(
    model: PALDA | CrowdPALDA,
    path: str | os.PathLike[str],
    *,
    texts: Mapping[Any, str] | Sequence[str] | Strings | Documents | None = None,
    votes: Votes | None = None,
    X: Any = None,
    words: Iterable[object] | None = None,
    title: str = "palda report",
    force: bool = False,
) -> Path:
    """Write a report about a fitted model as one HTML page, whole or not at all; gives back its path.

    Parameters
    ----------
    texts
        What to show of the documents: a mapping from document id to text, ``Documents``, or as many texts as the
        model had documents, in their order. Without texts the page shows ids.
    votes
        The votes that the model was fitted to; they are joined by document id, annotator and class.
    X
        The counts that the model was fitted to, or their ``Corpus``: with them the page shows which words spoke for
        and against a label.
    words
        Names of the columns of X, such as ``spellings_`` of the ``TextWords`` that made it; those of the ``Corpus`` or
        data frame that the model was fitted to are known.
    title
        Heading of the page.
    force
        Replace a file that is there already.
    """
    target = Path(path)
    if target.exists() and not force:
        raise PaldaError(f"{target}: is there already; choose another name, or replace it with force=True (--force)")
    page = render_report(model, texts=texts, votes=votes, X=X, words=words, title=title)
    _write(target, page.encode("utf-8", "replace"))
    return target


def render_report(
    model: PALDA | CrowdPALDA,
    *,
    texts: Mapping[Any, str] | Sequence[str] | Strings | Documents | None = None,
    votes: Votes | None = None,
    X: Any = None,
    words: Iterable[object] | None = None,
    title: str = "palda report",
) -> str:
    """The page that ``write_report`` writes."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    parts = _parts(_material(model, texts, votes, X, words))
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
        title=title,
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup(style),  # noqa: S704 - our own file
        script_hash=digest,
        data=Markup(records.script_json({name: parts[name] for name in _DRAWN})),  # noqa: S704 - escaped for a script
        **parts,
    )


def _parts(material: records.Material) -> dict[str, Any]:
    """Everything that the page shows, as lists, mappings, texts and numbers."""
    classes = records.class_rows(material)
    shown = selected_documents(material)
    vocabulary = records.Vocabulary(material.words)
    alike, opposed = people.opposite_pairs(material)
    parts = {
        "summary": records.summary(material),
        "annotators": people.annotator_rows(material) if material.has_crowd else [],
        "verdicts": people.verdict_rows(material) if material.has_crowd else [],
        "agreement": people.annotator_heat(material),
        "classes": classes,
        "correlation": records.class_heat(material, classes),
        "topics": records.topics(material),
        "class_topics": records.topics_by_class(material, classes, vocabulary),
        "documents": shown,
        "fit": records.fit_record(material),
    }
    names = [records.shortened(name) for name in material.classes]
    return {name: _plain(part) for name, part in parts.items()} | {
        "class_names": names,
        "vocabulary": vocabulary.names(),
        "alike": alike,
        "opposed": opposed,
        "has_crowd": material.has_crowd,
        "has_votes": material.votes is not None,
    }


def _fixed(value: float, digits: int) -> str:
    """A number as it is printed: with a real minus sign, and without one before a zero."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def _plain(part: Any) -> Any:
    if isinstance(part, list):
        return [asdict(record) for record in part]
    return None if part is None else asdict(part)


def _material(model: Any, texts: Any, votes: Any, X: Any, words: Iterable[object] | None) -> records.Material:
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, (PALDA, CrowdPALDA)):
        raise PaldaError(f"a report needs a fitted PALDA or CrowdPALDA, not {type(model).__name__}")
    check_is_fitted(model)
    is_crowd = isinstance(model, CrowdPALDA)
    if votes is not None and not is_crowd:
        raise DataError("votes belong to a CrowdPALDA; a PALDA was fitted to known labels: leave votes out")
    doc_ids = model.doc_ids_ if is_crowd else _ids_of(X, getattr(model, "out_of_fold_probs_", None))
    counts = None if X is None else _counts(X, doc_ids, model.n_features_in_)
    if votes is not None:
        votes = known_votes(votes, doc_ids, len(doc_ids), model.classes_, model.annotators_)
    if isinstance(X, Corpus):
        texts = Documents(X.doc_ids, X.texts) if texts is None and X.texts is not None else texts
    return records.Material(
        model=model,
        classes=[str(name) for name in model.classes_],
        words=_words(model, words, X),
        doc_ids=doc_ids.tolist(),
        probs=model.consensus_ if is_crowd else _predicted(model, counts),
        votes=votes,
        counts=counts,
        texts=_texts(texts, doc_ids),
    )


def _ids_of(X: Any, out_of_fold: Any) -> Any:
    """Ids of the documents of a model that does not keep them: those of a ``Corpus``, else positions."""
    if isinstance(X, Corpus):
        return X.doc_ids
    known = X if X is not None else out_of_fold
    return names_array(range(0 if known is None else known.shape[0]))


def _predicted(model: PALDA, counts: Counts | None) -> Any:
    """What models that had not seen a document said about it, else what the model itself says."""
    found = getattr(model, "out_of_fold_probs_", None)
    if counts is None or (found is not None and len(found) == counts.shape[0]):
        return found
    with warnings.catch_warnings():
        # columns are the model's own, whether or not they come with their names
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return model.predict_proba(counts)


def _counts(X: Any, doc_ids: Any, n_words: int) -> Counts:
    """Counts with the documents of the model as rows."""
    if isinstance(X, Corpus):
        row = {name: position for position, name in enumerate(X.doc_ids)}
        missing = [name for name in doc_ids if name not in row]
        if missing:
            raise DataError(f"X lacks the document {validation.shown(missing[0])}, which the model was fitted to")
        X = X.counts[[row[name] for name in doc_ids]]
    counts: Counts = sparse.csr_array(X)
    if counts.shape != (len(doc_ids), n_words):
        raise DataError(
            f"X has shape {counts.shape}, but the model was fitted to {len(doc_ids)} documents and {n_words} words"
        )
    return counts


def _words(model: Any, words: Iterable[object] | None, X: Any) -> Any:
    if words is None:
        words = shown_words(model)
        if words.dtype != object:  # columns that had no names in training
            numbered = (f"word {position}" for position in range(model.n_features_in_))
            words = X.vocabulary if isinstance(X, Corpus) else numbered
    named = names_array(words)
    if len(named) != model.n_features_in_:
        raise DataError(f"there are {len(named)} names for the {model.n_features_in_} words of the model")
    return named


def _texts(texts: Any, doc_ids: Any) -> list[str | None] | None:
    """A text for each document, None for those without one."""
    if texts is None:
        return None
    if isinstance(texts, Documents):
        texts = dict(zip(texts.doc_ids, texts.texts, strict=True))
    if isinstance(texts, Mapping):
        by_id = dict(zip(names_array(texts), texts.values(), strict=True))
        return [by_id.get(name) for name in doc_ids]
    listed = [None if text is None else str(text) for text in np.asarray(texts, dtype=object).tolist()]
    if len(listed) != len(doc_ids):
        raise DataError(
            f"there are {len(listed)} texts for {len(doc_ids)} documents; pass a mapping from document id to text"
        )
    return listed


def _write(target: Path, page: bytes) -> None:
    """Nobody ever sees half a page."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as unfinished:
            unfinished.write_bytes(page)
    except OSError as refused:
        raise PaldaError(f"{target}: cannot be written: {refused.strerror or refused}") from refused
