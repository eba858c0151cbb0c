from __future__ import annotations

import io
import json
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from palda.errors import DataError, PaldaWarning
from palda.io import limits, read_doccano

if TYPE_CHECKING:
    from pathlib import Path

    from palda.data import Dataset


def answers(data: Dataset) -> dict[tuple[str, str], dict[str, int]]:
    """What everybody said: an abstention is empty, the empty set is all zeros, a missing look is missing."""
    looks = data.votes.to_frame().groupby(["doc", "annotator"], observed=True)
    return {key: dict(look.dropna()[["label", "value"]].itertuples(index=False)) for key, look in looks}


def example(number: int, *labels: str, **changes: Any) -> dict[str, Any]:
    return {"id": number, "text": f"story {number}", "source": "BBC", "label": list(labels), "Comments": []} | changes


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def archive(folder: Path, files: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w", method) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return path


def problem(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_doccano(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


FILES: dict[str, str | bytes] = {
    "ann.jsonl": lines(example(1, "sport", "crime"), example(2, "crime")),
    "bob.b@x.org.jsonl": lines(example(1, "sport")),
}
SAID = {
    ("1", "ann"): {"crime": 1, "sport": 1},
    ("1", "bob.b@x.org"): {"crime": 0, "sport": 1},
    ("2", "ann"): {"crime": 1, "sport": 0},
}


def test_every_file_in_the_archive_is_a_user(tmp_path: Path) -> None:
    data = read_doccano(archive(tmp_path, FILES))
    assert data.doc_ids.tolist() == ["1", "2"]
    assert list(data.corpus) == ["story 1", "story 2"]
    assert {name: cells.tolist() for name, cells in data.corpus.fields.items()} == {"source": ["BBC", "BBC"]}
    assert answers(data) == SAID


def test_a_folder_of_the_unpacked_files_gives_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    with zipfile.ZipFile(archive(tmp_path, FILES)) as packed:
        packed.extractall(folder)
    (folder / "README.md").write_text("not an export")
    assert read_doccano(folder) == read_doccano(tmp_path / "export.zip")


def test_nested_folders_are_looked_into_and_what_macs_add_is_not(tmp_path: Path) -> None:
    files = {f"project/{name}": content for name, content in FILES.items()}
    path = archive(tmp_path, {**files, "__MACOSX/project/._ann.jsonl": b"\0\5", "project/.DS_Store": b"\0", "a/": b""})
    assert answers(read_doccano(path)) == SAID


def test_nothing_is_unpacked_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path, {"deep/down.jsonl": lines(example(1, "a")), "up.jsonl": lines(example(1, "a"))})
    assert read_doccano(path).votes.annotators.tolist() == ["down", "up"]
    assert [item.name for item in tmp_path.rglob("*")] == ["export.zip"]


@pytest.mark.parametrize("name", ["../up.jsonl", "/root.jsonl", "a/../../b.jsonl"])
def test_paths_outside_of_the_archive_are_refused(tmp_path: Path, name: str) -> None:
    assert f"{name!r} is a path outside of the archive" in problem(archive(tmp_path, {name: lines(example(1, "a"))}))


def test_csv_joins_labels_with_a_hash(tmp_path: Path) -> None:
    ann = 'id,text,source,label,Comments\n1,"a, b",BBC,crime#sport,\n2,c,BBC,crime,too short\n'
    bob = 'id,text,source,label,Comments\n1,"a, b",BBC,sport,\n'
    data = read_doccano(archive(tmp_path, {"ann.csv": ann, "bob.b@x.org.csv": bob}))
    assert list(data.corpus) == ["a, b", "c"]
    assert answers(data) == SAID


def test_json_lists_are_read_too(tmp_path: Path) -> None:
    data = read_doccano(archive(tmp_path, {"ann.json": json.dumps([example(1, "sport"), example(2, "a#b")])}))
    assert answers(data) == {("1", "ann"): {"a#b": 0, "sport": 1}, ("2", "ann"): {"a#b": 1, "sport": 0}}


def test_the_file_of_one_user_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "eve.jsonl"
    path.write_text(lines(example(1, "sport")))
    assert answers(read_doccano(path)) == {("1", "eve"): {"sport": 1}}


@pytest.mark.parametrize(
    "files", [{"all.jsonl": lines(example(1, "sport"))}, {**FILES, "project/all.csv": "id,text\n"}]
)
def test_a_project_with_shared_annotations_is_refused(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    text = problem(archive(tmp_path, files))
    assert "all." in text.partition(":")[0]
    assert "switch 'Share annotations across all users' off" in text


def test_unknown_is_not_a_user(tmp_path: Path) -> None:
    data = read_doccano(archive(tmp_path, {**FILES, "unknown.jsonl": lines(example(3), example(4))}))
    assert data.doc_ids.tolist() == ["1", "2", "3", "4"]
    assert answers(data) == SAID


@pytest.mark.parametrize("nothing", [[], None, ""])
def test_an_empty_list_of_approved_documents_is_the_empty_set(tmp_path: Path, nothing: Any) -> None:
    ann = lines(example(1, "sport"), example(2, label=nothing))
    data = read_doccano(archive(tmp_path, {"ann.jsonl": ann, "bob.jsonl": lines(example(1, "sport"))}))
    assert answers(data) == {("1", "ann"): {"sport": 1}, ("1", "bob"): {"sport": 1}, ("2", "ann"): {"sport": 0}}


def test_in_an_export_of_everything_an_empty_list_counts_as_never_looked_at(tmp_path: Path) -> None:
    ann, bob = lines(example(1, "sport"), example(2)), lines(example(1), example(2, "sport"))
    path = archive(tmp_path, {"ann.jsonl": ann, "bob.jsonl": bob})
    with pytest.warns(PaldaWarning, match=r"2 documents .* export.zip/ann.jsonl, row 2, .* pass empty='none'") as seen:
        data = read_doccano(path)
    assert seen[0].filename == __file__
    assert answers(data) == {("1", "ann"): {"sport": 1}, ("2", "bob"): {"sport": 1}}


@pytest.mark.parametrize(("empty", "said"), [("none", {"sport": 0}), ("abstained", {}), ("missing", None)])
def test_the_caller_says_what_an_empty_list_means(tmp_path: Path, empty: Any, said: dict[str, int] | None) -> None:
    path = archive(tmp_path, {"ann.jsonl": lines(example(1, "sport"), example(2))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answers(read_doccano(path, empty=empty)).get(("2", "ann")) == said


def test_a_label_may_be_missing_or_one_string(tmp_path: Path) -> None:
    bare = example(2)
    del bare["label"]
    data = read_doccano(archive(tmp_path, {"ann.jsonl": lines(example(1, label="sport"), bare)}), empty="none")
    assert answers(data) == {("1", "ann"): {"sport": 1}, ("2", "ann"): {"sport": 0}}


def test_older_names_of_the_fields_are_known_and_others_can_be_given(tmp_path: Path) -> None:
    path = archive(tmp_path, {"ann.jsonl": lines({"id": 1, "data": "goal", "categories": ["sport"]})})
    assert list(read_doccano(path).corpus) == ["goal"]
    path = archive(tmp_path, {"ann.jsonl": lines({"id": 1, "title": "goal", "kinds": ["sport"]})})
    assert "no field holds the text; choose one of 'id', 'title', 'kinds' with text='...'" in problem(path)
    assert "no field holds the label" in problem(path, text="title")
    assert answers(read_doccano(path, text="title", label="kinds")) == {("1", "ann"): {"sport": 1}}


def test_other_texts_under_one_id_are_an_error_in_the_second_file(tmp_path: Path) -> None:
    path = archive(tmp_path, {"ann.jsonl": lines(example(1, "a")), "bob.jsonl": lines(example(1, "a", text="other"))})
    assert problem(path).startswith("export.zip/bob.jsonl, row 1: document '1' has the text 'other' here")


def test_contradictions_of_one_user_follow_the_rule(tmp_path: Path) -> None:
    path = archive(tmp_path, {"ann.jsonl": lines(example(1, "a"), example(1, "b"))})
    assert "row 2: the vote 0 of annotator 'ann' on document '1'" in problem(path)
    assert answers(read_doccano(path, duplicates="last")) == {("1", "ann"): {"a": 0, "b": 1}}


def test_an_unknown_class_is_named_with_its_file_and_row(tmp_path: Path) -> None:
    path = archive(tmp_path, FILES)
    text = problem(path, classes=iter(["sport", "crimes"]))
    assert text.startswith("export.zip/ann.jsonl, row 1, column 'label': class 'crime' is not among the 2 known ones")
    assert read_doccano(path, classes=["sport", "crime"]).classes.tolist() == ["sport", "crime"]


def test_partial_leaves_what_a_list_does_not_name_unjudged(tmp_path: Path) -> None:
    assert answers(read_doccano(archive(tmp_path, FILES), partial=True))["2", "ann"] == {"crime": 1}


def test_other_encodings_can_be_given(tmp_path: Path) -> None:
    path = archive(tmp_path, {"ann.jsonl": lines(example(1, "é")).encode("latin-1")})
    assert "ann.jsonl, row 1: byte 0xe9 is not valid UTF-8" in problem(path)
    assert "there is no encoding 'latin-x'" in problem(path, encoding="latin-x")
    assert read_doccano(path, encoding="latin-1").classes.tolist() == ["é"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ann.jsonl", "", "has no documents"),
        ("ann.jsonl", '{"id": 1', "export.zip/ann.jsonl, row 1: is not JSON"),
        ("ann.jsonl", "[1]", "export.zip/ann.jsonl, row 1: [1] is not an object"),
        ("ann.jsonl", lines(example(1, label=[[0, 5, "PER"]])), "only text classification can be read"),
        ("ann.jsonl", lines(example(1, "a", id=None)), "row 1: the document id is blank"),
        ("ann.json", "[3]", "export.zip/ann.json, row 1: 3 is not an object"),
        ("ann.json", "[3", "export.zip/ann.json: is not JSON"),
        ("ann.csv", "id,text,label\n1,a\n", "export.zip/ann.csv, row 2: has 2 cells where the header has 3"),
        ("ann.csv", 'id,text,label\n1,"a', "export.zip/ann.csv, row 2: a quote is opened"),
        ("labels.txt", "__label__a story", "has no .jsonl, .json or .csv file"),
    ],
)
def test_broken_files_are_one_clear_line(tmp_path: Path, name: str, content: str, words: str) -> None:
    assert words in problem(archive(tmp_path, {name: content}))


def test_a_wrong_meaning_of_empty_is_named(tmp_path: Path) -> None:
    assert "empty must be one of" in problem(archive(tmp_path, FILES), empty="nothing")


def test_archives_that_would_grow_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path, {"ann.jsonl": lines(example(1, "a"))})
    monkeypatch.setattr(limits, "MAX_ARCHIVE_BYTES", 10)
    assert "holds more than 10,000 files or 10 bytes, the limits" in problem(path)
    monkeypatch.setattr(limits, "MAX_ARCHIVE_BYTES", 1 << 20)
    monkeypatch.setattr(limits, "MAX_ARCHIVE_FILES", 0)
    assert "holds more than 0 files" in problem(path)


def test_a_folder_has_the_same_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ann.jsonl").write_text(lines(example(1, "a")))
    monkeypatch.setattr(limits, "MAX_ARCHIVE_BYTES", 10)
    assert "holds more than 10,000 files or 10 bytes" in problem(tmp_path)


def test_an_archive_that_packs_too_well_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, {f"{user}.jsonl": b" " * 30_000_000 for user in ("a", "b", "c")})
    assert "export.zip: unpacks to more than" in problem(path)


def test_a_bomb_whose_header_lies_is_refused(tmp_path: Path) -> None:
    content = archive(tmp_path, {"ann.jsonl": b" " * 5_000_000}).read_bytes()
    small = content.replace((5_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    (tmp_path / "bomb.zip").write_bytes(small)
    assert "bomb.zip: the archive is damaged" in problem(tmp_path / "bomb.zip")


def test_encrypted_and_oddly_packed_archives_are_refused(tmp_path: Path) -> None:
    content = bytearray(archive(tmp_path, {"ann.jsonl": "{}"}).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "secret.zip").write_bytes(content)
    assert "'ann.jsonl' is encrypted; unpack it and give the folder" in problem(tmp_path / "secret.zip")
    assert "uses an unusual compression" in problem(archive(tmp_path, {"ann.jsonl": "{}"}, zipfile.ZIP_BZIP2))


def test_an_archive_with_a_blank_name_is_named_as_damaged(tmp_path: Path) -> None:
    content = archive(tmp_path, FILES).read_bytes()
    place = content.index(b"PK\x01\x02") + 28  # length of the name
    (tmp_path / "e.zip").write_bytes(content[:place] + b"\0\0" + content[place + 2 :])
    assert "e.zip: the archive is damaged" in problem(tmp_path / "e.zip")


def test_a_cut_archive_is_named_as_damaged(tmp_path: Path) -> None:
    path = archive(tmp_path, FILES)
    path.write_bytes(path.read_bytes()[:-40])
    assert "export.zip: the archive is damaged" in problem(path)


def test_an_empty_archive_or_folder_holds_no_file(tmp_path: Path) -> None:
    stream = io.BytesIO()
    zipfile.ZipFile(stream, "w").close()
    (tmp_path / "e.zip").write_bytes(stream.getvalue())
    (tmp_path / "f").mkdir()
    assert "has no .jsonl" in problem(tmp_path / "e.zip")
    assert "has no .jsonl" in problem(tmp_path / "f")
