"""Experiments: which labels train the better retriever, and whether to use a passage at all (docs/results.md)."""
