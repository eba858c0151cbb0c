"""Parameter recovery of the published crowd model on simulated data: annotators, class rates and topics, five seeds.

3,000 documents, 6 classes, 12 topics, 600 words, 80 tokens and 5 votes each: ``python -m benchmarks recovery``.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from palda import CrowdPALDA, metrics, simulate

N_CLASSES, N_TOPICS = 6, 12


def own_topics() -> np.ndarray:
    """α in which every class and state uses mainly a topic of its own."""
    shares = np.full((N_CLASSES, 2, N_TOPICS), 0.1 / N_TOPICS)
    for i in range(N_CLASSES):
        shares[i, 1, i] += 0.9
        shares[i, 0, N_CLASSES + i] += 0.9
    return 3.0 * shares


def topic_cosine(found: np.ndarray, true: np.ndarray) -> float:
    """Mean cosine of the best matching."""
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (found, true)]
    cosines = unit[0] @ unit[1].T
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def main() -> None:
    for profile in ("paper", "adversarial"):
        rows = []
        for seed in range(5):
            parameters = {"topic_prior": own_topics(), "word_concentration": 0.02}
            documents = simulate.documents(3000, N_CLASSES, N_TOPICS, 600, seed=seed, doc_length=80, **parameters)
            votes, annotators = simulate.crowd(documents, profile, seed=seed, votes_per_doc=5)
            model = CrowdPALDA.as_published(N_TOPICS, random_state=seed).fit(documents.corpus, votes)
            quality = model.annotator_quality_["quality"]
            rows.append(
                (
                    metrics.annotator_rmse(quality, annotators.quality),
                    metrics.oracle_rmse(votes, documents.labels, annotators.quality),
                    np.abs(model.class_prior_ - documents.labels.mean(axis=0)).max(),
                    topic_cosine(model.topic_words_, documents.topic_words),
                    metrics.micro_f1(documents.labels, model.consensus_ > 0.5),
                    model.n_iter_,
                )
            )
        ours, oracle, prior, cosine, f1, rounds = np.array(rows).T
        print(
            f"{profile}: annotator RMSE {ours.mean():.4f}, {np.mean(ours / oracle):.2f} times the oracle's "
            f"({np.min(ours / oracle):.2f} to {np.max(ours / oracle):.2f}); class rates within {prior.max():.3f}; "
            f"topic cosine {cosine.mean():.3f} (lowest seed {cosine.min():.3f}); consensus micro-F1 {f1.mean():.3f}; "
            f"{rounds.min():.0f} to {rounds.max():.0f} iterations",
            flush=True,
        )


if __name__ == "__main__":
    main()
