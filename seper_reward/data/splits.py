"""Which questions are used for what: splits by hash of the id, and even samples."""

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeVar

T = TypeVar("T")
Split = Literal["train", "dev", "test"]


def split_of(identity: str, *, test_share: float = 0.125, dev_share: float = 0.125) -> Split:
    """Return the split that an id belongs to, whatever else is in the file.

    Args:
        identity: Id of a question, or any text that stands for it.
        test_share: Share of all ids, in [0, 1], that are in ``test``: those with the greatest SHA-1.
        dev_share: Share, in [0, 1], that are in ``dev``: those below ``test``.

    >>> [split_of(name) for name in ("q3", "q26", "q1")]
    ['train', 'dev', 'test']
    """
    place = int(hashlib.sha1(identity.encode()).hexdigest()[:8], 16) / 16**8
    first_test = 1 - test_share
    return "test" if place >= first_test else "dev" if place >= first_test - dev_share else "train"


def spread(items: Sequence[T], count: int | None) -> list[T]:
    """Return ``count`` items evenly spread over the sequence, as files are often sorted by kind; ``None`` returns all.

    >>> spread("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    if count is None or count >= len(items):
        return list(items)
    return [items[position * len(items) // count] for position in range(count)]
