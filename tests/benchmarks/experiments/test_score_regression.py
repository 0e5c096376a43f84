"""Regression on the labels themselves: by hand, on a tiny model, and over hops."""

from dataclasses import replace

import pytest
import torch
from sentence_transformers import CrossEncoder

from seper_reward.types import LabeledQuery
from tests.benchmarks.experiments.gating import GatingConfig
from tests.benchmarks.experiments.score_regression import regression_rows, train, weighted_mse
from tests.helpers import two_hops
from tests.trainers.test_reranker import MILL, arguments
from trainers.ranking.data import RankingConfig


@pytest.fixture
def model(tiny_encoder):
    torch.manual_seed(3)
    return CrossEncoder(str(tiny_encoder), num_labels=1, device="cpu")


def test_weighted_mse_by_hand():
    scores, labels = torch.tensor([0.5, -0.2, 0.0]), torch.tensor([0.8, 0.2, 0.1])
    found = weighted_mse(scores, labels, torch.tensor([2.0, 0.5, 1.0]))  # errors .3, .4, .1
    assert found.item() == pytest.approx((2 * 0.09 + 0.5 * 0.16 + 0.01) / 3)


def test_regression_keeps_what_lists_leave_out():
    """Questions of equal labels, unrounded labels, and weights by the whole error, with the baseline's."""
    alike = LabeledQuery(replace(MILL, id="alike"), (0.01, 0.01, 0.01), (0.3, 0.3, 0.3), baseline_error=0.3)
    sure = LabeledQuery(MILL, (0.04, -0.6, 0.83), (0.0, 0.1, 0.2))
    rows = regression_rows([alike, sure], GatingConfig(), 0.1)
    assert [[label for label, _ in row["labels"]] for row in rows] == [[0.01] * 3, [0.04, -0.6, 0.83]]
    precisions = [10.0, 10.0, 10.0, 100.0, 50.0, 20.0]  # 1 / (.3² + .1²), ..., 1 / (.2² + .1²)
    weights = [weight for row in rows for _, weight in row["labels"]]
    assert weights == pytest.approx([each / (200 / 6) for each in precisions])
    (short,) = regression_rows([sure], GatingConfig(list_size=2), 0.1)
    assert short["passages"] == ["Ann built it.", "Bob built it."]
    with pytest.raises(ValueError, match="expected questions with labels, got none"):
        regression_rows([alike.keep([])], GatingConfig(), 0.1)


@pytest.mark.slow
def test_regression_learns_the_labels_themselves(model, tmp_path):
    other = replace(MILL, id="other", question="What is the capital of France?")
    labeled = [
        LabeledQuery(MILL, (0.02, -0.6, 0.8), (0.1, 0.1, 0.1)),
        LabeledQuery(other, (-0.3, -0.3, -0.3), (0.1, 0.1, 0.1)),  # no passage is as good as none
    ]
    train(
        model,
        labeled,
        GatingConfig(),
        0.1,
        replace(arguments(tmp_path), max_steps=200, lr_scheduler_type="linear"),
    )
    model.save_pretrained(str(tmp_path / "model"))
    saved = CrossEncoder(str(tmp_path / "model"), device="cpu")
    for row in labeled:
        pairs = [(row.query.question, passage.text) for passage in row.query.passages]
        assert saved.predict(pairs).tolist() == pytest.approx(row.labels, abs=0.3)  # raw: a sigmoid has no zero


def test_weights_need_a_floor():
    with pytest.raises(ValueError, match=r"error_floor must be above 0, got 0\.0"):
        GatingConfig(error_floor=0.0)


def test_regression_learns_hops_whose_zero_is_what_was_given():
    labeled = two_hops()
    config = RankingConfig(sets="conditional", learn_from="paths")
    first, second, third = regression_rows([labeled], config, 0.1)
    assert [label for label, _ in first["labels"]] == pytest.approx([1.0, 1.0, 0.5, 0.0], abs=1e-5)
    assert second["query"].endswith("[SEP] The mill is Ida's.")
    assert [label for label, _ in second["labels"]] == pytest.approx([0.5, 0.0, -0.6], abs=1e-5)
    assert [label for label, _ in third["labels"]] == pytest.approx([1.4], abs=1e-5)
