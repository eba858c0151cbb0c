"""From files to shards: the same data as reading the files at once, whatever their layout, order and length."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from palda.data import Corpus, Dataset, Documents, TextWords, ValueWords, names_array
from palda.errors import DataError, PaldaWarning
from palda.io import ReadOptions, Sources, Treatment, open_shards, read, read_gold, shard_files
from palda.io.atomic import temporary_name
from palda.io.shards import DocumentIndex, build, digests_of, vote_sorting

WORDS = ("ship", "wheat", "bank", "money", "rate", "price")


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few rows take several steps too."""
    monkeypatch.setattr(build, "_DOCS_PER_CHUNK", 3)
    monkeypatch.setattr(vote_sorting, "_ROWS_PER_CHUNK", 4)
    monkeypatch.setattr(vote_sorting, "_MAX_PENDING", 7)


def _write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def _documents(folder: Path, n_docs: int = 10) -> Path:
    random = np.random.default_rng(n_docs)
    rows = [f"d{n},{' '.join(random.choice(WORDS, 4))},{'' if n % 3 else n % 2}" for n in range(n_docs)]
    return _write(folder / "documents.csv", "doc,text,gold_a", rows)


def _at_once(sources: Sources, treatment: Treatment) -> Dataset:
    """What ``palda fit`` makes of the files."""
    dataset = read(sources.documents, sources.votes, **vars(treatment.options))
    if sources.gold is not None:
        known = read_gold(sources.gold, dataset.doc_ids, dataset.classes)
        dataset = Dataset(dataset.corpus, dataset.votes, np.where(known >= 0, known, dataset.gold))
    is_text = isinstance(dataset.corpus, Documents)
    words = treatment.text_words if is_text else treatment.value_words
    counts = words.fit_transform(dataset.corpus)
    texts = dataset.corpus.texts if isinstance(dataset.corpus, Documents) else None
    return dataset.with_corpus(Corpus.from_counts(counts, words.get_feature_names_out(), dataset.doc_ids, texts))


LAYOUTS = {
    "long": ("doc,annotator,label,value", ["d{0},x{1},a,{2}", "d{0},x{1},b,", "d{0},y,c,1"], {}),
    "wide": ("doc,annotator,b,a", ["d{0},x{1},1,{2}", "d{0},z,,"], {}),
    "lists": ("doc,annotator,labels", ["d{0},x{1},a;b", 'd{0},y,"[""c""]"', "d{0},z,[]"], {}),
    "partial lists": ("doc,annotator,labels", ["d{0},x{1},a", "d{0},y,c", "d{0},z,[]"], {"partial": True}),
    "labels to unite": ("doc,annotator,label", ["d{0},x{1},a", "d{0},y,b", "d{0},y,c"], {}),
    "scores": ("doc,annotator,label,value", ["d{0},x{1},a,0.{2}9", "d{0},y,a,0.7"], {"present_at": 0.5}),
    "soft votes": ("doc,annotator,label,value,kind", ["d{0},x{1},a,0.{2}9,model", "d{0},y,b,1,", "d{0},y,a,0.7,"], {}),
    "soft wide": ("doc,annotator,b,a,family", ["d{0},x{1},.{2}1,{2},f{1}", "d{0},z,,,"], {}),
    "confidence": (
        "doc,annotator,label,value,confidence,timestamp",
        ["d{0},x{1},a,{2},.9,2024-01-0{0}", "d{0},y,b,1,,"],
        {},
    ),
    "lists with confidence": ("doc,annotator,label,confidence", ["d{0},x{1},a,.6", "d{0},y,b,", "d{0},y,c,.9"], {}),
    "given classes": ("doc,annotator,labels", ["d{0},x{1},a"], {"classes": ("c", "b", "a")}),
}


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("docs_per_shard", [1, 4, 100])
def test_every_layout_gives_what_reading_at_once_gives(kind: str, docs_per_shard: int, tmp_path: Path) -> None:
    header, patterns, options = LAYOUTS[kind]
    documents = _documents(tmp_path)
    rows = [pattern.format(n, n % 3, n % 2) for pattern in patterns for n in range(9, -1, -2)]  # not sorted, not all
    sources = Sources(documents, _write(tmp_path / "votes.csv", header, rows))
    treatment = Treatment(ReadOptions(**options), docs_per_shard=docs_per_shard)
    folder = shard_files(tmp_path / "corpus", sources, treatment)
    assert folder.dataset() == _at_once(sources, treatment)
    assert folder.words is not None
    assert folder.words.get_feature_names_out().tolist() == folder.vocabulary.tolist()
    folder.verify()
    assert {path.name for path in tmp_path.iterdir()} == {"corpus", "documents.csv", "votes.csv"}


