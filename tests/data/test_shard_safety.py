"""Sharding loses no vote, whatever happens to intermediate files, and removes no file that it has not written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from palda.data import Corpus
from palda.errors import DataError
from palda.io import Sources, Treatment, open_shards, shard_files, write_shards
from palda.io.shards import build, replacement, unfinished, vote_sorting

CORPUS = Corpus.from_counts([[1, 0], [0, 2], [3, 1]], doc_ids=["d1", "d2", "d3"])
TREATMENT = Treatment(docs_per_shard=4)
OLD_FOLDER = Path(__file__).parents[1] / "fixtures" / "shards-0.1"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few rows take several steps too."""
    monkeypatch.setattr(build, "_DOCS_PER_CHUNK", 3)
    monkeypatch.setattr(vote_sorting, "_ROWS_PER_CHUNK", 4)
    monkeypatch.setattr(vote_sorting, "_MAX_PENDING", 7)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    documents, votes = tmp_path / "documents.csv", tmp_path / "votes.csv"
    random = np.random.default_rng(0)
    texts = (" ".join(random.choice(["ship", "wheat", "bank"], 4)) for _ in range(10))
    documents.write_text("doc,text\n" + "".join(f"d{n},{text}\n" for n, text in enumerate(texts)))
    rows = [f"d{n % 10},x{n},{'a;b' if n % 3 else '[]'}\n" for n in range(24)]
    votes.write_text("doc,annotator,labels\n" + "".join(rows))
    return Sources(documents, votes)


def _content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class _StoppedError(Exception):
    pass


def _stop_after(n_steps: int) -> Callable[[str, float, int], None]:
    left = n_steps

    def watch(step: str, share: float, n_done: int) -> None:
        nonlocal left
        del step, share, n_done
        left -= 1
        if left < 0:
            raise _StoppedError

    return watch


def _interrupted(target: Path, sources: Sources, n_steps: int) -> bool:
    """Start a run that is stopped after some steps; whether it was stopped before it was finished."""
    try:
        shard_files(target, sources, TREATMENT, watch=_stop_after(n_steps))
    except _StoppedError:
        return True
    return False


# What is removed


def _foreign_folders(parent: Path) -> Iterator[tuple[str, Path]]:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(write_shards(parent / "ours", CORPUS, force=True).path, parent / name))

    web = parent / "extension"
    web.mkdir()
    (web / "manifest.json").write_text('{"manifest_version": 3, "name": "a browser extension"}')
    (web / "precious.js").write_text("mine")
    yield "is not a shard folder", web
    broken = copy("broken")
    (broken / "manifest.json").write_text("{")
    yield "is not a shard folder", broken
    (copy("notes") / "notes.txt").write_text("mine")
    yield "contains 'notes.txt'", parent / "notes"
    (copy("nested") / "folder").mkdir()
    yield "contains 'folder'", parent / "nested"
    elsewhere = parent / "elsewhere.arrow"
    shutil.copy(parent / "ours" / "shard-00000.arrow", elsewhere)
    linked = copy("linked") / "shard-00000.arrow"
    linked.unlink()
    linked.symlink_to(elsewhere)
    yield "contains 'shard-00000.arrow'", parent / "linked"
    manifest = copy("manifest") / "manifest.json"
    shutil.move(manifest, parent / "moved.json")
    manifest.symlink_to(parent / "moved.json")
    yield "is not a shard folder", parent / "manifest"
    (parent / "link").symlink_to(parent / "ours")
    yield "is a symbolic link", parent / "link"
    (parent / "file").write_text("mine")
    yield "is not a shard folder", parent / "file"
    part = parent / "fresh.part"
    part.mkdir()
    (part / "journal.json").write_text('{"my": "diary"}')
    yield "journal.json is damaged or was not written by palda shard", parent / "fresh"
    (parent / "other.part" / "folder").mkdir(parents=True)
    (parent / "other.part" / "folder" / "shard-00000.arrow").write_text("mine")
    yield "contains 'folder/shard-00000.arrow'", parent / "other"
    (parent / "away.part").symlink_to(parent / "ours")
    yield "is a symbolic link", parent / "away"


@pytest.mark.parametrize("resume", [False, True])
def test_nothing_but_shard_folders_is_ever_removed(sources: Sources, tmp_path: Path, *, resume: bool) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    for message, target in _foreign_folders(parent):
        before = _content(parent)
        with pytest.raises(DataError, match=message):
            shard_files(target, sources, TREATMENT, force=True, resume=resume)
        with pytest.raises(DataError, match=message):
            write_shards(target, CORPUS, force=True)
        assert _content(parent) == before


