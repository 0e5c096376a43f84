"""A server or an engine is told early what a rollout under way will be scored with; only the time changes."""

import pytest

from seper_reward.client import SePerClient
from seper_reward.retrieval import BM25Retriever
from seper_reward.reward.environment import search_environment
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.turns import Turn
from seper_reward.scorer import SePerScorer
from seper_reward.types import Measured, Passage
from tests.helpers import VARIANTS, engine, until
from tests.serving.helpers import ServerThread

QUESTION, ANSWERS = "Who runs the mill in Hallow?", ["Ida Voss"]
MILL, SHEEP = Passage("Ida Voss runs Hallow's mill.", id="mill"), Passage("Sheep graze on the hill.", id="sheep")
ROW = {"question": QUESTION, "answers": ANSWERS}
TURNS = [Turn("mill", (MILL,)), Turn("sheep", (SHEEP,))]


def group_of(reward, size=2):
    """Return the environments of a group whose rollouts all search, and the completions that show it."""
    make = search_environment(BM25Retriever({"mill": MILL, "sheep": SHEEP}), reward=reward)
    environments = [make() for _ in range(size)]
    for environment in environments:
        environment.reset(**ROW, prompt="not ours")
    return environments


def completion_of(found):
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": {"query": "mill"}}}]}
    return [call, {"role": "tool", "content": found}, {"role": "assistant", "content": "Ida Voss"}]


def rewards_of(reward, environments, found):
    columns = {name: [value] * len(environments) for name, value in ROW.items()}
    return reward(completions=list(map(completion_of, found)), environments=environments, **columns)


def test_a_server_measures_while_the_policy_writes(tiny_scorer):
    with ServerThread(tiny_scorer) as server:
        reward, counts = SePerReward(server.url, answer_weight=0.0, price=0.1), server.worker.counts
        environments = group_of(reward)
        until(lambda: counts.measured == 1)  # the baseline of both
        found = [environment.search("mill") for environment in environments]
        until(lambda: counts.measured == 2)
        assert counts.reused == 0  # and neither was asked for twice
        values = rewards_of(reward, environments, found)
        assert (counts.measured, counts.reused) == (2, 2)
    assert values == pytest.approx(
        rewards_of(SePerReward(tiny_scorer, answer_weight=0.0, price=0.1), environments, found), abs=1e-5
    )


def test_an_engine_samples_while_the_policy_writes(tiny_sampler, tiny_judge, serve):
    server = serve()
    reward = SePerReward(
        SePerScorer(engine(tiny_sampler, server), tiny_judge, prompt="brief"), answer_weight=0.0, price=0.1
    )

    def sampled():
        return len([body for body in server.requests if body.get("prompt_logprobs") is None])

    before = sampled()
    environments = group_of(reward)
    found = [environment.search("mill") for environment in environments]
    until(lambda: sampled() == before + 2)
    values = rewards_of(reward, environments, found)
    assert sampled() == before + 2
    late = SePerReward(
        SePerScorer(engine(tiny_sampler, server), tiny_judge, prompt="brief"), answer_weight=0.0, price=0.1
    )
    assert values == pytest.approx(rewards_of(late, environments, found), abs=1e-5)


class Told(SePerClient):
    """A client that writes down what it is told, and a server that knows nothing."""

    def __init__(self):
        super().__init__("http://nowhere:1")
        self.told = []

    def expect(self, asked):
        self.told += asked

    def measure(self, asked):
        return [Measured((), ()) for _ in asked]


@pytest.mark.parametrize(
    ("name", "contexts"),
    [
        ("delta", [(), (MILL,), (MILL, SHEEP)]),
        ("both", [(), (MILL,), (MILL, SHEEP)]),
        ("advantage", [()]),
        ("answer", []),
    ],
)
def test_what_is_told(name, contexts):
    client = Told()
    reward = SePerReward(client, **VARIANTS[name])
    for _ in range(2):  # two rollouts
        reward.expect(QUESTION, ANSWERS)
        reward.expect(QUESTION, ANSWERS, TURNS[:1])
        reward.expect(QUESTION, ANSWERS, TURNS)
    assert [context for each in client.told for context in each.contexts] == contexts
    assert all((each.question, each.answers, each.texts) == (QUESTION, ("Ida Voss",), ()) for each in client.told)


@pytest.mark.parametrize("row", [(None, ANSWERS), (QUESTION, None), (QUESTION, []), (QUESTION, [""]), ("", ANSWERS)])
def test_a_row_without_question_or_answer_is_left_to_the_reward(row):
    client = Told()
    SePerReward(client, answer_weight=0.0, price=0.0).expect(*row)
    assert not client.told


def test_a_belief_in_memory_is_not_told_again(tiny_scorer):
    with ServerThread(tiny_scorer) as server:
        reward = SePerReward(server.url, answer_weight=0.0, price=0.0)
        environments = group_of(reward)
        rewards_of(reward, environments, [environment.search("mill") for environment in environments])
        measured = server.worker.counts.measured
        reward._reader._scorer = client = Told()
        assert measured == 2
        reward.expect(QUESTION, ANSWERS)
        reward.expect(QUESTION, ANSWERS, TURNS[:1])
        assert not client.told


def test_who_works_in_this_process_is_told_nothing(tiny_scorer, tiny_sampler, tiny_judge, serve, monkeypatch):
    """It would only take the processor from the policy; and which of several ranks asks an engine is not known yet."""
    monkeypatch.setattr("seper_reward.runtime.distributed.met", lambda: (0, 2))
    monkeypatch.setattr(SePerScorer, "expect", lambda *_: pytest.fail("it was told"))
    remote = SePerScorer(engine(tiny_sampler, serve()), tiny_judge, prompt="brief")
    for reward in (
        SePerReward(answer_weight=0.0, price=0.0),
        SePerReward(tiny_scorer, answer_weight=0.0, price=0.0),
        SePerReward(remote, answer_weight=0.0, price=0.0),
    ):
        reward.expect(QUESTION, ANSWERS)
