"""Versions of installed packages, for files that record what they were made with."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata


@lru_cache
def package_version(package: str) -> str:
    """Version of an installed package; empty if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
