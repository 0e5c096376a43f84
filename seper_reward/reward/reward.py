"""ΔSePer as a reward for TRL: the policy's answer and the gains of its searches, minus their price.

    GRPOTrainer(reward_funcs=[SePerReward(scorer, price=0.1)], environment_factory=..., ...)

``formula.py`` has the formula.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from seper_reward.client import SePerClient
from seper_reward.options import compile_answer_pattern
from seper_reward.reward.beliefs import BeliefMemory
from seper_reward.reward.credit import credit_of, turn_rewards
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.metrics import RewardLog, Scored
from seper_reward.reward.policy_reader import PolicyReader, Weights
from seper_reward.reward.rollouts import OTHERS, Rollout, Score, begins_in_thought, read_rollouts, rows_of_others
from seper_reward.reward.tools import SearchTools
from seper_reward.runtime.profiling import profiling
from seper_reward.types import Answers, Asked, Measured, UnscorableError

if TYPE_CHECKING:
    from transformers import Trainer

    from seper_reward.scorer import SePerScorer

T = TypeVar("T")


class SePerReward:
    """Scores rollouts; pass it as a reward function to a TRL trainer, or call it directly.

    It needs the columns ``question`` (text) and ``answers`` (aliases of the gold answer), or environments with
    attributes of these names. A rollout's searches come from its environment, else from a column ``passages`` (a list
    of texts or ``{id?, title?, text}``, one search), else from the completion: messages of search tools and text
    between passage tags. A row with other types is a rollout that cannot be scored; a whole column of another type is
    an error. If a trainer has environments of several types, rows of environments that do not search get ``None`` and
    do not count as failures.

    Args:
        scorer: Scorer that measures beliefs; or the URL of ``seper-reward serve``, or a client of it, which can be
            pickled; ``None`` loads the embedded models at the first call.
        answer_weight: Weight of the policy's answer, >= 0; with 0 answers are not judged.
        gain_weight: Weight of the ΔSePer of the searches, >= 0; with 0 no passage is read.
        price: Price of a search or a failed call, in units of belief, >= 0.
        closed_book: Whether the belief without a search is subtracted from the answer, for trainers that compare
            rollouts of several questions.
        reader: ``"separate"`` reads with the scorer's own weights; ``"policy-base"`` and ``"policy"`` read with the
            trainer's weights, without and with its adapter, after ``attach``.
        passage_tag: Name of the tag around passages in completions that are texts, such as ``information``; ``None``
            if there is no such tag. A policy that can write the tag itself can fake passages.
        search_tools: Names of the tools whose results are searches, such as ``("search",)``. Other tools have neither
            gain nor price. With ``None`` there must be only one tool: a call raises if several tools have results, or
            if the trainer has several. Environments that record their searches need no names.
        answer_pattern: Regular expression whose last match's first group, or the whole match if it has no group, is
            the policy's answer; a completion without a match has no answer. ``None`` reads the usual marks
            (``extract_answer``).
        environment: Name of the environment to score, if the data set's column ``environment`` has several names, as
            with TRL's dict of factories; all other rows get ``None``. ``None`` scores the rows whose environment
            records its searches (``turns``). ``AsyncGRPOTrainer`` does not pass environments and needs the name.

    Attributes:
        weights: The weights and the price.
        failures: Number of rollouts that could not be scored, by reason.
        log: Log of the calls.
        __name__: Name of the metrics in TRL's log, ``"seper"``; set it if a trainer has several such rewards.

    Raises:
        ValueError: The reader is unknown, a weight or the price is negative, a URL is malformed, the pattern is no
            regular expression, or ``search_tools`` is no list of names; or the scorer is a server, but ``reader`` is
            not ``"separate"``.
    """

    def __init__(
        self,
        scorer: "SePerScorer | SePerClient | str | None" = None,
        *,
        answer_weight: float = RewardWeights.answer_weight,
        gain_weight: float = RewardWeights.gain_weight,
        price: float = RewardWeights.price,
        closed_book: bool = RewardWeights.closed_book,
        reader: Weights = "separate",
        passage_tag: str | None = None,
        search_tools: Sequence[str] | None = None,
        answer_pattern: str | None = None,
        environment: str | None = None,
    ) -> None:
        self.weights = RewardWeights(answer_weight, gain_weight, price, closed_book)
        self.__name__ = "seper"  # TRL names the metric after it
        compile_answer_pattern(answer_pattern)  # fail early
        self.passage_tag, self.answer_pattern, self.environment = passage_tag, answer_pattern, environment
        self.search_tools = SearchTools(search_tools)
        self.failures: Counter[str] = Counter()
        self.log = RewardLog()
        self._reader = PolicyReader(SePerClient(scorer) if isinstance(scorer, str) else scorer, reader)
        self._beliefs, self._reused = BeliefMemory(), list[float]()
        self._thinking = False  # whether the chat template opens a thought

    def __repr__(self) -> str:
        """Return the weights and the reader."""
        weights = ", ".join(f"{name}={value!r}" for name, value in asdict(self.weights).items())
        return f"SePerReward({self._reader!r}, {weights})"

    def __call__(
        self,
        prompts: Sequence[object] | None = None,
        completions: Sequence[object] | None = None,
        *,
        question: Sequence[str | None] | None = None,
        answers: Sequence[Answers | None] | None = None,
        passages: Sequence[Sequence[object] | None] | None = None,
        environment: Sequence[str | None] | None = None,
        environments: Sequence[object] | None = None,
        trainer_state: object = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[object]], None] | None = None,
        **_: object,
    ) -> list[float | None]:
        """Return one reward per completion; ``None`` if it cannot be scored, with the reason in ``failures``.

        All trainers of TRL except ``AsyncGRPOTrainer`` pass a ``trainer_state``: they call their rewards on all ranks
        together. The ranks then share the work, and each context is measured on one rank only. With a server they do
        not: it measures each context once for all its clients.
        """
        share = self._shares(trainer_state)
        with _agreement(share):
            others = rows_of_others(self.environment, environment, environments)
            if environments is None and passages is None:
                tools = getattr(getattr(log_metric or log_extra, "__self__", None), "tools", None) or ()
                self.search_tools.refuse_several([tool.__name__ for tool in tools if hasattr(tool, "__name__")])
            columns = (question, answers, completions, passages, environments, self.passage_tag, others)
            self._thinking = self._thinking or begins_in_thought(prompts or (), completions or ())
            rollouts = read_rollouts(
                *columns,
                answer_pattern=self.answer_pattern,
                search_tools=self.search_tools,
                thinking=self._thinking,
            )
        if environments is None and passages is None:
            self.log.warn_of_unread(completions or (), self.passage_tag)
            if not self.weights.answer_weight:
                self.log.warn_of_blindness(rollouts, self.passage_tag)
        self.log.warn_of_tools(self.search_tools)
        self.log.warn_of_digits(rollouts)
        if self.weights.price:
            self.log.warn_of_scaling(log_metric or log_extra)
        with nullcontext() if log_metric is None else profiling() as profile:
            scores = self._scores(rollouts, share)
        self.log.record(rollouts, scores)
        self.log.warn_of_no_spread(rollouts, scores)
        if log_extra is not None:
            self.log.columns(self.__name__, rollouts, scores, log_extra)
        if log_metric is not None and profile is not None:
            self.log.metrics(self.__name__, rollouts, scores, log_metric, profile=profile, reused=self._reused)
        return [None if score is None else score.reward for score in scores]

    @property
    def reader(self) -> Weights:
        """The weights of the reader: ``"separate"``, ``"policy-base"`` or ``"policy"``."""
        return self._reader.weights

    def recording(self) -> AbstractContextManager[list[Scored]]:
        """Return a context with a list that collects each rollout of this process and its score until it ends."""
        return self.log.recording()

    def score(self, rollouts: Sequence[Rollout]) -> list[Score | None]:
        """Score rollouts in this process alone; ``None`` if one cannot be scored, with the reason in ``failures``.

        Each distinct pair of question and passages is measured once. If the reader's weights are sharded, all ranks
        must still call it together.
        """
        return self._scores(rollouts, share=False)

    def turn_rewards(self, rollout: Rollout) -> list[float]:
        """Return the reward of each message of the policy; the sum is exactly the rollout's reward.

        The rollout is one of ``read_rollouts`` whose completion is a list of messages. Raises ``UnscorableError`` if
        it cannot be scored, with the reason in ``failures``, or if its messages are unknown.
        """
        (score,) = self.score([rollout])
        credit = credit_of(rollout, score)
        if isinstance(credit, str):
            raise UnscorableError(f"no reward per turn of question {rollout.question!r}: {credit}")
        return turn_rewards(credit)

    def attach(self, trainer: "Trainer") -> None:
        """Read with the trainer's weights from now on; see ``PolicyReader.attach`` for checks and errors."""
        self._beliefs.clear()
        self._reader.attach(trainer)

    def _shares(self, trainer_state: object) -> bool:
        """Return whether all ranks of a trainer make this call, and have work to share."""
        return trainer_state is not None and not self._reader.remote

    def _scores(self, rollouts: Sequence[Rollout], share: bool) -> list[Score | None]:
        if self._reader.moves:
            self._beliefs.clear()  # the weights have changed since the last call
        # rollouts without answers are unusable, see ``Rollout.problem``
        requests = [self.weights.asks(rollout) for rollout in rollouts if rollout.answers]
        findings = self._beliefs.recall(requests)
        self._reused = findings.reused
        if share:
            from seper_reward.reward.shared import union  # imported here: needs torch, which a client may lack

            findings.missing = union(findings.missing)  # the caches of the ranks may differ
        findings.add(self._measure(findings.missing, share))
        # a question that failed may have one context that is too long: ``add`` has left all of them in ``missing``,
        # each alone
        if findings.missing:
            findings.add(self._measure(findings.missing, share))
        self._beliefs.remember(findings)
        measured = map(findings.of, requests)
        scores: list[Score | None] = []
        for rollout in rollouts:
            result = next(measured) if rollout.answers else None
            if isinstance(result, UnscorableError):
                self.failures[str(result)[:200]] += 1
            elif not rollout.answers and rollout.problem != OTHERS:
                self.failures[rollout.problem or "no gold answer"] += 1
            scores.append(self.weights.score(rollout, result) if isinstance(result, Measured) else None)
        return scores

    def _measure(self, requests: Sequence[Asked], share: bool) -> Sequence[Measured | UnscorableError]:
        if not share:
            with self._reader.scorer() as scorer:
                return scorer.measure(requests)
        if not requests:
            return []
        from seper_reward.reward.shared import gather, scatter

        mine = scatter(requests)
        with _agreement(share), self._reader.scorer() as scorer:
            measured = scorer.measure(mine)
        return gather(requests, measured)


