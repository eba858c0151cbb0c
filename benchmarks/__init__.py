"""Comparisons with other software, in one run on one machine; results are printed, not stored."""
