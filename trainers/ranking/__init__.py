"""What retriever and reranker recipes share: questions, candidates, labels, losses, comparison."""
