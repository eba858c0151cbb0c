"""The learner: keeps consensus, annotators and assignments of projects up to date, in a process of its own."""

from __future__ import annotations
