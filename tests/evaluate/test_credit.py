"""Credits of searches against interventions: by hand, with a scripted agent, and the command with tiny models."""

import json
import math

import pytest
import torch

from seper_reward.cli import main
from seper_reward.evaluate import credit
from seper_reward.evaluate.credit import CreditedSearch, compare_credits, credited_searches, effects
from seper_reward.evaluate.interventions import Case
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reward.rollouts import Rollout
from seper_reward.reward.turns import Turn
from seper_reward.runtime.json_files import read_lines
from seper_reward.types import Belief, Estimate, Measured, Passage, Query, Responses
from tests.helpers import write_rows
from tests.tiny_models import lane_rows


def test_effects_by_hand():
    right = {
        "kept": [(1.0, 1.0), (0.8, 1.0), (0.0, 0.0), (0.6, 0.0)],
        "removed": [(0.2, 0.0), (0.0, 0.0), (0.0, 0.0), (0.2, 1.0)],
        "swapped": [(1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)],
    }
    found = effects(right)
    assert found["correct"]["kept, E"] == 0.6
    assert found["effects"] == {
        "removed, E": 0.5, "removed, exact match": 0.25, "swapped, E": -0.4, "swapped, exact match": -0.5,
    }  # fmt: skip
    # variances of kept and removed: (.16 + .04 + .36 + 0) / 3 and 4 · .01 / 3
    assert found["std_errors"]["removed, E"] == pytest.approx(math.sqrt((0.56 + 0.04) / 3 / 4), abs=1e-4)
    assert found["std_errors"]["swapped, E"] == pytest.approx(math.sqrt(0.56 / 3 / 4), abs=1e-4)
    assert found["halves"] == (0.4, 0.6)  # (.8 + 0) / 2 and (.8 + .4) / 2


def searched(name, search, effect, error=0.01, known=False, hops=2, halves=(0.0, 0.0), **given):
    by_effect = {"removed, E": effect, "swapped, E": -effect}
    return CreditedSearch(
        name, name, search, "q", hops, known, {"kept, E": 0.5, "removed, E": 0.5 - effect}, by_effect,
        dict.fromkeys(by_effect, error), halves, given, dict.fromkeys(given, 10.0 * search),
    )  # fmt: skip


ROWS = [
    searched("a", 1, 0.5, halves=(0.6, 0.4), delta_seper=0.4, outcome=1.0),
    searched("a", 2, -0.3, halves=(-0.2, -0.4), delta_seper=-0.2, outcome=1.0),
    searched("b", 1, 0.0, halves=(0.0, 0.0), delta_seper=0.1, outcome=-1.0, hops=1, known=True),
    searched("c", 1, -0.2, halves=(-0.3, -0.1), delta_seper=0.2, outcome=0.0),
    searched("c", 2, 0.4, error=0.3, halves=(0.1, 0.7), delta_seper=None, outcome=0.0),
]


def test_compare_credits_by_hand(tmp_path):
    found = compare_credits(ROWS, margin=0.05, agent="qwen", left_out=2)
    assert (found.questions, found.searches, found.helpful, found.harmful) == (3, 5, 1, 2)  # .4 ± .3 is not sure
    ours, outcome = (found.credits[name]["measures"] for name in ("delta_seper", "outcome"))
    # ranks of the effect 4, 1, 3, 2 and of the credit 4, 1, 2, 3: rho = 1 - 6 · 2 / 60
    assert ours["Spearman"].value == 0.8
    # the sure effects are .5, -.3 and -.2: right, right, wrong; the outcome right, wrong, and undecided
    assert (ours["sign right"].value, outcome["sign right"].value) == (0.6667, 0.5)
    assert (ours["harmful found"].value, outcome["harmful found"].value) == (0.5, 0.0)
    # credits .4, -.2, .1, .2 have mean .125; their products with the effects sum to .22, their squares to .1875
    assert ours["slope"].value == pytest.approx(0.22 / 0.1875, abs=1e-4)
    assert ours["lead over outcome"].value == pytest.approx(0.8 - outcome["Spearman"].value, abs=2e-4)
    assert found.credits["delta_seper"]["effects"]["swapped, E"].value == -0.8
    assert found.parts == {"1-hop": 1, "2-hop": 4, "search 1": 3, "search 2": 2, "known": 1, "not known": 4}
    assert found.credits["delta_seper"]["parts"]["search 1"].value == 0.5
    assert found.credits["delta_seper"]["parts"]["known"].value is None
    assert found.tokens == {"delta_seper": 14.0, "outcome": 14.0}
    assert found.effects["removed, E"].value == 0.08
    # halves: ranks 5, 2, 3, 1, 4 and 4, 1, 3, 2, 5: rho = 1 - 6 · 4 / 120 = .8
    assert found.ceiling.value == pytest.approx(math.sqrt(1.6 / 1.8), abs=1e-4)
    assert ours["Spearman"].interval == [-1.0, 1.0]  # over three questions
    page = " ".join(found.table().split())
    assert "3 questions, 2 left out, 5 searches, 1 surely helpful and 2 surely harmful" in page
    assert "| delta_seper | 0.800 [" in page
    assert "search 1 (3)" in page
    assert "by_search" not in found.as_dict()
    found.plot(tmp_path / "credit.svg")
    assert (tmp_path / "credit.svg").read_text().startswith("<?xml")
    with pytest.raises(ValueError, match="expected searches that can be measured"):
        compare_credits([], margin=0.05)


