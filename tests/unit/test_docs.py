"""Every Python snippet of the README and the guides runs, page by page, and every make target they name exists."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from palda.data import simulate

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def user_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages read."""
    news = simulate.newsroom(60, seed=3)
    votes, _ = simulate.crowd(news, "paper", votes_per_doc=3, seed=3)
    rows = zip(news.doc_ids, news.documents.texts, strict=True)
    (tmp_path / "documents.csv").write_text("doc,text\n" + "".join(f"{name},{text}\n" for name, text in rows))
    votes.to_frame().to_csv(tmp_path / "votes.csv", index=False)
    broken = "doc,annotator,label,value\nnews-0001,a,arts,1\nnews-0002,a,arts,maybe\n"
    (tmp_path / "broken.csv").write_text(broken)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize("page", [page for page in PAGES if SNIPPET.search(page.read_text())], ids=lambda p: p.name)
def test_the_snippets_of_a_page_run_from_top_to_bottom(
    page: Path, user_files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {"np": np}
    for snippet in SNIPPET.findall(page.read_text()):
        exec(compile(snippet, str(page), "exec"), names)  # noqa: S102 - our own documentation
    if page.name == "data.md":
        assert "broken.csv, row 3, column 'value': 'maybe' is not 0, 1 or blank" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_make_targets_and_links_of_a_page_exist(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z]+)|`make ([a-z]+)`", text, re.MULTILINE)) <= {
        (target, "") for target in targets
    } | {("", target) for target in targets}
    for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_the_picture_of_the_readme_is_drawn_by_its_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from palda.present import demo

    monkeypatch.setattr(demo.run, "__defaults__", (60, 0))
    monkeypatch.setenv("MPLBACKEND", "svg")
    script = tmp_path / "newsroom.py"
    script.write_text((ROOT / "docs" / "pictures" / "newsroom.py").read_text())
    runpy.run_path(str(script), run_name="__main__")
    assert "</svg>" in (tmp_path / "newsroom.svg").read_text()


def test_benchmarks_that_pages_name_exist() -> None:
    named = {name for page in PAGES for name in re.findall(r"python -m benchmarks (\w+)", page.read_text())}
    assert named
    assert all((ROOT / "benchmarks" / f"{name}.py").exists() for name in named)
