"""Episodes, fixed rules and summaries of policies: by hand, against slow loops, and with a scripted reader."""

import math

import numpy as np
import pytest

from seper_reward.reports.tables import lead_text
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.turns import Turn
from seper_reward.statistics import Statistic
from seper_reward.types import Belief, Estimate, Measured, Passage, Query, Responses, UnscorableError
from tests.helpers import OneByOne
from trainers.policy_results import (
    Episode,
    best_threshold,
    compare_policies,
    fixed_rules,
    policies_table,
    summarize,
)


def episode(name, needed, searches, accuracy, reward, answer_score=None):
    return Episode(name, needed, ("x",) * searches, "", accuracy, answer_score, reward)


EPISODES = [
    episode("1", True, 2, 1.0, 0.5),
    episode("2", True, 0, 0.0, 0.0),
    episode("3", True, 1, 0.0, -0.2),
    episode("4", False, 0, 1.0, 0.1),
]


def test_summarize_by_hand():
    found = summarize([*EPISODES, None])
    intervals = found.pop("intervals")
    assert found == {
        "search_rate_needed": 0.6667, "search_rate_not_needed": 0.0, "accuracy": 0.5, "reward": 0.1,
        "searches_per_question": 0.75, "unscored": 0.2,
    }  # fmt: skip
    assert intervals.keys() == found.keys() - {"unscored"}
    assert intervals["search_rate_not_needed"] is None  # it never varies
    low, high = intervals["accuracy"]
    assert 0 <= low < 0.5 < high <= 1
    judged = [episode(str(at), True, 0, 0, 0, score) for at, score in enumerate((0.9, 0.2, 0.1, 0.8))]
    assert summarize(judged)["answer_score"] == 0.5
    assert f"| 0.500 [{low:.3f}, {high:.3f}] " in policies_table({"after": {**found, "intervals": intervals}})
    assert "search_rate_not_needed" not in summarize(EPISODES[:3])  # no such question


def test_summarize_resamples_questions():
    """Two episodes each of two questions: every mean is of one question or of both."""
    twice = [episode(name, True, 0, accuracy, 0) for name in "ab" for accuracy in (0.0, float(name == "a"))]
    assert summarize(twice)["intervals"]["accuracy"] == [0.0, 0.5]
    apart = [episode(str(at), True, 0, each.accuracy, 0) for at, each in enumerate(twice)]
    assert summarize(apart)["intervals"]["accuracy"][1] > 0.5


KNOWN, NEEDED, LOST = (
    Query("k", "Capital of France?", ("Paris",)),
    Query("n", "Miller?", ("Ann",)),
    Query("l", "Lost?", ("Ann",)),
)
PASSAGE = Passage("Ann runs it.", id="a")


def belief(seper, responses, weights, entropy):
    value = Estimate(seper, 0.0, seper, seper)
    return Belief(
        value, value, sampled=Responses(responses, ()), weights=weights, entropy=entropy, semantic_entropy=2 - entropy
    )


class ScriptedReader:
    """Knows Paris, unless a passage confuses it; reads who the miller is. Of several of them, the entropy tells."""

    batch_size, reader, known_answers = OneByOne.batch_size, OneByOne.reader, OneByOne.known_answers

    def measure(self, requests, batch_size=None):
        return [self._measured(request) for request in requests]

    def _measured(self, asked):
        if asked.question == LOST.question:
            return UnscorableError("question has no room")
        supports = tuple(float(text in asked.answers) for text in asked.texts)
        return Measured(tuple(self._belief(asked.question, context) for context in asked.contexts), supports)

    def _belief(self, question, passages):
        if question == KNOWN.question:
            return (
                belief(0.9, ("Paris", "Lyon"), (0.8, 0.2), 0.3) if not passages else belief(0.6, ("Paris",), (1,), 0)
            )
        return belief(0.7, ("Ann", "Bob"), (0.75, 0.25), 0) if passages else belief(0.1, ("Bob",), (1.0,), 1.5)


def rules_by(weights):
    def search(query):
        return (Turn(query.question, (PASSAGE,)),)

    return fixed_rules(ScriptedReader(), weights, search, [KNOWN, NEEDED, LOST], [KNOWN, NEEDED])


