"""Credit per step by hand, with scripted beliefs, and the whole command."""

import json
from dataclasses import asdict

import pytest

from seper_reward import SePerScorer
from seper_reward.baselines.iterative import WorkflowOptions
from seper_reward.baselines.workflows import (
    compare_workflows,
)
from seper_reward.cli import main
from seper_reward.types import Passage, Query
from tests.evaluate.stubs import Given, StubScorer
from tests.helpers import ScriptedModel, ScriptedSampler
from tests.helpers import evaluation_arguments as arguments

A, B = Passage("Ida owns it.", id="a"), Passage("Fog.", id="b")
QUERIES = [Query("q1", "One?", ("Ida",)), Query("q2", "Two?", ("Bob",)), Query("q3", "why " * 3000, ("x",))]
FOUND = {"One?": (A,), "One? Ida": (A, B), "Two?": (B,), "Two? Fog": (A,)}
SEPER = {  # by question, then what the reader sees
    "One?": {(): 0.2, ("a",): 0.7, ("a", "b"): 0.6},
    "Two?": {(): 0.5, ("b",): 0.1, ("a",): 0.3},
}


@pytest.fixture
def scorer(tiny_sampler, tiny_judge):
    def reply(prompt):
        return "Ida" if "Ida owns" in prompt else "Fog" if "Fog" in prompt else "Bob"

    scripted = SePerScorer(ScriptedSampler(tiny_sampler.tokenizer, reply), tiny_judge, prompt="brief")
    scripted.measure = StubScorer(
        tiny_sampler.tokenizer, lambda question, ids: SEPER.get(question, {}).get(ids)
    ).measure
    # as the tiny judge would not: the passage that names Ida entails her
    scripted.entailment = ScriptedModel(lambda pair: float("Ida" in pair.premise and pair.hypothesis == "Ida"))
    return scripted


def test_compare_workflows_by_hand(scorer):
    names = ["closed_book", "retrieve", "ret_robust", "iter_retgen"]
    options = WorkflowOptions(max_searches=2)
    result = asdict(compare_workflows(scorer, QUERIES, Given(FOUND), names, options))
    assert (result["questions"], result["left_out"]) == (2, 1)
    assert result["baseline_seper"] == pytest.approx(0.35)
    found = result["workflows"]
    means = {
        name: {key: found[name][key]["value"] for key in ("accuracy", "delta_seper", "searches")} for name in found
    }
    assert means == {
        "closed_book": {"accuracy": 0.5, "delta_seper": 0.0, "searches": 0.0},
        "retrieve": {"accuracy": 0.5, "delta_seper": pytest.approx((0.5 - 0.4) / 2), "searches": 1.0},
        # the fog entails nothing: it is put away, and the reader knows the second answer itself
        "ret_robust": {"accuracy": 1.0, "delta_seper": pytest.approx((0.5 + 0.0) / 2), "searches": 1.0},
        "iter_retgen": {"accuracy": 0.5, "delta_seper": pytest.approx((0.4 - 0.2) / 2), "searches": 2.0},
    }
    first, refused = found["ret_robust"]["steps"]
    assert (first["share"], first["refused"], first["gain"]["value"]) == (1.0, 0.0, pytest.approx(0.05))
    assert (refused["share"], refused["refused"], refused["gain"]["value"]) == (0.5, 1.0, pytest.approx(0.4 / 2))
    for row in found.values():
        assert sum(step["gain"]["value"] for step in row["steps"]) == pytest.approx(row["delta_seper"]["value"])
    assert found["closed_book"]["per_search"] is None
    assert found["iter_retgen"]["per_search"] == pytest.approx(0.2 / 4)
    assert found["retrieve"]["lead"] is None
    assert found["ret_robust"]["lead"]["accuracy"]["value"] == 0.5
    assert found["ret_robust"]["lead"]["delta_seper"]["value"] == pytest.approx(0.2)
    assert 0 < found["closed_book"]["tokens"]["value"] < found["retrieve"]["tokens"]["value"]
    told = result["traces"][1]["ret_robust"]
    assert (told["answer"], told["right"]) == ("Bob", 1.0)
    assert [(step["did"], step["passages"], step["gain"]) for step in told["steps"]] == [
        ("search", ["b"], -0.4), ("refuse", [], 0.4),
    ]  # fmt: skip


def test_compare_workflows_refuses_bad_input(scorer):
    with pytest.raises(ValueError, match=r"workflows must be of closed_book, .*, got 'x'"):
        compare_workflows(scorer, QUERIES, Given(FOUND), ["retrieve", "x"])
    with pytest.raises(ValueError, match="expected workflows and questions, got 1 and 0 short enough"):
        compare_workflows(scorer, QUERIES[2:], Given(FOUND), ["retrieve"])
    with pytest.raises(ValueError, match="expected workflows and questions, got 0 and 1 short enough"):
        compare_workflows(scorer, QUERIES[:1], Given(FOUND), [])


def test_workflows_command(tiny_reader, tiny_entailment, lane_questions, tmp_path, capsys):
    words = arguments(tiny_reader, tiny_entailment, lane_questions, tmp_path / "out.json")
    words += ["--limit", "3", "--max_searches", "2", "--plot", str(tmp_path / "searches.svg"), "--top_k", "2"]
    words += ["--cache", str(tmp_path / "cache.sqlite")]
    assert main(["baseline", "workflows", *words]) == 0
    out = capsys.readouterr().out
    assert out.startswith("3 questions, SePer without a passage 0.")
    assert "| iter_retgen " in out
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["workflows"]["iter_retgen"]["searches"]["value"] == 2.0
    for row in result["workflows"].values():
        total = sum(step["gain"]["value"] for step in row["steps"])
        assert total == pytest.approx(row["delta_seper"]["value"], abs=5e-4)
    assert (tmp_path / "searches.svg").read_text().startswith("<?xml")
    assert main(["baseline", "workflows", *words]) == 0
    assert json.loads((tmp_path / "out.json").read_text()) == result  # tokens, too, though the cache knew all
