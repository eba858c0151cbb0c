"""The command line; the only package that prints results."""

from __future__ import annotations

from palda.cli.app import app, main
from palda.cli.commands.reproduce import run_experiment
from palda.cli.console import Messages, as_cli_options, program_name
from palda.cli.output import Target, labels_cell, new_file, write_records, write_table

__all__ = [
    "Messages",
    "Target",
    "app",
    "as_cli_options",
    "labels_cell",
    "main",
    "new_file",
    "program_name",
    "run_experiment",
    "write_records",
    "write_table",
]
