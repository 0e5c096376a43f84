"""Splits by hash of the id, one rule for all that splits; what is linked stays together."""

import random
from collections import Counter
from dataclasses import replace

from seper_reward.data.splits import split_by_rank, split_of
from seper_reward.types import Passage, Query
from trainers.ranking.clusters import clusters, shared_keys


def test_split_by_rank_fills_every_split_with_few_ids():
    names = [f"q{number}" for number in range(12)]
    splits = dict(zip(names, split_by_rank(names, test_share=0.25, dev_share=0.1), strict=True))
    assert Counter(splits.values()) == {"train": 8, "dev": 1, "test": 3}
    # the ranks are those of the hash, whatever the order of the file
    turned = split_by_rank(names[::-1], test_share=0.25, dev_share=0.1)
    assert splits == dict(zip(names[::-1], turned, strict=True))
    ranked = dict(zip(names, split_by_rank(names, test_share=0.25, dev_share=0.0), strict=True))
    assert all(ranked[name] == "test" for name in names if split_of(name, test_share=0.2, dev_share=0.0) == "test")
    assert "dev" not in ranked.values()
    assert sorted(split_by_rank(["a", "b", "c"], test_share=0.01, dev_share=0.01)) == ["dev", "test", "train"]


def slow_clusters(keys):
    """What can be reached from each item, one step after another."""
    found = []
    for start in range(len(keys)):
        reached, grown = set(), {start}
        while grown != reached:
            reached = grown
            words = set().union(*(keys[place] for place in reached))
            grown = reached | {place for place, own in enumerate(keys) if own & words}
        if sorted(reached) not in found:
            found.append(sorted(reached))
    return found


def test_clusters_by_a_slow_loop():
    draws = random.Random(0)
    sizes = set()
    for _ in range(200):
        keys = [set(draws.sample(range(14), draws.randrange(4))) for _ in range(8)]
        assert clusters(keys) == slow_clusters(keys)
        sizes.add(len(clusters(keys)))
    assert len(sizes) > 4
    assert clusters([]) == []


def test_shared_keys_are_of_marked_passages_if_any():
    right, other = Passage("Ann did.", "Mill", metadata={"relevant": True}), Passage("Sheep.", metadata={"role": "x"})
    marked = Query("q", "Who?", ("Ann",), (right, other, Passage("Fog.")))
    assert shared_keys(marked, "passage") == {"Mill: Ann did."}
    assert shared_keys(marked, "title") == {"Mill"}
    assert shared_keys(marked, "question") == set()
    assert shared_keys(replace(marked, question="Who saw Ann Lee?"), "entity") == {
        "Ann Lee", "Mill: Ann did.", "Sheep.", "Fog.",
    }  # fmt: skip
    assert shared_keys(replace(marked, question="Who saw Ann Lee’s mill?"), "name") == {"Ann Lee", "Mill: Ann did."}
    unmarked = Query("q", "Who?", ("Ann",), (Passage("Ann did.", "Mill"), Passage("Fog.")))
    assert shared_keys(unmarked, "passage") == {"Mill: Ann did.", "Fog."}
    assert shared_keys(unmarked, "title") == {"Mill", "Fog."}
