"""Simulated documents, annotators and votes, for tests, examples and planning."""

from __future__ import annotations

from palda.simulate.annotator_sampling import PROFILES, SimulatedAnnotators, annotators
from palda.simulate.crowds import crowd, documents, newsroom, votes
from palda.simulate.document_sampling import DocumentModel, SimulatedDocuments

__all__ = [
    "PROFILES",
    "DocumentModel",
    "SimulatedAnnotators",
    "SimulatedDocuments",
    "annotators",
    "crowd",
    "documents",
    "newsroom",
    "votes",
]
