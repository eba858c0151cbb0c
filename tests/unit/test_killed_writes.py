"""A process that is killed while it writes leaves the old file or the new one, and the next run leaves nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("n_kills", [4, pytest.param(42, marks=pytest.mark.long)])
def test_a_killed_write_leaves_the_old_or_the_new_file(n_kills: int, tmp_path: Path) -> None:
    command_line = [sys.executable, "-W", "ignore", "-m", "tests.killed_writes", str(tmp_path), str(n_kills)]
    result = subprocess.run(  # noqa: S603 - our own module
        command_line, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    found = {record["scenario"]: record for record in map(json.loads, result.stdout.splitlines())}
    assert result.returncode == 0, result.stderr
    assert found.keys() == {"model", "report", "shards", "shards from memory", "checkpoint", "embeddings", "table"}
    for name, record in found.items():
        assert record["failures"] == [], name
        assert record["old"] > 0, name
        assert record["new"] > 0, name
    assert sum(record["kills"] for record in found.values()) >= 6 * (n_kills - 2)
    assert sum(record["left behind"] for record in found.values()) >= n_kills // 2
