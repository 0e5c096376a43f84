"""Cache of a reward's beliefs: each question with its passages is measured once for all rollouts and steps."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from seper_reward.types import Answers, Asked, Belief, Measure, Measured, Passage, UnscorableError

_MOST = 4096  # maximum number of beliefs; later epochs reuse the baseline of a question


class BeliefMemory:
    """Cache of beliefs; measures the missing ones.

    Attributes:
        reused: Per belief of the last call, 1 if it was in the cache, else 0.
    """

    def __init__(self) -> None:
        self.reused: list[float] = []
        self._beliefs: dict[tuple[Any, ...], Belief] = {}
        self._expected: set[Asked] = set()

    def clear(self) -> None:
        """Remove all beliefs, for example after a change of the reader."""
        self._beliefs = {}

    def measure(
        self, asked: Sequence[Asked | None], measure: Measure, *, share: bool = False
    ) -> list[Measured | UnscorableError | None]:
        """Return the beliefs and supports of each rollout's question, or its error; ``None`` for ``None``.

        The missing ones are measured by one call of ``measure``. With ``share``, all ranks call this together, and
        divide them.
        """
        if len(self._beliefs) > _MOST:
            self._beliefs = {}
        beliefs = self._beliefs  # another thread may replace the dictionary
        wanted = _merge(each for each in asked if each is not None)
        self.reused = [float(key in beliefs) for each in wanted for key in _keys(each)]
        mine = [_missing_part(each, beliefs) for each in wanted]
        if share:
            # imported here: these modules need torch, which a client may lack
            from seper_reward.reward.shared import measure_together
            from seper_reward.runtime.distributed import gathered

            # the caches of the ranks may differ
            missing = _drop_empty(_merge(itertools.chain.from_iterable(gathered(lambda: mine))))
            found: Sequence[Measured | UnscorableError] = measure_together(missing, measure)
        else:
            missing = _drop_empty(mine)
            found = measure(missing)
        self._expected = set()
        supports: dict[tuple[Any, ...], float] = {}
        errors: dict[tuple[Any, ...], UnscorableError] = {}
        for each, result in zip(missing, found, strict=True):
            texts = [(each.question, each.answers, text) for text in each.texts]
            if isinstance(result, UnscorableError):
                errors |= dict.fromkeys([*_keys(each), *texts], result)
                continue
            beliefs |= zip(_keys(each), result.beliefs, strict=True)
            supports |= zip(texts, result.supports, strict=True)
        return [None if each is None else _recall(each, beliefs, supports, errors) for each in asked]

    def expect(self, asked: Asked) -> Asked | None:
        """Return the contexts of a question that are neither cached nor expected since the last ``measure``."""
        missing = _missing_part(asked, self._beliefs)
        if not missing.contexts or missing in self._expected:
            return None
        self._expected.add(missing)
        return missing


def _merge(asked: Iterable[Asked]) -> list[Asked]:
    """Return each distinct question once, with the contexts and texts of all its occurrences."""
    questions: dict[tuple[str, Answers], tuple[dict[tuple[Passage, ...], None], dict[str, None]]] = {}
    for each in asked:
        contexts, texts = questions.setdefault((each.question, each.answers), ({}, {}))
        contexts |= dict.fromkeys(each.contexts)
        texts |= dict.fromkeys(each.texts)
    return [Asked(*question, tuple(contexts), tuple(texts)) for question, (contexts, texts) in questions.items()]


def _missing_part(asked: Asked, beliefs: Mapping[tuple[Any, ...], Belief]) -> Asked:
    """Return a question without the contexts whose beliefs are cached."""
    missing = [context for key, context in zip(_keys(asked), asked.contexts, strict=True) if key not in beliefs]
    return replace(asked, contexts=tuple(missing))


def _drop_empty(asked: Sequence[Asked]) -> list[Asked]:
    return [each for each in asked if each.contexts or each.texts]


def _keys(asked: Asked) -> list[tuple[Any, ...]]:
    return [(asked.question, asked.answers, context) for context in asked.contexts]


def _recall(
    asked: Asked,
    beliefs: Mapping[tuple[Any, ...], Belief],
    supports: Mapping[tuple[Any, ...], float],
    errors: Mapping[tuple[Any, ...], UnscorableError],
) -> Measured | UnscorableError:
    """Return the beliefs and supports of a question, or the error of the first that failed."""
    key = (asked.question, asked.answers)
    try:
        return Measured(
            tuple(beliefs[*key, context] for context in asked.contexts),
            tuple(supports[*key, text] for text in asked.texts),
        )
    except KeyError as missing:
        return errors[missing.args[0]]
