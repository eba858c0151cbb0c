"""Run time of the agreement measures on two million votes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import Votes, names_array
from palda.metrics import annotator_pairs, krippendorff_alpha, label_set_alpha

if TYPE_CHECKING:
    from collections.abc import Callable

CROWDS = {
    "few distinct label sets": {"quality": 0.99, "prevalence": 0.05},
    "many distinct label sets": {"quality": 0.95, "prevalence": 0.1},
    "nearly as many distinct label sets as annotations": {"quality": 0.75, "prevalence": 0.3},
}


def crowd(
    n_docs: int, n_classes: int, votes_per_doc: int, n_annotators: int, quality: float, prevalence: float
) -> Votes:
    """Complete annotations of random label sets by annotators of equal quality."""
    rng = np.random.default_rng(0)
    shape = (n_docs, votes_per_doc, n_classes)
    truth = rng.random((n_docs, 1, n_classes)) < prevalence
    value = truth ^ (rng.random(shape) >= quality)
    annotator = rng.random((n_docs, n_annotators)).argpartition(votes_per_doc, axis=1)[:, :votes_per_doc]
    doc, place, label = (index.ravel() for index in np.indices(shape))
    return Votes.from_codes(
        doc,
        annotator[doc, place],
        label,
        value.ravel().astype(np.int8),
        doc_ids=names_array(range(n_docs)),
        annotators=names_array(range(n_annotators)),
        classes=names_array(range(n_classes)),
    )


def timed(name: str, job: Callable[..., Any], *arguments: Any) -> Any:
    start = time.perf_counter()
    result = job(*arguments)
    print(f"  {time.perf_counter() - start:7.3f} s  {name}")
    return result


def main() -> None:
    for title, options in CROWDS.items():
        votes = crowd(20_000, 20, 5, 200, **options)
        print(f"{title}: {len(votes):,} votes, 100,000 annotations")
        timed("alpha of each class", krippendorff_alpha, votes)
        for distance in ("masi", "jaccard"):
            result = timed(f"alpha of label sets, {distance}", label_set_alpha, votes, distance)
            print(f"             alpha {result.alpha:.6f}, standard error {result.standard_error:.1g}")
        timed("agreement of pairs of annotators", annotator_pairs, votes)


if __name__ == "__main__":
    main()
