"""Draw newsroom.svg: ``python docs/pictures/newsroom.py``."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from palda import metrics
from palda.cli.commands.demo import run_demo

MAJORITY, PALDA, ADVERSARIAL = "#9a9a9a", "#1f5fa8", "#c2452d"


def main() -> None:
    """Left: F1 per class of majority vote and consensus. Right: estimated against true quality of each annotator."""
    mpl.rcParams.update(
        {"svg.hashsalt": "palda", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    result = run_demo()
    estimated = result.model.annotator_quality_["quality"].to_numpy()
    truth, classes = result.news.labels, result.news.classes
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained", width_ratios=(1.25, 1))
    place = np.arange(len(classes))
    for shift, name, probs, colour in (
        (0.2, "majority vote", result.majority, MAJORITY),
        (-0.2, "palda", result.model.consensus_, PALDA),
    ):
        f1 = metrics.per_class(truth, predictions=(probs > 0.5).astype(int)).f1
        overall = metrics.micro_f1(truth, probs > 0.5)
        left.barh(place + shift, f1, 0.38, color=colour, label=f"{name}: micro-F1 {overall:.2f}")
    left.set(yticks=place, yticklabels=classes, xlim=(0, 1), xlabel="F1 of the labels against the truth")
    left.invert_yaxis()
    left.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2, frameon=False)
    quality = result.annotators.quality
    adversarial = quality < 0.5
    honest = ~adversarial
    right.plot([0, 1], [0, 1], color="#cccccc", zorder=0)
    right.scatter(quality[honest], estimated[honest], s=26, color=PALDA, label="honest")
    right.scatter(
        quality[adversarial], estimated[adversarial], s=30, color=ADVERSARIAL, marker="^", label="adversarial"
    )
    right.set(xlabel="true quality of an annotator", ylabel="estimated quality", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    right.set_aspect("equal")
    right.legend(loc="upper left", frameon=False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
