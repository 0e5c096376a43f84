"""The bundled corpus, questions, and trained adapters."""

from pathlib import Path

CORPUS = Path(__file__).with_name("corpus.jsonl")
QUESTIONS = Path(__file__).with_name("questions.jsonl")
ENTAILMENT_ADAPTER = Path(__file__).with_name("entailment_adapter")
READER_ADAPTER = Path(__file__).with_name("reader_adapter")
