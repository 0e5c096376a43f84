"""Entropies by hand."""

import math
from dataclasses import replace

import pytest
import torch

from seper_reward.estimators.belief import belief, pairs_of
from seper_reward.estimators.clustering import predictive_entropy, semantic_entropy
from seper_reward.estimators.seper import Estimator
from seper_reward.judge.judge import Judge
from seper_reward.types import Leaf, Responses
from tests.helpers import ScriptedModel


def test_predictive_entropy_by_hand():
    rows = [torch.tensor([-1.0, -2.0]), torch.tensor([-0.5])]
    assert float(predictive_entropy(rows)) == pytest.approx((3.0 + 0.5) / 2)
    with pytest.raises(ValueError, match="at least one response"):
        predictive_entropy([])


def test_semantic_entropy_by_hand():
    weights, ids = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0, 1, 0])
    expected = -(0.7 * math.log(0.7) + 0.3 * math.log(0.3))
    assert float(semantic_entropy(weights, ids)) == pytest.approx(expected, rel=1e-6)
    assert float(semantic_entropy(weights, torch.zeros(3, dtype=torch.long))) == pytest.approx(0.0, abs=1e-6)


def test_belief_entropies_ignore_the_gold_answer():
    """Which of the drawn responses is right, or whether one is, changes none of them."""
    chances = {"Ann": 0.3, "Bob": 0.1, "Cid": 0.05}
    draws = Responses(
        texts=("Ann", "Bob"),
        token_log_probs=tuple(torch.tensor([math.log(chances[name])]) for name in ("Ann", "Bob")),
        token_ids=((1,), (2,)),
        finished=(True, True),
        draw_log_probs=tuple(math.log(chances[name]) for name in ("Ann", "Bob")),
    )
    found = set()
    for place, (gold, chance) in enumerate(chances.items(), 1):
        log_prob = math.log(chance)
        known = replace(draws, known_leaves=(Leaf(gold, (place,), log_prob, log_prob, log_prob),))
        asked = (Estimator(), "Who?", (gold,), known)
        told = belief(*asked, Judge(ScriptedModel(lambda pair: 0.0)).probs(list(pairs_of(*asked))))
        found.add((told.entropy, told.semantic_entropy))
    assert len(found) == 1
    weights = torch.tensor([0.3 + 0.3, 0.1 + 0.3])  # each stands for half of what was not drawn
    assert found.pop()[1] == pytest.approx(float(-(weights * weights.log()).sum()))
