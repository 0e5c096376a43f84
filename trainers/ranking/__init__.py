"""What the retriever and reranker recipes share: questions, candidates, labels, losses, comparison."""
