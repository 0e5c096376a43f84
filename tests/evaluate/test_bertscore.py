"""BERTScore by hand."""

import pytest
import torch

from seper_reward.evaluate.similarity import bertscore_f1


def test_bertscore_by_hand():
    one = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 5.0]])
    other = torch.tensor([[2.0, 0.0], [0.8, 0.6]])
    # cosines: 1, .8 | .6, .96 | 0, .6
    precision, recall = (1 + 0.96 + 0.6) / 3, (1 + 0.96) / 2
    assert bertscore_f1(one, other) == pytest.approx(2 * precision * recall / (precision + recall))
    assert bertscore_f1(other, one) == pytest.approx(bertscore_f1(one, other))
    assert bertscore_f1(one, other[:0]) == 0.0
    assert bertscore_f1(one[:1], -one[:1]) == 0.0
