"""What the learner says about a project: annotators with verdicts and alarms, expected errors, evidence words."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import and_, delete, insert, select, update

from palda.data import Corpus
from palda.live import schema
from palda.live.learner import log_columns
from palda.live.learner.fitting import MIN_JUDGED_FOR_WORDS
from palda.live.learner.writes import upsert
from palda.live.records import AnnotatorEstimate, ProjectEstimate
from palda.live.service.people import median_seconds
from palda.report import date_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from sqlalchemy import Connection

    from palda.live.learner.live_model import LiveModel
    from palda.live.records import ProjectSettings
    from palda.live.store import Store

N_DOUBTFUL = 50
"""Documents with evidence words."""

_N_WORDS = 6  # per class
_MIN_TIMED = 10  # submissions of a person with a time, for an alarm
_GROWTH = 1.01  # of the votes between two rows of the history
_ROWS_PER_WRITE = 50
_VERDICT_ALARMS = {
    "spammer": "the votes do not depend on the labels",
    "adversarial": "the votes contradict the labels; they count with inverted sign",
}


class AnnotatorFindings:
    """Quality, verdict and alarms per annotator, from one state of the model."""

    def __init__(self, live: LiveModel) -> None:
        model = live.model
        self._quality: dict[str, dict[Any, Any]] = {
            str(row["annotator"]): row for row in model.annotator_quality_.to_dict("records")
        }
        self._worse = {row["annotator"]: row for row in model.changes_.to_dict("records") if row["kind"] == "worse"}
        copies = model.copies_
        self._group_of = dict(zip(copies["annotator"], copies["group"], strict=True))

    def estimate(self, name: str, seconds: float | None, settings: ProjectSettings) -> AnnotatorEstimate | None:
        """What is known of one annotator; None for somebody without votes."""
        row = self._quality.get(name)
        if row is None:
            return None
        return AnnotatorEstimate(
            quality=float(row["quality"]),
            quality_low=float(row["low"]),
            quality_high=float(row["high"]),
            sensitivity=float(row["sensitivity"]),
            specificity=float(row["specificity"]),
            n_votes=int(row["n_votes"]),
            verdict=str(row["verdict"]),
            alarms=tuple(self._alarms(name, str(row["verdict"]), seconds, settings)),
        )

    def _alarms(self, name: str, verdict: str, seconds: float | None, settings: ProjectSettings) -> Iterable[str]:
        if verdict in _VERDICT_ALARMS:
            yield f"{verdict}: {_VERDICT_ALARMS[verdict]}"
        yield from self._copy_alarms(name)
        if name in self._worse:
            change = self._worse[name]
            before, after = change["quality_before"], change["quality_after"]
            yield f"drift: quality fell from {before:.2f} to {after:.2f} at {date_text(change['time'], 0.0)} UTC"
        if seconds is not None and seconds < settings.min_seconds:
            yield f"much too fast: {seconds:.1f} s per document, less than {settings.min_seconds:g} s"

    def _copy_alarms(self, name: str) -> Iterable[str]:
        if name in self._group_of:
            group = self._group_of[name]
            others = [other for other, number in self._group_of.items() if number == group and other != name]
            more = f" and {len(others) - 3} more" if len(others) > 3 else ""
            yield f"copy: repeats votes of {', '.join(others[:3])}{more}, or they repeat these; the group counts as one"


def write_annotators(
    store: Store, project_id: int, live: LiveModel, people: Sequence[int], settings: ProjectSettings
) -> None:
    """Write what is known of some annotators."""
    if not people:
        return
    findings = AnnotatorFindings(live)
    seconds = store.read(lambda one: {person: median_seconds(one, project_id, person, _MIN_TIMED) for person in people})
    rows: list[dict[str, Any]] = []
    for person in people:
        estimate = findings.estimate(live.name_of.get(person, ""), seconds[person], settings)
        if estimate is not None:
            key = {"project_id": project_id, "person_id": person}
            rows.append({**key, "estimate": asdict(estimate), "position": live.position})

    def write(some: list[dict[str, Any]], connection: Connection) -> None:
        if log_columns.has_removals(connection, project_id, live.position):
            return  # alarms may have a name that is gone
        there = log_columns.people_with_answers(connection, project_id, [row["person_id"] for row in some])
        upsert(connection, schema.annotator_estimate, [row for row in some if row["person_id"] in there])

    for first in range(0, len(rows), _ROWS_PER_WRITE):  # votes wait for each
        store.write(partial(write, rows[first : first + _ROWS_PER_WRITE]))


def project_estimate(live: LiveModel, settings: ProjectSettings) -> ProjectEstimate:
    """Expected errors of the consensus, and whether they are few enough to stop."""
    model = live.model
    report = model.stopping_report(
        settings.target_error,
        check_share=settings.check_share,
        random_gold=settings.random_gold and live.is_random_gold,
    )
    judged = np.zeros(report.n_docs, dtype=bool)
    judged[model.current_votes().doc] = True
    n_judged, panel = int(judged.sum()), model.panel_
    return ProjectEstimate(
        n_votes=report.n_votes,
        n_judged=n_judged,
        expected_wrong=report.expected_wrong,
        upper_wrong=report.upper_wrong,
        n_labels=report.n_labels,
        expected_f1=report.expected_f1,
        wrong_after_one_vote=report.wrong_after_one_vote,
        fixed_votes=report.fixed_cost if math.isfinite(report.fixed_cost) else None,
        n_check_votes=report.n_check_votes,
        is_met=bool(report.met) and not live.is_partial,
        is_provisional=n_judged < min(MIN_JUDGED_FOR_WORDS, report.n_docs),
        contradiction=report.contradiction,
        models="" if panel is None else panel.text,
    )


def write_progress(store: Store, project_id: int, position: int, estimate: ProjectEstimate) -> None:
    """Add the estimate to the history, and say whether the project is complete.

    A row of the history is replaced by the next one until the votes have grown by a hundredth.
    """
    history, project, queue = schema.progress, schema.project, schema.queue

    def write(connection: Connection) -> None:
        query = select(history.c.position, history.c.estimate).where(history.c.project_id == project_id)
        last = connection.execute(query.order_by(history.c.position.desc()).limit(2)).all()
        is_close = len(last) == 2 and last[0].estimate["n_votes"] < _GROWTH * last[1].estimate["n_votes"]
        first = min(position, last[0].position) if is_close else position
        replaced = and_(history.c.project_id == project_id, history.c.position >= first)
        connection.execute(delete(history).where(replaced))
        row = {"project_id": project_id, "position": position, "estimate": asdict(estimate)}
        connection.execute(insert(history).values(computed_at=time.time(), **row))
        of_project = project.c.id == project_id
        changed = update(project).where(of_project, project.c.is_complete != estimate.is_met)
        connection.execute(changed.values(is_complete=estimate.is_met))
        if estimate.is_met:
            connection.execute(delete(queue).where(queue.c.project_id == project_id))

    store.write(write, is_logged=False)


def write_evidence(store: Store, project_id: int, live: LiveModel) -> None:
    """Write the words that speak for and against the classes of the most doubtful documents."""
    transformer = getattr(live.model, "words_", None)
    if transformer is None:
        return
    wrong = np.where(live.document_ids >= 0, live.expected_wrong(slice(None)), 0.0)
    rows = np.argsort(-wrong, kind="stable")[:N_DOUBTFUL]
    rows = rows[wrong[rows] > 0]
    evidence, generation = schema.evidence, live.generation
    ids = live.document_ids[rows].tolist()
    known = select(evidence.c.document_id).where(
        evidence.c.project_id == project_id, evidence.c.generation == generation, evidence.c.document_id.in_(ids)
    )
    there = store.read(lambda connection: set(connection.execute(known).scalars()))
    wanted = [number for number in ids if number not in there]
    texts = store.read(lambda connection: log_columns.texts(connection, wanted))
    if not texts:
        return
    found = _words(live, transformer, texts)

    def write(connection: Connection) -> None:
        still = log_columns.existing_documents(connection, list(found))
        key = {"project_id": project_id, "generation": generation}
        upsert(
            connection, evidence, [{**key, "document_id": one, "words": found[one]} for one in found if one in still]
        )

    store.write(write, is_logged=False)


def _words(live: LiveModel, transformer: Any, texts: dict[int, str]) -> dict[int, dict[str, list[list[Any]]]]:
    """Strongest words by document and class."""
    ids = list(texts)
    corpus = Corpus.from_counts(
        transformer.transform([texts[number] for number in ids]), transformer.get_feature_names_out(),
        [str(number) for number in ids],
    )  # fmt: skip
    table: pd.DataFrame = live.model.explain(corpus)
    table = table[table["kind"] == "word"]
    strongest = table.groupby(["doc", "label"], sort=False).head(_N_WORDS)
    spelling = dict(zip(transformer.get_feature_names_out(), transformer.spellings_, strict=True))
    label_of: dict[str, int] = dict(zip(live.model.classes_.tolist(), live.label_ids.tolist(), strict=True))
    found: dict[int, dict[str, list[list[Any]]]] = {number: {} for number in ids}
    for row in strongest.to_dict("records"):
        words = found[int(row["doc"])].setdefault(str(label_of[row["label"]]), [])
        words.append([str(spelling.get(row["word"], row["word"])), round(float(row["weight"]), 3)])
    return found
