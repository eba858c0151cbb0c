"""Whether gains are right as numbers: expected fall of wrong labels by further votes, against the fall that they bring.

Every document of a simulated project gets 1, 3 or 6 further votes by random annotators who have not judged it. The
expected fall is that of one vote of this annotator, or of several typical votes (maths, eqs. 91, 96 and 97): with
independent classes, and with label-set profiles.
The real fall is that of the expected number of wrong labels when the votes have come in, and of the true number. Rates
and evidence of the words stay as they are. Needs the public data sets in $PALDA_DATA.
"""

# ruff: noqa: SLF001 - the parts of a fitted model

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.adaptive import POLICIES, STEP, project_of
from palda.models.assignment import document_gains, expected_wrong, profile_factors, wrong_in_sets
from palda.models.crowd import CrowdState, ProfilePrior, label_posterior
from palda.planning import Requests, Schedule, WordsAggregator, run_project
from palda.planning.projects import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda import CrowdPALDA, Votes
    from palda.data import Array
    from palda.planning import LabellingProject

SETS, BUDGETS, N_VOTES, REPEATS = ("reuters", "newsroom", "yeast", "enron"), (0.5, 1.0, 2.0), (1, 3, 6), 2


def fitted_models(project: LabellingProject) -> list[CrowdPALDA]:
    """Models at the budgets after the first, with documents chosen by ``assign``."""
    fitted: list[CrowdPALDA] = []
    fit = WordsAggregator(seed=0, n_jobs=1)

    def fit_and_keep(counts: object, votes: Votes) -> CrowdPALDA:
        model = fit(counts, votes)
        fitted.append(copy.deepcopy(model))  # the project goes on to update its own
        return model

    run_project(project, POLICIES["assign"], Schedule(BUDGETS, STEP), fit_and_keep)
    return fitted[1:]


def labels_after(model: CrowdPALDA, votes: Votes) -> Array:
    """Δ under the votes, with the rates and the evidence of the model."""
    record, n_classes = model._kept_record(), len(model.classes_)
    state = CrowdState(model._belief, model._vote_profiles, ProfilePrior.vague(n_classes))
    evidence = record.evidence.astype(np.float64)
    return label_posterior(model._sources.convert(votes), record.known, state, model._vote_settings(), evidence)


def further_looks(seen: NDArray[np.bool_], n_votes: int, seed: int) -> Requests:
    """So many random annotators for every document."""
    order = np.argsort(np.random.default_rng(seed).random(seen.shape) + seen, axis=1)
    return Requests(order[:, :n_votes].ravel(), np.repeat(np.arange(len(seen)), n_votes))


def expected_falls(model: CrowdPALDA, probs: Array, looks: list[Requests], n_votes: int) -> tuple[float, float]:
    """With independent classes and with profiles; one vote has the rates of its annotator, several are typical."""
    typical, profiles = model._typical_votes(), model._vote_profiles
    if n_votes > 1:
        now = expected_wrong(probs, typical).sum()
        in_sets = wrong_in_sets(probs, profiles, typical, np.full(len(probs), n_votes))
        return now - expected_wrong(probs, typical, n_votes).sum(), now - in_sets.sum()
    none = np.zeros(len(probs), dtype=np.int64)
    gains = document_gains(probs, model._annotator_rates(np.arange(len(model.annotators_))), typical, none, 1)
    factors = profile_factors(probs, profiles, typical, none)
    falls = np.mean([gains[some.annotator, some.doc] for some in looks], axis=0)
    return falls.sum(), (falls * factors).sum()


def print_falls(name: str, project: LabellingProject, model: CrowdPALDA) -> None:
    votes, truth = model.current_votes(), project.labels
    before = labels_after(model, votes)
    seen = np.zeros((project.n_docs, len(project.annotators)), dtype=bool)
    seen[votes.doc, votes.annotator] = True
    now, wrong_now = np.minimum(before, 1.0 - before).sum(), ((before >= 0.5) != truth).sum()
    for n_votes in N_VOTES:
        looks = [further_looks(seen, n_votes, seed) for seed in range(REPEATS)]
        alone, in_sets = expected_falls(model, before, looks, n_votes)
        after = [labels_after(model, joined(votes, project.answers(some))) for some in looks]
        real = now - np.mean([np.minimum(probs, 1.0 - probs).sum() for probs in after])
        true = wrong_now - np.mean([((probs >= 0.5) != truth).sum() for probs in after])
        print(
            f"| {name} | {len(votes) / truth.size:.1f} | {n_votes} | {now:.0f} | {alone:.0f} | {in_sets:.0f} "
            f"| {real:.0f} | {true:.0f} | {in_sets / real:.2f} |",
            flush=True,
        )


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| | votes per document | further votes | wrong | fall, independent | with profiles | real | true | ratio |")
    print("|---" * 9 + "|")
    for name in SETS:
        project = project_of(name, "paper", 0)
        for model in fitted_models(project):
            print_falls(name, project, model)


if __name__ == "__main__":
    main()
