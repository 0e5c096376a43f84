"""ΔSePer as a reward for TRL: what the retrieved passages taught the reader, less their price.

    GRPOTrainer(reward_funcs=[SePerReward(scorer, price=0.1)], environment_factory=..., ...)

With ``D_t`` the passages of the rollout's first t searches, ``n`` their number, ``w`` the words retrieved, SePer as in
arXiv:2503.01478 (eq. 9-10):

    delta       SePer(q, A | D_n) − SePer(q, A) − λ n − μ w                      0 without a search
    stepwise    Σ_t [SePer(q, A | D_t) − SePer(q, A | D_t−1)] − λ n − μ w         the same sum; its terms are logged
    answer      max_a E(answer → a) − λ n − μ w                                   of the policy's own last answer
    advantage   max_a E(answer → a) − SePer(q, A) − λ n − μ w                     over the reader that never searches
"""

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

from seper_reward.reward.metrics import rollout_metrics, seconds, table_columns
from seper_reward.reward.policy_reader import PolicyReader, Weights
from seper_reward.reward.rollouts import Rollout, Score, read_rollouts
from seper_reward.runtime.profiling import profiling
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Passage, UnscorableError

Variant = Literal["delta", "stepwise", "answer", "advantage"]
_MEMO = 4096  # beliefs kept in memory: a question's baseline serves its whole group, and later epochs


