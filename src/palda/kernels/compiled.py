"""The kernels compiled: the same functions as in reference.py. Signals such as Ctrl-C wait until they have returned."""

from palda.kernels import (
    answers,
    changes,
    explaining_away,
    logistic,
    lookahead,
    lookahead_profiles,
    profiles,
    support,
    traits,
)
from palda.kernels import joint as joint_kernel
from palda.kernels import mean_field as mean_field_kernel
from palda.kernels.signal_safety import signal_safe

add_word_scores = signal_safe(logistic.add_word_scores)
answer_sums = signal_safe(answers.answer_sums)
explain_away = signal_safe(explaining_away.explain_away)
joint = signal_safe(joint_kernel.joint)
label_gains = signal_safe(lookahead.label_gains)
label_sets = signal_safe(profiles.label_sets)
lbfgs_direction = signal_safe(logistic.lbfgs_direction)
logistic_pass = signal_safe(logistic.logistic_pass)
mean_field = signal_safe(mean_field_kernel.mean_field)
n_orders_above = signal_safe(changes.n_orders_above)
platt_sums = signal_safe(logistic.platt_sums)
robust_centres = signal_safe(traits.robust_centres)
support_counts = signal_safe(support.support_counts)
support_evidence = signal_safe(support.support_evidence)
support_likelihoods = signal_safe(support.support_likelihoods)
support_step = signal_safe(support.support_step)
trait_sums = signal_safe(traits.trait_sums)
vote_gains = signal_safe(lookahead.vote_gains)
votes_by_label = signal_safe(support.votes_by_label)
wrong_in_sets = signal_safe(lookahead_profiles.wrong_in_sets)
wrong_labels = signal_safe(lookahead.wrong_labels)

__all__ = [
    "add_word_scores",
    "answer_sums",
    "explain_away",
    "joint",
    "label_gains",
    "label_sets",
    "lbfgs_direction",
    "logistic_pass",
    "mean_field",
    "n_orders_above",
    "platt_sums",
    "robust_centres",
    "support_counts",
    "support_evidence",
    "support_likelihoods",
    "support_step",
    "trait_sums",
    "vote_gains",
    "votes_by_label",
    "wrong_in_sets",
    "wrong_labels",
]
