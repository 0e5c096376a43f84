"""A small folder of an experiment with trainings."""

from pathlib import Path

import pytest
from sentence_transformers import CrossEncoder, SentenceTransformer

from seper_reward.runtime.json_files import write_lines
from tests.benchmarks.experiments import query_side, rerankers

TEXTS = ("Sheep graze on the hill.", "Ann saw the house.", "The house was blue.", "Fog is on the lake.")
SETS = {"learnt": "popqa", "tested": "popqa", "of NQ": "nq_oracle_bm25neg"}


@pytest.fixture
def frame(tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> query_side.Frame:
    """Corpus, candidates and questions in ``tmp_path``; tiny models, and one seed."""
    for module in (query_side, rerankers):
        monkeypatch.setattr(module, "load_encoder", lambda *_: SentenceTransformer(str(tiny_encoder), device="cpu"))
    monkeypatch.setattr(
        rerankers, "load_cross_encoder", lambda *_: CrossEncoder(str(tiny_encoder), num_labels=1, device="cpu")
    )
    monkeypatch.setattr(query_side, "SEEDS", (0,))
    write_lines(tmp_path / "corpus.jsonl", [{"id": str(at), "text": text} for at, text in enumerate(TEXTS)])
    marks = [{"id": "1", "relevant": True}]
    rows = [
        {"id": name, "question": "Who saw it?", "answers": ["Ann"], "passages": marks, "set": of_set}
        for name, of_set in SETS.items()
    ]
    write_lines(tmp_path / "questions.jsonl", rows)
    candidates = [{"text": text, "relevant": at == 1} for at, text in enumerate(TEXTS)]
    write_lines(tmp_path / "candidates.jsonl", [{**rows[0], "passages": candidates}])
    return query_side.Frame(tmp_path)
