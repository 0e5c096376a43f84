"""Processes, memory, time and disk; knows nothing of SePer."""
