"""Output for people: tables, plots, an HTML page, and trackers such as W&B."""
