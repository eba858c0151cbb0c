"""Invented records of finished cells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from palda.paper import REFERENCES, Cell, CellRecord

LABEL_MEASURES = ("hamming_accuracy", "jaccard_accuracy", "micro_f1", "macro_f1", "subset_accuracy")


@pytest.fixture(scope="session")
def make_record() -> Callable[[Cell], CellRecord]:
    """A function that invents the record of a cell: all measures, different for each cell, always the same."""

    def record(cell: Cell) -> CellRecord:
        rng = np.random.default_rng(int(cell.key, 16))
        measures = {name: rng.uniform(0.4, 0.9) for name in LABEL_MEASURES}
        if cell.method not in REFERENCES and cell.option("choose") is not False:
            measures |= {f"{name}_chosen": value + 0.01 for name, value in measures.items()}
        measures |= {"log_likelihood": rng.uniform(-0.6, -0.4), "calibration_error": 0.02}
        measures |= {"fit_seconds": 10.0, "choose_seconds": 20.0, "predict_seconds": 0.1}
        details: dict[str, list[float]] = {}
        if cell.source == "votes":
            measures |= {"annotator_rmse": 0.01, "oracle_rmse": 0.009, "consensus_micro_f1": 0.95}
            details = {"true_quality": [0.05, 0.6, 0.9], "quality": [0.06, 0.61, 0.88]}
        return CellRecord(
            cell, measures, details, (), 30.0, 1, "2026-01-01T00:00:00+00:00", {"palda": "1", "numpy": "2"}
        )

    return record
