"""What a person looks at: tables, figures, and W&B."""
