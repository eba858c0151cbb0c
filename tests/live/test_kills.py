from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests import server_kills

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the learner in /proc"),
]


def test_kills_of_server_and_learner_lose_and_double_no_acknowledged_vote(tmp_path: Path) -> None:
    found = server_kills.run(str(tmp_path / "project.db"), tmp_path, n_kills=3, seed=1)
    assert found["answers acknowledged"] > 0
    assert sum(found[kind] for kind in found if kind.endswith("killed")) == 3


@pytest.mark.long
def test_fifty_kills_lose_and_double_no_acknowledged_vote(store_location: str, tmp_path: Path) -> None:
    found = server_kills.run(store_location, tmp_path, n_kills=50, seed=2, n_docs=4000)
    assert found["answers acknowledged"] > 200