IDA, PAT = Passage("Ida is the boss of the mill.", id="i"), Passage("Pat was born in the year of 1801.", id="p")
OTHERS = [Passage(f"Sheep number {number} grazes here.", id=str(number)) for number in range(30)]
LONG = Passage("Rain " * 200, id="long")


class ScriptedAgent:
    """Right if its last result is about Pat; its second search finds Pat only after the result about Ida."""

    def __init__(self):
        self.seeds = []
        self.reader = None

    def prompt(self, question, turns):
        return "/".join(" ".join(each.text for each in turn.passages) for turn in turns)

    def search(self, rollouts, searches):
        done = []
        for (_, turns), count in zip(rollouts, searches, strict=True):
            while len(turns) < count:
                found = IDA if not turns else PAT if turns[-1].passages == (IDA,) else OTHERS[0]
                turns = (*turns, Turn(f"query {len(turns)}", (found,)))
            done.append(turns)
        return done

    def answers(self, prompts, seed=0):
        self.seeds.append(seed)
        texts = {prompt: ("1801", "1801") if prompt.endswith(PAT.text) else ("no", "1801") for prompt in prompts}
        return {prompt: Responses(own, (torch.tensor([-0.1]),) * 2) for prompt, own in texts.items()}

    def judge_results(self, rollouts):
        return [(0.9 if turns[-1].passages == (PAT,) else 0.2, 7.0) for _, turns in rollouts]


class ScriptedScorer:
    judge = estimator = None
    reader = type("Reader", (), {"prompts": type("Prompts", (), {"build": staticmethod(lambda q, c: q)})})

    def measure(self, requests, size):
        return [
            Measured(
                tuple(belief(0.7 if each == (PAT,) else 0.2 * len(each)) for each in request.contexts),
                tuple(float(t == "1801") for t in request.texts),
            )
            for request in requests
        ]


def belief(value, log_prob=-1.0):
    estimate = Estimate(value, 0.01, value - 0.02, value + 0.02)
    return Belief(estimate, estimate, answer_log_prob=log_prob, question_log_prob=-value)


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(
        credit, "beliefs_of",
        lambda judge, estimator, sampled: [belief(0.1 * place, -1.0 / (1 + place)) for place in range(len(sampled))],
    )  # fmt: skip
    monkeypatch.setattr(credit, "_costs", lambda name, *_: {name: 5.0, f"{name} prompts": 3.0})
    return ScriptedAgent()


QUERY = Query("q", "When was the boss of the mill born?", ("1801",), metadata={"hops": 2})


