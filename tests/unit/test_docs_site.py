"""The site builds without warnings, loads nothing from other hosts, and documents every public name."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

import palda
from palda import metrics

pytestmark = [
    pytest.mark.guide,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("sphinx", "furo", "myst_parser")),
        reason="Sphinx is not installed: pip install 'palda[docs]'",
    ),
]

DOCS = Path(__file__).resolve().parents[2] / "docs"
LOADING_ATTRIBUTES = {"src", "srcset", "data", "poster"}
OTHER_HOST = re.compile(r"^\s*(?:[a-z]+:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ("--builder", "html", "--fail-on-warning", "--keep-going", "--quiet", "--doctree-dir", folder / "trees")
    built = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "sphinx", *options, DOCS, folder / "html"],
        capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(palda.__file__).parents[1])},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder / "html"


class Fetches(HTMLParser):
    """Addresses that a browser loads when it opens a page; links that people follow are not among them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name in LOADING_ATTRIBUTES or (tag == "link" and name == "href")):
                self.found.append(value)
            if value and name == "style":
                self.found += addresses_in_style(value)

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.found += addresses_in_style(data)


def addresses_in_style(style: str) -> list[str]:
    """Addresses that a style sheet loads: fonts, pictures and other style sheets."""
    return re.findall(r"url\(\s*['\"]?([^'\")]+)", style) + re.findall(r"@import\s+['\"]([^'\"]+)", style)


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages, styles = sorted(site.rglob("*.html")), sorted(site.rglob("*.css"))
    assert {"index.html", "maths.html", "results.html"} <= {page.name for page in pages}
    fetched = {}
    for page in pages:
        reader = Fetches()
        reader.feed(page.read_text())
        fetched[page.name] = [address for address in reader.found if OTHER_HOST.match(address)]
        assert any(address.endswith("_static/site.css") or "site.css?" in address for address in reader.found)
    for style in styles:
        fetched[style.name] = [found for found in addresses_in_style(style.read_text()) if OTHER_HOST.match(found)]
    assert not {name: found for name, found in fetched.items() if found}


def test_loads_from_other_hosts_are_detected() -> None:
    reader = Fetches()
    reader.feed(
        '<script src="https://cdn.example/a.js"></script><link rel="stylesheet" href="//fonts.example/b.css">'
        '<style>@import "https://c.example/c.css"; p { background: url(http://d.example/d.png) }</style>'
        '<a href="https://example.org">a link</a>'
    )
    assert len([address for address in reader.found if OTHER_HOST.match(address)]) == 4


def test_every_public_name_is_documented(site: Path) -> None:
    header, body = (site / "objects.inv").read_bytes().split(b"zlib.\n", 1)
    assert b"version 2" in header
    entries = {line.split(" ", 1)[0] for line in zlib.decompress(body).decode().splitlines()}
    public = {f"palda.{name}" for name in palda.__all__} | {f"palda.metrics.{name}" for name in metrics.__all__}
    assert public <= entries
    assert {"palda.CrowdPALDA.fit", "palda.PALDA.predict_proba", "palda.Votes.from_records"} <= entries


def test_every_formula_is_converted(site: Path) -> None:
    written = (DOCS / "maths.md").read_text()
    converted = (site / "maths.html").read_text()
    numbers = re.findall(r"\\tag\{(\d+)\}", written)
    assert numbers
    assert all(f'id="equation-{number}"' in converted for number in numbers)
    assert (
        converted.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') == written.count("$$") // 2
    )
    assert "$$" not in converted
    assert "\\operatorname" not in converted
