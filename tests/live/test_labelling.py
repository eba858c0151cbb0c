from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import func, insert, select, update

from palda.live import schema
from palda.live.errors import ConflictError, InvalidRequestError, NotFoundError
from palda.live.records import Actor, Answer, NoTask, ProjectSettings, Task
from palda.live.service import access, documents, exports, labelling, people, projects, results
from palda.live.store import Store, open_store

N_DOCS = 5


class Crew:
    """A project with some annotators."""

    def __init__(self, location: str | Path, n_annotators: int = 3, **settings: object) -> None:
        self.store: Store = open_store(location)
        self.owner = access.enter(self.store, access.start_tokens(self.store)[1])
        changed = ProjectSettings(**settings)  # type: ignore[arg-type]
        self.id = projects.create(self.store, self.owner, "project", ["a", "b"], changed).id
        self.labels = [label.id for label in projects.project(self.store, self.id).labels]
        self.add_documents(N_DOCS)
        self.people = [self.invite(f"person {number}") for number in range(n_annotators)]

    def add_documents(self, n: int, start: int = 0) -> None:
        rows = [documents.DocumentRow(f"d{number}", f"text {number}") for number in range(start, start + n)]
        assert documents.import_documents(self.store, self.id, rows).state == "finished"

    def invite(self, name: str) -> Actor:
        token = access.invite(self.store, self.owner, self.id, "annotator", name)
        return access.enter(self.store, access.accept(self.store, token)[0], self.id)

    def next(self, person: Actor) -> Task | NoTask:
        return labelling.next_task(self.store, person, self.id)

    def task(self, person: Actor) -> Task:
        found = self.next(person)
        assert isinstance(found, Task)
        return found

    def answer(self, person: Actor, document_id: int, client_id: str, *values: int) -> None:
        votes = dict(zip(self.labels, values, strict=False))
        labelling.submit(self.store, person, self.id, Answer(document_id, client_id, "votes", votes))

    def log(self) -> list[tuple[int, int, int, int, int | None]]:
        table = schema.vote
        columns = table.c.position, table.c.document_id, table.c.person_id, table.c.label_id, table.c.value
        query = select(*columns).order_by(table.c.position)
        return [tuple(row) for row in self.store.read(lambda connection: connection.execute(query).all())]

    def votes_csv(self) -> list[str]:
        return b"".join(exports.votes_csv(self.store, self.id)).decode().splitlines()[1:]


@pytest.fixture
def crew(store_location: str):
    made = Crew(store_location)
    yield made
    made.store.close()


def test_a_person_gets_the_same_document_until_it_is_answered_and_then_another(crew: Crew) -> None:
    ann = crew.people[0]
    first = crew.task(ann)
    assert crew.task(ann).document_id == first.document_id
    crew.answer(ann, first.document_id, "1", 1, 0)
    assert crew.task(ann).document_id != first.document_id


def test_documents_with_fewer_looks_come_first(crew: Crew) -> None:
    ann, bob, _ = crew.people
    mine = [crew.task(ann).document_id]
    crew.answer(ann, mine[0], "1", 1, 0)
    given = set()
    for number in range(N_DOCS - 1):
        task = crew.task(bob)
        given.add(task.document_id)
        crew.answer(bob, task.document_id, f"b{number}", 1, 0)
    assert mine[0] not in given


def test_queued_documents_come_before_others_and_in_their_order(crew: Crew) -> None:
    ann = crew.people[0]
    ids = [one.id for one in documents.documents(crew.store, crew.id)]
    rows = [
        {"project_id": crew.id, "person_id": ann.person_id, "rank": rank, "document_id": ids[chosen], "gain": 1.0}
        for rank, chosen in enumerate([3, 1])
    ]
    common = {"purpose": "gain", "position": 0, "label_ids": [crew.labels[1]]}
    crew.store.write(lambda c: c.execute(insert(schema.queue), [row | common for row in rows]).rowcount)
    tasks = []
    for number in range(2):
        tasks.append(crew.task(ann))
        crew.answer(ann, tasks[-1].document_id, str(number), 1)
    assert [task.document_id for task in tasks] == [ids[3], ids[1]]
    assert tasks[0].label_ids == (crew.labels[1],)


