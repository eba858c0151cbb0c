"""Simulated documents, annotators and votes, for tests, examples and planning."""

from __future__ import annotations

from palda.simulate.annotator_sampling import PROFILES, SimulatedAnnotators, annotators
from palda.simulate.confidence_sampling import confidences
from palda.simulate.copy_sampling import clones, siblings
from palda.simulate.document_sampling import DocumentModel, SimulatedDocuments, documents
from palda.simulate.drift_sampling import drifting_votes
from palda.simulate.feature_sampling import FeaturedDocuments, featured_documents
from palda.simulate.judgement_sampling import judgements
from palda.simulate.newsroom_example import newsroom
from palda.simulate.vote_sampling import crowd, votes

__all__ = [
    "PROFILES",
    "DocumentModel",
    "FeaturedDocuments",
    "SimulatedAnnotators",
    "SimulatedDocuments",
    "annotators",
    "clones",
    "confidences",
    "crowd",
    "documents",
    "drifting_votes",
    "featured_documents",
    "judgements",
    "newsroom",
    "siblings",
    "votes",
]
