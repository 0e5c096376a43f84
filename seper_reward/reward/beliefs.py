"""The beliefs that a reward has measured: each distinct question and passages once, for all rollouts and steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seper_reward.types import Answers, Asked, Belief, Measured, Passage, UnscorableError

_MOST = 4096  # beliefs in memory before it is emptied: a question's baseline serves its group, and later epochs

Context = tuple[Passage, ...]
Question = tuple[str, Answers]
#: By question: its contexts, each with the number of draws that its belief is known on, and texts.
Wanted = dict[Question, tuple[dict[Context, int], dict[str, None]]]
Measure = Callable[[Sequence[Asked]], Sequence[Measured | UnscorableError]]


class BeliefMemory:
    """Keeps beliefs, and has measured what it does not know.

    Args:
        pool_draws: Up to how many draws of N responses a belief is measured on, >= 1: each call that needs it again
            has it measured with one draw more.

    Attributes:
        pool_draws: The same number.
        reused: Per belief of the last call, 1 where it was in memory, else 0.
    """

    def __init__(self, pool_draws: int = 1) -> None:
        self.reused: list[float] = []
        self.pool_draws = pool_draws
        self._beliefs: dict[tuple[Any, ...], Belief] = {}
        self._draws: dict[int, int] = {}  # draws that beliefs were measured on, by hash of their keys
        self._expected: set[tuple[Any, ...]] = set()

    def clear(self) -> None:
        """Forget all beliefs, as those of another reader; the number of their draws as well."""
        self._beliefs, self._draws = {}, {}

    def measure(
        self, asked: Sequence[Asked | None], measure: Measure, *, share: bool = False
    ) -> list[Measured | UnscorableError | None]:
        """Return what is known about each rollout's question once the rest has been measured.

        Args:
            asked: Per rollout what is asked; ``None`` where nothing can be.
            measure: Measures questions; it is called once.
            share: Whether all ranks call this together: what any of them needs is then measured by one of them.

        Returns:
            Per rollout what was measured, or the reason why it cannot be; ``None`` where nothing was asked.
        """
        if len(self._beliefs) > _MOST:
            self._beliefs = {}
        beliefs = self._beliefs  # another thread may begin a new one
        wanted = self._wanted(asked, beliefs)
        self.reused = [
            float(draws == self.pool_draws) for contexts, _ in wanted.values() for draws in contexts.values()
        ]
        if share:
            # these need torch, which a client may lack
            from seper_reward.reward.shared import measure_together
            from seper_reward.runtime.distributed import gathered

            missing = self._missing(gathered(lambda: wanted))
            found: Sequence[Measured | UnscorableError] = measure_together(missing, measure)
        else:
            missing = self._missing([wanted])
            found = measure(missing)
        self._expected = set()
        supports: dict[tuple[Any, ...], float] = {}
        errors: dict[tuple[Any, ...], UnscorableError] = {}
        for each, result in zip(missing, found, strict=True):
            key = (each.question, each.answers)
            contexts, texts = [(*key, context) for context in each.contexts], [(*key, text) for text in each.texts]
            if isinstance(result, UnscorableError):
                errors |= dict.fromkeys([*contexts, *texts], result)
                continue
            beliefs |= zip(contexts, result.beliefs, strict=True)
            self._draws |= dict.fromkeys(map(hash, contexts), each.draws)
            supports |= zip(texts, result.supports, strict=True)
        return [None if each is None else _recalled(each, beliefs, supports, errors) for each in asked]

    def expect(self, asked: Asked) -> Asked | None:
        """Return what of a question will have to be measured, unless that was said before since the last call."""
        missing = self._missing([self._wanted([asked], self._beliefs)])
        new = [each for each in missing if (each.question, each.answers, each.contexts) not in self._expected]
        self._expected |= {(each.question, each.answers, each.contexts) for each in new}
        return new[0] if new else None

    def _wanted(self, asked: Sequence[Asked | None], beliefs: Mapping[tuple[Any, ...], Belief]) -> Wanted:
        """Return by question what several rollouts ask, each context with the draws that its belief is known on."""
        wanted: Wanted = {}
        for each in asked:
            if each is not None:
                key = (each.question, each.answers)
                contexts, texts = wanted.setdefault(key, ({}, {}))
                contexts |= {context: self._known_on((*key, context), beliefs) for context in each.contexts}
                texts |= dict.fromkeys(each.texts)
        return wanted

    def _known_on(self, key: tuple[Any, ...], beliefs: Mapping[tuple[Any, ...], Belief]) -> int:
        draws = self._draws.get(hash(key), 0)
        return draws if key in beliefs else min(draws, self.pool_draws - 1)  # its last draw is made again

    def _missing(self, everyone: Sequence[Wanted]) -> list[Asked]:
        """Return what has to be measured for several ranks, the same on each; they may know different beliefs."""
        questions: dict[Question, tuple[dict[Context, list[int]], dict[str, None]]] = {}
        for wanted in everyone:
            for key, (contexts, texts) in wanted.items():
                known, all_texts = questions.setdefault(key, ({}, {}))
                for context, draws in contexts.items():
                    known.setdefault(context, []).append(draws)
                all_texts |= texts
        missing: list[Asked] = []
        for key, (known, all_texts) in questions.items():
            by_draws: dict[int, list[Context]] = {1: []}
            for context, draws_known in known.items():
                if min(draws_known) < self.pool_draws:
                    by_draws.setdefault(min(max(draws_known) + 1, self.pool_draws), []).append(context)
            # what a text says does not depend on draws: it is asked for once
            missing += [
                Asked(*key, tuple(each), tuple(all_texts) if draws == 1 else (), draws)
                for draws, each in by_draws.items()
            ]
        return [each for each in missing if each.contexts or each.texts]


def _recalled(
    asked: Asked,
    beliefs: Mapping[tuple[Any, ...], Belief],
    supports: Mapping[tuple[Any, ...], float],
    errors: Mapping[tuple[Any, ...], UnscorableError],
) -> Measured | UnscorableError:
    """Return what was measured, or why something of it could not be."""
    key = (asked.question, asked.answers)
    try:
        return Measured(
            tuple(beliefs[*key, context] for context in asked.contexts),
            tuple(supports[*key, text] for text in asked.texts),
        )
    except KeyError as missing:
        return errors[missing.args[0]]
