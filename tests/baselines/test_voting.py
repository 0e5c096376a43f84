"""Votes by hand, against a slow loop, and the search of their weights."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from seper_reward.baselines.voting import (
    SIMILARITIES,
    VoteOptions,
    VoteWeights,
    search_weights,
    support,
    vote_scores,
    winners,
)

PLAIN = VoteOptions(("exact_match", "entailment"), weighted_votes=False, abstentions_aside=False)


def tables(**pairs):
    """Return ``(1, K, R, R)`` similarities, each given by its values of the pairs 01, 02, .. of R answers."""
    count = {1: 2, 3: 3, 6: 4}[len(next(iter(pairs.values())))]
    table = np.zeros((1, len(SIMILARITIES), count, count))
    for name, values in pairs.items():
        for (one, other), value in zip(np.argwhere(np.triu(np.ones((count, count)), 1)), values, strict=True):
            table[0, SIMILARITIES.index(name), one, other] = table[0, SIMILARITIES.index(name), other, one] = value
    return table


def elected(table, weights, options):
    return int(winners(vote_scores(table, np.zeros((1, 3), bool), weights, options), weights)[0])


def test_support_by_mean_by_hand():
    table = tables(exact_match=(1, 0, 0), entailment=(0.8, 0.1, 0.3))
    # by similarities of 1 to 3: 01 are alike by .85, 02 by .075, 12 by .225
    alike = np.array([[[1, 0.85, 0.075], [0.85, 1, 0.225], [0.075, 0.225, 1]]])
    all_win = np.ones((1, 3), bool)
    found = support(alike, np.ones((1, 3)), all_win, PLAIN)[0]
    assert found.tolist() == pytest.approx([0.4625, 0.5375, 0.15])
    found = support(alike, np.array([[0.6, 0.2, 0.5]]), all_win, PLAIN)[0]
    assert found.tolist() == pytest.approx([0.2075 / 0.7, 0.6225 / 1.1, 0.09 / 0.8])
    # .6 · .4625 = .2775 and .5 · .5375 = .26875
    assert elected(table, VoteWeights((1, 3), (0.6, 0.5, 0.6)), PLAIN) == 0
    assert elected(table, VoteWeights((1, 3), (0.5, 0.5, 0.5)), PLAIN) == 1
    weighted = VoteOptions(PLAIN.similarities)
    # .6 · .2964 = .178 and .3 · .566 = .170, which is .4 · .566 = .226 with a weight of .4
    assert elected(table, VoteWeights((1, 3), (0.6, 0.2, 0.5)), weighted) == 0


def test_support_by_other_poolings():
    alike = np.array([[[1, 0.9, 0.81, 0.1], [0.9, 1, 0.3, 0.2], [0.81, 0.3, 1, 0.85], [0.1, 0.2, 0.85, 1]]])
    votes, all_win = np.ones((1, 4)), np.ones((1, 4), bool)

    def pooled(name, votes=votes, candidates=all_win):
        return support(alike, votes, candidates, VoteOptions(pooling=name))[0].tolist()

    assert pooled("max") == pytest.approx([0.9, 0.9, 0.85, 0.85])
    # of the three others, two are for the first and the third, one for the second and the fourth
    assert pooled("majority") == pooled("plurality") == [1, 0, 1, 0]
    heavy = np.array([[0.1, 0.2, 0.1, 0.6]])
    # for the first .2 + .1 of .9, the second .1 of .8, the third .1 + .6 of .9, the fourth .1 of .4
    assert pooled("majority", heavy) == pooled("plurality", heavy) == [0, 0, 1, 0]
    # the third cannot win: most votes of the others are for the first
    assert pooled("plurality", heavy, np.array([[True, True, False, True]])) == [1, 0, 1, 0]
    # for the third .25 + .5 of 1.5, which is half, and then .25 + .25 of 1.25
    assert pooled("majority", np.array([[0.25, 0.75, 0.5, 0.5]])) == [1, 0, 1, 0]
    assert pooled("majority", np.array([[0.25, 0.75, 0.5, 0.25]])) == [1, 0, 0, 0]
    assert pooled("majority", np.zeros((1, 4))) == [0, 0, 0, 0]  # nobody votes
    alike[0, 0, 2] = alike[0, 2, 0] = 0.8  # a vote needs a similarity above .8 (C.4), so now each has one
    assert pooled("plurality") == [1, 1, 1, 1]
    assert pooled("max", heavy) == pytest.approx([0.2 * 0.9 / 0.6, 0.12 / 0.6, 0.85, 0.085 / 0.6])


def slow_winner(table, silent, weights, options):
    """The mean, retriever by retriever."""
    shares = [weight / sum(weights.similarities) for weight in weights.similarities]
    strong = [weight > 0.1 for weight in weights.retrievers]
    strong = strong if any(strong) else [True] * len(strong)
    speaks = [not (quiet and options.abstentions_aside) for quiet in silent]
    if not any(map(min, speaks, strong)):
        speaks = [True] * len(speaks)
    best, winner = -math.inf, None
    for i, weight in enumerate(weights.retrievers):
        if not (speaks[i] and strong[i]):
            continue
        total = count = 0.0
        for j, other in enumerate(weights.retrievers):
            if j != i and speaks[j] and (strong[j] or options.dropped_vote):
                vote = other if options.weighted_votes else 1.0
                named = zip(shares, options.similarities, strict=True)
                total += vote * sum(share * table[SIMILARITIES.index(name), i, j] for share, name in named)
                count += vote
        score = weight * (total / count if count else 0.0) + 1e-9 * weight
        if score > best + 1e-12:
            best, winner = score, i
    return winner


@given(
    table=arrays.arrays(float, (5, 4, 4), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])),
    silent=st.lists(st.booleans(), min_size=4, max_size=4),
    strength=st.lists(st.sampled_from([0.0, 0.05, 0.2, 0.5]), min_size=4, max_size=4),
    preset=st.sampled_from(["paper", "official", "default"]),
)
def test_winners_of_a_slow_loop(table, silent, strength, preset):
    options = VoteOptions.preset(preset)
    weights = VoteWeights(tuple(range(1, 1 + len(options.similarities))), tuple(strength))
    found = winners(vote_scores(table[None], np.array([silent]), weights, options), weights)
    assert found.tolist() == [slow_winner(table, silent, weights, options)]


def test_vote_options_presets():
    paper, official = VoteOptions.preset("paper"), VoteOptions.preset("official", "max")
    assert paper.bounds(2) == [(0.0, 0.6)] * 5
    assert official.bounds(1) == [(0.01, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 0.6)]
    assert (paper.dropped_vote, official.dropped_vote, official.pooling) == (True, False, "max")
    assert VoteOptions.preset("default").abstentions_aside
    with pytest.raises(ValueError, match="preset must be one of paper, official, default, got 'ours'"):
        VoteOptions.preset("ours")
    with pytest.raises(ValueError, match="pooling must be one of mean, max, majority, plurality, got 'sum'"):
        VoteOptions(pooling="sum")
    with pytest.raises(ValueError, match="similarities must be some of"):
        VoteOptions(())


def test_search_weights_finds_right_answers():
    # the first two retrievers always agree, and the third is right where they are not
    table = np.repeat(tables(exact_match=(1, 0, 0), entailment=(0.9, 0.2, 0.2)), 6, axis=0)
    silent = np.zeros((6, 3), bool)
    right = np.array([[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1]])
    for preset in ("paper", "official", "default"):
        options = VoteOptions.preset(preset)
        weights = search_weights(table, silent, right, options)
        chosen = winners(vote_scores(table, silent, weights, options), weights)
        assert right[chosen, range(6)].mean() == pytest.approx(4 / 6)
        for value, (low, high) in zip((*weights.similarities, *weights.retrievers), options.bounds(3), strict=True):
            assert low <= value <= high
