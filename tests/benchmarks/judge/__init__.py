"""The project's own texts to measure a judge on: traps, near values, guesses, qualifiers and wordings."""

from pathlib import Path

EQUIVALENCE = Path(__file__).with_name("equivalence.jsonl")
WORDINGS = Path(__file__).with_name("wordings.jsonl")
