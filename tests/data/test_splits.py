"""Splits by hash of the id: one rule for all that splits."""

from seper_reward.data.splits import split_of


def test_split_of_is_by_hash():
    counts = {name: sum(split_of(str(n)) == name for n in range(1600)) for name in ("train", "dev", "test")}
    assert sum(counts.values()) == 1600
    assert abs(counts["train"] - 1200) < 80
    assert abs(counts["dev"] - 200) < 60
