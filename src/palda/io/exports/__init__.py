"""Exports of labelling platforms, one platform per file."""