_cells = st.tuples(
    st.integers(0, 5), st.sampled_from("xyz"), st.sampled_from("ab"), st.sampled_from(["0", "1", ""]),
    st.sampled_from(["1", "2", "3", ""]),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* rows are votes", "ignore:.* gold labels")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.lists(_cells, min_size=1, max_size=25), rule=st.sampled_from(["last", "first", "drop", "error"]),
       timed=st.booleans())  # fmt: skip
def test_contradicting_votes_are_resolved_as_in_memory(
    cells: list[tuple[int, str, str, str, str]], rule: str, timed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("votes")
    header = "doc,annotator,label,value" + (",timestamp" if timed else "")
    rows = [f"d{doc},{who},{label},{value}" + (f",{time}" if timed else "") for doc, who, label, value, time in cells]
    sources = Sources(_documents(tmp_path, 6), _write(tmp_path / "votes.csv", header, rows))
    treatment = Treatment(ReadOptions(duplicates=rule), docs_per_shard=2)
    try:
        expected = _at_once(sources, treatment)
    except DataError as error:
        assume("contradict each other" not in str(error))  # "drop" left no vote; a folder may have documents alone
        with pytest.raises(DataError, match=r"contradicts row|has no votes") as caught:
            shard_files(tmp_path / "corpus", sources, treatment)
        assert ("contradicts" in str(caught.value)) == ("contradicts" in str(error))
        assert not (tmp_path / "corpus").exists()
    else:
        assert shard_files(tmp_path / "corpus", sources, treatment).dataset() == expected


def test_a_gold_file_overrides_gold_columns(tmp_path: Path) -> None:
    votes = _write(tmp_path / "votes.csv", "doc,annotator,label,value", [f"d{n},x,{'ab'[n % 2]},1" for n in range(10)])
    gold = _write(tmp_path / "gold.csv", "doc,label,value", ["d9,b,1", "d0,a,1", "d3,a,0"])
    sources, treatment = Sources(_documents(tmp_path), votes, gold), Treatment(docs_per_shard=4)
    folder = shard_files(tmp_path / "corpus", sources, treatment)
    assert folder.dataset() == _at_once(sources, treatment)
    assert folder.gold[0].tolist() == [1, -1]
    assert folder.gold[6].tolist() == [0, -1]  # from its own file
    gold.write_text("doc,label,value\nnobody,a,1\n")
    with pytest.raises(DataError, match=r"gold.csv.*'nobody' is not among the 10 known ones"):
        shard_files(tmp_path / "corpus", sources, treatment, force=True)


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.json", "documents.parquet", "documents.tsv"])
def test_documents_of_every_file_format_are_sharded(name: str, tmp_path: Path) -> None:
    records = [{"doc": f"d{n}", "text": f"ships {WORDS[n % 6]}\nand more"} for n in range(8)]
    path = tmp_path / name
    if name.endswith("parquet"):
        pd = pytest.importorskip("pandas")
        pd.DataFrame(records).to_parquet(path, row_group_size=3)
    elif name.endswith("tsv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["doc", "text"], delimiter="\t")
            writer.writeheader()
            writer.writerows(records)
    else:
        lines = [json.dumps(record) for record in records]
        path.write_text("\n".join(lines) if name.endswith("jsonl") else f"[{','.join(lines)}]")
    votes = _write(tmp_path / "votes.csv", "doc,annotator,labels", [f"d{n},x,a" for n in range(8)])
    sources, treatment = Sources(path, votes), Treatment(docs_per_shard=3)
    assert shard_files(tmp_path / "corpus", sources, treatment).dataset() == _at_once(sources, treatment)


def test_numeric_features_are_sharded_too(tmp_path: Path) -> None:
    rows = [f"d{n},{n / 7:.3f},{(n * 5) % 9}" for n in range(9)]
    votes = _write(tmp_path / "votes.csv", "doc,annotator,labels", [f"d{n},x,a" for n in range(9)])
    sources = Sources(_write(tmp_path / "documents.csv", "doc,size,weight", rows), votes)
    treatment = Treatment(value_words=ValueWords(3), docs_per_shard=4)
    folder = shard_files(tmp_path / "corpus", sources, treatment)
    assert folder.dataset() == _at_once(sources, treatment)
    assert isinstance(folder.words, ValueWords)
    assert not folder.has_texts


def test_one_table_may_hold_documents_and_votes(tmp_path: Path) -> None:
    rows = [f"d{n},ships and {WORDS[n]},{who},{'trade' if n % 2 else 'law;trade'}" for n in range(6) for who in "xy"]
    sources = Sources(_write(tmp_path / "all.csv", "doc,text,annotator,labels", rows))
    treatment = Treatment(docs_per_shard=4)
    assert shard_files(tmp_path / "corpus", sources, treatment).dataset() == _at_once(sources, treatment)


def test_votes_may_be_an_export(tmp_path: Path) -> None:
    tasks = [
        {
            "id": n,
            "data": {"text": "unused"},
            "annotations": [
                {
                    "completed_by": 7,
                    "result": [
                        {"type": "choices", "from_name": "topic", "to_name": "text", "value": {"choices": ["a"]}}
                    ],
                }
            ],
        }
        for n in range(5)
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    documents = _write(tmp_path / "documents.csv", "doc,text", [f"{n},{WORDS[n]} wheat" for n in range(5)])
    sources, treatment = Sources(documents, tmp_path / "export.json"), Treatment(docs_per_shard=2)
    assert shard_files(tmp_path / "corpus", sources, treatment).dataset() == _at_once(sources, treatment)


def test_blank_lists_cause_one_warning(tmp_path: Path) -> None:
    rows = [f"d{n},x,{'a' if n % 2 else ''}" for n in range(10)]
    sources = Sources(_documents(tmp_path), _write(tmp_path / "votes.csv", "doc,annotator,labels", rows))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folder = shard_files(tmp_path / "corpus", sources)
    assert [str(warning.message)[:64] for warning in caught] == [
        "votes.csv, row 2, column 'labels': 5 blank cells were read as ab"
    ]
    with pytest.warns(PaldaWarning, match="5 blank"):
        assert folder.dataset() == _at_once(sources, Treatment())


@pytest.mark.parametrize(
    ("documents", "votes", "message"),
    [
        ("d1,ship\nd2,bank\nd3,rate\nd4,x\nd1,wheat", "d1,x,a,1",
         r"documents.csv, row 6, column 'doc': duplicate id 'd1', which is in row 2 too; give each document"),
        ("d1,ship\nd2,bank", "d1,x,a,1\nd2,x,a,1\nd1,y,a,1\nd2,y,a,1\nd1,z,a,0\nd22,x,a,1",
         r"votes.csv, row 7: document 'd22' is not among the 2 known ones; did you mean 'd2'\?"),
        ("d1,ship", "d1,x,a,yes", r"votes.csv, row 2, column 'value': 'yes' is not 0, 1 or blank"),
        ("d1,ship", "d1,x,a,1\nd1,y,a,1\nd1,z,a,1\nd1,v,a,1\nd1,w,a,1\nd1,x,a,0",
         r"votes.csv, row 7: .*contradicts row 2"),
        ("d1,ship", "d1,x,a,", "votes.csv: has no votes"),
        ("d1,", "d1,x,a,1", "none of the 1 texts has a word in it"),
        (",ship", "d1,x,a,1", "documents.csv, row 2, column 'doc': the document id is blank"),
    ],
)  # fmt: skip
def test_errors_name_file_and_row(documents: str, votes: str, message: str, tmp_path: Path) -> None:
    sources = Sources(
        _write(tmp_path / "documents.csv", "doc,text", [documents]),
        _write(tmp_path / "votes.csv", "doc,annotator,label,value", [votes]),
    )
    with pytest.raises(DataError, match=message) as caught:
        shard_files(tmp_path / "corpus", sources)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "corpus").exists()


class _KilledError(Exception):
    pass


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_resumes_wherever_it_was_stopped(tmp_path: Path) -> None:
    rows = [f"d{n % 10},x{n},a;b" for n in range(20)]
    sources = Sources(_documents(tmp_path), _write(tmp_path / "votes.csv", "doc,annotator,labels", rows))
    treatment = Treatment(docs_per_shard=3)
    steps: list[str] = []
    expected = _content(
        shard_files(tmp_path / "whole", sources, treatment, watch=lambda step, *_: steps.append(step)).path
    )
    assert set(steps) == {"learning words", "reading votes", "sorting votes", "writing shards"}
    for stop in range(len(steps)):
        left = stop

        def watch(step: str, share: float, n_done: int) -> None:
            nonlocal left
            del step, share, n_done
            left -= 1
            if left < 0:
                raise _KilledError

        target = tmp_path / f"stopped-{stop}"
        with pytest.raises(_KilledError):
            shard_files(target, sources, treatment, watch=watch)
        assert not target.exists()
        with pytest.raises(DataError, match="is left from an interrupted run; pass resume=True to resume it"):
            shard_files(target, sources, treatment)
        resumed: list[str] = []
        found = shard_files(target, sources, treatment, resume=True, watch=lambda step, *_: resumed.append(step))  # noqa: B023
        assert _content(found.path) == expected
        assert ("learning words" in resumed) == ("reading votes" not in steps[: stop + 1])
        assert not target.with_name(f"{target.name}.part").exists()


def test_a_finished_shard_is_kept_and_a_damaged_one_written_again(tmp_path: Path) -> None:
    rows = [f"d{n},x,a" for n in range(10)]
    sources = Sources(_documents(tmp_path), _write(tmp_path / "votes.csv", "doc,annotator,labels", rows))
    treatment = Treatment(docs_per_shard=3)
    expected = _content(shard_files(tmp_path / "whole", sources, treatment).path)

    def watch(step: str, share: float, n_done: int) -> None:
        del share
        if step == "writing shards" and n_done == 6:
            raise _KilledError

    with pytest.raises(_KilledError):
        shard_files(tmp_path / "corpus", sources, treatment, watch=watch)
    inside = tmp_path / "corpus.part" / "folder"
    kept = (inside / "shard-00000.arrow").stat().st_mtime_ns
    (inside / "shard-00001.arrow").write_bytes(b"damaged")
    (inside / temporary_name("shard-00002.arrow")).write_bytes(b"half")
    folder = shard_files(tmp_path / "corpus", sources, treatment, resume=True)
    assert _content(folder.path) == expected
    assert (folder.path / "shard-00000.arrow").stat().st_mtime_ns == kept


def test_changed_files_or_options_prevent_resuming(tmp_path: Path) -> None:
    votes = _write(tmp_path / "votes.csv", "doc,annotator,labels", [f"d{n},x,a" for n in range(10)])
    sources, treatment = Sources(_documents(tmp_path), votes), Treatment(docs_per_shard=3)

    def watch(step: str, share: float, n_done: int) -> None:
        raise _KilledError

    with pytest.raises(_KilledError):
        shard_files(tmp_path / "corpus", sources, treatment, watch=watch)
    for other in (Treatment(docs_per_shard=4), Treatment(text_words=TextWords(min_count=2), docs_per_shard=3)):
        with pytest.raises(DataError, match=r"cannot resume: options changed since corpus.part was started"):
            shard_files(tmp_path / "corpus", sources, other, resume=True)
    votes.write_text(votes.read_text() + "d1,y,a\n")
    with pytest.raises(DataError, match="cannot resume: the votes changed"):
        shard_files(tmp_path / "corpus", sources, treatment, resume=True)
    assert len(shard_files(tmp_path / "corpus", sources, treatment, force=True).votes) == 11


def test_resume_without_an_interrupted_run_starts_one(tmp_path: Path) -> None:
    votes = _write(tmp_path / "votes.csv", "doc,annotator,labels", ["d1,x,a"])
    folder = shard_files(tmp_path / "corpus", Sources(_documents(tmp_path), votes), resume=True)
    assert len(open_shards(folder.path)) == 10
    with pytest.raises(DataError, match="already exists"):
        shard_files(tmp_path / "corpus", Sources(_documents(tmp_path), votes), resume=True)


def test_texts_can_be_left_out(tmp_path: Path) -> None:
    votes = _write(tmp_path / "votes.csv", "doc,annotator,labels", ["d1,x,a"])
    folder = shard_files(tmp_path / "corpus", Sources(_documents(tmp_path), votes), Treatment(keep_texts=False))
    assert folder.texts() is None
    assert folder.counts[:].sum() == 40


@given(st.lists(st.text(max_size=5), max_size=30))
def test_an_index_finds_what_a_dictionary_finds(names: list[str]) -> None:
    index = DocumentIndex(digests_of(names), names)
    distinct = list(dict.fromkeys(names))
    twice = next(((names.index(name), place) for place, name in enumerate(names) if name in names[:place]), None)
    found = index.duplicate()
    assert (found and found[1]) == (twice and twice[1])
    if twice is None:
        asked = names_array(distinct)
        unique = DocumentIndex(digests_of(asked), [])
        if len(set(asked)) == len(asked):
            assert unique.positions(asked).tolist() == list(range(len(asked)))
        assert unique.positions(names_array(["not in there"])).tolist() == [-1]


@given(st.lists(st.lists(st.text("abs ing", max_size=12), max_size=4), min_size=1, max_size=4),
       st.integers(1, 3), st.integers(1, 2), st.sampled_from([None, 2]))  # fmt: skip
def test_words_learned_from_chunks_equal_those_of_all_texts(
    chunks: list[list[str]], min_count: int, min_docs: int, max_words: int | None
) -> None:
    options = {"min_count": min_count, "min_docs": min_docs, "max_words": max_words}
    words = TextWords(stop_words=None, ngrams=(1, 2), min_length=1, **options)
    texts = [text for chunk in chunks for text in chunk]
    try:
        words.fit(texts)
        expected, spellings = dict(words.vocabulary_), words.spellings_.tolist()
    except DataError as error:
        with pytest.raises(DataError) as caught:
            words.fit_chunks(chunks)
        assert str(caught.value) == str(error)
    else:
        assert words.fit_chunks(chunks).vocabulary_ == expected
        assert words.spellings_.tolist() == spellings
