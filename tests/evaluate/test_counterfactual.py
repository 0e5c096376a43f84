"""Planted wrong answers against supporting passages."""

import json

import pytest

from seper_reward.cli import main
from seper_reward.data.queries import as_query
from seper_reward.evaluate.counterfactual import counterfactual
from tests.helpers import evaluation_arguments as arguments

RECORD = {
    "question": "Who?",
    "answers": ["Ann"],
    "passages": [{"id": str(n), "text": f"text {n}", "relevant": n in (1, 3)} for n in range(5)],
}


def test_planted_answers_are_compared_with_supporting_ones(tiny_reader, tiny_entailment, tiny_scorer, tmp_path):
    passages = [
        {"id": "a", "text": "one", "relevant": True},
        {"id": "b", "text": "two", "relevant": False, "counterfactual": True},
        {"id": "c", "text": "three", "relevant": False},
        {"id": "d", "text": "four", "relevant": True},
    ]
    records = [{**RECORD, "id": f"q{n}", "question": f"Who {n}?", "passages": passages} for n in range(3)]
    records.append({**RECORD, "id": "q9", "passages": passages[2:]})
    records.append({**RECORD, "id": "long", "question": "why " * 600, "passages": passages})
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    words = ["evaluate", "counterfactual"]
    words += arguments(tiny_reader, tiny_entailment, tmp_path / "qa.jsonl", tmp_path / "out.json")
    assert main(words) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    expected = [tiny_scorer.utilities([as_query(record)])[0] for record in records[:3]]
    right = [(row[0].delta_seper + row[3].delta_seper) / 2 for row in expected]
    wrong = [row[1].delta_seper for row in expected]
    assert result["delta_seper"]["supporting"] == pytest.approx(sum(right) / 3, abs=1e-3)
    assert result["delta_seper"]["counterfactual"] == pytest.approx(sum(wrong) / 3, abs=1e-3)
    assert result["share_lower"] == pytest.approx(sum(w < r for w, r in zip(wrong, right, strict=True)) / 3, abs=1e-3)
    assert (result["questions"], result["left_out"]) == (3, 2)
    with pytest.raises(ValueError, match="marked 'counterfactual'"):
        counterfactual(tiny_scorer, [as_query(records[-1])])
