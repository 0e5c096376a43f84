"""The server's cache of beliefs, limited in bytes; the least recently used belief is evicted first."""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from seper_reward.types import Belief

Key = tuple[Any, ...]  # question, answers, and the passages' texts


_OF_BELIEF, _OF_RESPONSE, _OF_NUMBER = 2000, 800, 32  # bytes; most of a response's bytes are its tensor


def size_in_bytes(key: Key, belief: Belief) -> int:
    """Return an estimate of the bytes of a belief and its key."""
    numbers = sum(map(len, belief.sampled.token_ids)) + sum(map(len, belief.support))
    texts = sum(map(sys.getsizeof, (*_texts(key), *belief.responses)))
    return _OF_BELIEF + _OF_RESPONSE * len(belief.responses) + _OF_NUMBER * numbers + texts


def _texts(key: Key) -> Iterator[str]:
    for part in key:
        if isinstance(part, str):
            yield part
        else:
            yield from _texts(part)


class BeliefMemory:
    """Beliefs by question, answers and passages, of at most ``most_bytes`` (``size_in_bytes``) after ``forget``."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._entries: OrderedDict[Key, tuple[Belief, int]] = OrderedDict()

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __getitem__(self, key: Key) -> Belief:
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def __setitem__(self, key: Key, belief: Belief) -> None:
        known = self._entries.pop(key, None)
        size = size_in_bytes(key, belief)
        self._entries[key] = (belief, size)
        self._bytes += size - (known[1] if known else 0)

    def forget(self) -> None:
        """Evict the least recently used beliefs until the remaining ones fit into ``most_bytes``."""
        while self._bytes > self._most_bytes:
            self._bytes -= self._entries.popitem(last=False)[1][1]
