"""Training data and scores of the two adapters that ship."""
