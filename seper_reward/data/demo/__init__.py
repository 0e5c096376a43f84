"""The project's own corpus and questions, and the adapters it trained."""

from pathlib import Path

CORPUS = Path(__file__).with_name("corpus.jsonl")
QUESTIONS = Path(__file__).with_name("questions.jsonl")
EQUIVALENCE = Path(__file__).with_name("equivalence.jsonl")
