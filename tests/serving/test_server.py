"""The server and its clients, over real HTTP: the same numbers as in process, for all clients at once."""

import pytest

from seper_reward.client import SePerClient
from seper_reward.reward.reward import SePerReward
from tests.serving.helpers import ServerThread

QUESTION, ANSWERS = "Who runs the mill in Hallow?", ["Ida Voss"]
QUERIES = [
    {"question": QUESTION, "answers": ANSWERS, "passages": ["Ida Voss runs Hallow's mill.", "Sheep graze."]},
    {"question": "When did the mill burn down?", "answers": ["1840", "in 1840"], "passages": ["It burned in 1840."]},
]


@pytest.fixture(scope="module")
def server(tiny_scorer):
    with ServerThread(tiny_scorer) as running:
        yield running


def test_utilities_are_those_of_the_scorer(server, tiny_scorer):
    found = SePerClient(server.url).utilities(QUERIES)
    for query, result in zip(QUERIES, found, strict=True):
        expected = tiny_scorer.utilities([query])[0]
        assert [row["delta_seper"] for row in result["utilities"]] == pytest.approx(
            [each.delta_seper for each in expected], abs=1e-5
        )
        assert [row["std_error"] for row in result["utilities"]] == pytest.approx(
            [each.std_error for each in expected], abs=1e-5
        )
        assert result["seper"] == pytest.approx(expected[0].baseline_seper, abs=1e-5)


@pytest.mark.parametrize("variant", ["delta", "stepwise", "answer", "advantage"])
def test_a_url_in_place_of_a_scorer_gives_the_same_rewards(server, tiny_scorer, variant):
    columns = {
        "completions": ["Ida Voss", "Bob", ""],
        "question": [QUESTION] * 3,
        "answers": [ANSWERS, ANSWERS, []],
        "passages": [["Ida Voss runs Hallow's mill."], [], []],
    }
    rewards = [SePerReward(scorer, variant=variant, price=0.1)(**columns) for scorer in (server.url, tiny_scorer)]
    assert rewards[0] == [pytest.approx(rewards[1][0], abs=1e-5), pytest.approx(rewards[1][1], abs=1e-5), None]
