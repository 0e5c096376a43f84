"""Presets by hand: which of them know a rule, and which clusters they call gold."""

import pytest
import torch

from seper_reward import Estimator
from seper_reward.judge.judge import Judge
from seper_reward.scorer import beliefs_of
from seper_reward.types import Responses
from tests.helpers import ScriptedModel

QUESTION = "How old was she?"


def responses(**chances):
    """Return responses of one token, with their probabilities."""
    log_probs = tuple(torch.tensor([chance]).log() for chance in chances.values())
    return Responses(tuple(chances), log_probs, finished=(True,) * len(chances))


def believed(options, sampled, answer, probs):
    (belief,) = beliefs_of(Judge(ScriptedModel(probs)), options, [(QUESTION, (answer,), sampled)])
    return belief


@pytest.mark.parametrize(("name", "expected"), [("default", 0.0), ("paper", 0.9999), ("official", 0.9999)])
@pytest.mark.parametrize(("text", "answer"), [("87", "85"), ("-85", "85"), ("£85", "$85"), ("", "85")])
def test_only_the_default_has_rules(name, expected, text, answer):
    """The model says yes to all pairs."""
    belief = believed(Estimator.preset(name), responses(**{text: 0.7}), answer, lambda pair: 0.9999)
    assert belief.support == ((pytest.approx(expected),),)
    assert (belief.seper, belief.seper_hard) == (pytest.approx(expected), round(expected))


@pytest.mark.parametrize(("name", "expected"), [("default", 1.0), ("paper", 0.3), ("official", 0.3)])
def test_only_the_default_equates_texts(name, expected):
    """The model says no to all pairs, even of equal texts."""
    belief = believed(Estimator.preset(name), responses(**{"eighty-five": 0.7}), "85", lambda pair: 0.3)
    assert belief.support == ((pytest.approx(expected),),)
    assert belief.seper == pytest.approx(expected)


def test_the_other_direction_is_judged_if_the_first_agrees():
    """Ann entails both others; of these only Bob entails Ann."""
    agreeing = {("Ann", "Bob"), ("Ann", "Cid"), ("Bob", "Ann")}
    model = ScriptedModel(lambda pair: 0.9 if pair[1:] in agreeing else 0.1)
    sampled = responses(Cid=0.2, Bob=0.3, Ann=0.4)
    (belief,) = beliefs_of(Judge(model), Estimator(), [(QUESTION, ("Ida",), sampled)])
    asked = [{pair[1:] for pair in batch} for batch in model.asked]
    assert asked[0] == {*((text, "Ida") for text in sampled.texts), ("Ann", "Bob"), ("Ann", "Cid"), ("Bob", "Cid")}
    assert asked[1:] == [{("Bob", "Ann"), ("Cid", "Ann")}]
    assert dict(zip(belief.responses, belief.cluster_ids, strict=True)) == {"Cid": 0, "Bob": 1, "Ann": 1}


def ann_and_bob(pair):
    """Ann and Bob mean the same; Ann is right by .95, Bob by .3, and the gold answer surely entails both."""
    right = {("Ann", "Ida"): 0.95, ("Bob", "Ida"): 0.3}
    return 1.0 if pair.premise == "Ida" else right.get(pair[1:], 0.9)


@pytest.mark.parametrize(
    ("changes", "hard"),
    [
        ({}, 0.0),  # Algorithm 1: Bob is not equivalent to the gold answer, so his cluster is not
        ({"judged_by": "members"}, 1.0),  # their mean of .625
        ({"judged_by": "first"}, 1.0),
        ({"threshold": 0.3}, 1.0),
        ({"threshold": 0.31}, 0.0),
        ({"judged_by": "members", "threshold": 0.624}, 1.0),
        ({"judged_by": "members", "threshold": 0.626}, 0.0),
    ],
)
def test_the_papers_algorithm_needs_all_members_of_a_cluster(changes, hard):
    belief = believed(Estimator.preset("paper", **changes), responses(Ann=0.3, Bob=0.2), "Ida", ann_and_bob)
    assert belief.cluster_ids == (0, 0)
    assert belief.weights == pytest.approx((0.6, 0.4))
    assert belief.seper == pytest.approx(0.6 * 0.95 + 0.4 * 0.3)  # soft SePer knows no clusters
    assert belief.seper_hard == hard
