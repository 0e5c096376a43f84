"""Cache of beliefs: a question with its passages is measured once for all rollouts, or all clients of a server."""

import itertools
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seper_reward.types import Answers, Asked, Belief, Measured, Passage, UnscorableError

Key = tuple[Any, ...]  # question, answers, and the passages' texts: ids differ between clients
_OF_BELIEF, _OF_RESPONSE, _OF_NUMBER = 2000, 800, 32  # bytes; most of a response's bytes are its tensor


@dataclass
class Findings:
    """What is known of some questions: beliefs by context, supports by text, errors by both."""

    missing: list[Asked]
    reused: list[float]
    beliefs: dict[Key, Belief]
    supports: dict[Key, float] = field(default_factory=dict)
    errors: dict[Key, UnscorableError] = field(default_factory=dict)

    def add(self, results: Sequence[Measured | UnscorableError]) -> None:
        """Add the results of ``missing``; then only the parts of questions that failed as a whole are missing."""
        left = []
        for request, result in zip(self.missing, results, strict=True):
            texts = [(request.question, request.answers, text) for text in request.texts]
            if isinstance(result, UnscorableError):
                self.errors |= dict.fromkeys([*_keys(request), *texts], result)
                left += _parts(request)  # one context may have failed for all
                continue
            self.beliefs |= zip(_keys(request), result.beliefs, strict=True)
            self.supports |= zip(texts, result.supports, strict=True)
        self.missing = left

    def of(self, request: Asked) -> Measured | UnscorableError:
        """Return the beliefs and supports of a question, or the error of the first that failed."""
        try:
            return Measured(
                tuple(self.beliefs[key] for key in _keys(request)),
                tuple(self.supports[request.question, request.answers, text] for text in request.texts),
            )
        except KeyError as missing:
            return self.errors[missing.args[0]]


class BeliefMemory:
    """Cache of beliefs of at most ``most_bytes`` (``size_in_bytes``).

    The least recently used belief is evicted first. Several threads may share the cache; a pickle is empty.
    """

    def __init__(self, most_bytes: int = 2**26) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the beliefs out of a pickle."""
        return BeliefMemory, (self._most_bytes,)

    def clear(self) -> None:
        """Remove all beliefs, for example after a change of the reader."""
        with self._lock:
            self._entries: OrderedDict[Key, tuple[Belief, int]] = OrderedDict()
            self._bytes = 0

    def recall(self, requests: Iterable[Asked]) -> Findings:
        """Return the cached beliefs of questions, and the contexts without one."""
        distinct = merged(requests)
        keys = list(itertools.chain.from_iterable(map(_keys, distinct)))
        with self._lock:
            known = {key: self._entries[key][0] for key in keys if key in self._entries}
        for place, request in enumerate(distinct):
            pairs = zip(_keys(request), request.contexts, strict=True)
            distinct[place] = replace(request, contexts=tuple(context for key, context in pairs if key not in known))
        return Findings(_drop_empty(distinct), [float(key in known) for key in keys], known)

    def remember(self, findings: Findings) -> None:
        """Cache the beliefs of a finished measurement, which are then the most recently used ones."""
        with self._lock:
            for key, belief in findings.beliefs.items():
                _, before = self._entries.pop(key, (None, 0))
                size = size_in_bytes(key, belief)
                self._entries[key] = (belief, size)
                self._bytes += size - before
            while self._bytes > self._most_bytes:
                self._bytes -= self._entries.popitem(last=False)[1][1]


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


def merged(requests: Iterable[Asked]) -> list[Asked]:
    """Return each distinct question once, with the contexts and texts of all its occurrences."""
    questions: dict[tuple[str, Answers], tuple[dict[Key, tuple[Passage, ...]], dict[str, None]]] = {}
    for request in requests:
        contexts, texts = questions.setdefault((request.question, request.answers), ({}, {}))
        for key, context in zip(_keys(request), request.contexts, strict=True):
            contexts.setdefault(key, context)
        texts |= dict.fromkeys(request.texts)
    return [
        Asked(*question, tuple(contexts.values()), tuple(texts)) for question, (contexts, texts) in questions.items()
    ]


def _parts(request: Asked) -> list[Asked]:
    """Return a question with several contexts once for each context, and once for its texts."""
    if len(request.contexts) < 2 and not (request.contexts and request.texts):
        return []
    alone = [replace(request, contexts=(context,), texts=()) for context in request.contexts]
    return alone + _drop_empty([replace(request, contexts=())])


def _drop_empty(requests: Sequence[Asked]) -> list[Asked]:
    return [request for request in requests if request.contexts or request.texts]


def _keys(request: Asked) -> list[Key]:
    return [
        (request.question, request.answers, tuple(passage.full_text for passage in context))
        for context in request.contexts
    ]
