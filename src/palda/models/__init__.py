"""The mathematics: pure functions over small frozen dataclasses. No files, no data frames, no threads of their own."""
