"""Several servers on one database of PostgreSQL: two stores stand for two processes, because nothing else is shared."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest
from sqlalchemy import Connection, select, text

from palda.live import schema
from palda.live.errors import StoreError
from palda.live.records import Actor, Answer, NoTask, ProjectSettings, Task
from palda.live.service import access, documents, labelling, people, projects
from palda.live.store import Store, Transaction, open_store

N_DOCS, N_PEOPLE = 60, 4
Result = TypeVar("Result")


@pytest.fixture
def stores(postgresql) -> Iterator[list[Store]]:
    address = postgresql.new_database()
    with ThreadPoolExecutor(2) as pool:  # both create the tables at the same time
        opened = list(pool.map(open_store, [address, address]))
    yield opened
    for store in opened:
        store.close()


@pytest.fixture
def project(stores: list[Store]) -> tuple[int, list[Actor]]:
    store = stores[0]
    owner = access.enter(store, access.start_tokens(store)[1])
    project_id = projects.create(store, owner, "project", ["a", "b"]).id
    rows = [documents.DocumentRow(f"d{number}", "text") for number in range(N_DOCS)]
    documents.import_documents(store, project_id, rows)
    tokens = [access.invite(store, owner, project_id, "annotator", f"p{number}") for number in range(N_PEOPLE)]
    return project_id, [access.enter(store, access.accept(store, token)[0], project_id) for token in tokens]


def label_everything(store: Store, person: Actor, project_id: int, labels: list[int]) -> int:
    n_answers = 0

    def take(connection: Connection) -> Task | NoTask:
        return labelling.next_task(Transaction(connection), person, project_id)

    while isinstance(task := store.write(take, is_logged=False), Task):  # as the API does
        votes = dict.fromkeys(labels, 1)
        labelling.submit(store, person, project_id, Answer(task.document_id, f"{task.document_id}", "votes", votes))
        n_answers += 1
    return n_answers


def test_entries_of_the_log_become_visible_in_their_order(
    stores: list[Store], project: tuple[int, list[Actor]]
) -> None:
    project_id, members = project
    labels = [label.id for label in projects.project(stores[0], project_id).labels]
    query, stop = select(schema.vote.c.position), threading.Event()
    seen: list[set[int]] = []

    def follow() -> None:
        while not stop.is_set():
            seen.append(set(stores[1].read(lambda connection: connection.execute(query).scalars().all())))

    with ThreadPoolExecutor(N_PEOPLE + 1) as pool:
        reader = pool.submit(follow)
        work = [
            pool.submit(label_everything, stores[number % 2], person, project_id, labels)
            for number, person in enumerate(members)
        ]
        try:
            n_answers = [job.result() for job in work]
        finally:
            stop.set()
        reader.result()
    assert n_answers == [N_DOCS] * N_PEOPLE
    for before, after in itertools.pairwise(seen):
        assert before <= after
        assert min(after - before, default=len(after) + 10**9) > max(before, default=0)
    looks = [one.n_looks for one in documents.documents(stores[1], project_id, limit=N_DOCS)]
    assert looks == [N_PEOPLE] * N_DOCS


def test_what_one_server_changes_holds_for_the_other_at_once(
    stores: list[Store], project: tuple[int, list[Actor]]
) -> None:
    first, second = stores
    project_id, members = project
    token = first.write(lambda connection: access.add_session(connection, members[0].person_id))
    assert access.enter(second, token, project_id).name == "p0"
    people.set_paused(first, project_id, members[0].person_id, is_paused=True)
    assert access.enter(second, token, project_id).is_paused
    access.end_session(second, token)
    with pytest.raises(Exception, match="sign in"):
        access.enter(first, token, project_id)


def test_the_same_answer_through_both_servers_is_stored_once(
    stores: list[Store], project: tuple[int, list[Actor]]
) -> None:
    project_id, members = project
    task = labelling.next_task(stores[0], members[0], project_id)
    assert isinstance(task, Task)
    answer = Answer(task.document_id, "same", "votes", {task.label_ids[0]: 1})
    with ThreadPoolExecutor(2) as pool:
        receipts = list(pool.map(lambda store: labelling.submit(store, members[0], project_id, answer), stores))
    assert sorted(receipt.is_repeat for receipt in receipts) == [False, True]
    assert receipts[0].position == receipts[1].position


def test_a_write_that_collides_with_another_server_is_done_again(stores: list[Store]) -> None:
    first, second = stores
    started, added = threading.Event(), threading.Event()

    def add(connection: Connection) -> bool:
        known = select(schema.person.c.id).where(schema.person.c.name == "ann")
        is_new = connection.execute(known).first() is None
        started.set()
        added.wait(60)
        if is_new:
            connection.execute(schema.person.insert().values(name="ann", created_at=0.0))
        return is_new

    waiting = first.write_soon(add, is_logged=False)
    started.wait(60)
    values = {"name": "ann", "created_at": 0.0}
    second.write(lambda connection: connection.execute(schema.person.insert().values(**values)).rowcount)
    added.set()
    assert waiting.result(60) is False  # the second attempt saw the person


def during(stores: list[Store], change: Callable[[Connection], object], action: Callable[[], Result]) -> Result:
    """Result of an action that waits for what the other server has changed and not committed yet."""
    is_changed, may_commit = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        change(connection)
        is_changed.set()
        may_commit.wait(60)

    def n_waiting() -> int:
        query = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return int(stores[0].read(lambda connection: connection.execute(query).scalar_one()))

    with ThreadPoolExecutor(1) as pool:
        held = stores[1].write_soon(hold, is_logged=False)
        assert is_changed.wait(60)
        result: Future[Result] = pool.submit(action)
        end = time.monotonic() + 60
        while not n_waiting() and time.monotonic() < end:
            time.sleep(0.01)
        may_commit.set()
        held.result(60)
        return result.result(60)


def test_an_answer_is_counted_although_another_server_ends_its_lease_meanwhile(
    stores: list[Store], project: tuple[int, list[Actor]]
) -> None:
    project_id, (ann, *_) = project
    task = labelling.next_task(stores[0], ann, project_id)
    assert isinstance(task, Task)
    answer = Answer(task.document_id, "1", "votes", {task.label_ids[0]: 1})
    during(
        stores,
        lambda connection: labelling._end_expired(connection, project_id, task.expires_at + 1),
        lambda: labelling.submit(stores[0], ann, project_id, answer),
    )
    assert documents.find_document(stores[0], project_id, task.document_id).n_looks == 1


def test_two_servers_do_not_give_a_document_to_more_people_than_allowed(stores: list[Store]) -> None:
    store = stores[0]
    owner = access.enter(store, access.start_tokens(store)[1])
    project_id = projects.create(store, owner, "small", ["a"], ProjectSettings(max_votes_per_doc=1)).id
    documents.import_documents(store, project_id, [documents.DocumentRow("d", "text")])
    tokens = [access.invite(store, owner, project_id, "annotator", name) for name in ("ann", "bob")]
    ann, bob = (access.enter(store, access.accept(store, token)[0], project_id) for token in tokens)

    def take(person: Actor) -> Callable[[Connection], Task | NoTask]:
        return lambda connection: labelling.next_task(Transaction(connection), person, project_id)

    task = during(stores, take(ann), lambda: store.write(take(bob), is_logged=False))
    assert task == NoTask("nothing_left")


def test_somebody_who_gets_a_document_while_being_erased_is_not_counted(
    stores: list[Store], project: tuple[int, list[Actor]]
) -> None:
    project_id, (ann, *_) = project
    store = stores[0]
    owner = access.enter(store, access.start_tokens(store)[1])
    other = projects.create(store, owner, "other", ["a"]).id  # so that the person stays
    access.accept(store, access.invite(store, owner, other, "annotator"), actor=ann)
    during(
        stores,
        lambda connection: labelling.next_task(Transaction(connection), ann, project_id),
        lambda: people.erase(store, owner, project_id, ann.person_id),
    )
    assert not any(one.n_looks for one in documents.documents(store, project_id, limit=N_DOCS))


def test_writes_are_not_repeated_after_a_lost_connection(stores: list[Store]) -> None:
    is_begun, may_end, n_runs = threading.Event(), threading.Event(), itertools.count(1)

    def wait(_: Connection) -> None:
        is_begun.set()
        may_end.wait(60)

    def end_connection(connection: Connection) -> None:
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    stores[0].write_soon(wait)
    is_begun.wait(60)
    group = [stores[0].write_soon(lambda _: next(n_runs)), stores[0].write_soon(end_connection)]
    may_end.set()
    for write in group:
        with pytest.raises(StoreError):
            write.result(60)
    assert stores[0].write(lambda _: next(n_runs)) == 2
