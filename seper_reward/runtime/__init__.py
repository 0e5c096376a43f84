"""Processes, memory, time and disk; independent of SePer."""
