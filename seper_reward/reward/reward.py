"""ΔSePer as a reward for TRL: what the retrieved passages taught the reader, less their price.

    GRPOTrainer(reward_funcs=[SePerReward(scorer, price=0.1)], environment_factory=..., ...)

``formula.py`` has the variants.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from seper_reward.client import SePerClient
from seper_reward.reward.baseline import random_passage
from seper_reward.reward.beliefs import BeliefMemory
from seper_reward.reward.credit import credit_of, turn_rewards
from seper_reward.reward.environment import Turn
from seper_reward.reward.formula import Formula, Variant
from seper_reward.reward.metrics import rollout_metrics, seconds, table_columns
from seper_reward.reward.policy_reader import PolicyReader, Weights
from seper_reward.reward.rollouts import OTHERS, Rollout, Score, read_rollouts
from seper_reward.runtime.profiling import profiling
from seper_reward.types import Answers, Asked, Measured, Passage, UnscorableError

if TYPE_CHECKING:
    from seper_reward.scorer import SePerScorer

T = TypeVar("T")
Baseline = Literal["none", "placebo"]


class SePerReward:
    """Scores rollouts; pass it as a reward function to a TRL trainer, or call it by hand.

    It needs the columns ``question`` (text) and ``answers`` (aliases of the gold answer or, where that is a list, the
    aliases of each of its items), or environments with attributes of these names. A rollout's searches come from its
    environment, else from a column ``passages`` (a list of texts or ``{id?, title?, text}``, one search), else from
    the texts of the completion's tool messages and from what stands between passage tags. A row of other types is a
    rollout that cannot be scored; a whole column of another type is an error. Where a trainer has environments of
    several types, rows of those that do not search get ``None``, and do not count as failures.

    Args:
        scorer: Scorer that measures beliefs; or the URL of ``seper-reward serve``, or a client of it, which travel to
            other processes; ``None`` loads the embedded models at the first call.
        variant: ``"delta"``, ``"stepwise"``, ``"answer"``, ``"advantage"`` or ``"both"``: formulas in ``formula.py``.
        price: Price λ of a search, in units of belief, >= 0.
        word_price: Price μ of a retrieved word, in units of belief, >= 0.
        gain_weight: Weight β, >= 0, of what the searches gained in ``"both"``; other variants do not use it.
        closed_book: Whether ``"both"`` subtracts the belief without a search, as ``"advantage"`` does; of use where a
            trainer compares rollouts of several questions.
        needed: Baseline SePer below which a question counts as one that needs a search; rewards do not use it.
        reader: ``"separate"`` reads with the scorer's own weights; ``"policy-base"`` and ``"policy"`` with the
            trainer's, without and with its adapter, once ``attach`` has been called.
        passage_tag: Name of the tag that stands around what a search found in completions that are texts, such as
            ``information``; a policy that can write the tag itself can fake passages. ``None`` if there is none.
        baseline: What SePer(q, A) is in the formulas: ``"none"``, the belief without a passage; ``"placebo"``, that
            with the placebo of the scorer's prompt style; or a list of passages, such as those of the corpus, for the
            belief with a random one of them that does not hold the answer, the same for all rollouts of a question. A
            rollout without a search has a gain of 0 with each.
        pool_draws: Up to how many draws of N responses a belief is measured on, >= 1: each call that needs it again
            adds a draw with a seed of its own, until there are so many. 1 keeps the first draw, and its error, for
            ever. More need a scorer with a cache, and a reader whose weights do not move.
        share_ranks: Whether the ranks of a trainer share the work: what the rollouts of all of them need is measured
            once, by one of them. All ranks must then call the reward together, as in TRL's ``GRPOTrainer``; a process
            without a process group, and ``score``, work alone. A server measures once for all its clients anyway.
        environment: Which rows are scored where the data set's column ``environment`` names several types of them, as
            in TRL's dict of factories; all others get ``None``. ``None`` scores those whose environment keeps a record
            of searches (``turns``); ``AsyncGRPOTrainer`` does not show environments, so that it needs the name.
        name: Name of the metrics in the log; ``None``: ``seper_`` and the variant.

    Attributes:
        formula: The formula with its prices and weights.
        failures: How many rollouts could not be scored, by reason.

    Raises:
        ValueError: The variant, the reader or the baseline is unknown, a price or weight is negative, or a URL is not
            one; or a server is to read with the trainer's weights, or with a placebo; or draws cannot be pooled.
    """

    def __init__(
        self,
        scorer: "SePerScorer | SePerClient | str | None" = None,
        *,
        variant: Variant = "delta",
        price: float = 0.0,
        word_price: float = 0.0,
        gain_weight: float = 1.0,
        closed_book: bool = False,
        needed: float = 0.5,
        reader: Weights = "separate",
        passage_tag: str | None = None,
        baseline: Baseline | Sequence[Passage] = "none",
        pool_draws: int = 1,
        share_ranks: bool = False,
        environment: str | None = None,
        name: str | None = None,
    ) -> None:
        self.formula = Formula(variant, price, word_price, gain_weight, closed_book)
        self.__name__ = name or f"seper_{variant}"  # TRL names the metric after it
        self.needed, self.passage_tag, self.environment = needed, passage_tag, environment
        self.failures: Counter[str] = Counter()
        self._reader = PolicyReader(SePerClient(scorer) if isinstance(scorer, str) else scorer, reader)
        self._baseline = baseline
        if isinstance(baseline, str):
            if baseline not in get_args(Baseline):
                raise ValueError(f"baseline must be {' or '.join(get_args(Baseline))}, or passages, got {baseline!r}")
        elif not baseline:
            raise ValueError("baseline must hold a passage to draw, got none; take baseline='none'")
        if baseline == "placebo" and self._reader.remote:
            raise ValueError("the placebo is the server's; start it with --baseline placebo, and leave it out here")
        if pool_draws < 1:
            raise ValueError(f"pool_draws must be at least 1, got {pool_draws}")
        if pool_draws > 1:
            self._reader.refuse_pooling()
        self._share = share_ranks and not self._reader.remote
        self._beliefs = BeliefMemory(pool_draws)
        self._last_call: float | None = None
        self._warned: set[str] = set()
        self._recordings: list[list[tuple[Rollout, Score | None]]] = []

    def __call__(
        self,
        prompts: Sequence[Any] | None = None,
        completions: Sequence[Any] | None = None,
        *,
        question: Sequence[str | None] | None = None,
        answers: Sequence[Answers | None] | None = None,
        passages: Sequence[Sequence[Any] | None] | None = None,
        environment: Sequence[str | None] | None = None,
        environments: Sequence[Any] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """Return one reward per completion; ``None`` where it cannot be scored, with the reason in ``failures``."""

        def read() -> list[Rollout]:
            others = self._others(environment, environments)
            return read_rollouts(question, answers, completions, passages, environments, self.passage_tag, others)

        rollouts = self._on_all_ranks(read)
        if environments is None and passages is None:
            self._warn_of_blindness(rollouts)
        with profiling() as profile:
            scores = self._scores(rollouts, self._share)
        for recorded in self._recordings:
            recorded += zip(rollouts, scores, strict=True)
        alone = self._alone(log_metric or log_extra)
        if log_extra is not None:
            for name, column in table_columns(rollouts, scores).items():
                log_extra(name if alone else f"{self.__name__}/{name}", column)
        if log_metric is not None:
            single = seconds(rollouts, profile) | self._share_of_step(profile.total_seconds)
            many = rollout_metrics(rollouts, scores, self.needed) | {"reused_beliefs": self._beliefs.reused}
            for name, values in {**{name: [value] for name, value in single.items()}, **many}.items():
                for value in values:  # TRL takes the mean over processes and steps
                    log_metric(f"{'seper' if alone else self.__name__}/{name}", value)
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
            # by identity: an outer recording may hold the same
            self._recordings = [each for each in self._recordings if each is not recorded]

    def score(self, rollouts: Sequence[Rollout]) -> list[Score | None]:
        """Score rollouts in this process alone; each distinct pair of question and passages is measured once.

        With a reader on weights that are sharded, all ranks must call it together nevertheless.

        Returns:
            One score per rollout; ``None`` where it cannot be scored, with the reason in ``failures``.
        """
        return self._scores(rollouts, share=False)

    def expect(self, question: Any, answers: Any, turns: Sequence[Turn] = (), *, last: bool = False) -> None:
        """Begin to measure what a rollout under way will be scored with, so that its reward waits for less.

        A server or an engine then works while the policy still writes. A reader in this process would only take its
        processor away from the policy, and begins with nothing. Rewards are the same; what cannot be measured is
        reported when the rollout is scored.

        Args:
            question: The question, as the column has it.
            answers: The gold answer, as the column has it.
            turns: The searches so far.
            last: Whether no further search may follow.
        """
        if not self._reader.works_ahead or self._share:  # which rank will ask an engine is decided in the call
            return
        if turns and not last and self.formula.variant == "delta":
            return  # it compares nothing with the passages of some of the searches
        try:
            (rollout,) = read_rollouts([question], [answers])
        except ValueError:
            return
        asked = self._asks(replace(rollout, turns=tuple(turns))) if rollout.answers else None
        if asked is None or not asked.contexts:
            return
        missing = self._beliefs.expect(replace(asked, contexts=asked.contexts[-1:], texts=()))
        if missing is not None:
            with self._scorer() as scorer:
                scorer.expect([missing])

    def turn_rewards(self, rollout: Rollout) -> list[float]:
        """Return what each message of a rollout's policy earned; the sum is its reward, to the bit.

        A message earns what its searches gained, less their price; the last one also what the answer earned. There is
        one number per message that the policy wrote, as trainers with a reward per turn expect it.

        Args:
            rollout: A rollout of ``read_rollouts``, whose completion shows the policy's messages.

        Raises:
            UnscorableError: The rollout cannot be scored, with the reason in ``failures``; or what its messages earned
                is not known: of a variant that measures several searches together, or without its messages.
        """
        (score,) = self.score([rollout])
        credit = credit_of(rollout, score)
        if isinstance(credit, str):
            raise UnscorableError(f"no reward per turn of question {rollout.question!r}: {credit}")
        return turn_rewards(credit)

    def cost(self, rollout: Rollout) -> float:
        """Return the price of a rollout's searches: λ n + μ w."""
        return self.formula.cost(rollout)

    def attach(self, trainer: Any) -> None:
        """Read with the trainer's weights from now on; ``PolicyReader.attach`` tells what is checked and raised."""
        self._beliefs.clear()
        self._reader.attach(trainer)

    def __getstate__(self) -> dict[str, Any]:
        """Leave beliefs and recordings out of a pickle; ``PolicyReader`` leaves out the models."""
        return {**self.__dict__, "_beliefs": BeliefMemory(self._beliefs.pool_draws), "_recordings": []}

    def _on_all_ranks(self, act: Callable[[], T]) -> T:
        """Return what ``act`` does here; where ranks share the work, and it fails on one of them, all raise."""
        if not self._share:
            return act()
        from seper_reward.reward.shared import agreed  # needs torch, which a client may lack

        return agreed(act)

    def _scores(self, rollouts: Sequence[Rollout], share: bool) -> list[Score | None]:
        if self._reader.moves:
            self._beliefs.clear()  # the weights have changed since the last call
        asked = [self._asks(rollout) if rollout.answers else None for rollout in rollouts]
        measured = self._beliefs.measure(asked, self._measure, share=share)
        self.failures.update(str(found)[:200] for found in measured if isinstance(found, UnscorableError))
        return list(map(self._score, rollouts, measured))

    def _measure(self, asked: Sequence[Asked]) -> Sequence[Measured | UnscorableError]:
        with self._scorer() as scorer:
            return scorer.measure(asked)

    @contextmanager
    def _scorer(self) -> Iterator["SePerScorer | SePerClient"]:
        with self._reader.scorer() as scorer:
            if self._baseline == "placebo" and not isinstance(scorer, SePerClient):
                scorer = scorer.with_baseline("placebo")
            yield scorer

    def _asks(self, rollout: Rollout) -> Asked:
        if isinstance(self._baseline, str):
            return self.formula.asks(rollout)
        reference = random_passage(self._baseline, rollout.question, rollout.answers)
        return self.formula.asks(rollout, (reference,))

    def _others(self, names: Sequence[str | None] | None, environments: Sequence[Any] | None) -> list[bool] | None:
        """Return which rows are of another environment than this reward's; ``None`` if only these can tell.

        Raises:
            ValueError: The column ``environment`` is missing, or nothing tells what the environments found.
        """
        if self.environment is not None:
            if names is None:
                raise ValueError(
                    f"environment={self.environment!r} needs a column environment in the data set, with the name of "
                    "each row's environment; add it, or leave environment out"
                )
            return [name != self.environment for name in names]
        if names is None and environments and not any(hasattr(each, "turns") for each in environments):
            raise ValueError(
                f"{type(environments[0]).__name__} keeps no record of its searches; give it a list turns of "
                "seper_reward.reward.environment.Turn, or take environment_factory"
            )
        return None

    def _score(self, rollout: Rollout, measured: Measured | UnscorableError | None) -> Score | None:
        if not rollout.answers and rollout.problem != OTHERS:
            self.failures[rollout.problem or "no gold answer"] += 1
        return self.formula.score(rollout, measured) if isinstance(measured, Measured) else None

    def _alone(self, log: Callable[..., None] | None) -> bool:
        """Return whether no other ``SePerReward`` logs with the same trainer, whose method ``log`` is.

        Raises:
            ValueError: Another one has the same name.
        """
        trainer = getattr(log, "__self__", None)
        names = [each.__name__ for each in getattr(trainer, "reward_funcs", ()) if isinstance(each, SePerReward)]
        if names.count(self.__name__) > 1:
            raise ValueError(
                f"{len(names)} rewards are named {', '.join(names)}; tell them apart: SePerReward(name=...)"
            )
        if self.formula.priced and getattr(trainer, "scale_rewards", None) == "group":
            self._warn_once(
                "scale_rewards='group' divides rewards by their deviation within a group: where searches gain alike, "
                "any price of a search counts the same; set scale_rewards='none' or 'batch'"
            )
        return len(names) < 2

    def _warn_of_blindness(self, rollouts: Sequence[Rollout]) -> None:
        """Warn where only the completions could show searches, and none of them does."""
        seen = [rollout for rollout in rollouts if not rollout.problem]
        if seen and self.formula.pays_searches_only and not any(rollout.turns or rollout.failed for rollout in seen):
            self._warn_once(
                f"no search is seen in any of {len(seen)} completions, so that each earns 0 by "
                f"variant={self.formula.variant!r}: searches are read from environments, a column passages, results "
                f"of tools, or text between tags, of which passage_tag={self.passage_tag!r} is the name"
            )

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, stacklevel=4)

    def _share_of_step(self, spent: float) -> dict[str, float]:
        """Return this call's share of the time since the previous call, which in training is one step."""
        now = time.perf_counter()
        share = {} if self._last_call is None else {"share_of_step": spent / (now - self._last_call)}
        self._last_call = now
        return share
