"""The reader in this process: each prompt is read once for all its samples."""
