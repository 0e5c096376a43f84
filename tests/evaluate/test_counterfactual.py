"""Planted wrong answers against supporting passages."""

import json
from types import SimpleNamespace

import pytest

from seper_reward.cli import main
from seper_reward.data.queries import as_query
from seper_reward.evaluate import counterfactual as module
from seper_reward.evaluate.counterfactual import counterfactual
from seper_reward.types import Estimate, Passage, Query
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
    wrong, neutral = ([row[place].delta_seper for row in expected] for place in (1, 2))
    kinds = result["kinds"]
    for kind, values, passages in (("supporting", right, 6), ("planted", wrong, 3), ("neutral", neutral, 3)):
        assert kinds[kind]["delta_seper"]["mean"] == pytest.approx(sum(values) / 3, abs=1e-3)
        assert (kinds[kind]["questions"], kinds[kind]["passages"]) == (3, passages)
    soft = [row[place].soft for row in expected for place in (0, 3)]
    assert kinds["supporting"]["harmful"]["mean"] == pytest.approx(sum(each.high < 0 for each in soft) / 6, abs=1e-3)
    assert kinds["supporting"]["helpful"]["mean"] == pytest.approx(sum(each.low > 0 for each in soft) / 6, abs=1e-3)
    lower = sum(w < r for w, r in zip(wrong, right, strict=True)) / 3
    assert result["lower_than_supporting"]["mean"] == pytest.approx(lower, abs=1e-3)
    lead = sum(w - n for w, n in zip(wrong, neutral, strict=True)) / 3
    assert result["lead_over_neutral"]["lead"] == pytest.approx(lead, abs=1e-3)
    assert result["known"] == {}  # a random reader knows nothing
    assert (result["questions"], result["left_out"]) == (3, 2)
    with pytest.raises(ValueError, match="marked 'counterfactual'"):
        counterfactual(tiny_scorer, [as_query(records[-1])])


def test_harm_is_by_intervals_and_by_what_the_reader_knows(monkeypatch):
    """Gains are given: 0.8 without a passage in the first question, which the reader knows, and 0.1 in the second."""
    given = {
        "first": {"right": 0.9, "wrong": 0.2, "plain": 0.75},
        "second": {"right": 0.7, "wrong": 0.1, "plain": 0.1},
    }
    before = {"first": 0.8, "second": 0.1}

    def belief(seper):
        return SimpleNamespace(seper=seper)

    def measured(scorer, queries, contexts):
        return [{(): belief(before[query.id]), **{(each,): belief(given[query.id][each.text]) for each in query.passages}}
                for query in queries]  # fmt: skip

    def gain(after, baseline):
        value = after.seper - baseline.seper
        return SimpleNamespace(soft=Estimate(value, 0.03, value - 0.06, value + 0.06))

    monkeypatch.setattr(module, "measured", measured)
    monkeypatch.setattr(module, "utility", gain)
    monkeypatch.setattr(module, "known_before", lambda scorer, queries: [before[query.id] for query in queries])
    marks = {
        "right": {"relevant": True},
        "wrong": {"relevant": False, "counterfactual": True},
        "plain": {"relevant": False},
    }
    passages = tuple(Passage(name, id=name, metadata=own) for name, own in marks.items())
    found = counterfactual(None, [Query(name, name, ("Ann",), passages) for name in given])
    means = {kind: row.delta_seper["mean"] for kind, row in found.kinds.items()}
    assert means == pytest.approx({"supporting": 0.35, "planted": -0.3, "neutral": -0.025})
    assert {kind: row.harmful["mean"] for kind, row in found.kinds.items()} == {
        "supporting": 0.0, "planted": 0.5, "neutral": 0.0,
    }  # fmt: skip
    assert found.kinds["supporting"].helpful["mean"] == 1.0  # .1 and .6, both beyond .06
    assert {kind: row.harmful["mean"] for kind, row in found.known.items()}["planted"] == 1.0
    assert found.lead_over_neutral["lead"] == pytest.approx((-0.55 + 0.0) / 2)
    assert "planted, known questions" in found.table()
