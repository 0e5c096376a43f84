"""Trainings of rerankers: their questions, rankings and files."""

import pytest
from sentence_transformers import CrossEncoder, SentenceTransformer

from seper_reward.runtime.json_files import read_json, write_lines
from tests.benchmarks.experiments import query_side, rerankers
from tests.benchmarks.experiments.query_side import UNTRAINED, Frame

TEXTS = ("Sheep graze on the hill.", "Ann saw the house.", "The house was blue.", "Fog is on the lake.")


@pytest.fixture
def frame(tmp_path, tiny_encoder, monkeypatch):
    for module in (query_side, rerankers):
        monkeypatch.setattr(module, "load_encoder", lambda *_: SentenceTransformer(str(tiny_encoder), device="cpu"))
    monkeypatch.setattr(
        rerankers, "load_cross_encoder", lambda *_: CrossEncoder(str(tiny_encoder), num_labels=1, device="cpu")
    )
    monkeypatch.setattr(query_side, "SEEDS", (0,))
    write_lines(tmp_path / "corpus.jsonl", [{"id": str(at), "text": text} for at, text in enumerate(TEXTS)])
    marks = [{"id": "1", "relevant": True}]
    rows = [
        {"id": name, "question": f"Who saw {name}?", "answers": ["Ann"], "passages": marks, "set": of_set}
        for name, of_set in [("taught", "popqa"), ("tested", "popqa"), ("of NQ", "nq_oracle_bm25neg")]
    ]
    write_lines(tmp_path / "questions.jsonl", rows)
    candidates = [{"text": text, "relevant": at == 1} for at, text in enumerate(TEXTS)]
    write_lines(tmp_path / "candidates.jsonl", [{**rows[0], "passages": candidates}])
    return Frame(tmp_path)


def test_other_questions_of_the_sets_are_ordered_and_finished_trainings_kept(frame, tmp_path, capsys):
    rerankers.train_all(frame, tmp_path, ["human labels"])
    before, after = (
        read_json(tmp_path / rerankers.TRAINED / f"{name}-0.json")["questions"] for name in (UNTRAINED, "human labels")
    )
    first = frame.rank(rerankers.load_encoder("embedded", 128), ["Who saw tested?"], rerankers.FIRST)
    assert [question["id"] for question in (*before, *after)] == ["tested"] * 2
    assert before[0]["passages"] == [passage.id for passage in first[0]]
    assert sorted(after[0]["passages"]) == ["0", "1", "2", "3"]
    assert after[0]["mrr"] == 1 / (after[0]["passages"].index("1") + 1)
    capsys.readouterr()
    rerankers.train_all(frame, tmp_path, ["human labels"])
    assert capsys.readouterr().out == ""
