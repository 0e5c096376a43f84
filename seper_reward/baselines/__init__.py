"""The papers' comparisons, a file each: SePer's own tables, and methods of others next to ΔSePer."""
