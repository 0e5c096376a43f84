"""Cache of beliefs: a question with its passages is measured once for all rollouts, or all clients of a server."""

import functools
import itertools
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from seper_reward.types import Answers, Asked, Belief, Measure, Measured, Passage, UnscorableError

Key = tuple[Any, ...]  # question, answers, and the passages' texts: ids differ between clients
_OF_BELIEF, _OF_RESPONSE, _OF_NUMBER = 2000, 800, 32  # bytes; most of a response's bytes are its tensor


class BeliefMemory:
    """Cache of beliefs of at most ``most_bytes`` (``size_in_bytes``); measures the missing ones.

    The least recently used belief is evicted first. Several threads may share the cache; a pickle is empty.

    Attributes:
        reused: Per belief of the last call, 1 if it was in the cache, else 0.
    """

    def __init__(self, most_bytes: int = 2**26) -> None:
        self.reused: list[float] = []
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
            self._expected: set[Asked] = set()

    def measure(
        self, asked: Sequence[Asked | None], measure: Measure, *, share: bool = False
    ) -> list[Measured | UnscorableError | None]:
        """Return the beliefs and supports of each rollout's question, or its error; ``None`` for ``None``.

        The missing ones are measured by one call of ``measure``, and the contexts of a question that fails once more,
        each alone. With ``share``, all ranks call this together, and divide them.
        """
        wanted = _merge(each for each in asked if each is not None)
        beliefs = self._known(wanted)
        self.reused = [float(key in beliefs) for each in wanted for key in _keys(each)]
        mine = [_missing_part(each, beliefs) for each in wanted]
        if share:
            # imported here: these modules need torch, which a client may lack
            from seper_reward.reward.shared import measure_together
            from seper_reward.runtime.distributed import gathered

            # the caches of the ranks may differ
            mine = _merge(itertools.chain.from_iterable(gathered(lambda: mine)))
            measure = functools.partial(measure_together, measure=measure)
        missing = _drop_empty(mine)
        found = list(zip(missing, measure(missing), strict=True))
        parts = [part for each, result in found if isinstance(result, UnscorableError) for part in _parts(each)]
        if parts:  # one context may have failed for all
            found += zip(parts, measure(parts), strict=True)
        self._expected = set()
        new: dict[Key, Belief] = {}
        supports: dict[Key, float] = {}
        errors: dict[Key, UnscorableError] = {}
        for each, result in found:
            texts = [(each.question, each.answers, text) for text in each.texts]
            if isinstance(result, UnscorableError):
                errors |= dict.fromkeys([*_keys(each), *texts], result)
                continue
            new |= zip(_keys(each), result.beliefs, strict=True)
            supports |= zip(texts, result.supports, strict=True)
        self._remember(new)
        beliefs |= new
        return [None if each is None else _recall(each, beliefs, supports, errors) for each in asked]

    def expect(self, asked: Asked) -> Asked | None:
        """Return the contexts of a question that are neither cached nor expected since the last ``measure``."""
        missing = _missing_part(asked, self._entries)
        if not missing.contexts or missing in self._expected:
            return None
        self._expected.add(missing)
        return missing

    def _known(self, asked: Sequence[Asked]) -> dict[Key, Belief]:
        """Return the cached beliefs of questions, which are then the most recently used ones."""
        known = {}
        with self._lock:
            for key in itertools.chain.from_iterable(map(_keys, asked)):
                if key in self._entries:
                    self._entries.move_to_end(key)
                    known[key] = self._entries[key][0]
        return known

    def _remember(self, beliefs: Mapping[Key, Belief]) -> None:
        with self._lock:
            for key, belief in beliefs.items():
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


def _merge(asked: Iterable[Asked]) -> list[Asked]:
    """Return each distinct question once, with the contexts and texts of all its occurrences."""
    questions: dict[tuple[str, Answers], tuple[dict[Key, tuple[Passage, ...]], dict[str, None]]] = {}
    for each in asked:
        contexts, texts = questions.setdefault((each.question, each.answers), ({}, {}))
        for key, context in zip(_keys(each), each.contexts, strict=True):
            contexts.setdefault(key, context)
        texts |= dict.fromkeys(each.texts)
    return [
        Asked(*question, tuple(contexts.values()), tuple(texts)) for question, (contexts, texts) in questions.items()
    ]


def _missing_part(asked: Asked, known: Mapping[Key, Any]) -> Asked:
    """Return a question without the contexts whose beliefs are known."""
    missing = [context for key, context in zip(_keys(asked), asked.contexts, strict=True) if key not in known]
    return replace(asked, contexts=tuple(missing))


def _parts(asked: Asked) -> list[Asked]:
    """Return a question with several contexts once for each context, and once for its texts."""
    if len(asked.contexts) < 2 and not (asked.contexts and asked.texts):
        return []
    alone = [replace(asked, contexts=(context,), texts=()) for context in asked.contexts]
    return alone + _drop_empty([replace(asked, contexts=())])


def _drop_empty(asked: Sequence[Asked]) -> list[Asked]:
    return [each for each in asked if each.contexts or each.texts]


def _keys(asked: Asked) -> list[Key]:
    return [
        (asked.question, asked.answers, tuple(passage.full_text for passage in context)) for context in asked.contexts
    ]


def _recall(
    asked: Asked,
    beliefs: Mapping[Key, Belief],
    supports: Mapping[Key, float],
    errors: Mapping[Key, UnscorableError],
) -> Measured | UnscorableError:
    """Return the beliefs and supports of a question, or the error of the first that failed."""
    try:
        return Measured(
            tuple(beliefs[key] for key in _keys(asked)),
            tuple(supports[asked.question, asked.answers, text] for text in asked.texts),
        )
    except KeyError as missing:
        return errors[missing.args[0]]
