"""Consensus, annotator quality, a classifier and topics from multi-label data labelled by a noisy crowd."""
