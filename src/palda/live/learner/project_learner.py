"""The learner of one project: follows its log, fits, and writes what it finds."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sqlalchemy import select

from palda.errors import PaldaError
from palda.live import schema
from palda.live.learner import estimates, log_columns, model_files
from palda.live.learner.assignments import Assignments
from palda.live.learner.fitting import MIN_JUDGED
from palda.live.learner.live_model import LiveModel, Touched
from palda.live.learner.log_columns import REMOVALS
from palda.live.learner.writes import Paced
from palda.live.records import LearnerState
from palda.live.service.projects import head_position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from palda.live.learner.fitting import FitProcess, FitResult
    from palda.live.learner.log_columns import Event, VoteColumns
    from palda.live.records import Activity, ProjectSettings
    from palda.live.store import Store

_NEW_FIT = REMOVALS | {"label_added", "documents_imported", "texts_changed"}
_GROWTH, _GROWTH_AT_END = 0.25, 0.1  # of the votes until the next fit; if the target is near
_NEAR = 2.0  # times the target
_START = 0.5  # share of documents with a vote before documents are chosen by their gain, as in ``benchmarks adaptive``
_PAUSE = 1.0  # times the duration of the last fit before the next one
_MIN_PAUSE, _MAX_PAUSE = 1.0, 600.0
_MAX_ENTRIES = 50_000  # of the log at once
_IDLE_SECONDS = 900.0  # after which a model leaves the memory


class ProjectRow(NamedTuple):
    """A project as the loop reads it."""

    id: int
    settings: ProjectSettings
    is_paused: bool
    is_complete: bool


class LogPart(NamedTuple):
    """Entries of the log up to ``until``."""

    votes: VoteColumns
    events: list[Event]
    until: int
    is_all: bool


class Overtaken(Exception):  # noqa: N818 - no error: the fit is repeated
    """Data were removed while a fit ran."""


class Budget:
    """Keeps the processor time of a task below a share of all time."""

    def __init__(self, share: float, max_pause: float = math.inf) -> None:
        self._wait, self._max_pause = 1.0 / share - 1.0, max_pause
        self._next_at = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether the task may run again."""
        return time.monotonic() >= self._next_at

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Measure one run."""
        start = time.process_time()
        yield
        self._next_at = time.monotonic() + min((time.process_time() - start) * self._wait, self._max_pause)


class ProjectLearner:
    """Follows one project. A new one continues from what the store holds."""

    def __init__(
        self,
        store: Store,
        project_id: int,
        start_fit: Callable[[int], FitProcess],
        on_piece: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._id, self._start_fit = store, project_id, start_fit
        self._paced = Paced(store, on_piece)
        self._live: LiveModel | None = None
        self._fit: FitProcess | None = None
        self._assignments = Assignments(store, project_id)
        self._position = -1  # last entry of the log that was taken in; -1 before the store was read
        self._n_new = self._n_fitted = 0  # entries since the last fit, and votes that it had
        self._is_stale = False  # the model lacks documents or classes, or data were removed
        self._has_removed = False  # the model contains names or votes that are gone
        self._is_changed = False  # since the last estimate
        self._is_behind = False  # there is more of the log than one part
        self._people: set[int] = set()  # whose estimates are to be written
        self._rows = np.empty(0, dtype=np.int64)  # documents whose posteriors are to be written
        self._growth, self._may_assign = _GROWTH, False
        self._n_failures = 0
        self._message = "waiting for votes"
        self._fit_at = 0.0
        self._used_at = time.monotonic()
        self._update, self._estimate = Budget(0.1, 2.0), Budget(0.1)
        self._annotators, self._evidence = Budget(0.03), Budget(0.02)

    @property
    def is_fitting(self) -> bool:
        """Whether a fit runs."""
        return self._fit is not None

    @property
    def live(self) -> LiveModel | None:
        """The model in use."""
        return self._live

    def state(self) -> LearnerState:
        """What is shown on the dashboard."""
        activity: Activity = "fitting" if self.is_fitting else "failed" if self._n_failures else "waiting"
        return LearnerState(activity, self._message, max(self._position, 0), self._n_failures, time.time())

    def close(self) -> None:
        """End a fit that runs."""
        if self._fit is not None:
            self._fit.close()
            self._fit = None

    def step(self, project: ProjectRow, head: int, *, may_fit: bool) -> bool:
        """Take in what is new; whether there was something to do."""
        if self._position < 0:
            self._load(head)
        was_busy = False
        if head > self._position and (self._is_behind or self._update.is_ready):
            with self._update.spend():
                was_busy = self._follow()
        if self._fit is not None:
            self._poll_fit()
        elif may_fit and self._needs_fit():
            self._fit = self._start_fit(self._id)
            self._message = "fitting"
        if self._live is not None and not self._is_behind:
            was_busy |= self._write(self._live, project)
        if was_busy:
            self._used_at = time.monotonic()
        elif not self.is_fitting and time.monotonic() > self._used_at + _IDLE_SECONDS:
            self._live = None
            self._used_at, self._position = math.inf, head  # the next entry of the log loads it again
        return was_busy

    def _load(self, head: int) -> None:
        """Continue from the store."""
        self._used_at = time.monotonic()
        fit = self._store.read(lambda connection: model_files.stored_fit(connection, self._id))
        model_files.delete_other_generations(self._paced, self._store, self._id)
        if fit is None:
            self._position = head
            return
        live = self._store.read(lambda connection: model_files.load_model(connection, self._id, fit))
        self._use(live, self._find_names(live), fit.seconds)

    def _find_names(self, live: LiveModel) -> bool:
        """Find documents and people of a model; whether the project has documents or classes that it lacks."""

        def read(connection: Connection) -> bool:
            live.read_names(connection, self._id)
            people = select(schema.person.c.id).where(schema.person.c.name.in_(live.model.annotators_.tolist()))
            live.learn_names(connection, connection.execute(people).scalars().all())
            return live.n_unknown > 0

        return self._store.read(read)

    def _use(self, live: LiveModel, is_stale: bool, seconds: float, n_new: int = 0) -> None:
        """Work with a model, which ``n_new`` entries of the log have changed since its fit."""
        self._live, self._position = live, live.position
        self._is_stale, self._is_changed, self._has_removed = is_stale, True, False
        self._n_new, self._n_fitted = n_new, len(live.model.current_votes())
        self._people, self._rows = set(live.name_of), self._rows[:0]
        self._fit_at = time.monotonic() + max(_MIN_PAUSE, _PAUSE * seconds)

    def _follow(self) -> bool:
        """Take in the next entries of the log."""
        part = self._read_log(self._position)
        is_new = bool(len(part.votes.position) or part.events)
        if is_new and self._used_at == math.inf:  # the model has left the memory
            self._position = -1
            return True
        self._take_in(part)
        self._position, self._is_behind = part.until, not part.is_all
        return is_new or self._is_behind

    def _read_log(self, after: int) -> LogPart:
        def read(connection: Connection) -> LogPart:
            head = head_position(connection)
            votes = log_columns.vote_columns(connection, self._id, after, _MAX_ENTRIES)
            is_all = len(votes.position) < _MAX_ENTRIES
            until = head if is_all else int(votes.position[-1])
            return LogPart(votes, log_columns.events(connection, self._id, after, until), until, is_all)

        return self._store.read(read)

    def _take_in(self, part: LogPart) -> None:
        kinds = {event.kind for event in part.events}
        if len(part.votes.position):
            self._assignments.activity.add(part.votes)
            self._n_new += len(part.votes.position)
        if kinds & _NEW_FIT:
            self._is_stale = True
            self._fit_at = min(self._fit_at, time.monotonic() + _MIN_PAUSE)
        if kinds & REMOVALS:
            self._has_removed = True
            self.close()
        if kinds:
            self._is_changed = True
        if self._live is not None:
            self._update_model(self._live, part)

    def _update_model(self, live: LiveModel, part: LogPart) -> None:
        touched = self._apply(live, part)
        live.position = part.until
        self._rows = np.union1d(self._rows, touched.rows)
        if len(self._rows) and part.is_all:
            model_files.write_posteriors(self._paced, self._id, live, self._rows)
            self._rows = self._rows[:0]
        self._people |= touched.people
        self._is_changed |= len(touched.rows) > 0

    def _apply(self, live: LiveModel, part: LogPart) -> Touched:
        """Update a model by a part of the log."""
        kinds = {event.kind for event in part.events}
        known = self._store.read(lambda connection: self._read_names(connection, live, part, kinds))
        touched = live.apply(part.votes)
        if known:
            decided = live.apply_gold(known)
            touched = Touched(np.union1d(touched.rows, decided.rows), touched.people)
        return touched

    def _read_names(
        self, connection: Connection, live: LiveModel, part: LogPart, kinds: set[str]
    ) -> list[log_columns.GoldRow]:
        """Names that the log is about, and labels that have become known."""
        live.learn_names(connection, np.unique(part.votes.person).tolist())
        if kinds & _NEW_FIT:
            live.read_names(connection, self._id)
        if "annotator_erased" in kinds:
            live.forget_erased(connection, self._id)
        changed = [event for event in part.events if event.kind == "gold_changed"]
        documents = sorted({number for event in changed for number in event.details.get("document_ids", ())})
        known = log_columns.gold_rows(connection, self._id, documents)
        if live.has_lost_gold(documents, known):
            self._is_stale = True  # only a fit can take in that a label is unknown again
        return known

    def _needs_fit(self) -> bool:
        if time.monotonic() < self._fit_at:
            return False
        if self._live is not None and not self._has_removed:
            return self._is_stale or self._n_new > self._growth * self._n_fitted
        if not self._n_new and not self._is_stale and self._fit_at:
            return False
        self._n_new, self._is_stale, self._fit_at = 0, False, time.monotonic() + _MIN_PAUSE
        if self._store.read(self._has_enough):
            return True
        self._forget()
        return False

    def _forget(self) -> None:
        """Remove results of votes that are gone, if too few are left for a fit."""
        self._live, self._has_removed = None, False
        if model_files.leave_model(self._store, self._id):
            self._message = "waiting for votes"
            model_files.delete_other_generations(self._paced, self._store, self._id)

    def _has_enough(self, connection: Connection) -> bool:
        """Whether enough documents have votes for the first fit."""
        vote, document, label = schema.vote.c, schema.document.c, schema.label.c
        n_labels = len(connection.execute(select(label.id).where(label.project_id == self._id).limit(1)).all())
        judged = select(vote.document_id).where(vote.project_id == self._id, vote.value.is_not(None)).distinct()
        some = select(document.id).where(document.project_id == self._id).limit(MIN_JUDGED)
        n_judged, n_docs = (len(connection.execute(query).all()) for query in (judged.limit(MIN_JUDGED), some))
        return 0 < n_docs <= n_judged and n_labels > 0

    def _poll_fit(self) -> None:
        if self._fit is None:
            return
        try:
            result = self._fit.result()
            if result is None:
                return
            self._adopt(result)
            self._n_failures = 0
        except Overtaken:
            self._fit_at = 0.0
        except PaldaError as error:
            self._n_failures += 1
            self._message, self._is_stale = str(error), True
            self._fit_at = time.monotonic() + min(2.0 ** (self._n_failures + 1), _MAX_PAUSE)
        self.close()

    def _adopt(self, result: FitResult) -> None:
        """Bring a new fit up to date, write it, and switch to it."""
        generation = self._store.read(lambda connection: model_files.next_generation(connection, self._id))
        live = model_files.opened(result.path, generation, result.position, result.label_ids)
        is_stale, n_new = self._find_names(live), 0
        while True:
            part = self._read_log(live.position)
            if REMOVALS & {event.kind for event in part.events}:
                raise Overtaken
            self._apply(live, part)
            live.position = part.until
            n_new += len(part.votes.position)
            if part.is_all:
                break

        def check(connection: Connection) -> None:
            if log_columns.has_removals(connection, self._id, live.position):
                raise Overtaken

        try:
            model_files.store_model(self._store, self._paced, self._id, live, result, check)
        finally:
            model_files.delete_other_generations(self._paced, self._store, self._id)
        self._use(live, is_stale, result.seconds, n_new)
        self._message = f"fitted {result.n_docs:,} documents in {result.seconds:.1f} s"

    def _write(self, live: LiveModel, project: ProjectRow) -> bool:
        """Write estimates and queues, each as often as its share of the time allows."""
        was_busy = False
        if self._is_changed and self._estimate.is_ready:
            with self._estimate.spend():
                estimate = estimates.project_estimate(live, project.settings)
                estimates.write_progress(self._store, self._id, live.position, estimate)
            self._is_changed = False
            target = (project.settings.target_error or 0.0) * estimate.n_labels
            self._growth = _GROWTH_AT_END if estimate.upper_wrong < _NEAR * target else _GROWTH
            self._may_assign = live.judged_share() >= _START
            project = project._replace(is_complete=estimate.is_met)
            was_busy = True
        if self._people and self._annotators.is_ready and not self._has_removed:
            with self._annotators.spend():
                estimates.write_annotators(self._store, self._id, live, sorted(self._people), project.settings)
            self._people.clear()
        if self._may_assign and not project.is_complete and not project.is_paused:
            was_busy |= self._assignments.refill(live, project.settings) > 0
        if was_busy and self._evidence.is_ready:
            with self._evidence.spend():
                estimates.write_evidence(self._store, self._id, live)
        return was_busy
