"""No value in a file chooses where work is done, what is imported, or which path is opened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("audited_loading.py")


def audited(folder: Path, n_ways: int) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(SCRIPT), str(folder), str(n_ways)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    assert found["control"] == ["socket.__new__", "os.system", "open", "open", "import"]  # the hook sees what it must
    return found


@pytest.mark.slow
def test_every_value_of_every_manifest_is_refused_or_without_effect(tmp_path: Path) -> None:
    found = audited(tmp_path, 1)
    assert found["problems"] == []
    assert sum(found["cases"].values()) > 500


@pytest.mark.long
def test_every_value_of_every_manifest_in_many_ways(tmp_path: Path) -> None:
    found = audited(tmp_path, 8)
    assert found["problems"] == []
    assert sum(found["cases"].values()) > 4000
