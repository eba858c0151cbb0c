"""Which document to whom next: ``assign`` of a fitted ``CrowdPALDA``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from palda.estimators.assignment_inputs import (
    NO_LIMIT,
    parse_annotators,
    parse_limits,
    parse_pairs,
    parse_prices,
    positive,
)
from palda.estimators.stopping import CHECK_SHARE, StoppingEstimator, share_of
from palda.models.assignment import (
    Candidates,
    check_documents,
    check_looks,
    check_targets,
    choose_check_pairs,
    choose_gold_pairs,
    choose_pairs,
    is_check_pair,
    n_due,
    name_hashes,
    without_pairs,
)
from palda.models.crowd import SupportBelief, expected_gain, summarize_annotators, typical_rates

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.estimators.assignment_inputs import People
    from palda.models.assignment import Assignment

    Ints = NDArray[np.int64]


class _Shares(NamedTuple):
    """Shares of all votes."""

    check: float
    gold: float


class _Limits(NamedTuple):
    """Number of pairs and sum of prices at most, and whether single classes are asked for."""

    n_pairs: int
    budget: float
    by_label: bool


_MIN_GAIN = 1e-12  # nats
_MAX_WORTH_LABELS = 200_000  # whose supports are computed for an assignment; that takes a tenth of a second


class AssignmentEstimator(StoppingEstimator):
    """The part of ``CrowdPALDA`` that says which document somebody should judge next."""

    def assign(
        self,
        annotators: Any = None,
        n: int | None = None,
        budget: float | None = None,
        *,
        price: Any = None,
        max_votes_per_doc: int | None = None,
        max_votes_per_annotator: Any = None,
        pending: Any = None,
        exclude: Any = None,
        ask: Literal["document", "labels"] = "document",
        target_error: float | None = None,
        target_f1: float | None = None,
        check_share: float | None = None,
        random_gold: bool = False,
        gold_share: float = 0.0,
    ) -> pd.DataFrame:
        """Documents that are most worth another vote, and by whom.

        Parameters
        ----------
        annotators : iterable of str, default=None
            Who is available; everybody the model knows by default. Unknown names are newcomers, with the rates of a
            typical member of the crowd.
        n : int, default=None
            Number of pairs. By default as many as the budget allows, or without a budget as many as ``annotators`` has
            entries: a name that is listed twice may get two documents.
        budget : float, default=None
            Limit of the sum of prices.
        price : float, mapping from annotators to float, or "tokens", default=None
            Price of one vote on a document (of one judgement if ``ask="labels"``); 1 by default. ``"tokens"``: the
            number of tokens of the document.
        max_votes_per_doc : int, default=None
            Annotators who may judge a document, those who have and ``pending`` included.
        max_votes_per_annotator : int or mapping from annotators to int, default=None
            Documents that an annotator may judge, those that they have judged and ``pending`` included.
        pending : DataFrame or iterable of pairs, default=None
            Pairs (annotator, document) that are under way, such as earlier results of ``assign``. They count as if the
            votes were given.
        exclude : DataFrame or iterable of pairs, default=None
            Pairs (annotator, document) that are not wanted.
        ask : {"document", "labels"}, default="document"
            Whether an annotator judges all classes of a document, or only its doubtful ones.
        target_error : float, default=None
            Share of labels that may be wrong. If :meth:`stopping_report` says that the target is met, the result is
            empty.
        target_f1 : float, default=None
            Micro-F1 that should be reached, likewise.
        check_share : float, default=None
            Share of all votes that are check votes: on random documents, by annotators who are not chosen for their
            gain. 0.05 by default if there is a target, else 0. It is also the share of documents that get them.
        random_gold : bool, default=False
            Whether the documents with known labels were drawn at random, as in ``stopping_report``.
        gold_share : float, default=0.0
            Share of all votes that are on documents with known labels, to test annotators: newcomers first, then
            those whose quality is least certain.

        Returns
        -------
        DataFrame
            Columns ``annotator``, ``doc``, ``gain`` (expected fall of the number of wrong labels per unit of price) and
            ``price``; with ``ask="labels"`` also ``labels``, the classes to judge; with check votes or known labels
            also ``purpose`` ("gold", "check" or "gain"). Best first, after known labels and check votes. Nobody gets a
            document twice, copies of somebody who has judged it neither, and pairs without gain are left out.

        Examples
        --------
        >>> from palda import CrowdPALDA, simulate
        >>> news = simulate.newsroom(100, seed=0)
        >>> votes, _ = simulate.crowd(news, [0.9, 0.8, 0.7], votes_per_doc=1, seed=0)
        >>> model = CrowdPALDA(label_prior="words", random_state=0).fit(news.corpus, votes)
        >>> model.assign(n=5).columns.tolist()
        ['annotator', 'doc', 'gain', 'price']
        >>> model.assign(["annotator-1", "newcomer"])["annotator"].nunique()
        2
        """
        if ask not in ("document", "labels"):
            raise ValueError(f'ask={ask!r:.60} must be "document" or "labels"')
        check_targets(target_error, target_f1)
        has_target = target_error is not None or target_f1 is not None
        shares = _Shares(
            share_of((CHECK_SHARE if has_target else 0.0) if check_share is None else check_share, "check_share"),
            share_of(gold_share, "gold_share"),
        )
        self._kept_record()
        people = parse_annotators(annotators, self.annotators_)
        limit = np.inf if budget is None else float(positive(budget, "budget"))
        as_listed = n is None and budget is None
        n_pairs = int(people.listed.sum()) if as_listed else NO_LIMIT if n is None else positive(n, "n", whole=True)
        room = parse_limits(max_votes_per_annotator, people)
        max_looks = (
            NO_LIMIT if max_votes_per_doc is None else positive(max_votes_per_doc, "max_votes_per_doc", whole=True)
        )
        pairs = self._pairs(pending, exclude)
        candidates = self._candidates(people, price, room, max_looks, pairs)
        if as_listed:
            candidates = replace(candidates, annotator_room=np.minimum(candidates.annotator_room, people.listed))
        if has_target and self._expected_quality(shares.check, random_gold=random_gold).meets(target_error, target_f1):
            n_pairs = 0
        chosen = self._choose(candidates, people, pairs["pending"], shares, _Limits(n_pairs, limit, ask == "labels"))
        return self._assignment_table(chosen, people, shares, by_label=ask == "labels")

    def _choose(
        self, candidates: Candidates, people: People, pending: tuple[list[str], Ints], shares: _Shares, limits: _Limits
    ) -> dict[str, list[Assignment]]:
        """Pairs by purpose: known labels, then check votes, then the largest gains."""
        chosen: dict[str, list[Assignment]] = {"gold": [], "check": [], "gain": []}
        n_left, budget = limits.n_pairs, limits.budget
        unit = len(self.classes_) if limits.by_label else 1  # price of all classes
        for purpose, share in (("gold", shares.gold), ("check", shares.check)):
            if share > 0.0 and n_left:
                priced = replace(candidates, price=candidates.price * unit) if unit > 1 else candidates
                choose = self._gold_pairs if purpose == "gold" else self._check_pairs
                n_new = int(min(n_left, budget // float(candidates.price.min()))) if np.isfinite(budget) else n_left
                chosen[purpose] = choose(priced, people, pending, share, min(n_new, NO_LIMIT), budget)
                candidates = without_pairs(candidates, chosen[purpose])
                n_left -= len(chosen[purpose])
                budget -= sum(pair.price for pair in chosen[purpose])
        if shares.check > 0.0:  # the policy neither assigns check votes nor sees them
            allowed = candidates.may_judge & ~self._check_pair_mask(people, shares.check)
            check, probs = self._check_votes(shares.check), candidates.label_probs.copy()
            is_unknown = self._kept_record().known[check.docs] < 0
            probs[check.docs] = np.where(is_unknown, check.label_probs, probs[check.docs])
            candidates = replace(candidates, may_judge=allowed, label_probs=probs)
        if n_left:
            typical = self._typical_votes()
            chosen["gain"] = choose_pairs(candidates, typical, n_left, budget, by_label=limits.by_label)
        return chosen

    def _check_pair_mask(self, people: People, share: float) -> NDArray[np.bool_]:
        """(people, documents): pairs whose votes are check votes."""
        hashes = self._doc_hashes()
        is_check = check_documents(hashes, share)
        mask = np.zeros((len(people.names), len(hashes)), dtype=bool)
        mask[:, is_check] = is_check_pair(hashes[is_check], name_hashes(people.names, "annotator")[:, None])
        return mask

    def _check_pairs(
        self,
        candidates: Candidates,
        people: People,
        pending: tuple[list[str], Ints],
        share: float,
        n_new: int,
        budget: float,
    ) -> list[Assignment]:
        record, hashes = self._kept_record(), self._doc_hashes()
        looks = record.votes.looks()
        given = check_looks(looks, hashes, name_hashes(self.annotators_, "annotator"), share)
        names, docs = pending
        waiting = check_documents(hashes, share)[docs] & is_check_pair(hashes[docs], name_hashes(names, "annotator"))
        n_looks = np.bincount(np.concatenate((given[:, 0], docs[waiting])), minlength=len(hashes))
        n_existing = len(given) + int(waiting.sum())
        n_pairs = n_due(share, len(looks) + len(docs) + n_new, n_existing, n_new)
        if not n_pairs:
            return []
        order = np.random.default_rng(len(looks)).random(candidates.price.shape)
        return choose_check_pairs(candidates, self._check_pair_mask(people, share), n_looks, order, n_pairs, budget)

    def _gold_pairs(
        self,
        candidates: Candidates,
        people: People,
        pending: tuple[list[str], Ints],
        share: float,
        n_new: int,
        budget: float,
    ) -> list[Assignment]:
        record = self._kept_record()
        is_gold = np.asarray((record.known >= 0).any(axis=1))
        n_present = np.asarray((record.known == 1).sum(axis=1))
        looks = record.votes.looks()
        on_gold = np.concatenate((looks[is_gold[looks[:, 0]], 0], pending[1][is_gold[pending[1]]]))
        n_pairs = n_due(share, len(looks) + len(pending[1]) + n_new, len(on_gold), n_new)
        if not n_pairs:
            return []
        n_looks = np.bincount(on_gold, minlength=len(is_gold))
        return choose_gold_pairs(candidates, is_gold, n_present, n_looks, self._doubt(people), n_pairs, budget)

    def _doubt(self, people: People) -> Array:
        """(people,): width of the interval of an annotator's informedness; infinite for newcomers."""
        summary = summarize_annotators(*self._reported)
        width = np.where(summary.n_votes > 0, summary.informedness_high - summary.informedness_low, np.inf)
        return np.append(width, np.inf)[people.positions]

    def _pairs(self, pending: Any, exclude: Any) -> dict[str, tuple[list[str], Ints]]:
        given = {"pending": pending, "exclude": exclude}
        return {kind: parse_pairs(pairs, kind, self._doc_positions()) for kind, pairs in given.items()}

    def _assignment_table(
        self, chosen: dict[str, list[Assignment]], people: People, shares: _Shares, *, by_label: bool
    ) -> pd.DataFrame:
        import pandas as pd

        pairs = [pair for some in chosen.values() for pair in some]
        docs = np.array([pair.doc for pair in pairs], dtype=np.int64)
        table: dict[str, Any] = {
            "annotator": np.array([people.names[pair.annotator] for pair in pairs], dtype=object),
            "doc": self.doc_ids_[docs],
            "gain": np.array([pair.gain for pair in pairs], dtype=np.float64),
            "price": np.array([pair.price for pair in pairs], dtype=np.float64),
        }
        if by_label:
            every = slice(None)
            table["labels"] = [
                self.classes_[every if pair.classes is None else pair.classes].tolist() for pair in pairs
            ]
        if any(shares):
            purposes = [purpose for purpose, some in chosen.items() for _ in some]
            table["purpose"] = np.array(purposes, dtype=object)
        return pd.DataFrame(table)

    def _candidates(
        self, people: People, price: Any, room: Ints, max_looks: int, pairs: dict[str, tuple[list[str], Ints]]
    ) -> Candidates:
        """All pairs of the people and the documents, with what rules some of them out."""
        record = self._kept_record()
        n_docs, n_known = len(self.doc_ids_), len(self.annotators_)
        looks = record.votes.looks()
        group = np.append(self._sources.group_of, np.full(len(people.names), -1))[people.positions]
        new = people.positions < 0
        group[new] = n_known + np.flatnonzero(new)
        groups, number = np.unique(group, return_inverse=True)
        free = np.ones((len(groups) + 1, n_docs), dtype=bool)  # the last row is for everybody else
        number_of = np.full(n_known + len(people.names), len(groups))
        number_of[groups] = np.arange(len(groups))
        free[number_of[self._sources.group_of[looks[:, 1]]], looks[:, 0]] = False
        row_of = {name: row for row, name in enumerate(people.names)}
        own = np.bincount(looks[:, 1], minlength=n_known + 1)[people.positions]
        own[new] = 0
        for names, docs in pairs.values():
            rows = np.array([row_of.get(name, -1) for name in names], dtype=np.int64)
            free[np.append(number, len(groups))[rows], docs] = False
        names, pending_docs = pairs["pending"]
        for name in names:
            if name in row_of:
                own[row_of[name]] += 1
        pending = np.bincount(pending_docs, minlength=n_docs)
        return Candidates(
            self.consensus_,
            pending,
            max_looks - np.bincount(looks[:, 0], minlength=n_docs) - pending,
            self._annotator_rates(people.positions),
            group,
            room - own,
            parse_prices(price, people, record.n_tokens),
            free[number],
            self._vote_profiles,
            self._vote_worth(),
        )

    def _vote_worth(self) -> Array | None:
        """(documents, classes): what one more vote tells, as a share of what it tells if votes are independent."""
        if not isinstance(self._belief, SupportBelief) or self.consensus_.size > _MAX_WORTH_LABELS:
            return None
        average = typical_rates(self._belief, self._vote_counts, len(self.classes_))
        here, elsewhere = (expected_gain(self.consensus_, rates) for rates in (self._typical_rates(), average))
        return np.clip(here / np.maximum(elsewhere, _MIN_GAIN), 0.0, 1.0)
