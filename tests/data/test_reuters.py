from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palda.errors import DataError, PaldaError
from palda.io import read_reuters

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palda.data import Dataset

SGML = """<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="5544" NEWID="1">
<DATE>26-FEB-1987 15:01:01.79</DATE>
<TOPICS><D>wheat</D><D>grain</D></TOPICS>
<PLACES><D>usa</D></PLACES>
<UNKNOWN>
&#5;&#5;&#5;C T</UNKNOWN>
<TEXT>&#2;
<TITLE>AT&amp;T &lt;T> BUYS
WHEAT</TITLE>
<AUTHOR>by A. Writer</AUTHOR>
<DATELINE>    NEW YORK, Feb 26 - </DATELINE><BODY>Caf\xe9 prices fell &#127;sharply.
    They said &lt;so>.
 Reuter
&#3;</BODY></TEXT>
</REUTERS>
<REUTERS TOPICS="NO" LEWISSPLIT="TEST" CGISPLIT="TRAINING-SET" OLDID="5545" NEWID="2">
<DATE>26-FEB-1987 15:02:20.00</DATE>
<TOPICS></TOPICS>
<TEXT TYPE="BRIEF">&#2;
******<TITLE>ASSETS ROSE
</TITLE>Blah blah blah.
&#3;

</TEXT>
</REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="NOT-USED" CGISPLIT="TRAINING-SET" OLDID="5546" NEWID="3">
<TOPICS></TOPICS>
<TEXT TYPE="UNPROC">&#2;
A table    1    2
&#3;</TEXT>
</REUTERS>
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes, name: str = "reut2-000.sgm") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode("latin-1") if isinstance(content, str) else content)
        return path

    return write


def test_a_story_is_its_title_and_body_without_markup_and_control_characters(write: Callable[..., Path]) -> None:
    documents = read_reuters(write(SGML)).corpus
    assert documents[0] == "AT&T <T> BUYS WHEAT\nCafé prices fell sharply.\n    They said <so>.\n Reuter"
    assert documents.doc_ids.tolist() == ["1", "2", "3"]


def test_stories_without_a_body_keep_what_stands_in_its_place(write: Callable[..., Path]) -> None:
    documents = read_reuters(write(SGML)).corpus
    assert documents[1] == "ASSETS ROSE\n******\nBlah blah blah."
    assert documents[2] == "A table    1    2"
    assert documents.fields["kind"].tolist() == ["NORM", "BRIEF", "UNPROC"]


def test_topics_are_the_classes_and_an_unindexed_story_has_unknown_ones(write: Callable[..., Path]) -> None:
    data = read_reuters(write(SGML))
    assert data.classes.tolist() == ["grain", "wheat"]
    assert data.gold.tolist() == [[1, 1], [-1, -1], [0, 0]]


def test_fields_tell_split_date_title_and_whether_topics_were_given(write: Callable[..., Path]) -> None:
    fields = read_reuters(write(SGML)).corpus.fields
    assert fields["split"].tolist() == ["TRAIN", "TEST", "NOT-USED"]
    assert fields["topics"].tolist() == ["YES", "NO", "YES"]
    assert fields["date"].tolist() == ["26-FEB-1987 15:01:01.79", "26-FEB-1987 15:02:20.00", ""]
    assert fields["title"].tolist() == ["AT&T <T> BUYS WHEAT", "ASSETS ROSE", ""]


def test_a_folder_several_files_and_gzipped_files_read_alike(write: Callable[..., Path], tmp_path: Path) -> None:
    first = write(SGML)
    second = write(gzip.compress(SGML.replace('NEWID="', 'NEWID="9').encode("latin-1")), "reut2-001.sgm.gz")
    write("not a story", "README.txt")
    data = read_reuters(tmp_path)
    assert data.doc_ids.tolist() == ["1", "2", "3", "91", "92", "93"]
    assert read_reuters([first, second]) == read_reuters(str(tmp_path)) == data


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "reut2-000.sgm: has no <REUTERS> story"),
        (SGML[:-20], "reut2-000.sgm, row 27: the story has no </REUTERS>"),
        (SGML.replace("</REUTERS>", "", 1), "reut2-000.sgm, row 2: the story has no </REUTERS>"),
        (SGML.replace(' NEWID="2"', ""), "reut2-000.sgm, row 17: the story has no NEWID"),
        (SGML.replace('NEWID="3"', 'NEWID="1"'), "row 27: the story '1' is in reut2-000.sgm too"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_row(write: Callable[..., Path], content: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_reuters(write(content))


def test_places_without_stories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no \.sgm"):
        read_reuters(tmp_path)
    with pytest.raises(DataError, match="there is no such file"):
        read_reuters(tmp_path / "none")
    with pytest.raises(DataError, match="no files were given"):
        read_reuters([])


PIECES = [
    "<REUTERS", ' TOPICS="YES"', ' NEWID="', "1", '"', ">", "</REUTERS>", "<TOPICS>", "<D>", "wheat", "</D>",
    "</TOPICS>", "<TEXT", ' TYPE="BRIEF"', "<TITLE>", "</TITLE>", "<BODY>", "</BODY>", "</TEXT>", "&#", "99999999", ";",
    "&#55296;", "&lt;", "\0", "\n", "é", "<DATELINE>",
]  # fmt: skip
QUICK = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check_stories_or_error(write: Callable[..., Path], content: bytes) -> None:
    try:
        data = read_reuters(write(content))
    except PaldaError as error:
        assert "\n" not in str(error)
    else:
        assert data.gold.shape == (len(data.corpus), len(data.classes))
        "".join(data.corpus).encode()  # no lone surrogates


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
@QUICK
def test_pieces_of_sgml_in_any_order_give_stories_or_one_clear_line(write: Callable[..., Path], pieces: str) -> None:
    check_stories_or_error(write, pieces.encode("latin-1"))
    check_stories_or_error(write, f'<REUTERS NEWID="1">{pieces}</REUTERS>'.encode("latin-1"))


@given(st.binary(max_size=40), st.integers(0, len(SGML)), st.integers(0, 40))
@QUICK
def test_damaged_bytes_give_stories_or_one_clear_line(
    write: Callable[..., Path], noise: bytes, start: int, length: int
) -> None:
    whole = SGML.encode("latin-1")
    check_stories_or_error(write, whole[:start] + noise + whole[start + length :])
    check_stories_or_error(write, b"\x1f\x8b" + noise)


# The collection


@pytest.fixture(scope="module")
def collection(data_folder: Path) -> Dataset:
    return read_reuters(data_folder / "reuters21578")


@pytest.mark.data
def test_the_collection_holds_what_its_readme_says(collection: Dataset) -> None:
    n_topics = (collection.gold == 1).sum(axis=1)
    assert len(collection) == 21578
    assert len(collection.classes) == 120
    assert np.count_nonzero(n_topics >= 1) == 11367
    assert np.count_nonzero(n_topics >= 2) == 1872
    assert n_topics.sum() / 11367 == pytest.approx(1.258, abs=5e-4)
    assert collection.doc_ids.tolist() == [str(newid) for newid in range(1, 21579)]


@pytest.mark.data
def test_the_modapte_split_has_the_known_sizes(collection: Dataset) -> None:
    fields = collection.corpus.fields
    indexed = fields["topics"] == "YES"
    train, test = (indexed & (fields["split"] == part) for part in ("TRAIN", "TEST"))
    has_topic = (collection.gold == 1).any(axis=1)
    assert (train.sum(), test.sum(), len(collection) - train.sum() - test.sum()) == (9603, 3299, 8676)
    assert ((train & has_topic).sum(), (test & has_topic).sum()) == (7775, 3019)


@pytest.mark.data
def test_no_markup_is_left_in_the_texts(collection: Dataset) -> None:
    for text in collection.corpus:
        assert "</" not in text
        assert "&#" not in text
        assert "&lt;" not in text
        assert text.translate(dict.fromkeys([*range(9), *range(11, 32)])) == text
