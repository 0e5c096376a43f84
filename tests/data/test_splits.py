"""Splits by hash of the id, one rule for all that splits; what is linked stays together."""

import random
from dataclasses import replace

from seper_reward.data.splits import clusters, shared_keys, split_of
from seper_reward.types import Passage, Query


def test_split_of_is_by_hash():
    counts = {name: sum(split_of(str(n)) == name for n in range(1600)) for name in ("train", "dev", "test")}
    assert sum(counts.values()) == 1600
    assert abs(counts["train"] - 1200) < 80
    assert abs(counts["dev"] - 200) < 60


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


def test_clusters_are_what_can_be_reached():
    draws = random.Random(0)
    sizes = set()
    for _ in range(200):
        keys = [set(draws.sample(range(14), draws.randrange(4))) for _ in range(8)]
        assert clusters(keys) == slow_clusters(keys)
        sizes.add(len(clusters(keys)))
    assert len(sizes) > 4
    assert clusters([]) == []


def test_what_questions_share_are_marked_passages_where_there_are_marks():
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


def test_folds_hold_out_other_questions():
    names = [str(n) for n in range(400)]
    folds = [
        {name for name in names if split_of(name, test_share=0.25, turned=turned) == "test"}
        for turned in (0.0, 0.25, 0.5, 0.75)
    ]
    assert set().union(*folds) == set(names)
    assert sum(map(len, folds)) == len(names)
