"""Evaluations: agreement of ΔSePer with people's marks, and the quality of retrievers, judges and searches."""
