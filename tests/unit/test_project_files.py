"""Files that tools outside of Python read: citation, continuous integration, hooks, changelog."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import palda

yaml = pytest.importorskip("yaml", reason="these files are YAML: pip install pyyaml")

ROOT = Path(__file__).resolve().parents[2]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_has_the_keys_that_cff_requires() -> None:
    citation = parsed("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", citation["date-released"])
    assert all("name" in author or "family-names" in author for author in citation["authors"])
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= reference.keys()


def test_the_citation_names_the_paper() -> None:
    (paper,) = parsed("CITATION.cff")["references"]
    assert paper["title"] == "Topic Model Based Multi-Label Classification from the Crowd"
    assert [author["family-names"] for author in paper["authors"]] == ["Padmanabhan", "Bhat", "Shevade", "Narahari"]
    assert paper["year"] == 2016


def test_changelog_and_citation_have_the_version_of_the_package() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", changelog, re.MULTILINE)
    citation = parsed("CITATION.cff")
    assert released[0] == (palda.__version__, citation["date-released"])
    assert citation["version"] == palda.__version__


def test_workflows_may_only_read_and_run_targets_that_exist() -> None:
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert workflows
    for path in workflows:
        assert parsed(str(path.relative_to(ROOT)))["permissions"] == {"contents": "read"}
        assert set(re.findall(r"run: make ([a-z-]+)", path.read_text())) <= TARGETS


def test_continuous_integration_tests_every_supported_python() -> None:
    matrix = parsed(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert matrix == classifiers


def test_hooks_run_the_checks_of_make_check() -> None:
    local = next(repo for repo in parsed(".pre-commit-config.yaml")["repos"] if repo["repo"] == "local")
    recipe = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    tools = set(re.findall(r"\$\(BIN\)/([a-z-]+)", recipe))
    assert tools == {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in local["hooks"]}
