"""Modules shared by the retriever and reranker recipes: questions, candidates, labels, losses, comparison."""
