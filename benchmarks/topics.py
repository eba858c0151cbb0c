"""Number of topics: held-out log-likelihood and micro-F1 with 10 to 160 topics, and with ``n_topics="auto"``.

A fifth of the training documents of every public data set is held out; test documents are not used. The label prior is
base rates, so that only topics predict. Needs the public data sets in $PALDA_DATA, and most of an hour:
``python -m benchmarks topics``.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.gold import SETS, case_of
from palda import PALDA, metrics
from palda.errors import PaldaError

SIZES = (10, 20, 40, 80, 160, "auto")


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in SETS:
        try:
            case = case_of(name)
        except PaldaError as missing:
            print(f"skipped: {missing}")
            continue
        held_out = np.random.default_rng(1).random(len(case.labels)) < 0.2
        for size in SIZES:
            model = PALDA(size, label_prior="base_rate", random_state=0)  # type: ignore[arg-type]
            model.fit(case.words[~held_out], case.labels[~held_out])
            scores = metrics.scores(case.labels[held_out], model.predict_proba(case.words[held_out]))
            print(
                f"{name}, {size} ({model.n_topics_}) topics: log-likelihood {scores.log_likelihood:.4f}, "
                f"micro-F1 {scores.micro_f1:.4f} at 1/2",
                flush=True,
            )


if __name__ == "__main__":
    main()
