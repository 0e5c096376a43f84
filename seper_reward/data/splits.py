"""Splits of questions by hash of the id, and even samples."""

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeVar

T = TypeVar("T")
Split = Literal["train", "dev", "test"]


def split_of(identity: str, *, test_share: float = 0.125, dev_share: float = 0.125) -> Split:
    """Return the split of an id, by its SHA-1 alone: the greatest are in ``test``, the next below in ``dev``.

    The shares are of all ids, in [0, 1].

    >>> [split_of(name) for name in ("q3", "q26", "q1")]
    ['train', 'dev', 'test']
    """
    place = _place(identity)
    first_test = 1 - test_share
    return "test" if place >= first_test else "dev" if place >= first_test - dev_share else "train"


def split_by_rank(identities: Sequence[str], *, test_share: float = 0.125, dev_share: float = 0.125) -> list[Split]:
    """Return the split of each id by its rank among all, so few ids, too, fill each split that has a share.

    The shares are those of ``split_of``, rounded to at least one id.

    >>> split_by_rank(["q3", "q4", "q7", "q9"])
    ['dev', 'test', 'train', 'train']
    """
    ranked = sorted(range(len(identities)), key=lambda at: (_place(identities[at]), identities[at]))
    test = max(1, round(test_share * len(ranked)))
    dev = max(1, round(dev_share * len(ranked))) if dev_share else 0
    splits: list[Split] = ["train"] * len(ranked)
    for rank, at in enumerate(reversed(ranked)):
        splits[at] = "test" if rank < test else "dev" if rank < test + dev else "train"
    return splits


def fold_of(identity: str, folds: int) -> int:
    """Return the fold of an id, in [0, folds), which does not depend on other ids.

    >>> [fold_of(name, 5) for name in ("q3", "q26", "q1")]
    [2, 4, 4]
    """
    return int(_place(identity) * folds)


def _place(identity: str) -> float:
    """Return a number in [0, 1) from the SHA-1 of an id."""
    return int(hashlib.sha1(identity.encode()).hexdigest()[:8], 16) / 16**8


def spread(items: Sequence[T], count: int | None) -> list[T]:
    """Return ``count`` items evenly spread over the sequence (default: all); files are often sorted by kind.

    >>> spread("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    if count is None or count >= len(items):
        return list(items)
    return [items[position * len(items) // count] for position in range(count)]
