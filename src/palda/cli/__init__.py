"""The command line; the only package that prints."""

from palda.cli.app import main

__all__ = ["main"]
