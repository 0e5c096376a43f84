"""ΔSePer as a reward for TRL: what the retrieved passages taught the reader, less their price.

    GRPOTrainer(reward_funcs=[SePerReward(scorer, price=0.1)], environment_factory=..., ...)

The variants, with ``n`` the number of the rollout's searches, ``D_t`` the passages of the first t of them, ``w`` the
number of retrieved words, SePer as in arXiv:2503.01478 (eq. 9-10), and ``E`` how surely the answer that the policy
states last and a gold answer entail each other (``BeliefJudge.mutual_support``):

    delta       SePer(q, A | D_n) − SePer(q, A) − λ n − μ w                       0 without a search
    stepwise    Σ_t [SePer(q, A | D_t) − SePer(q, A | D_t−1)] − λ n − μ w          equal to delta; logs each term
    answer      max_a E(answer, a) − λ n − μ w                                     takes the policy's answer alone
    advantage   max_a E(answer, a) − SePer(q, A) − λ n − μ w                       compares it with the reader's belief
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
from seper_reward.types import Answers, Belief, Passage, UnscorableError

Variant = Literal["delta", "stepwise", "answer", "advantage"]
_MEMO = 4096  # beliefs in memory before it is emptied: a question's baseline serves its group, and later epochs


class SePerReward:
    """Scores rollouts; pass it as a reward function to a TRL trainer, or call it by hand.

    It needs the columns ``question`` (text) and ``answers`` (aliases of the gold answer or, where that is a list, the
    aliases of each of its items). A rollout's searches come
    from its environment, else from a column ``passages`` (a list of texts or ``{id?, title?, text}``, one search),
    else from the texts of the completion's tool messages. A row of other types is a rollout that cannot be scored; a
    whole column of another type is an error.

    Args:
        scorer: Scorer that measures beliefs; ``None`` loads the embedded models at the first call.
        variant: ``"delta"``, ``"stepwise"``, ``"answer"`` or ``"advantage"``: formulas at the top of this file.
        price: Price λ of a search, in units of belief, >= 0.
        word_price: Price μ of a retrieved word, in units of belief, >= 0.
        needed: Baseline SePer below which a question counts as one that needs a search; rewards do not use it.
        reader: ``"separate"`` reads with the scorer's own weights; ``"policy-base"`` and ``"policy"`` with the
            trainer's, without and with its adapter, once ``attach`` has been called.

    Attributes:
        failures: How many rollouts could not be scored, by reason.

    Raises:
        ValueError: The variant or the reader is unknown, or a price is negative.
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
        answers: Sequence[Answers],
        passages: Sequence[Sequence[Any]] | None = None,
        environments: Sequence[Any] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """Return one reward per completion; ``None`` where it cannot be scored, with the reason in ``failures``."""
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
                for value in values:  # TRL takes the mean over processes and steps
                    log_metric(name, value)
        return [None if score is None else score.reward for score in scores]

    @property
    def reader(self) -> Weights:
        """Whose weights read: ``"separate"``, ``"policy-base"`` or ``"policy"``."""
        return self._reader.weights

    @contextmanager
    def recording(self) -> Iterator[list[tuple[Rollout, Score | None]]]:
        """Yield a list that collects each rollout of this process and its score until the block ends."""
        recorded: list[tuple[Rollout, Score | None]] = []
        self._recordings.append(recorded)
        try:
            yield recorded
        finally:
            self._recordings.remove(recorded)

    def score(self, rollouts: Sequence[Rollout]) -> list[Score | None]:
        """Score rollouts; each distinct pair of question and passages is measured once.

        Returns:
            One score per rollout; ``None`` where it cannot be scored, with the reason in ``failures``.
        """
        if self._reader.moves:
            self._memo.clear()  # the weights have changed since the last call
        with self._reader.scorer() as scorer:
            self._measure(scorer, rollouts)
            return [self._score(scorer, rollout) for rollout in rollouts]

    def cost(self, rollout: Rollout) -> float:
        """Return the price of a rollout's searches: λ n + μ w."""
        return self.price * len(rollout.turns) + self.word_price * rollout.words

    def attach(self, trainer: Any) -> None:
        """Read with the trainer's weights from now on; ``PolicyReader.attach`` tells what is checked and raised."""
        self._memo.clear()
        self._reader.attach(trainer)

    def __getstate__(self) -> dict[str, Any]:
        """Leave beliefs and recordings out of a pickle; ``PolicyReader`` leaves out the models."""
        return {**self.__dict__, "_memo": {}, "_recordings": []}

    def _measure(self, scorer: SePerScorer, rollouts: Sequence[Rollout]) -> None:
        """Put the beliefs that the rollouts need into memory, question by question."""
        by_question: dict[tuple[str, Answers], dict[tuple[Passage, ...], None]] = {}
        for rollout in rollouts:
            if not rollout.answers:
                continue
            contexts = by_question.setdefault((rollout.question, rollout.answers), {})
            contexts.update(dict.fromkeys(self._contexts(rollout)))
        if len(self._memo) > _MEMO:
            self._memo.clear()
        self._reused = []
        missing: dict[tuple[str, Answers], list[tuple[Passage, ...]]] = {}
        for key, contexts in by_question.items():
            new_contexts = [passages for passages in contexts if (*key, passages) not in self._memo]
            self._reused += [float(passages not in new_contexts) for passages in contexts]
            if new_contexts:
                missing[key] = new_contexts
        for (question, _), new_contexts in missing.items():
            scorer.reader.expect(question, new_contexts)  # an engine works on all questions at once
        for (question, answers), new_contexts in missing.items():
            try:
                beliefs = scorer.beliefs(question, answers, new_contexts)
            except UnscorableError as error:
                self.failures[str(error)[:200]] += 1
                continue
            self._memo |= {
                (question, answers, passages): belief for passages, belief in zip(new_contexts, beliefs, strict=True)
            }

    def _contexts(self, rollout: Rollout) -> list[tuple[Passage, ...]]:
        """Return the passages of the first t searches, for each t whose belief the variant needs; none for t = 0."""
        count = len(rollout.turns)
        steps = {"answer": [], "advantage": [0], "delta": sorted({0, count}), "stepwise": list(range(count + 1))}
        return [rollout.found_by(searches) for searches in steps[self.variant]]

    def _score(self, scorer: SePerScorer, rollout: Rollout) -> Score | None:
        if not rollout.answers:
            self.failures[rollout.problem or "no gold answer"] += 1
            return None
        keys = [(rollout.question, rollout.answers, passages) for passages in self._contexts(rollout)]
        if any(key not in self._memo for key in keys):
            return None  # ``_measure`` counted the failure
        beliefs = tuple(self._memo[key] for key in keys)
        cost = self.cost(rollout)
        if self.variant in ("delta", "stepwise"):
            return Score(beliefs[-1].seper - beliefs[0].seper - cost, beliefs, cost)
        answer = scorer.mutual_support(rollout.question, rollout.answer, rollout.answers)
        return Score(answer - (beliefs[0].seper if beliefs else 0.0) - cost, beliefs, cost, answer)

    def _share_of_step(self, spent: float) -> dict[str, float]:
        """Return this call's share of the time since the previous call, which in training is one step."""
        now = time.perf_counter()
        share = {} if self._last_call is None else {"seper/share_of_step": spent / (now - self._last_call)}
        self._last_call = now
        return share


@functools.cache
def _default() -> SePerReward:
    return SePerReward(price=0.1)


def delta_seper(*args: Any, **columns: Any) -> list[float | None]:
    """Return the rewards of ``SePerReward`` with the embedded models and a price of 0.1 per search.

    Its name is for the command line of TRL: ``trl grpo --reward_funcs seper_reward.reward.delta_seper``.

    Args:
        *args: Prompts and completions, as TRL passes them.
        **columns: The other arguments of ``SePerReward.__call__``.
    """
    return _default()(*args, **columns)
