"""Embedding models of a few words, built from nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WORDS = ["ship", "ships", "wheat", "harvest", "port", "rain", "goal", "match", "team", "vote"]
WIDTH = 4


def save_static_model(folder: Path, seed: int = 0, width: int = WIDTH) -> Path:
    """Save a model of model2vec with one random vector per word."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: position for position, word in enumerate(["[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.random.default_rng(seed).normal(size=(len(vocabulary), width)).astype(np.float32)
    StaticModel(vectors, tokenizer).save_pretrained(folder)
    return folder