def test_fixed_rules_by_hand():
    played, thresholds = rules_by(RewardWeights(answer_weight=0, gain_weight=1, price=0.2))
    assert thresholds == {
        "threshold_entropy": pytest.approx(0.9),  # between 0.3 and 1.5: a search pays for the needed one
        "threshold_semantic_entropy": math.inf,  # the wrong way round here: rather never
    }
    assert {name: [each and len(each.queries) for each in row] for name, row in played.items()} == {
        "never_search": [0, 0, None], "always_search": [1, 1, None],
        "threshold_entropy": [0, 1, None], "threshold_semantic_entropy": [0, 0, None],
    }  # fmt: skip
    known, needed, _ = played["always_search"]
    assert (known.id, known.needed, known.queries) == ("k", False, (KNOWN.question,))
    assert (known.accuracy, known.reward) == (1.0, pytest.approx(0.6 - 0.9 - 0.2))
    assert (needed.needed, needed.accuracy, needed.reward) == (True, 0.75, pytest.approx(0.7 - 0.1 - 0.2))
    results = compare_policies({"after": played["threshold_entropy"], **played}, thresholds, "after")
    assert results["threshold_entropy"]["accuracy"] == pytest.approx((0.8 + 0.75) / 2)
    assert results["threshold_entropy"]["threshold"] == 0.9
    assert results["threshold_semantic_entropy"]["threshold"] == "never"
    assert results["after"]["unscored"] == 0.3333
    leads = results["after"]["accuracy_leads"]
    assert list(leads) == list(played)
    assert leads["threshold_entropy"]["value"] == 0
    assert leads["always_search"]["value"] == pytest.approx(((0.8 + 0.75) - (1 + 0.75)) / 2)
    # it does not pay for searching the known one
    assert results["after"]["reward_leads"]["always_search"]["value"] > 0
    assert "answer_score_leads" not in results["after"]
    text = lead_text(Statistic(**leads["always_search"]))
    line = f"- accuracy of `after` over `always_search`: {text}"
    assert line in policies_table(results).splitlines()


def test_fixed_rules_are_paid_the_mean_of_answers():
    played, _ = rules_by(RewardWeights(answer_weight=1, gain_weight=0, price=0.2))
    _, needed, _ = played["always_search"]
    assert needed.reward == pytest.approx(0.75 * 1 + 0.25 * 0 - 0.2)
    assert (needed.answer_score, needed.accuracy) == (0.75, 0.75)


# a search helps the first question by .6 and the third by .1; it harms the second by .5
WITHOUT, SEARCHING = (0.1, 0.9, 0.5), (0.7, 0.4, 0.6)


def threshold(scores, without=WITHOUT, searching=SEARCHING):
    return best_threshold(list(zip(scores, without, searching, strict=True)))


def test_best_threshold_by_hand():
    # searching for the first question gives 2.1, also for the third 2.2, for all 1.7
    assert threshold((0.8, -0.4, 0.2)) == pytest.approx(-0.1)
    assert threshold((0.3, 0.3, 0.3)) == -math.inf  # all of equal scores search or none; always is better here
    assert threshold((1.0, 2.0), (0.9, 0.8), (0.1, 0.2)) == math.inf  # a search only harms
    # a search changes only the first and the last question: of three thresholds between, the middle one
    assert threshold((5.0, 4.0, 3.0, 1.0), (0.0, 0.3, 0.3, 0.9), (0.7, 0.3, 0.3, 0.2)) == 3.5
    # sums that are equal but for rounding are equal
    assert threshold((3.0, 2.0, 1.0), (0.1, 0.2, 0.3), (0.3, 0.2, 0.1)) == 1.5


def test_best_threshold_is_the_best():
    random = np.random.default_rng(4)
    for _ in range(20):
        scores, without, searching = random.integers(0, 4, 6) / 4, random.random(6), random.random(6)

        def reward(limit, rows=(scores, without, searching)):
            return sum(after if score > limit else before for score, before, after in zip(*rows, strict=True))

        found = threshold(scores, without, searching)
        assert reward(found) == pytest.approx(max(map(reward, (-1, 0.1, 0.3, 0.6, 2))))
