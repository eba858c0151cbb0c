"""What to call an annotator, decided by informedness: sensitivity + specificity - 1, and its 95% credible interval.

Informedness is 1 for somebody who is always right, 0 for somebody whose votes do not depend on the truth (a constant
answer, or dice), and -1 for somebody who always says the opposite. The rules, in this order:

| verdict | rule |
|---|---|
| too few votes | fewer than ``LEAST_VOTES`` votes, earlier work included |
| spammer | informedness within ±``NEARLY_NOTHING``, and its interval within ±``LITTLE`` |
| adversarial | the interval lies below -``MARGIN``: the votes count, with inverted sign |
| reliable | informedness of at least ``RELIABLE``, and the interval lies above ``SURELY_USEFUL`` |
| noisy | informedness below ``RELIABLE``, and the interval lies above ``MARGIN`` |
| too few votes | anything else: the interval is too wide to tell |

An accusation thus needs an interval that excludes innocence; a doubt is never held against anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["VERDICTS", "verdicts"]

LEAST_VOTES = 10.0
"""Below this even a narrow interval says more about the crowd than about the annotator."""

NEARLY_NOTHING = 0.1
"""Informedness this close to 0 hardly helps: at best 55% right votes, were classes present as often as absent."""

LITTLE = 0.2
"""A spammer's informedness lies no further from 0 in all likelihood."""

MARGIN = 0.05
"""How far from 0 the whole interval must lie for votes to carry information, straight or inverted."""

RELIABLE = 0.5
"""Three quarters of the votes right, were classes present as often as absent."""

SURELY_USEFUL = 0.3
"""Who is called reliable has at least this informedness in all likelihood."""

VERDICTS = ("reliable", "noisy", "spammer", "adversarial", "too few votes")


def verdicts(informedness: Array, low: Array, high: Array, n_votes: Array) -> NDArray[np.object_]:
    """One of ``VERDICTS`` for each annotator; ``n_votes`` counts earlier work too."""
    rules = {
        "too few votes": n_votes < LEAST_VOTES,
        "spammer": (np.abs(informedness) <= NEARLY_NOTHING) & (np.maximum(-low, high) <= LITTLE),
        "adversarial": high < -MARGIN,
        "reliable": (informedness >= RELIABLE) & (low > SURELY_USEFUL),
        "noisy": (informedness < RELIABLE) & (low > MARGIN),
    }
    return np.select(list(rules.values()), [np.array(name, dtype=object) for name in rules], "too few votes")
