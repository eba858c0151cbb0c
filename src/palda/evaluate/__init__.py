"""Rivals and experiments: how good palda is, measured beside what people would use instead."""