def test_an_answer_sent_twice_is_stored_once_and_another_body_is_a_conflict(crew: Crew) -> None:
    ann = crew.people[0]
    task = crew.task(ann)
    answer = Answer(task.document_id, "same", "votes", {crew.labels[0]: 1})
    first, second = (labelling.submit(crew.store, ann, crew.id, answer) for _ in range(2))
    assert (first.position, first.is_repeat, second.is_repeat) == (second.position, False, True)
    assert len(crew.log()) == 1
    with pytest.raises(ConflictError, match="client id"):
        labelling.submit(crew.store, ann, crew.id, Answer(task.document_id, "same", "votes", {crew.labels[0]: 0}))
    assert len(crew.log()) == 1


def test_client_ids_of_two_people_may_be_equal(crew: Crew) -> None:
    for person in crew.people[:2]:
        crew.answer(person, crew.task(person).document_id, "same", 1, 0)
    assert len(crew.log()) == 4


def test_a_vote_after_its_lease_expired_is_accepted(crew: Crew) -> None:
    ann, bob, _ = crew.people
    task = crew.task(ann)
    crew.store.write(lambda c: c.execute(update(schema.lease).values(expires_at=1.0)).rowcount)
    crew.task(bob)  # ends expired leases
    crew.answer(ann, task.document_id, "late", 1, 0)
    assert len(crew.log()) == 2


def test_changing_ones_mind_adds_entries_and_the_last_counts(crew: Crew) -> None:
    ann = crew.people[0]
    document_id = crew.task(ann).document_id
    crew.answer(ann, document_id, "1", 1, 0)
    crew.answer(ann, document_id, "2", 0, 0)
    assert len(crew.log()) == 4
    assert [line.split(",")[2:4] for line in crew.votes_csv()] == [["a", "0"], ["b", "0"]]


def test_undo_withdraws_and_brings_the_document_back_with_its_votes(crew: Crew) -> None:
    ann = crew.people[0]
    document_id = crew.task(ann).document_id
    crew.answer(ann, document_id, "1", 1, 0)
    back = labelling.undo(crew.store, ann, crew.id, "u")
    assert isinstance(back, Task)
    assert (back.document_id, back.votes) == (document_id, dict(zip(crew.labels, (1, 0), strict=True)))
    again = labelling.undo(crew.store, ann, crew.id, "u")
    assert isinstance(again, Task)
    assert again.document_id == document_id
    assert crew.votes_csv() == []
    assert crew.task(ann).document_id == document_id
    crew.answer(ann, document_id, "2", 1, 1)
    assert [line.split(",")[3] for line in crew.votes_csv()] == ["1", "1"]


def test_undo_without_an_answer_is_a_conflict(crew: Crew) -> None:
    with pytest.raises(ConflictError, match="no answer to undo"):
        labelling.undo(crew.store, crew.people[0], crew.id, "u")


def test_cannot_tell_is_a_look_without_votes(crew: Crew) -> None:
    ann = crew.people[0]
    document_id = crew.task(ann).document_id
    labelling.submit(crew.store, ann, crew.id, Answer(document_id, "1", "cannot_tell"))
    assert [line.split(",")[1:4] for line in crew.votes_csv()] == [["person 0", "", ""]]
    assert documents.find_document(crew.store, crew.id, document_id).n_looks == 1


def test_a_skipped_document_is_for_others(crew: Crew) -> None:
    ann = crew.people[0]
    document_id = crew.task(ann).document_id
    labelling.submit(crew.store, ann, crew.id, Answer(document_id, "1", "skip"))
    assert documents.find_document(crew.store, crew.id, document_id).n_looks == 0
    seen = set()
    while isinstance(task := crew.next(ann), Task):
        seen.add(task.document_id)
        crew.answer(ann, task.document_id, f"{task.document_id}", 1, 0)
    assert document_id not in seen
    assert len(seen) == N_DOCS - 1


def test_no_document_gets_more_votes_than_allowed(store_location: str) -> None:
    crew = Crew(store_location, n_annotators=3, max_votes_per_doc=2)
    looks: Counter[int] = Counter()
    for person in crew.people:
        while isinstance(task := crew.next(person), Task):
            looks[task.document_id] += 1
            crew.answer(person, task.document_id, f"{task.document_id}", 1, 0)
    assert set(looks.values()) == {2}
    assert crew.next(crew.people[2]) == NoTask("nothing_left")
    crew.store.close()


@pytest.mark.parametrize(
    ("kind", "votes"),
    [("votes", {}), ("votes", {999: 1}), ("votes", {1: 2}), ("skip", {1: 1}), ("cannot_tell", {1: 0})],
)
def test_impossible_answers_are_refused_and_change_nothing(crew: Crew, kind: str, votes: dict[int, int]) -> None:
    document_id = crew.task(crew.people[0]).document_id
    with pytest.raises(InvalidRequestError):
        labelling.submit(crew.store, crew.people[0], crew.id, Answer(document_id, "1", kind, votes))  # type: ignore[arg-type]
    assert crew.log() == []
    assert crew.task(crew.people[0]).document_id == document_id


