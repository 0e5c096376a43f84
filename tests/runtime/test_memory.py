"""Batches: every item once, none beyond the budget that could be smaller."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from seper_reward.runtime.memory import token_batches


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 40), max_size=20), st.integers(1, 100))
def test_token_batches_every_item_once_within_the_budget(lengths, budget):
    batches = list(token_batches(lengths, budget))
    assert sorted(item for batch in batches for item in batch) == sorted(lengths)
    assert all(len(batch) == 1 or len(batch) * max(lengths[item] for item in batch) <= budget for batch in batches)
    order = [lengths[item] for batch in batches for item in batch]
    assert order == sorted(order)
    for one, other in itertools.pairwise(batches):  # none is cut too early
        assert (len(one) + 1) * lengths[other[0]] > budget
