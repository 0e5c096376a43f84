"""What a person looks at: tables, plots, and W&B."""