def test_a_document_of_another_project_is_not_found(crew: Crew) -> None:
    other = projects.create(crew.store, crew.owner, "other", ["x"]).id
    documents.import_documents(crew.store, other, [documents.DocumentRow("d", "secret")])
    foreign = documents.documents(crew.store, other)[0].id
    with pytest.raises(NotFoundError):
        crew.answer(crew.people[0], foreign, "1", 1)


def test_why_there_is_nothing_to_do(crew: Crew) -> None:
    ann = crew.people[0]
    projects.change(crew.store, crew.id, is_paused=True)
    assert crew.next(ann) == NoTask("paused")
    projects.change(crew.store, crew.id, is_paused=False)
    crew.store.write(lambda c: c.execute(update(schema.project).values(is_complete=True)).rowcount)
    assert crew.next(ann) == NoTask("complete")
    crew.add_documents(1, start=100)  # new documents open it again
    assert isinstance(crew.next(ann), Task)
    empty = projects.create(crew.store, crew.owner, "empty", ["x"]).id
    assert labelling.next_task(crew.store, crew.owner, empty) == NoTask("no_documents")


def test_a_class_added_later_is_unjudged_in_earlier_votes(crew: Crew) -> None:
    ann = crew.people[0]
    crew.answer(ann, crew.task(ann).document_id, "1", 1, 0)
    added = projects.add_label(crew.store, crew.id, "c")
    assert crew.task(ann).label_ids == (*crew.labels, added.id)
    assert len(crew.votes_csv()) == 2


def test_an_erased_person_leaves_no_trace_but_the_event(crew: Crew) -> None:
    ann, bob, _ = crew.people
    for person in (ann, bob):
        crew.answer(person, crew.task(person).document_id, "1", 1, 0)
    crew.task(ann)
    people.erase(crew.store, crew.owner, crew.id, ann.person_id)
    assert {entry[2] for entry in crew.log()} == {bob.person_id}
    for table in schema.metadata.sorted_tables:
        for column in ("person_id", "decided_by"):
            if column in table.c:
                query = select(func.count()).where(table.c[column] == ann.person_id)
                assert crew.store.read(lambda c, query=query: c.execute(query).scalar_one()) == 0, table.name
    events = crew.store.read(lambda c: c.execute(select(schema.event.c.kind, schema.event.c.details)).all())
    assert ("annotator_erased", {}) in [tuple(row) for row in events]
    assert "person 0" not in str(events)
    assert sum(one.n_looks for one in documents.documents(crew.store, crew.id)) == 1


def test_a_pseudonym_replaces_the_name_everywhere(crew: Crew) -> None:
    ann = crew.people[0]
    crew.answer(ann, crew.task(ann).document_id, "1", 1, 0)
    name = people.pseudonymise(crew.store, crew.owner, crew.id, ann.person_id)
    assert {line.split(",")[1] for line in crew.votes_csv()} == {name}
    for table in schema.metadata.sorted_tables:
        assert "person 0" not in str(crew.store.read(lambda c, table=table: c.execute(select(table)).all()))


def test_the_number_of_a_deleted_document_or_person_is_not_used_again(crew: Crew) -> None:
    last = documents.documents(crew.store, crew.id)[-1].id
    documents.delete_document(crew.store, crew.id, last)
    crew.add_documents(1, start=50)
    assert documents.documents(crew.store, crew.id)[-1].id > last
    ann = crew.people[-1]
    people.erase(crew.store, crew.owner, crew.id, ann.person_id)
    assert crew.invite("somebody new").person_id > ann.person_id


def test_a_document_that_somebody_only_holds_is_not_judged(crew: Crew) -> None:
    ann, bob, _ = crew.people
    held = crew.task(ann).document_id
    crew.answer(bob, crew.task(bob).document_id, "1", 1, 0)
    status = results.status(crew.store, crew.id)
    assert (status.n_judged, status.n_votes, status.n_leases) == (1, 1, 1)
    n_votes = {row.document_id: row.n_looks for row in results.consensus(crew.store, crew.id)}
    assert (n_votes[held], sum(n_votes.values())) == (0, 1)


