"""Ratings of passages by a language model: what is asked, read and counted."""

import json
import math

import pytest

from seper_reward.data.queries import as_query
from seper_reward.evaluate.contexts import contexts_of
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.writer import Writer
from tests.benchmarks.experiments.llm_utility import Rater, llm_utility, main
from tests.helpers import ScriptedSampler
from tests.helpers import evaluation_arguments as arguments

RECORDS = [
    {
        "id": f"q{number}",
        "question": f"Who owns mill {number}?",
        "answers": ["Ann"],
        "passages": [{"text": f"{name} owns mill {number}.", "relevant": name == "Ann"} for name in ("Ann", "Bob")],
    }
    for number in range(2)
]
QUERIES = [as_query(record) for record in RECORDS]


@pytest.fixture
def rater(tiny_sampler):
    """A model that rates Ann 9, Bob 2, and otherwise says too much."""

    def reply(prompt):
        rated = [line for line in prompt.splitlines() if line.startswith("Response: ") or " owns mill" in line][-1]
        return "9." if "Ann" in rated else "2" if "Bob" in rated else "8 of 10"

    return Rater(Writer(PromptedReader(ScriptedSampler(tiny_sampler.tokenizer, reply), prompt="brief"), 4))


def test_ratings_are_read_strictly(rater):
    assert rater.direct(QUERIES[0], contexts_of(QUERIES[0])) == [9.0, 2.0]
    ann, bob, other = rater.of_answers(QUERIES[0], ["Ann", "Bob", "Nobody"])
    assert (ann, bob) == (9.0, 2.0)
    assert math.isnan(other)


def test_costs_and_correlations(tiny_scorer, rater, monkeypatch):
    monkeypatch.setattr(rater, "of_answers", lambda query, responses: [2.0, 9.0, math.nan])
    found = llm_utility(tiny_scorer, QUERIES, rater, prompt_price=2, response_price=10)
    assert (found.questions, found.n) == (2, 4)
    direct, reduction, ours = (found.ways[name] for name in ("direct", "reduction", "ΔSePer"))
    assert direct["pearson"] == 1.0
    assert (direct["contexts"], reduction["contexts"], ours["contexts"]) == (4, 2, 4)
    assert direct["calls"] == 1000  # a call for each context
    assert ours["calls"] == 1500  # and one without passages for each question
    expected = (2 * direct["prompt_tokens"] + 10 * direct["response_tokens"]) / 1e6
    assert direct["price"] == pytest.approx(expected, abs=1e-4)
    assert ours["price"] == 0
    assert "| reduction" in found.table()


def test_the_command(tiny_reader, tiny_entailment, tmp_path, capsys):
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    words = arguments(tiny_reader, tiny_entailment, tmp_path / "qa.jsonl", tmp_path / "out.json")
    assert main([*words, "--llm_judge", "reader"]) == 0
    assert set(json.loads((tmp_path / "out.json").read_text())["ways"]) == {"ΔSePer", "direct", "reduction"}
    assert main(words) == 2
    assert "--llm_judge is required" in capsys.readouterr().err
