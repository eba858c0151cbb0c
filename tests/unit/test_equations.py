"""Equation numbers and corrections that the code cites are those of docs/maths.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "maths.md"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
REFERENCE = ROOT / "src" / "palda" / "kernels" / "reference.py"

NUMBERS = r"(?:eq\. \d+|eqs\. \d+(?:(?:-|–| to |, | and |, and )\d+)+)"
CITED = re.compile(rf"maths, ({NUMBERS})")
BARE = re.compile(rf"\b({NUMBERS})", re.IGNORECASE)


def on_one_line(text: str) -> str:
    """The text with line breaks, and comment marks at the start of lines, replaced by single spaces."""
    return re.sub(r"\s*\n\s*(?:#(?!#)\s*)?|\s+", " ", text)


def numbers_in(citation: str) -> set[int]:
    """Equation numbers in a citation such as "eq. 3", "eqs. 3-5" or "eqs. 3, 5 and 7-9"."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:(?:-|–| to )(\d+))?", citation):
        found.update(range(int(first), int(last or first) + 1))
    return found


def cited_equations(text: str, pattern: re.Pattern[str] = CITED) -> set[int]:
    return set().union(*(numbers_in(citation) for citation in pattern.findall(on_one_line(text))))


def cited_corrections(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"maths, correction (\d+)", on_one_line(text))}


def displays(page: str) -> list[str]:
    return re.findall(r"^\$\$\n(.*?)\n\$\$$", page, re.DOTALL | re.MULTILINE)


def tags(page: str) -> list[int]:
    """Numbers of the equations, in the order of the page; tags outside of formulas do not count."""
    return [int(number) for display in displays(page) for number in re.findall(r"\\tag\{(\d+)\}", display)]


def corrections(page: str) -> list[int]:
    section = page.partition("\n## Where the paper cannot be followed")[2].partition("\n## ")[0]
    return [int(number) for number in re.findall(r"^(\d+)\. \*\*", section, re.MULTILINE)]


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_equations_are_numbered_from_one_without_gaps(page: str) -> None:
    assert tags(page) == list(range(1, len(tags(page)) + 1))
    assert len(tags(page)) == page.count(r"\tag{")


def test_corrections_are_numbered_from_one_without_gaps(page: str) -> None:
    assert len(corrections(page)) >= 7
    assert corrections(page) == list(range(1, len(corrections(page)) + 1))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_equations_and_corrections_cited_by_a_module_exist(source: Path, page: str) -> None:
    text = source.read_text(encoding="utf-8")
    assert cited_equations(text) <= set(tags(page))
    assert cited_corrections(text) <= set(corrections(page))
    n_parsed = len(CITED.findall(on_one_line(text)))
    assert n_parsed == len(re.findall(r"maths, eq", on_one_line(text))), "cite as 'maths, eq. 3' or 'maths, eqs. 3-5'"


def test_equations_cited_by_the_reference_kernel_exist(page: str) -> None:
    cited = cited_equations(REFERENCE.read_text(encoding="utf-8"), BARE)
    assert {8, 9, 10, 11, 12, 27, 28, 29, 31} <= cited <= set(tags(page))


def test_equations_cited_by_the_page_exist(page: str) -> None:
    assert cited_equations(page, BARE) <= set(tags(page))


def test_formulas_have_no_escape_that_markdown_removes(page: str) -> None:
    assert re.findall(r"\\[^a-zA-Z]", page) == []  # write \cr, \lbrace and \Vert, not a backslash and a sign


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ('"""Posterior (maths, eq. 99)."""', {99}),
        ("# a step (maths, eqs. 3-5)", {3, 4, 5}),
        ("(maths, eqs. 12 and 18)", {12, 18}),
        ("(maths, eqs. 16, 17 and 19-21)", {16, 17, 19, 20, 21}),
        ('"""A long line (maths,\n    eq. 7)."""', {7}),
        ("# a long comment (maths, eqs. 7\n    # and 9)", {7, 9}),
        ("@dataclass(frozen=True, eq=False)", set()),
        ("phi = normalised(scores)  # eq. 8", set()),
    ],
)
def test_citations_are_parsed_in_every_form(text: str, cited: set[int]) -> None:
    assert cited_equations(text) == cited


def test_gaps_repeats_and_tags_outside_of_formulas_are_detected() -> None:
    text = "$$\na\n\\tag{1}\n$$\n\nsee \\tag{2}\n\n$$\nb \\tag{3}\n$$\n\n$$\nc \\tag{3}\n$$\n"
    assert tags(text) == [1, 3, 3]
