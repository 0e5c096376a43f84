"""What makes the two adapters that ship: their training data and their scores."""
