"""Input: rows of files, checked queries, answers, and the demo corpus."""
