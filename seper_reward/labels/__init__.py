"""From queries to graded labels on disk, and to the datasets that trainers read."""
