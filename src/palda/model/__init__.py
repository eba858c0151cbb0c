"""The mathematics: pure functions over small frozen dataclasses; no files, no threads, no hidden randomness."""
