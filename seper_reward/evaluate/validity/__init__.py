"""Is ΔSePer the number it should be: people's marks, chance, judges, prompts, readers."""
