"""The reader in this process: one prompt read once for all its samples."""
