"""``palda demo --live`` serves a project that simulated annotators label, and ends without leaving anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from palda import simulate
from palda.live.demo import CROWD


def test_a_copier_says_what_the_original_says() -> None:
    news = simulate.newsroom(20, seed=0)
    by_name = {one.name: one for one in CROWD}
    for doc, truth in zip(news.doc_ids.tolist(), news.labels, strict=True):
        copied = by_name["Copier of Ada"].votes(doc, truth, 0)
        assert copied == by_name["Ada"].votes(doc, truth, 0)


@pytest.mark.slow
def test_the_live_demo_labels_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "palda", "demo", "--live", "--port", "0", "--seconds", "2"]
    done = subprocess.run(  # noqa: S603 - this program
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}, check=False, timeout=90
    )
    text = done.stdout
    assert done.returncode == 0
    assert re.search(r"sign in as admin: http://127\.0\.0\.1:\d+/join/\S+\n", text)
    assert re.search(r"then watch: +http://\S+/projects/1/dashboard\n", text)
    assert not [one for one in tmp_path.iterdir() if one.name.startswith("palda")]