def test_a_file_that_appears_during_the_run_stops_it_before_anything_is_removed(
    sources: Sources, tmp_path: Path
) -> None:
    target = write_shards(tmp_path / "corpus", CORPUS).path

    def watch(step: str, share: float, n_done: int) -> None:
        del step, share, n_done
        (target / "notes.txt").write_text("mine")

    before = _content(target)
    with pytest.raises(DataError, match=r"contains 'notes.txt'"):
        shard_files(target, sources, TREATMENT, force=True, watch=watch)
    assert _content(target) == before | {"notes.txt": b"mine"}
    (target / "notes.txt").unlink()
    assert len(shard_files(target, sources, TREATMENT, force=True, resume=True)) == 10


def test_a_folder_of_version_0_1_is_replaced(sources: Sources, tmp_path: Path) -> None:
    shutil.copytree(OLD_FOLDER, tmp_path / "corpus")
    assert len(shard_files(tmp_path / "corpus", sources, TREATMENT, force=True)) == 10
    assert {path.suffix for path in (tmp_path / "corpus").iterdir()} == {".json", ".arrow"}
    assert not (tmp_path / "corpus.part").exists()


# What is kept


def _changes(content: bytes, n_places: int) -> Iterator[bytes]:
    """The content cut short, made longer, and with another byte at some places."""
    places = {*range(0, len(content), max(len(content) // n_places, 1)), len(content) - 1} - {-1}
    for place in sorted(places):
        yield content[:place]
        yield content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    yield content + content[-22:]


@pytest.mark.parametrize(("every", "n_places"), [(7, 1), pytest.param(1, 8, marks=pytest.mark.long, id="every-moment")])
def test_no_change_of_an_intermediate_file_loses_a_vote(
    sources: Sources, tmp_path: Path, every: int, n_places: int
) -> None:
    expected = _content(shard_files(tmp_path / "whole", sources, TREATMENT).path)
    target, part, kept = tmp_path / "corpus", tmp_path / "corpus.part", tmp_path / "kept"
    n_same = n_refused = 0
    for n_steps in range(100):
        if not _interrupted(target, sources, n_steps):
            break
        if n_steps % every:
            shutil.rmtree(part)
            continue
        shutil.rmtree(kept, ignore_errors=True)
        part.rename(kept)
        for name, content in _content(kept).items():
            for changed in _changes(content, n_places):
                shutil.copytree(kept, part)
                (part / name).write_bytes(changed)
                try:
                    found = shard_files(target, sources, TREATMENT, resume=True)
                except DataError as error:
                    assert name == "journal.json", (name, n_steps, error)
                    assert "\n" not in str(error)
                    assert not target.exists()
                    shutil.rmtree(part)
                    n_refused += 1
                else:
                    assert _content(found.path) == expected, (name, n_steps)
                    shutil.rmtree(target)
                    n_same += 1
                assert not part.exists()
    assert n_same > 30
    assert n_refused > 5


def test_a_file_that_is_changed_during_the_run_is_noticed(sources: Sources, tmp_path: Path) -> None:
    def truncate_votes(step: str, share: float, n_done: int) -> None:
        del share
        if step == "writing shards" and n_done == 4:
            file = tmp_path / "corpus.part" / "temporary" / "votes-00001"
            file.write_bytes(file.read_bytes()[:-22])

    with pytest.raises(DataError, match=r"votes-00001: was changed after it was written; resume=True writes it again"):
        shard_files(tmp_path / "corpus", sources, TREATMENT, watch=truncate_votes)
    expected = shard_files(tmp_path / "whole", sources, TREATMENT)
    assert _content(shard_files(tmp_path / "corpus", sources, TREATMENT, resume=True).path) == _content(expected.path)


def test_an_input_that_is_changed_during_the_run_is_noticed(sources: Sources, tmp_path: Path) -> None:
    def add_votes(step: str, share: float, n_done: int) -> None:
        del share, n_done
        if step == "writing shards":
            with Path(str(sources.votes)).open("a") as votes:
                votes.write("d1,late,a\n")

    with pytest.raises(DataError, match=r"votes.csv: changed while it was read"):
        shard_files(tmp_path / "corpus", sources, TREATMENT, watch=add_votes)
    assert not (tmp_path / "corpus").exists()


def test_counts_that_differ_from_what_was_read_are_refused(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes_of_shard = build.votes_of_shard

    def without_the_last(*given: object) -> object:
        found = votes_of_shard(*given)  # type: ignore[arg-type]
        return found._replace(records=found.records._replace(votes=found.records.votes - 1))

    monkeypatch.setattr(build, "votes_of_shard", without_the_last)
    with pytest.raises(DataError, match="48 votes were read, but 45 are in the shards"):
        shard_files(tmp_path / "corpus", sources, TREATMENT)
    assert not (tmp_path / "corpus").exists()


def test_a_damaged_journal_is_refused_in_one_line_and_force_starts_again(sources: Sources, tmp_path: Path) -> None:
    target, journal = tmp_path / "corpus", tmp_path / "corpus.part" / "journal.json"
    for damage in ({"content": {"request": 1, "steps": [], "finished": None}}, {"content": None}, {"sha256": 5}):
        assert _interrupted(target, sources, 12)
        journal.write_text(json.dumps(json.loads(journal.read_bytes()) | damage))
        with pytest.raises(DataError, match=r"corpus.part: cannot resume: journal.json is damaged; start again"):
            shard_files(target, sources, TREATMENT, resume=True)
        shard_files(target, sources, TREATMENT, force=True)
        shutil.rmtree(target)


def test_two_runs_at_once_are_refused(sources: Sources, tmp_path: Path) -> None:
    refused: list[str] = []

    def start_another(step: str, share: float, n_done: int) -> None:
        del step, share, n_done
        for resume in (False, True):
            with pytest.raises(DataError) as caught:
                shard_files(tmp_path / "corpus", sources, TREATMENT, resume=resume, force=not resume)
            refused.append(str(caught.value))

    shard_files(tmp_path / "corpus", sources, TREATMENT, watch=start_another)
    assert set(refused) == {f"{tmp_path / 'corpus'}: cannot be written: another process is writing it"}
    open_shards(tmp_path / "corpus").verify()


def test_a_run_killed_after_it_had_finished_leaves_nothing(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write_shards(tmp_path / "corpus", CORPUS).path
    with monkeypatch.context() as patched:
        move = unfinished.move_into_place

        def move_and_stop(*given: Path) -> None:
            move(*given)
            raise _StoppedError

        patched.setattr(unfinished, "move_into_place", move_and_stop)
        with pytest.raises(_StoppedError):
            shard_files(target, sources, TREATMENT, force=True)
    assert len(open_shards(target)) == 10
    assert (tmp_path / "corpus.part").is_dir()
    with pytest.raises(DataError, match="already exists; pass force=True"):
        shard_files(target, sources, TREATMENT, resume=True)
    assert not (tmp_path / "corpus.part").exists()


def test_without_an_exchange_of_names_the_next_run_restores_the_old_folder(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write_shards(tmp_path / "corpus", CORPUS).path
    before = _content(target)
    monkeypatch.setattr(replacement, "_exchange", lambda *_: False)
    rename = Path.rename
    with monkeypatch.context() as patched:

        def stop_before_the_second(path: Path, other: Path) -> Path:
            if path.name == "folder":
                raise _StoppedError
            return rename(path, other)

        patched.setattr(Path, "rename", stop_before_the_second)
        with pytest.raises(_StoppedError):
            shard_files(target, sources, TREATMENT, force=True)
    assert not target.exists()
    with suppress(_StoppedError):
        shard_files(target, sources, TREATMENT, force=True, resume=True, watch=_stop_after(0))
    assert _content(target) == before
    assert len(shard_files(target, sources, TREATMENT, force=True, resume=True)) == 10
    assert not (tmp_path / "corpus.part").exists()


def test_an_error_in_the_input_leaves_no_unfinished_folder(sources: Sources, tmp_path: Path) -> None:
    Path(str(sources.documents)).write_text("doc,text\nd1,ship\nd1,ship\n")
    with pytest.raises(DataError, match="duplicate id"):
        shard_files(tmp_path / "corpus", sources, TREATMENT)
    with pytest.raises(DataError, match="not negative"):
        write_shards(tmp_path / "memory", Corpus.from_counts([[-1.0]]))
    assert {path.name for path in tmp_path.iterdir()} == {"documents.csv", "votes.csv"}
