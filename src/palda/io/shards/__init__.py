"""Data larger than memory, as a folder of shards."""
