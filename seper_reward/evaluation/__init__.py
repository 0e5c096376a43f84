"""Does ΔSePer agree with people, and how good is a ranking? Measures, beside their rivals."""