def test_credited_searches_continue_the_rollout(scripted):
    ((first, second),) = credited_searches(scripted, ScriptedScorer(), [IDA, PAT, *OTHERS, LONG], [Case(QUERY, 2)])
    assert scripted.seeds == [0, 1, 2]  # effects, credits and what is known share no samples
    # without Ida, the agent's next search does not find Pat; without Pat, its last result is empty
    for found in (first, second):
        assert found.correct["kept, E"] == 1.0
        assert found.effects == {
            "removed, E": 0.5, "removed, exact match": 0.5, "swapped, E": 0.5, "swapped, exact match": 0.5,
        }  # fmt: skip
    assert (first.search, second.search, first.hops, first.known) == (1, 2, 2, True)  # known: .5 without a search
    assert second.credits == pytest.approx(
        {
            "delta_seper": 0.2, "agent_delta_seper": 0.1, "delta_belief": 0.1, "question_gain": -0.2,
            "seper_gain": 0.0, "igpo": math.exp(-1 / 3) - math.exp(-1 / 2), "leave_one_out": 0.2, "outcome": 1.0,
            "contains": 1.0, "judgment": 0.4, "turn_advantage": 0.2 + 1.0 - 0.2,
        }
    )  # fmt: skip
    assert first.credits["contains"] == 0.0
    assert first.credits["turn_advantage"] == pytest.approx(0.4 + 1.0 - 0.0)  # both gains, E, less SePer before them
    assert first.credits["leave_one_out"] == pytest.approx(0.4 - 0.7)  # Pat alone has .7
    free, read = dict.fromkeys(("outcome", "contains"), 0.0), dict.fromkeys(("question_gain", "igpo"), 3.0)
    assert second.tokens == {**dict.fromkeys(second.credits, 5.0), **free, **read, "judgment": 7.0}


def test_credited_searches_continue_a_log(scripted):
    logged = Rollout(QUERY.question, QUERY.answers, (Turn("mill", (IDA,)), Turn("Pat", (PAT,))), "1799")
    ((first, second),) = credited_searches(scripted, ScriptedScorer(), OTHERS, [Case(QUERY, 2, logged)])
    assert (first.query, second.query) == ("mill", "Pat")
    assert first.credits["outcome"] == second.credits["outcome"] == -1.0
    assert {name.partition(",")[0] for name in first.correct} == {"kept", "removed", "swapped"}


def words_of(tmp_path, tiny_reader, tiny_entailment, rows):
    file = write_rows(tmp_path / "questions.jsonl", rows)
    return [
        "evaluate", "credit", "--file", str(file), "--agent", str(tiny_reader), "--reader", str(tiny_reader),
        "--judge", str(tiny_entailment), "--dtype", "float32", "--device", "cpu", "--num_samples", "3",
        "--max_new_tokens", "4", "--continuations", "3", "--cache", str(tmp_path / "cache.sqlite"),
        "--agent_passage_tokens", "8", "--max_passage_tokens", "8", "--searches", str(tmp_path / "out.jsonl"),
    ]  # fmt: skip


def test_credit_command(tiny_reader, tiny_entailment, tmp_path, capsys, monkeypatch):
    rows = [{**row, "hops": 1 + number % 2} for number, row in enumerate(lane_rows(4))]
    words = words_of(tmp_path, tiny_reader, tiny_entailment, rows)
    assert main([*words, "--sample", "2", "--json", str(tmp_path / "out.json")]) == 0
    few = capsys.readouterr().out
    assert "2 questions" in few
    searches = list(read_lines(tmp_path / "out.jsonl"))
    assert all(search["hops"] == sum(other["id"] == search["id"] for other in searches) for search in searches)
    assert json.loads((tmp_path / "out.json").read_text())["settings"]["agent"] == str(tiny_reader)
    assert main(words) == 0
    assert "4 questions" in capsys.readouterr().out
    more = [search["id"] for search in read_lines(tmp_path / "out.jsonl")]
    assert more[: len(searches)] == [search["id"] for search in searches]  # more continue fewer

    def never(*_, **__):
        raise AssertionError("a finished run samples nothing")

    monkeypatch.setattr(ResponseSampler, "sample", never)
    monkeypatch.setattr(ResponseSampler, "log_probs", never)
    assert main([*words, "--sample", "2"]) == 0
    assert capsys.readouterr().out == few


def test_credit_command_reads_a_log(tiny_reader, tiny_entailment, tmp_path):
    searches = [{"query": "house 1", "passages": ["House 1 belongs to Owner 1."]}]
    row = {"question": "Who owns house 1 of the lane?", "searches": searches, "answer": "Owner 1"}
    log = write_rows(tmp_path / "log.jsonl", [row])
    assert main([*words_of(tmp_path, tiny_reader, tiny_entailment, lane_rows(4)), "--rollouts", str(log)]) == 0
    (search,) = read_lines(tmp_path / "out.jsonl")
    assert (search["query"], search["id"], search["credits"]["contains"]) == ("house 1", "q1", 1.0)
