"""Compile every kernel once: Numba keeps the result, and no test has to wait for it.

``python -m tests.compile_kernels``; ``make test`` runs it beside the type checker.
"""

from __future__ import annotations

from palda import CrowdPALDA, aggregate, simulate


def main() -> None:
    news = simulate.newsroom(60, seed=0)  # a classifier is trained from 50 texts on
    votes, _ = simulate.crowd(news, "paper", votes_per_doc=3, seed=0)
    for settings in (
        {"label_prior": "base_rate", "inference": "mean_field"},
        {"label_prior": "base_rate"},
        {"label_prior": "words", "n_profiles": 2},
        {"label_prior": "stacked"},
    ):
        model = CrowdPALDA(2, max_iter=2, tol=1e9, random_state=0, **settings)
        model.fit(news.corpus, votes).predict_proba(news.corpus)
        model.assign(n=1)
        model.assign(n=1, ask="labels")
        model.stopping_report()
    aggregate(votes, n_profiles=2)


if __name__ == "__main__":
    main()