def test_a_skip_after_votes_withdraws_them(crew: Crew) -> None:
    ann = crew.people[0]
    task = crew.task(ann)
    crew.answer(ann, task.document_id, "1", 1, 0)
    labelling.submit(crew.store, ann, crew.id, Answer(task.document_id, "2", "skip"))
    assert crew.votes_csv() == []
    assert documents.find_document(crew.store, crew.id, task.document_id).n_looks == 0


def test_undo_withdraws_all_votes_of_a_document_that_was_answered_twice(crew: Crew) -> None:
    ann = crew.people[0]
    task = crew.task(ann)
    crew.answer(ann, task.document_id, "1", 1, 0)
    crew.answer(ann, task.document_id, "2", 0)
    labelling.undo(crew.store, ann, crew.id, "3")
    assert crew.votes_csv() == []


def test_undo_finds_the_last_answer_although_the_clock_was_set_back(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = crew.people[0]
    crew.answer(ann, crew.task(ann).document_id, "1", 1, 0)
    second = crew.task(ann)
    monkeypatch.setattr("time.time", lambda: 1000.0)
    crew.answer(ann, second.document_id, "2", 1, 0)
    undone = labelling.undo(crew.store, ann, crew.id, "3")
    assert isinstance(undone, Task)
    assert undone.document_id == second.document_id
    seconds = crew.store.read(lambda c: c.execute(select(schema.submission.c.seconds)).scalars().all())
    assert min(one for one in seconds if one is not None) >= 0


def test_undo_asks_for_the_same_classes_again(store_location: str) -> None:
    crew = Crew(store_location, n_annotators=1, ask="labels")
    ann = crew.people[0]
    document_id = documents.documents(crew.store, crew.id)[0].id
    asked = [crew.labels[1]]
    row = {"project_id": crew.id, "person_id": ann.person_id, "rank": 0, "document_id": document_id, "gain": 1.0}
    values = {**row, "purpose": "gain", "label_ids": asked, "position": 0}
    crew.store.write(lambda c: c.execute(insert(schema.queue), values).rowcount)
    assert crew.task(ann).label_ids == tuple(asked)
    labelling.submit(crew.store, ann, crew.id, Answer(document_id, "1", "votes", {asked[0]: 1}))
    undone = labelling.undo(crew.store, ann, crew.id, "2")
    crew.store.close()
    assert isinstance(undone, Task)
    assert (undone.label_ids, undone.votes) == (tuple(asked), {asked[0]: 1})


@pytest.mark.parametrize(("purpose", "is_given"), [("gain", False), ("gold", True)])
def test_a_queued_document_that_was_decided_meanwhile_is_given_as_a_test_alone(
    crew: Crew, purpose: str, *, is_given: bool
) -> None:
    ann = crew.people[0]
    document_id = documents.documents(crew.store, crew.id)[0].id
    row = {"project_id": crew.id, "person_id": ann.person_id, "rank": 0, "document_id": document_id, "gain": 1.0}
    values = {**row, "purpose": purpose, "label_ids": None, "position": 0}
    crew.store.write(lambda c: c.execute(insert(schema.queue), values).rowcount)
    documents.set_gold(crew.store, crew.id, document_id, {crew.labels[0]: 1}, crew.owner)
    assert (crew.task(ann).document_id == document_id) == is_given


@pytest.mark.parametrize("is_paused", [False, True])
def test_annotators_answer_only_what_was_given_to_them_and_admins_anything(crew: Crew, is_paused: bool) -> None:
    ann = crew.people[0]
    held = crew.task(ann).document_id
    others = [one.id for one in documents.documents(crew.store, crew.id) if one.id != held]
    ann = replace(ann, is_paused=is_paused)
    with pytest.raises(ConflictError, match="was not given to you"):
        crew.answer(ann, others[0], "1", 1, 0)
    crew.answer(ann, held, "1", 1, 0)  # nothing of the refused answer is kept, not even its client id
    crew.answer(ann, held, "2", 0, 0)
    assert {line.split(",")[3] for line in crew.votes_csv()} == {"0"}
    crew.answer(replace(crew.people[1], role="admin"), others[0], "1", 1, 1)
    assert len(crew.votes_csv()) == 4


def test_a_document_whose_lease_expired_is_given_again_to_the_same_person(crew: Crew) -> None:
    ann, bob, _ = crew.people
    given = crew.task(ann).document_id
    for _ in range(2):
        crew.store.write(lambda c: c.execute(update(schema.lease).values(expires_at=1.0)).rowcount)
        crew.task(bob)  # ends expired leases
        seen = set()
        while isinstance(task := crew.next(ann), Task) and task.document_id != given:
            assert task.document_id not in seen
            seen.add(task.document_id)
            crew.answer(ann, task.document_id, f"{task.document_id}", 1, 0)
        assert isinstance(task, Task)
        assert labelling.own_progress(crew.store, ann, crew.id).n_answered == N_DOCS - 1


def test_a_deleted_document_leaves_no_trace_but_the_event(crew: Crew) -> None:
    ann = crew.people[0]
    task = crew.task(ann)
    crew.answer(ann, task.document_id, "1", 1, 0)
    documents.set_gold(crew.store, crew.id, task.document_id, {crew.labels[0]: 1}, crew.owner)
    documents.delete_document(crew.store, crew.id, task.document_id)
    for table in schema.metadata.sorted_tables:
        assert task.text not in str(crew.store.read(lambda c, table=table: c.execute(select(table)).all()))
    assert crew.log() == []
    with pytest.raises(NotFoundError):
        crew.answer(ann, task.document_id, "2", 1)


class LabellingMachine(RuleBasedStateMachine):
    """People label, skip, undo and lose leases in any order; the numbers agree and the log only grows."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.crew = Crew(Path(self.folder.name, "project.db"), max_votes_per_doc=2)
        self.held: dict[int, int] = {}
        self.expired: set[int] = set()
        self.done: dict[int, list[int]] = {person.person_id: [] for person in self.crew.people}
        self.log: list[tuple[int, int, int, int, int | None]] = []
        self.n_sent = 0

    who = st.integers(0, 2)

    @rule(number=who)
    def ask(self, number: int) -> None:
        person = self.crew.people[number]
        if number in self.expired:  # the document may have gone to somebody else
            self.expired.remove(number)
            self.held.pop(number, None)
        task = self.crew.next(person)
        if isinstance(task, Task):
            assert task.document_id not in self.done[person.person_id]
            assert self.held.get(number, task.document_id) == task.document_id
            self.held[number] = task.document_id
        else:
            assert number not in self.held

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        kind=st.sampled_from(["votes", "cannot_tell", "skip"]),
        values=st.tuples(*[st.integers(0, 1)] * 2),
    )
    def reply(self, data: st.DataObject, kind: str, values: tuple[int, int]) -> None:
        number = data.draw(st.sampled_from(sorted(self.held)))
        person, document_id = self.crew.people[number], self.held.pop(number)
        votes = dict(zip(self.crew.labels, values, strict=True)) if kind == "votes" else {}
        self.n_sent += 1
        answer = Answer(document_id, str(self.n_sent), kind, votes)  # type: ignore[arg-type]
        receipts = [labelling.submit(self.crew.store, person, self.crew.id, answer) for _ in range(2)]
        assert [receipt.is_repeat for receipt in receipts] == [False, True]
        self.done[person.person_id].append(document_id)

    @rule(number=who)
    def undo(self, number: int) -> None:
        person = self.crew.people[number]
        self.n_sent += 1
        if number in self.held:
            return
        if not self.done[person.person_id]:
            with pytest.raises(ConflictError):
                labelling.undo(self.crew.store, person, self.crew.id, str(self.n_sent))
            return
        task = labelling.undo(self.crew.store, person, self.crew.id, str(self.n_sent))
        assert isinstance(task, Task)
        assert task.document_id == self.done[person.person_id].pop()
        self.held[number] = task.document_id

    @rule()
    def expire(self) -> None:
        self.crew.store.write(lambda c: c.execute(update(schema.lease).values(expires_at=1.0)).rowcount)
        self.expired |= set(self.held)

    @invariant()
    def looks_agree(self) -> None:
        lease, answer = schema.lease, schema.answer
        looks: Counter[int] = Counter()

        def read(connection) -> dict[int, int]:
            looks.update(connection.execute(select(lease.c.document_id)).scalars().all())
            counted = answer.c.kind.in_(("votes", "cannot_tell"))
            looks.update(connection.execute(select(answer.c.document_id).where(counted)).scalars().all())
            stored = select(schema.document.c.id, schema.document.c.n_looks)
            return {row.id: row.n_looks for row in connection.execute(stored)}

        stored = self.crew.store.read(read)
        assert stored == {document_id: looks[document_id] for document_id in stored}

    @invariant()
    def log_only_grows(self) -> None:
        log = self.crew.log()
        assert log[: len(self.log)] == self.log
        assert [entry[0] for entry in log] == sorted({entry[0] for entry in log})
        self.log = log

    def teardown(self) -> None:
        self.crew.store.close()
        self.folder.cleanup()


TestLabellingMachine = LabellingMachine.TestCase
TestLabellingMachine.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
