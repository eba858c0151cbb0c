from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palda.data import Corpus, Values
from palda.errors import DataError, PaldaError
from palda.io import read_arff

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DENSE = """% a comment
@RELATION 'some data'

@Attribute 'the width' REAL
@attribute\tdepth\tnumeric
@ATTRIBUTE "label \\"A\\"" {0,1}
@attribute B {0, 1}
@DATA
1.5,-2e3,1,0

% between the rows
?, 4 ,0,?
"""
SPARSE = """@relation words
@attribute ship {0,1}
@attribute 'sea port' {0,1}
@attribute wheat {0,1}
@attribute TAG {0,1}
@data
{0 1, 2 1,3 1}
{}
{ 1 ? , 3 ?}
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="B"><label name='label "A"'></label></label>
</labels>"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes, name: str = "data.arff") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_dense_numbers_become_values_with_nan_for_missing(write: Callable[..., Path]) -> None:
    data = read_arff(write(DENSE), write(XML, "labels.xml"))
    assert isinstance(data.corpus, Values)
    assert data.corpus.features.tolist() == ["the width", "depth"]
    np.testing.assert_array_equal(data.X, [[1.5, -2000.0], [np.nan, 4.0]])
    assert data.doc_ids.tolist() == ["0", "1"]


def test_labels_of_the_xml_come_in_the_order_of_the_attributes_nested_ones_included(write: Callable[..., Path]) -> None:
    data = read_arff(write(DENSE), write(XML, "labels.xml"))
    assert data.classes.tolist() == ['label "A"', "B"]
    assert data.gold.tolist() == [[1, 0], [0, -1]]


def test_label_names_come_in_the_order_given(write: Callable[..., Path]) -> None:
    data = read_arff(write(DENSE), label_names=["B", 'label "A"'])
    assert data.classes.tolist() == ["B", 'label "A"']
    assert data.gold.tolist() == [[0, 1], [-1, 0]]


def test_without_label_names_everything_is_a_feature(write: Callable[..., Path]) -> None:
    data = read_arff(write(DENSE))
    assert data.classes.tolist() == []
    assert data.X.shape == (2, 4)


def test_sparse_binary_words_become_a_corpus(write: Callable[..., Path]) -> None:
    data = read_arff(write(SPARSE), label_names=["TAG"])
    assert isinstance(data.corpus, Corpus)
    assert data.corpus.vocabulary.tolist() == ["ship", "sea port", "wheat"]
    assert data.X.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert data.X.nnz == 2
    assert data.gold.tolist() == [[1], [0], [-1]]


def test_dense_binary_words_are_the_same_corpus_as_sparse_ones(write: Callable[..., Path]) -> None:
    header = SPARSE[: SPARSE.index("{0 1, 2")]
    dense = read_arff(write(header + "1,0,1,1\n0,0,0,0\n0,?,0,?\n"), label_names=["TAG"])
    assert dense == read_arff(write(SPARSE), label_names=["TAG"])


def test_sparse_rows_of_numbers_are_values(write: Callable[..., Path]) -> None:
    data = read_arff(write("@attribute a real\n@attribute b integer\n@data\n{1 -2.5}\n{}\n"))
    assert data.X.tolist() == [[0.0, -2.5], [0.0, 0.0]]


def test_what_a_sparse_row_leaves_out_is_the_first_value_of_a_nominal_attribute(write: Callable[..., Path]) -> None:
    data = read_arff(write("@attribute a {1,0}\n@attribute b {0,1}\n@data\n{1 1}\n{0 0}\n"), label_names=["a"])
    assert data.gold.tolist() == [[1], [0]]
    assert data.X.toarray().tolist() == [[1], [0]]


def test_gzip_latin_1_carriage_returns_and_byte_order_marks_are_read(write: Callable[..., Path]) -> None:
    expected = read_arff(write(DENSE), label_names=["B"])
    for content in (
        gzip.compress(DENSE.encode()),
        DENSE.replace("\n", "\r\n").encode(),
        DENSE.replace("\n", "\r").encode(),
        DENSE.encode("utf-8-sig"),
    ):
        assert read_arff(write(content), label_names=["B"]) == expected
    latin = read_arff(write("@attribute café real\n@data\n1\n".encode("latin-1")))
    assert latin.corpus.features.tolist() == ["café"]


def test_quoted_cells_and_spelled_out_answers_are_read(write: Callable[..., Path]) -> None:
    header = "@attribute a {no,'yes'}\n@attribute b {False,True}\n@attribute c numeric\n@data\n"
    data = read_arff(write(header + "'yes', \"True\" ,'3.5'\nno,?,4\n"), label_names=["a", "b"])
    assert data.gold.tolist() == [[1, 1], [0, -1]]
    assert data.X.tolist() == [[3.5], [4.0]]


def test_nominal_numbers_are_numbers(write: Callable[..., Path]) -> None:
    data = read_arff(write("@attribute a {1,2,3}\n@attribute b {0,1}\n@data\n3,1\n1.0,0\n"))
    assert isinstance(data.corpus, Values)
    assert data.X.tolist() == [[3.0, 1.0], [1.0, 0.0]]


def test_a_file_without_rows_has_no_documents(write: Callable[..., Path]) -> None:
    assert read_arff(write("@attribute a real\n@attribute b {0,1}\n@data\n"), label_names=["b"]).gold.shape == (0, 1)


HEADER = "@relation r\n@attribute a real\n@attribute b {0,1}\n@data\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "data.arff: there is no @data line"),
        ("@data\n", "no @attribute line"),
        ("hello\n", "row 1: 'hello' is not a line of an ARFF header"),
        ("@attribute a real\n@attribute a real\n@data\n", "column 'a': two attributes have this name"),
        ("@attribute\n@data\n", "row 1: the attribute '' has no readable name"),
        ("@attribute 'a real\n@data\n", "row 1: .* no readable name"),
        ("@attribute a\n@data\n", "row 1, column 'a': the type '' is neither"),
        ("@attribute a string\n@data\n", "row 1, column 'a': the type 'string' is neither numeric"),
        ("@attribute a {red,green}\n@data\n", r"column 'a': the type '\{red,green\}' is neither"),
        ("@attribute a {0,1\n@data\n", "column 'a'"),
        (HEADER + "1,0\n\n2\n", "row 7: has 1 cells, but there are 2 attributes"),
        (HEADER + "1,0\nx,0\n", "row 6, column 'a': 'x' is not a finite number; '.' stands for a missing value"),
        (HEADER + "1,0\n1e999,0\n", "row 6, column 'a': '1e999' is not a finite number"),
        (HEADER + "nan,0\n", "row 5, column 'a': 'nan' is not a finite number"),
        (HEADER + "1,2\n", "row 5, column 'b': '2' is not one of '0', '1'"),
        (HEADER + "1?,0\n", "row 5, column 'a': '1.' is not"),
        (HEADER + "'1,0\n", "row 5: a quote is opened and never closed"),
        (HEADER + "1,0\n{0 1}\n", "row 6: dense rows and sparse rows"),
        (HEADER + "{0 1\n", "row 5: the sparse row is not closed"),
        (HEADER + "{2 1}\n", "row 5: '2 1' does not start with a new position from 0 to 1"),
        (HEADER + "{-1 1}\n", "row 5: '-1 1' does not start with a new position"),
        (HEADER + "{0 1,0 2}\n", "row 5: '0 2' does not start with a new position"),
        (HEADER + "{0}\n", "row 5, column 'a': '' is not a finite number"),
        (HEADER + "{" + "9" * 5000 + " 1}\n", "row 5"),
    ],
)
def test_what_is_wrong_is_said_with_file_row_and_column(write: Callable[..., Path], content: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read_arff(write(content))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("data.arff")


def test_labels_that_are_no_labels_are_refused(write: Callable[..., Path]) -> None:
    path = write(HEADER + "1,0\n2,1\n")
    with pytest.raises(DataError, match="row 6, column 'a': the label is 2; labels are 0, 1"):
        read_arff(path, label_names=["a"])
    with pytest.raises(DataError, match="the label 'bb' is not among the 2 known ones"):
        read_arff(path, label_names=["bb"])
    with pytest.raises(DataError, match="every attribute is a label"):
        read_arff(path, label_names=["a", "b"])
    with pytest.raises(DataError, match="named twice"):
        read_arff(path, label_names=["b", "b"])
    with pytest.raises(DataError, match="not one string"):
        read_arff(path, label_names="b")
    with pytest.raises(DataError, match="not both"):
        read_arff(path, write(XML, "labels.xml"), label_names=["b"])


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_arff(tmp_path / "none.arff")


# Label files

BOMB = """<?xml version="1.0"?>
<!DOCTYPE labels [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;"><!ENTITY c "&b;&b;&b;">]>
<labels><label name="&c;"/></labels>"""
OUTSIDE = """<!DOCTYPE labels [<!ENTITY secret SYSTEM "file:///etc/hostname">]>
<labels><label name="a">&secret;</label></labels>"""


@pytest.mark.parametrize(
    ("xml", "problem"),
    [
        (BOMB, "labels.xml: a label file has no document type"),
        (OUTSIDE, "labels.xml: a label file has no document type"),
        ("<labels>\n<label></labels>", "labels.xml, row 2: the <label> has no name"),
        ("<labels>\n<label name='b'>\n</labels>", "labels.xml, row 3: is not XML: mismatched tag"),
        ("<labels></labels>", "labels.xml: names no <label"),
        ("", "labels.xml.*: is not XML: no element found"),
        ("<labels><label name='b'>&unknown;</label></labels>", "is not XML: undefined entity"),
        ('<?xml version="1.0" encoding="klingon"?><labels/>', "labels.xml"),
        ('<?xml version="1.0" encoding="shift_jis"?><labels/>', "labels.xml"),
    ],
)
def test_label_files_are_read_without_entities_and_refused_in_one_line(
    write: Callable[..., Path], xml: str, problem: str
) -> None:
    path = write(HEADER)
    with pytest.raises(DataError, match=problem):
        read_arff(path, write(xml, "labels.xml"))


# Anything

PIECES = [
    "@attribute a real\n", "@attribute 'b c' {0,1}\n", "@attribute d {no,yes}\n", "@relation r\n", "@data\n", "%\n",
    "1,0,no\n", "{0 1,2 yes}\n", "{", "}", "'", '"', "\\", ",", "?", "1e5", "nan", "\0", "\r", "\n", " ", "\t",
    "é", "\u2028", "0 1", "-",
]  # fmt: skip


def check_arff_or_error(write: Callable[..., Path], content: bytes) -> None:
    try:
        data = read_arff(write(content))
    except PaldaError as error:
        assert "\n" not in str(error)
    else:
        assert data.X.shape[0] == len(data)


QUICK = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(st.lists(st.sampled_from(PIECES), max_size=14))
@QUICK
def test_pieces_of_arff_in_any_order_give_data_or_one_clear_line(write: Callable[..., Path], pieces: list[str]) -> None:
    check_arff_or_error(write, "".join(pieces).encode())
    check_arff_or_error(write, (HEADER + "".join(pieces)).encode())


@given(st.binary(max_size=60), st.integers(0, len(DENSE)), st.integers(0, 20))
@QUICK
def test_damaged_bytes_give_data_or_one_clear_line(
    write: Callable[..., Path], noise: bytes, start: int, length: int
) -> None:
    check_arff_or_error(write, noise)
    check_arff_or_error(write, b"\x1f\x8b" + noise)
    for whole in (DENSE.encode(), SPARSE.encode(), gzip.compress(SPARSE.encode(), mtime=0)):
        check_arff_or_error(write, whole[:start] + noise[:length] + whole[start + length :])


@given(st.one_of(st.binary(max_size=80), st.text(alphabet="<>/labels name=\"'&;!?b[]-", max_size=80).map(str.encode)))
@QUICK
def test_any_label_file_gives_data_or_one_clear_line(write: Callable[..., Path], xml: bytes) -> None:
    path = write(HEADER)
    for content in (xml, b"<labels><label name='b'>" + xml):
        try:
            read_arff(path, write(content, "labels.xml"))
        except PaldaError as error:
            assert "\n" not in str(error)


# Real files


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "kind", "n_train", "n_test", "n_features", "n_classes", "cardinality"),
    [
        ("scene", Values, 1211, 1196, 294, 6, (1.062, 1.086)),
        ("yeast", Values, 1500, 917, 103, 14, (4.228, 4.252)),
        ("enron", Corpus, 1123, 579, 1001, 53, (3.386, 3.363)),
        ("bibtex", Corpus, 4880, 2515, 1836, 159, (2.380, 2.444)),
    ],
)
def test_the_mulan_files_hold_what_their_source_says(
    data_folder: Path,
    name: str,
    kind: type,
    n_train: int,
    n_test: int,
    n_features: int,
    n_classes: int,
    cardinality: tuple[float, float],
) -> None:
    folder = data_folder / name
    for part, n_rows, labels_each in zip(("train", "test"), (n_train, n_test), cardinality, strict=True):
        data = read_arff(folder / f"{name}-{part}.arff.gz", folder / f"{name}.xml")
        assert isinstance(data.corpus, kind)
        assert data.X.shape == (n_rows, n_features)
        assert data.gold.shape == (n_rows, n_classes)
        assert set(np.unique(data.gold)) == {0, 1}
        assert data.gold.sum(axis=1).mean() == pytest.approx(labels_each, abs=5e-4)
        if kind is Corpus:
            assert set(data.X.data) == {1}
        else:
            assert not np.isnan(data.X).any()
