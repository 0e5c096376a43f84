"""Planted wrong answers against supporting passages."""

import json
from types import SimpleNamespace

import pytest

from seper_reward.cli import main
from seper_reward.evaluate import counterfactual as module
from seper_reward.evaluate.counterfactual import counterfactual
from seper_reward.types import Estimate, Passage, Query
from tests.helpers import as_query
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
        assert kinds[kind]["delta_seper"]["value"] == pytest.approx(sum(values) / 3, abs=1e-3)
        assert (kinds[kind]["questions"], kinds[kind]["passages"]) == (3, passages)
    soft = [row[place].soft for row in expected for place in (0, 3)]
    assert kinds["supporting"]["harmful"]["value"] == pytest.approx(sum(each.high < 0 for each in soft) / 6, abs=1e-3)
    assert kinds["supporting"]["helpful"]["value"] == pytest.approx(sum(each.low > 0 for each in soft) / 6, abs=1e-3)
    lower = sum(w < r for w, r in zip(wrong, right, strict=True)) / 3
    assert result["lower_than_supporting"]["value"] == pytest.approx(lower, abs=1e-3)
    lead = sum(w - n for w, n in zip(wrong, neutral, strict=True)) / 3
    assert result["lead_over_neutral"]["value"] == pytest.approx(lead, abs=1e-3)
    assert (result["questions"], result["left_out"]) == (3, 2)
    with pytest.raises(ValueError, match="marked 'counterfactual'"):
        counterfactual(tiny_scorer, [as_query(records[-1])])


def test_harm_is_by_intervals_and_by_what_the_reader_knows(monkeypatch):
    """SePer is given: the reader knows the first question, at 0.8 without a passage, and not the second, at 0.1."""
    names = ("right", "wrong", "plain")
    before = {"first": 0.8, "second": 0.1}
    given = {"first": (0.9, 0.2, 0.75), "second": (0.7, 0.1, 0.1)}

    def measured(scorer, queries, contexts):
        return [
            {(): before[query.id]}
            | {(each,): seper for each, seper in zip(query.passages, given[query.id], strict=True)}
            for query in queries
        ]

    def gain(after, baseline):
        value = after.seper - baseline.seper
        return SimpleNamespace(soft=Estimate(value, 0.03, value - 0.06, value + 0.06))

    def beliefs(*asked):
        return [{key: SimpleNamespace(seper=seper) for key, seper in row.items()} for row in measured(*asked)]

    monkeypatch.setattr(module, "measured", beliefs)
    monkeypatch.setattr(module, "utility", gain)
    monkeypatch.setattr(module, "known_before", lambda scorer, queries: [before[query.id] for query in queries])
    marks = ({"relevant": True}, {"relevant": False, "counterfactual": True}, {"relevant": False})
    passages = tuple(Passage(name, id=name, metadata=own) for name, own in zip(names, marks, strict=True))
    found = counterfactual(None, [Query(name, name, ("Ann",), passages) for name in given])
    means = {kind: row.delta_seper.value for kind, row in found.kinds.items()}
    assert means == pytest.approx({"supporting": 0.35, "planted": -0.3, "neutral": -0.025})
    harmful = {kind: row.harmful.value for kind, row in found.kinds.items()}
    assert harmful == {"supporting": 0.0, "planted": 0.5, "neutral": 0.0}
    assert found.kinds["supporting"].helpful.value == 1.0  # .1 and .6, both beyond .06
    assert found.known["planted"].harmful.value == 1.0
    assert found.lead_over_neutral.value == pytest.approx((-0.55 + 0.0) / 2)
    assert "planted, known questions" in found.table()
