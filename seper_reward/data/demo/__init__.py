"""The bundled corpus, questions, verdicts on responses, wordings of answers, and trained adapters."""

from pathlib import Path

CORPUS = Path(__file__).with_name("corpus.jsonl")
QUESTIONS = Path(__file__).with_name("questions.jsonl")
EQUIVALENCE = Path(__file__).with_name("equivalence.jsonl")
WORDINGS = Path(__file__).with_name("wordings.jsonl")
ENTAILMENT_ADAPTER = Path(__file__).with_name("entailment_adapter")
READER_ADAPTER = Path(__file__).with_name("reader_adapter")
