"""What a person looks at: tables, plots, a page, and W&B."""