def _agreement(share: bool) -> AbstractContextManager[None]:
    """Return a block that fails on all ranks if it fails on one; with ``share``, all ranks enter it together."""
    if not share:
        return nullcontext()
    from seper_reward.runtime.distributed import agreement  # imported here: needs torch, which a client may lack

    return agreement()


class AsyncSePerReward(SePerReward):
    """A ``SePerReward`` with asynchronous calls, so that the servers of several rewards work in parallel.

    The scorer is the URL of ``seper-reward serve``, a client of it, or a scorer in front of an engine; a reader in
    this process, where rewards would only wait for each other, raises ``ValueError``.
    """

    def __init__(self, scorer: "SePerScorer | SePerClient | str", **settings: Any) -> None:
        super().__init__(scorer, **settings)
        remote = isinstance(scorer, str | SePerClient) or scorer.sampler.backend == "engine"
        if not remote or self.reader != "separate":
            raise ValueError(
                "an async reward needs a reader that runs elsewhere: the URL of `seper-reward serve`, or a scorer "
                "with an engine; use SePerReward for a reader in this process"
            )

    def _shares(self, trainer_state: object) -> bool:
        return False  # threads of several rewards would call the other ranks in any order

    async def __call__(self, *args: Any, **columns: Any) -> list[float | None]:  # type: ignore[override]
        """Return one reward per completion, as ``SePerReward`` does."""
        return await asyncio.to_thread(super().__call__, *args, **columns)
