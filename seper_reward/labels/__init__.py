"""From queries to graded labels on disk, and on to what trainers read."""
