"""Check votes: votes on random documents that no policy has chosen, to test the probabilities of the labels.

A policy sends votes where they change most, so that votes on its documents say little about all others. A small share
of the documents is therefore drawn at random, and on each of them about half of the annotators are kept free of the
policy: their votes there are check votes. Which documents and pairs these are follows from a hash of their names alone.
So nothing has to be stored, and the same votes are check votes in every process.

The policy does not see check votes either: on check documents it decides by the labels without them. Otherwise it would
send further votes to exactly those labels that a check vote contradicts, and labels that got none would seem better
than they are.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from palda.models.assignment.gain import Rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.models.crowd import HeldOutVotes

    Ints = NDArray[np.int64]

_MIN_RATE = 1e-4
_PAIR_SHARE = 0.5  # of the annotators, on each check document
_N_BITS = 64


def name_hashes(names: Iterable[str], kind: str) -> NDArray[np.uint64]:
    """(names,): 64 random bits that depend on the name alone."""
    digests = [blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=kind.encode()) for name in names]
    return np.array([int.from_bytes(digest.digest(), "little") for digest in digests], dtype=np.uint64)


def as_share(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Hashes as numbers between 0 and 1."""
    return hashes.astype(np.float64) / 2.0**_N_BITS


def check_documents(doc_hashes: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """(documents,): whether a document is a check document."""
    return np.asarray(as_share(doc_hashes) < share)


def is_check_pair(doc_hashes: NDArray[np.uint64], annotator_hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether votes of an annotator on a check document are check votes; both arrays are broadcast."""
    with np.errstate(over="ignore"):  # a step of SplitMix64
        mixed = doc_hashes ^ (annotator_hashes * np.uint64(0x9E3779B97F4A7C15))
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return np.asarray(as_share(mixed) < _PAIR_SHARE)


def check_looks(
    looks: Ints, doc_hashes: NDArray[np.uint64], annotator_hashes: NDArray[np.uint64], share: float
) -> Ints:
    """The looks (document, annotator) that are check votes."""
    on_check = looks[check_documents(doc_hashes, share)[looks[:, 0]]]
    return on_check[is_check_pair(doc_hashes[on_check[:, 0]], annotator_hashes[on_check[:, 1]])]


def split_looks(votes: Votes, looks: Ints) -> tuple[Votes, NDArray[np.int8]]:
    """The votes without those of some looks (document, annotator); and what these said.

    The second table is (looks, classes), with -1 where the annotator did not judge a class.
    """
    keys = looks[:, 0] * votes.n_annotators + looks[:, 1]
    order = np.argsort(keys)
    own = votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator
    taken = np.isin(own, keys)
    values = np.full((len(looks), votes.n_classes), -1, dtype=np.int8)
    look = order[np.searchsorted(keys, own[taken], sorter=order)] if len(keys) else order
    values[look, votes.label[taken]] = votes.value[taken]
    return votes.select(~taken), values


def rates_given_others(
    rates: Rates,
    looks: Ints,
    votes: Votes,
    held_out: Callable[[Votes, Votes], HeldOutVotes],
) -> Rates:
    """Rates (looks, classes) of check votes given all other votes on the same label, check votes before them included.

    If votes are not independent given the label, a check vote that agrees with the others says little about it. The
    product of these rates is the probability of all check votes on a label, given the others (maths, eq. 93).
    ``looks`` are (document, annotator); ``held_out`` has the probabilities of hidden votes given visible ones.
    """
    sensitivity, specificity = rates.sensitivity.copy(), rates.specificity.copy()
    look_of = {(int(doc), int(annotator)): place for place, (doc, annotator) in enumerate(looks)}
    given = zip(votes.doc.tolist(), votes.annotator.tolist(), strict=True)
    look = np.array([look_of.get(pair, -1) for pair in given], dtype=np.int64)
    is_check = look >= 0
    rank = np.full(len(look), -1)  # of check votes among those on the same label
    checked = np.flatnonzero(is_check)
    order = checked[np.argsort(votes.pair[checked], kind="stable")]
    first = np.searchsorted(votes.pair[order], votes.pair[order])
    rank[order] = np.arange(len(order)) - first
    for number in range(int(rank.max(initial=-1)) + 1):
        chosen = rank == number
        found = held_out(votes.select(chosen), votes.select(rank < number))
        look_at = np.full(votes.n_docs * votes.n_classes, -1)
        look_at[votes.pair[chosen]] = look[chosen]
        place, label, is_yes = look_at[found.votes.pair], found.votes.label, found.votes.value == 1
        sensitivity[place, label] = np.where(is_yes, found.if_present, 1.0 - found.if_present)
        specificity[place, label] = np.where(is_yes, 1.0 - found.if_absent, found.if_absent)
    return Rates(*(np.clip(table, _MIN_RATE, 1.0 - _MIN_RATE) for table in (sensitivity, specificity)))
