"""``palda plan``: assumptions, pilots, pictures and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from palda.cli.commands.plan import parse_quality

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

SMALL = ("--quick", "--max-votes", 2, "--jobs", 1)


@pytest.fixture(autouse=True)
def _few_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palda.cli.commands.plan.QUICK_DOCS", 40)


@pytest.mark.slow
def test_a_plan_from_assumptions_is_a_picture_and_a_table(palda: Palda, tmp_path: Path) -> None:
    picture = tmp_path / "plan.png"
    assumptions = ("-d", 5000, "--classes", 3, "--annotators", 4, "--quality", "0.8-0.9", "--labels-per-doc", 1)
    result = palda("plan", *SMALL, *assumptions, "--target-error", 0.2, "--price", 0.1, "-o", picture)
    assert result.code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert result.out.startswith("votes needed for 0.2 of the labels wrong")
    for name in ("fixed overlap", "random", "uncertainty", "assign", "scaled to 5,000 documents"):
        assert name in result.out
    assert "pass --force" in palda("plan", "-o", picture).error_line


@pytest.mark.slow
def test_a_plan_from_a_model_uses_its_documents_and_annotators(palda: Palda, world: World, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    result = palda("plan", *SMALL, "--model", world.model, "--target-error", 0.3, "--json", "--quiet", "-o", picture)
    assert (result.code, result.err) == (0, "")
    rows = {row["policy"]: row for row in json.loads(result.out)}
    assert set(rows) == {"fixed overlap", "random", "uncertainty", "assign"}
    assert rows["fixed overlap"]["saved"] in (0, None)
    assert "60 documents, 10 classes, 50 annotators" in picture.read_text()


def test_wrong_calls_are_one_line(palda: Palda, world: World, tmp_path: Path) -> None:
    assert ".png or .svg" in palda("plan", "-o", tmp_path / "plan.pdf").error_line
    here = ("-o", tmp_path / "plan.png")
    assert palda("plan", "--votes", world.votes, *here).code == 2
    assert palda("plan", "--model", world.model, "--pilot", world.documents, *here).code == 2
    assert palda("plan", "--quality", "good", *here).code == 2
    assert not list(tmp_path.iterdir())


def test_quality_is_a_number_a_range_or_a_list() -> None:
    assert parse_quality("0.8", 3) == [0.8, 0.8, 0.8]
    assert parse_quality("0.6-0.9", 4) == pytest.approx([0.6, 0.7, 0.8, 0.9])
    assert parse_quality("0.6,0.9", 4) == [0.6, 0.9]
    for text in ("high", "0.9-1.2", "0.5,x"):
        with pytest.raises(typer.BadParameter):
            parse_quality(text, 3)
