"""The reader in this process: each prompt is prefilled once for all its samples."""
