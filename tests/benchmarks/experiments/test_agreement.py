"""Agreement without noise: by hand, and against simulations whose true agreement is known."""

import math

import numpy as np
import pytest

from tests.benchmarks.experiments.agreement import (
    NoisyLabels,
    TrueSigns,
    correlation,
    label_grid,
    pairs_within,
    sign_shares,
)

MARGIN = 0.05


def labels(values, halves, errors=None):
    values = np.array(values, dtype=float)
    errors = np.full(len(values), 0.1) if errors is None else np.array(errors)
    return NoisyLabels(values, errors, np.array(halves, dtype=float))


def simulated(truth, random, noise=0.15, responses=10, splits=5):
    """Labels that are means of so many noisy responses; the errors that are told are twice too large."""
    spread = random.uniform(0.5, 1.5, len(truth)) * noise
    draws = truth[:, None] + random.normal(size=(len(truth), responses)) * spread[:, None] * math.sqrt(responses)
    halves = []
    for _ in range(splits):
        order = random.permutation(responses)
        halves.append([draws[:, half].mean(1) for half in np.array_split(order, 2)])
    return labels(draws.mean(1), halves, 2 * spread)


def true_labels(count, flipped, random):
    """Half of the labels are about 0; of the others a share has the opposite sign for the other reader."""
    kind = random.choice(3, count, p=[0.5, 0.3, 0.2])
    size = random.uniform(0.15, 0.9, count)
    one = np.where(kind == 0, random.normal(0, 0.01, count), np.where(kind == 1, size, -size))
    turned = np.where(random.random(count) < flipped, -1, 1)
    other = np.where(kind == 0, random.normal(0, 0.01, count), one * turned * random.uniform(0.7, 1.1, count))
    return one, other


def test_the_correction_by_hand():
    # halves of one: products of the deviations from their means (2, 4) are 1, 0, 1, so that the true variance is 2/3
    one = labels([1.0, 3.0, 5.0], [[[1, 2, 3], [3, 4, 5]]])
    assert one.true_variance == pytest.approx(2 / 3)
    assert one.reliability == pytest.approx((2 / 3) / (8 / 3))
    # of the other: (0, 3, 3) and (3, 0, 3) have covariance 3 - 4 = -1; their reverse 1
    other = labels([0.0, 1.0, 5.0], [[[0, 3, 3], [0, 3, 3]]])
    assert other.true_variance == pytest.approx(2.0)
    covariance = (-2 * -2 + 0 * -1 + 2 * 3) / 3
    found = correlation(one, other)
    assert found.corrected == pytest.approx(covariance / math.sqrt(2 / 3 * 2))
    assert found.observed == pytest.approx(np.corrcoef(one.values, other.values)[0, 1])


def test_labels_that_are_all_noise_have_no_corrected_agreement():
    noise = labels([1.0, 3.0, 5.0], [[[0, 3, 3], [3, 0, 3]]])
    assert noise.true_variance < 0
    assert math.isnan(correlation(noise, labels([1.0, 2.0, 3.0], [[[1, 2, 3], [1, 2, 3]]])).corrected)
    equal = labels([1.0, 1.0], [[[1, 1], [1, 1]]])
    assert math.isnan(correlation(equal, equal).observed)
    assert math.isnan(equal.reliability)


def test_the_noise_is_what_the_halves_differ_by():
    # mean square of the labels (1 + 4) / 2, mean product of the halves (.5 + 3) / 2: the noise has .75, the errors 2.5
    found = labels([1.0, 2.0], [[[0.5, 2.0], [1.0, 1.5]]], errors=[1.0, 2.0]).noise
    assert found == pytest.approx(np.array([1.0, 2.0]) * math.sqrt(0.75 / 2.5))
    assert labels([1.0, 2.0], [[[1, 2], [1, 2]]], errors=[0.0, 0.0]).noise.tolist() == [0, 0]


def test_labels_of_a_question_are_centred_together():
    owner = np.array([0, 0, 1])
    found = labels([1.0, 3.0, 5.0], [[[1, 2, 3], [3, 4, 7]]]).centred(owner)
    assert found.values.tolist() == [-1, 1, 0]
    assert found.halves.tolist() == [[[-0.5, 0.5, 0], [-0.5, 0.5, 0]]]


