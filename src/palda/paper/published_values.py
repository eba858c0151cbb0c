"""Values printed in the paper (Padmanabhan, Bhat, Shevade and Narahari, 2016), for comparison.

Its Table 1 has one heading, "average accuracy", for two measures. The columns of RAkEL, MCC, BRq and BCC, which were
run in MEKA, are Jaccard accuracy, which MEKA calls accuracy; those of SLDA and the two new models are Hamming accuracy
(1 - Hamming loss). This follows from the baselines that ignore the documents: predicting nothing, or the majority value
of each class, reaches a Hamming accuracy of .985 on bibtex, .937 on enron, .819 on scene and .767 on yeast.
"""

from __future__ import annotations

from typing import NamedTuple

JACCARD, HAMMING = "jaccard_accuracy", "hamming_accuracy"


class PublishedColumn(NamedTuple):
    """A column of the paper's Table 1: heading, method, training labels, measure, and value for each data set."""

    heading: str
    method: str
    source: str
    measure: str
    values: dict[str, float]


_SETS = ("reuters", "bibtex", "enron", "scene", "yeast")

TABLE_1 = tuple(
    PublishedColumn(heading, method, source, measure, dict(zip(_SETS, values, strict=True)))
    for heading, method, source, measure, values in (
        ("RAkEL (J48)", "rakel", "gold", JACCARD, (0.881, 0.293, 0.402, 0.577, 0.415)),
        ("MCC", "mcc", "gold", JACCARD, (0.876, 0.290, 0.389, 0.580, 0.432)),
        ("BRq", "brq", "gold", JACCARD, (0.863, 0.309, 0.430, 0.550, 0.462)),
        ("BCC", "bcc", "gold", JACCARD, (0.867, 0.299, 0.411, 0.594, 0.413)),
        ("SLDA", "slda_one_vs_all", "gold", HAMMING, (0.897, 0.984, 0.937, 0.823, 0.767)),
        ("ML-PA-LDA", "published", "gold", HAMMING, (0.969, 0.984, 0.939, 0.823, 0.767)),
        ("ML-PA-LDA-C", "published", "votes", HAMMING, (0.9426, 0.981, 0.938, 0.818, 0.767)),
    )
)
"""Table 1, column by column."""

TABLE_2: dict[float, dict[str, float]] = {
    0.1: {"accuracy": 0.949, "f1": 0.762, "crowd_accuracy": 0.927, "crowd_f1": 0.616, "rmse": 0.023},
    0.3: {"accuracy": 0.953, "f1": 0.784, "crowd_accuracy": 0.930, "crowd_f1": 0.619, "rmse": 0.014},
    0.5: {"accuracy": 0.955, "f1": 0.787, "crowd_accuracy": 0.936, "crowd_f1": 0.629, "rmse": 0.011},
    0.7: {"accuracy": 0.961, "f1": 0.828, "crowd_accuracy": 0.937, "crowd_f1": 0.650, "rmse": 0.010},
    1.0: {"accuracy": 0.969, "f1": 0.829, "crowd_accuracy": 0.942, "crowd_f1": 0.669, "rmse": 0.009},
}
"""Table 2: Reuters, 20 topics, by the fraction of the training documents used."""

ADVERSARIAL = {"hamming_accuracy": 0.955, "log_likelihood": -0.193, "micro_f1": 0.793, "annotator_rmse": 0.002}
"""Reuters, ten of fifty annotators malicious, 40 topics, mean of five runs."""


def published_column(method: str, source: str) -> PublishedColumn | None:
    """Column of Table 1 with this method and these training labels, if there is one."""
    return next((column for column in TABLE_1 if (column.method, column.source) == (method, source)), None)
