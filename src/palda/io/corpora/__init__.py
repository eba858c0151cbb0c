"""Public corpora: ARFF, Reuters-21578, and the catalog of named data sets."""
