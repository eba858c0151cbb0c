"""Labels and bounds of a small real crowd do not depend on the seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.stability import fit, load_trial


@pytest.mark.data
@pytest.mark.parametrize("name", ["full3", "v2"])
def test_seeds_differ_in_few_labels(data_folder: Path, name: str) -> None:
    if not (data_folder / "trial_emotions").is_dir() or not (data_folder / "crowd_so_emotions").is_dir():
        pytest.skip("trial_emotions or crowd_so_emotions was not found; set PALDA_DATA")
    trial = load_trial(name)
    found = [fit(trial, seed) for seed in (0, 1)]
    assert np.mean(found[0].labels != found[1].labels) < 0.015
    rare = list(trial.votes.classes).index("fear")
    for one in found:
        n_wrong = int(np.sum((one.labels != (trial.majority == 1))[trial.majority >= 0]))
        assert n_wrong < one.upper_wrong
        assert one.labels[:, rare].sum() <= 20  # the majority says fear of 13 posts
        assert one.verdicts.pop("Rudi", "spammer") == "spammer"  # he votes at random
        assert set(one.verdicts.values()) <= {"reliable", "noisy"}
