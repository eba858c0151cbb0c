"""``palda shard``: summary, refusals, resuming, and models fitted to the folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import palda as library
from palda import CrowdPALDA
from palda.io import open_shards, read, read_gold

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_summary_shows_what_is_in_the_folder(palda: Palda, world: World, tmp_path: Path) -> None:
    target = tmp_path / "corpus"
    result = palda("shard", world.documents, world.votes, "-o", target, "--docs-per-shard", 25)
    assert result.code == 0
    lines = dict(line.split(maxsplit=1) for line in result.out.splitlines())
    assert lines["documents"].startswith("60 with ")
    assert lines["votes"] == "3,000 by 50 annotators"
    assert lines["classes"].startswith("10: ")
    assert lines["written"].startswith(f"{target} (3 shards, ")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    dataset = read(world.documents, world.votes)
    folder = open_shards(target)
    assert folder.votes.take(slice(None), named=True) == dataset.votes
    np.testing.assert_array_equal(folder.texts(), dataset.corpus.texts)  # type: ignore[union-attr]


def test_json_prints_the_summary_and_no_texts_stores_none(palda: Palda, world: World, tmp_path: Path) -> None:
    result = palda("shard", world.documents, world.votes, "-o", tmp_path / "c", "--json", "--quiet", "--no-texts")
    found = json.loads(result.out)
    assert (found["documents"], found["votes"], found["shards"], found["known_labels"]) == (60, 3000, 1, 0)
    assert result.err == ""
    assert not open_shards(tmp_path / "c").has_texts


def test_shard_takes_the_read_and_word_options_of_fit(palda: Palda, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("item,sentence\n1,ships ships\n2,banks and banks\n")
    (tmp_path / "v.csv").write_text("item,who,score,comment\n1,ann,0.9,x\n2,ann,0.2,y\n")
    (tmp_path / "g.csv").write_text("doc,score\n2,1\n")
    result = palda(
        "shard", tmp_path / "d.csv", tmp_path / "v.csv", "-o", tmp_path / "c", "--id", "item", "--text", "sentence",
        "--column", "annotator=who", "--ignore", "comment", "--present-at", 0.5, "--gold", tmp_path / "g.csv",
        "--language", "none", "--ngrams", 2, "--min-count", 1, "--quiet",
    )  # fmt: skip
    assert result.code == 0
    folder = open_shards(tmp_path / "c")
    assert folder.vocabulary.tolist() == ["and", "and banks", "banks", "banks and", "ships", "ships ships"]
    assert folder.gold.tolist() == [[-1], [1]]
    assert folder.votes.take(slice(None)).value.tolist() == [1, 0]


def test_existing_folders_are_overwritten_only_with_force(palda: Palda, world: World, tmp_path: Path) -> None:
    command = ("shard", world.documents, world.votes, "-o", tmp_path / "c", "--quiet")
    assert palda(*command).code == 0
    assert "c: already exists; pass --force to replace it" in palda(*command).error_line
    assert palda(*command, "--force").code == 0
    (tmp_path / "other").mkdir()
    assert "choose another name" in palda(*command[:3], "-o", tmp_path / "other", "--force").error_line
    assert "there is no folder" in palda(*command[:3], "-o", tmp_path / "no" / "c").error_line
    assert "cannot read standard input" in palda("shard", "-", world.votes, "-o", tmp_path / "x").error_line


QUICK = ("--topics", 3, "--label-prior", "base_rate", "--jobs", 1, "--quiet")


@pytest.fixture
def folder(palda: Palda, world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sharded") / "corpus"
    assert palda("shard", world.documents, world.votes, "-o", target, "--docs-per-shard", 25, "--quiet").code == 0
    return target


def test_a_model_fitted_to_the_folder_equals_that_of_its_files(
    folder: Path, palda: Palda, world: World, tmp_path: Path
) -> None:
    result = palda("fit", folder, "-o", tmp_path / "m.palda", "--report", tmp_path / "fit.html", *QUICK)
    assert result.code == 0
    assert "3,000 by 50 annotators" in result.out
    found, expected = library.load(tmp_path / "m.palda"), library.load(world.model)
    assert isinstance(found, CrowdPALDA)
    assert isinstance(expected, CrowdPALDA)
    np.testing.assert_array_equal(found.consensus_, expected.consensus_)
    np.testing.assert_array_equal(found.vocabulary_, expected.vocabulary_)
    np.testing.assert_array_equal(found.texts_, expected.texts_)
    assert found.votes_ == expected.votes_
    assert palda("report", tmp_path / "m.palda", "-o", tmp_path / "m.html").code == 0
    assert (tmp_path / "m.html").read_text() == (tmp_path / "fit.html").read_text()


def test_predictions_for_a_folder_equal_those_for_its_documents(
    folder: Path, palda: Palda, world: World, tmp_path: Path
) -> None:
    expected = palda("predict", world.model, world.documents, "--csv").out
    assert palda("predict", world.model, folder, "--csv").out == expected
    assert palda("shard", world.documents, world.votes, "-o", tmp_path / "c", "--min-count", 9, "--quiet").code == 0
    assert palda("predict", world.model, tmp_path / "c", "--csv").out == expected  # counted again from the texts
    command = ("shard", world.documents, world.votes, "-o", tmp_path / "d", "--min-count", 9, "--no-texts", "--quiet")
    assert palda(*command).code == 0
    assert "has another vocabulary than the model" in palda("predict", world.model, tmp_path / "d").error_line


def test_texts_and_votes_of_a_large_folder_are_not_stored_in_the_model_file(
    folder: Path, palda: Palda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palda.cli.commands.fit._MAX_KEPT_DOCS", 59)
    monkeypatch.setattr("palda.report.summaries._MAX_VOTES", 100)
    result = palda("fit", folder, "-o", tmp_path / "m.palda", *QUICK[:-1])
    assert "they stay in the folder" in result.err
    model = library.load(tmp_path / "m.palda")
    assert (model.texts_, model.votes_) == (None, None)
    assert model.words_ is not None


def test_gold_can_be_added_when_the_folder_is_fitted(folder: Path, palda: Palda, world: World, tmp_path: Path) -> None:
    result = palda("fit", folder, "-o", tmp_path / "m", "--gold", world.truth, *QUICK)
    assert result.code == 0
    truth = read_gold(world.truth, open_shards(folder).doc_ids, open_shards(folder).classes)
    consensus = library.load(tmp_path / "m").consensus_  # type: ignore[union-attr]
    np.testing.assert_array_equal(consensus[truth >= 0], truth[truth >= 0])


def test_read_and_word_options_are_refused_for_a_folder(
    folder: Path, palda: Palda, world: World, tmp_path: Path
) -> None:
    target = ("-o", tmp_path / "m")
    assert "contains its votes; leave out" in palda("fit", folder, world.votes, *target).error_line
    for option in (("--min-count", 3), ("--layout", "wide")):
        assert "pass options for files and words to palda shard" in palda("fit", folder, *target, *option).error_line


def test_a_damaged_folder_is_refused(folder: Path, palda: Palda, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    shard = copy / "shard-00001.arrow"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    complaint = palda("fit", copy, "-o", tmp_path / "m", "--quiet").error_line
    assert "shard-00001.arrow: was altered or damaged" in complaint


def _process(*arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "palda", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize(
    "seen",
    [pytest.param("journal.json", marks=pytest.mark.long), "folder/words.json", "folder/shard-00003.arrow"],
)
def test_a_killed_run_resumes_to_the_same_bytes(seen: str, palda: Palda, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    n_docs = 600
    texts = [" ".join(f"word{word}" for word in random.integers(0, 500, 30)) for _ in range(n_docs)]
    documents = tmp_path / "documents.csv"
    documents.write_text("doc,text\n" + "".join(f"d{n},{text}\n" for n, text in enumerate(texts)))
    votes = tmp_path / "votes.csv"
    rows = [f"d{n},a{who},{'x;y' if n % 2 else 'z'}\n" for who in range(3) for n in random.permutation(n_docs)]
    votes.write_text("doc,annotator,labels\n" + "".join(rows))
    target, part = tmp_path / "corpus", tmp_path / "corpus.part"
    command = ("shard", documents, votes, "-o", target, "--docs-per-shard", 5, "--quiet")

    process = _process(*command)
    while not (part / seen).exists():
        assert process.poll() is None, "it result before it could be killed"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not target.exists()
    assert len(list((part / "folder").glob("shard-*.arrow"))) < n_docs // 5

    assert (
        "is left from an interrupted run; pass --resume to resume it, or --force to start again"
        in palda(*command).error_line
    )
    assert palda(*command, "--resume").code == 0
    assert not part.exists()
    assert palda(*command[:3], "-o", tmp_path / "whole", *command[5:]).code == 0
    assert _content(target) == _content(tmp_path / "whole")
    open_shards(target).verify()
