"""The commands, by what they are for; each file holds their settings and what they do."""