def test_differences_of_pairs():
    found = labels([1.0, 3.0, 5.0], [[[1, 2, 3], [3, 4, 7]]], errors=[3.0, 4.0, 0.0]).differences([(0, 1), (2, 0)])
    assert found.values.tolist() == [-2, 4]
    assert found.errors.tolist() == [5, 3]
    assert found.halves.tolist() == [[[-1, 2], [-1, 4]]]
    assert len(labels([1.0], [[[1], [3]]]).differences([]).values) == 0
    assert pairs_within([0, 1, 1, 2]) == [(1, 2)]


def test_shares_of_signs_by_hand():
    shares = sign_shares([0.2, 0.2, -0.2, 0.2, 0.01], [0.1, -0.1, -0.1, 0.05, 0.04], MARGIN)
    assert tuple(shares) == pytest.approx((0.4, 0.2, 0.2, 0.2))
    assert shares.agreement == pytest.approx(2 / 3)
    weighed = sign_shares([0.2, 0.2], [0.1, -0.1], MARGIN, weights=[3, 1])
    assert tuple(weighed) == (0.75, 0.25, 0, 0)
    assert math.isnan(sign_shares([0.0], [1.0], MARGIN).agreement)


@pytest.mark.parametrize("margin", [0.01, 0.05, 0.1, 0.5])
def test_margins_lie_halfway_between_points_of_the_grid(margin):
    grid = label_grid(margin)
    inside, outside = grid[grid < margin].max(), grid[grid > margin].min()
    assert inside + outside == pytest.approx(2 * margin)
    assert (grid == -grid[::-1]).all()
    assert 1 <= grid.max() < 1 + grid[1] - grid[0]


@pytest.mark.parametrize("flipped", [0.0, 0.2, 0.45])
def test_the_true_agreement_is_found(flipped):
    random = np.random.default_rng(0)
    truth = true_labels(1500, flipped, random)
    one, other = (simulated(each, random) for each in truth)
    true, found = np.corrcoef(*truth)[0, 1], correlation(one, other)
    assert found.corrected == pytest.approx(true, abs=0.05)
    assert abs(found.observed) < abs(true)
    assert one.reliability == pytest.approx(truth[0].var() / one.values.var(), abs=0.05)
    signs, shares = sign_shares(*truth, MARGIN), TrueSigns(one, other, MARGIN).shares()
    assert shares.agreement == pytest.approx(signs.agreement, abs=0.05)
    observed = sign_shares(one.values, other.values, MARGIN)
    if flipped < 0.4:  # noise hides agreement; where half of the signs differ there is little to hide
        assert observed.agreement < signs.agreement - 0.1
    assert abs(shares.neither - signs.neither) < abs(observed.neither - signs.neither)  # but see TrueSigns.shares


def test_the_true_order_within_questions_is_found():
    random = np.random.default_rng(1)
    truth = true_labels(800, 0.2, random)
    owner = np.repeat(np.arange(200), 4)
    shift = random.normal(0, 0.2, 200)[owner]  # what the baseline of a question does to all of its labels
    one, other = simulated(truth[0] + shift, random), simulated(truth[1], random)
    centred = correlation(one.centred(owner), other.centred(owner))
    means = [np.bincount(owner, weights=each)[owner] / 4 for each in truth]
    true = np.corrcoef(truth[0] - means[0], truth[1] - means[1])[0, 1]
    assert centred.corrected == pytest.approx(true, abs=0.06)
    pairs = pairs_within(owner.tolist())
    first, second = np.array(pairs).T
    order = sign_shares(truth[0][first] - truth[0][second], truth[1][first] - truth[1][second], MARGIN).agreement
    found = TrueSigns(one.differences(pairs), other.differences(pairs), MARGIN).shares().agreement
    assert found == pytest.approx(order, abs=0.05)


def test_things_count_as_often_as_is_said():
    random = np.random.default_rng(2)
    one, other = (simulated(each, random) for each in true_labels(60, 0.3, random))
    counts = random.integers(0, 3, 60)
    repeated = np.repeat(np.arange(60), counts)
    weighed = TrueSigns(one, other, MARGIN)
    # the scale of the noise is that of all labels either way
    again = TrueSigns(one, other, MARGIN)
    again._likelihoods = [each[repeated] for each in weighed._likelihoods]
    assert tuple(weighed.shares(counts)) == pytest.approx(tuple(again.shares()), abs=1e-6)
