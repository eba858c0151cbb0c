"""Side-by-side ratios against peers, in one run on one machine; results are printed, not kept."""
