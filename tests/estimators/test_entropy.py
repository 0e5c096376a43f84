"""Entropies by hand."""

import math

import pytest
import torch

from seper_reward.estimators.entropy import predictive_entropy, semantic_entropy


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
