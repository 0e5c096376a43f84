"""Experiments: which labels train the better retriever (docs/results.md)."""