class SePerReward:
    """Scores rollouts; pass it as a reward function to a TRL trainer, or call it by hand.

    Columns: ``question`` (text) and ``answers`` (aliases of the gold answer). A rollout's searches come from its
    ``environments``, else from a column ``passages`` (a list of texts or ``{id?, title?, text}``, one search), else
    from the texts of the completion's tool messages.

    Args:
        scorer: measures beliefs; ``None`` makes the embedded one at the first call.
        variant: a formula above.
        price: λ per search, in units of belief.
        word_price: μ per retrieved word.
        needed: a question counts as one that needs a search if its baseline SePer is below this.
        reader: ``"separate"`` reads with the scorer's own weights; ``"policy-base"`` and ``"policy"`` with the
            trainer's, without and with its adapter, once ``attach`` has been called.

    Raises:
        ValueError: the variant or the reader is unknown, or a price is negative.
    """

    def __init__(
        self,
        scorer: SePerScorer | None = None,
        *,
        variant: Variant = "delta",
        price: float = 0.0,
        word_price: float = 0.0,
        needed: float = 0.5,
        reader: Weights = "separate",
    ) -> None:
        if variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {variant!r}")
        if price < 0 or word_price < 0:
            raise ValueError(f"prices must be at least 0, got {price} and {word_price}")
        self.__name__ = f"seper_{variant}"  # TRL names the metric after it
        self.variant, self.needed = variant, needed
        self.price, self.word_price = price, word_price
        self.failures: Counter[str] = Counter()
        self._reader = PolicyReader(scorer, reader)
        self._memo: dict[tuple[Any, ...], Belief] = {}
        self._reused: list[float] = []  # per belief of the last call: 1 where it was in memory
        self._last_call: float | None = None
        self._recordings: list[list[tuple[Rollout, Score | None]]] = []

    def __call__(
        self,
        prompts: Sequence[Any] | None = None,
        completions: Sequence[Any] | None = None,
        *,
        question: Sequence[str],
        answers: Sequence[Sequence[str]],
        passages: Sequence[Sequence[Any]] | None = None,
        environments: Sequence[Any] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """Return one reward per completion; ``None`` where it cannot be scored (see ``failures``)."""
        rollouts = read_rollouts(question, answers, completions, passages, environments)
        with profiling() as profile:
            scores = self.score(rollouts)
        for recorded in self._recordings:
            recorded += zip(rollouts, scores, strict=True)
        if log_extra is not None:
            for name, column in table_columns(rollouts, scores).items():
                log_extra(name, column)
        if log_metric is not None:
            single = seconds(rollouts, profile) | self._share_of_step(profile.total_seconds)
            many = rollout_metrics(rollouts, scores, self.needed) | {"seper/reused_beliefs": self._reused}
            for name, value in single.items():
                log_metric(name, value)
            for name, values in many.items():
                for value in values:  # TRL takes the mean of all, over processes and steps
                    log_metric(name, value)
        return [None if score is None else score.reward for score in scores]

    @contextmanager
    def recording(self) -> Iterator[list[tuple[Rollout, Score | None]]]:
        """Collect each rollout of this process and its score, until the block ends."""
        recorded: list[tuple[Rollout, Score | None]] = []
        self._recordings.append(recorded)
        try:
            yield recorded
        finally:
            self._recordings.remove(recorded)

    def score(self, rollouts: Sequence[Rollout]) -> list[Score | None]:
        """Score rollouts, each distinct (question, passages) once."""
        if self._reader.moves:
            self._memo.clear()  # the weights have moved since
        with self._reader.scorer() as scorer:
            self._measure(scorer, rollouts)
            return [self._score(scorer, rollout) for rollout in rollouts]

    def cost(self, rollout: Rollout) -> float:
        """Return the price of a rollout's searches: λ n + μ w."""
        return self.price * len(rollout.turns) + self.word_price * rollout.words

    def attach(self, trainer: Any) -> None:
        """Read with the trainer's own weights from now on; see ``PolicyReader.attach``."""
        self._memo.clear()
        self._reader.attach(trainer)

    def __getstate__(self) -> dict[str, Any]:
        """Leave beliefs and recordings behind; models stay behind, too (``PolicyReader``)."""
        return {**self.__dict__, "_memo": {}, "_recordings": []}

    def _measure(self, scorer: SePerScorer, rollouts: Sequence[Rollout]) -> None:
        """Put the beliefs that the rollouts need into memory, question by question."""
        wanted: dict[tuple[str, tuple[str, ...]], dict[tuple[Passage, ...], None]] = {}
        for rollout in rollouts:
            contexts = wanted.setdefault((rollout.question, rollout.answers), {})
            contexts.update(dict.fromkeys(self._contexts(rollout)))
        if len(self._memo) > _MEMO:
            self._memo.clear()
        self._reused = []
        missing: dict[tuple[str, tuple[str, ...]], list[tuple[Passage, ...]]] = {}
        for question, contexts in wanted.items():
            unknown = [passages for passages in contexts if (*question, passages) not in self._memo]
            self._reused += [float(passages not in unknown) for passages in contexts]
            if unknown and question[1]:
                missing[question] = unknown
        for (text, _), unknown in missing.items():
            scorer.reader.expect(text, unknown)  # an engine works on all questions at once
        for (text, answers), unknown in missing.items():
            try:
                beliefs = scorer.beliefs(text, answers, unknown)
            except UnscorableError as error:
                self.failures[str(error)[:200]] += 1
                continue
            self._memo |= {
                (text, answers, passages): belief for passages, belief in zip(unknown, beliefs, strict=True)
            }

    def _contexts(self, rollout: Rollout) -> list[tuple[Passage, ...]]:
        """Return what the reader sees: nothing, then the passages of the first, the first two ... searches."""
        count = len(rollout.turns)
        steps = {"answer": [], "advantage": [0], "delta": sorted({0, count}), "stepwise": list(range(count + 1))}
        return [rollout.found_by(searches) for searches in steps[self.variant]]

    def _score(self, scorer: SePerScorer, rollout: Rollout) -> Score | None:
        if not rollout.answers:
            self.failures["no gold answer"] += 1
            return None
        keys = [(rollout.question, rollout.answers, passages) for passages in self._contexts(rollout)]
        if any(key not in self._memo for key in keys):
            return None  # counted where it failed
        beliefs = tuple(self._memo[key] for key in keys)
        cost = self.cost(rollout)
        if self.variant in ("delta", "stepwise"):
            return Score(beliefs[-1].seper - beliefs[0].seper - cost, beliefs, cost)
        answer = scorer.support(rollout.question, rollout.answer, rollout.answers)
        return Score(answer - (beliefs[0].seper if beliefs else 0.0) - cost, beliefs, cost, answer)

    def _share_of_step(self, spent: float) -> dict[str, float]:
        """Return this call's share of the time since the call before, which is a step in training."""
        now = time.perf_counter()
        share = {} if self._last_call is None else {"seper/share_of_step": spent / (now - self._last_call)}
        self._last_call = now
        return share


@functools.cache
def _default() -> SePerReward:
    return SePerReward(price=0.1)


def delta_seper(*args: Any, **columns: Any) -> list[float | None]:
    """``SePerReward`` with the embedded models and a price of 0.1 a search, for ``trl grpo --reward_funcs``."""
    return _default()(*args, **columns)
