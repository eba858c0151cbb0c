"""Compile every kernel once: Numba keeps the result, and no test has to wait for it.

``python -m tests.compile_kernels``; ``make test`` runs it beside the type checker.
"""

from __future__ import annotations

from palda import CrowdPALDA, aggregate, simulate


def main() -> None:
    news = simulate.newsroom(12, seed=0)
    votes, _ = simulate.crowd(news, "paper", votes_per_doc=3, seed=0)
    for inference in ("joint", "mean_field"):
        model = CrowdPALDA(2, label_prior="base_rate", inference=inference, max_iter=2, tol=1e9, random_state=0)
        model.fit(news.corpus, votes).predict_proba(news.corpus)
    model.assign(n=1)
    model.assign(n=1, ask="labels")
    model.stopping_report()
    aggregate(votes, n_profiles=2)


if __name__ == "__main__":
    main()
