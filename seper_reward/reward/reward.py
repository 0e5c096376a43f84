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
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from seper_reward.data.answers import exact_match
from seper_reward.reward.policy_reader import borrowed_reader
from seper_reward.reward.rollouts import Rollout, read_rollouts
from seper_reward.runtime.profiling import Profile, profiling
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Passage, UnscorableError

Variant = Literal["delta", "stepwise", "answer", "advantage"]
_MEMO = 4096  # beliefs kept in memory: a question's baseline serves its whole group, and later epochs


@dataclass(frozen=True)
class Score:
    """A rollout's reward and what it is made of.

    Attributes:
        reward: by the variant's formula.
        beliefs: of the reader: without passages, then after searches; empty where the variant needs none.
        cost: price of the searches.
        answer: SePer of the policy's own answer, where the variant needs it.
    """

    reward: float
    beliefs: tuple[Belief, ...]
    cost: float
    answer: float | None = None

    @property
    def gains(self) -> tuple[float, ...]:
        """What each step added to SePer."""
        return tuple(after.seper - before.seper for before, after in itertools.pairwise(self.beliefs))


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
        reader: Literal["separate", "policy-base", "policy"] = "separate",
    ) -> None:
        if variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {variant!r}")
        if reader not in {"separate", "policy-base", "policy"}:
            raise ValueError(f"reader must be separate, policy-base or policy, got {reader!r}")
        if price < 0 or word_price < 0:
            raise ValueError(f"prices must be at least 0, got {price} and {word_price}")
        self.__name__ = f"seper_{variant}"  # TRL names the metric after it
        self.variant, self.price, self.word_price, self.needed, self.reader = (
            variant, price, word_price, needed, reader,
        )  # fmt: skip
        self.failures: Counter[str] = Counter()
        self._scorer, self._given = scorer, scorer is not None
        self._model: Any = None
        self._lent: SePerScorer | None = None  # the scorer on the trainer's weights
        self._memo: dict[tuple[Any, ...], Belief] = {}
        self._reuse: list[float] = []  # of the beliefs of the last call: 1 where it was in memory
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
        for seen in self._recordings:
            seen += zip(rollouts, scores, strict=True)
        if log_extra is not None:
            for name, column in self._columns(rollouts, scores).items():
                log_extra(name, column)
        if log_metric is not None:
            for name, value in self._seconds(rollouts, profile).items():
                log_metric(name, value)
            for name, values in self._metrics(rollouts, scores).items():
                for value in values:  # TRL takes the mean of all, over processes and steps
                    log_metric(name, value)
        return [None if score is None else score.reward for score in scores]

    @contextmanager
    def recording(self) -> Iterator[list[tuple[Rollout, Score | None]]]:
        """Collect each rollout of this process and its score, until the block ends."""
        seen: list[tuple[Rollout, Score | None]] = []
        self._recordings.append(seen)
        try:
            yield seen
        finally:
            self._recordings.remove(seen)

    def score(self, rollouts: Sequence[Rollout]) -> list[Score | None]:
        """Score rollouts, each distinct (question, passages) once."""
        self._reuse = []
        with self._reading() as scorer:
            self._measure(scorer, rollouts)
            return [self._score(scorer, rollout) for rollout in rollouts]

    def cost(self, rollout: Rollout) -> float:
        """Return the price of a rollout's searches: λ n + μ w."""
        return self.price * len(rollout.turns) + self.word_price * rollout.words

    def attach(self, trainer: Any) -> None:
        """Read with the trainer's own weights from now on.

        Samples one prompt under the trainer's real settings and compares its log-probabilities with teacher-forced
        ones: gradient checkpointing and train mode would spoil them silently.

        Args:
            trainer: of TRL, after it was built.

        Raises:
            ValueError: the reader is ``"separate"``; or the scorer's tokenizer is not the policy's; or weights are
                sharded (ZeRO-3, FSDP), where every rank would have to make the same calls.
            RuntimeError: the log-probabilities differ.
        """
        if self.reader == "separate":
            raise ValueError("reader='separate' has weights of its own; attach is for policy-base and policy")
        if getattr(trainer, "is_fsdp_enabled", False) or _is_zero3(trainer):
            raise ValueError(
                "weights are sharded (ZeRO-3 or FSDP): each forward pass is collective, and ranks read different "
                "passages; use reader='separate', ZeRO-2 or DDP"
            )
        if trainer.processing_class.get_vocab() != self._own_scorer().sampler.tokenizer.get_vocab():
            raise ValueError(
                f"reader={self.reader!r} reads with the policy's weights, but the scorer has another tokenizer; make "
                "the scorer from the policy's base model"
            )
        self._model, self._lent = trainer.accelerator.unwrap_model(trainer.model), None
        self._memo.clear()
        with self._reading() as scorer:
            scorer.sampler.check("Question: Who wrote Hamlet?\nAnswer:")

    def __getstate__(self) -> dict[str, Any]:
        """Leave models behind: a copy makes the embedded ones anew, or says that it lost those it was given."""
        return {**self.__dict__, "_scorer": None, "_model": None, "_lent": None, "_memo": {}, "_recordings": []}

    @contextmanager
    def _reading(self) -> Iterator[SePerScorer]:
        if self.reader == "separate":
            yield self._own_scorer()
            return
        if self._model is None:
            raise ValueError(f"reader={self.reader!r} needs attach(trainer) before the first reward")
        with borrowed_reader(self._model, adapter=self.reader == "policy") as model:
            if self.reader == "policy":
                self._memo.clear()  # its weights have moved since
            if self._lent is None:
                self._lent = self._own_scorer().reading_with(model, frozen=self.reader == "policy-base")
            yield self._lent

    def _own_scorer(self) -> SePerScorer:
        if self._scorer is None and self._given:
            raise ValueError("a scorer does not travel between processes; make the reward where it is used")
        if self._scorer is None:
            self._scorer = SePerScorer.from_pretrained()
        return self._scorer

    def _measure(self, scorer: SePerScorer, rollouts: Sequence[Rollout]) -> None:
        """Put the beliefs that the rollouts need into memory, question by question."""
        wanted: dict[tuple[str, tuple[str, ...]], dict[tuple[Passage, ...], None]] = {}
        for rollout in rollouts:
            sets = wanted.setdefault((rollout.question, rollout.answers), {})
            sets.update(dict.fromkeys(self._contexts(rollout)))
        if len(self._memo) > _MEMO:
            self._memo.clear()
        missing: dict[tuple[str, tuple[str, ...]], list[tuple[Passage, ...]]] = {}
        for asked, sets in wanted.items():
            unknown = [shown for shown in sets if (*asked, shown) not in self._memo]
            self._reuse += [float(shown not in unknown) for shown in sets]
            if unknown and asked[1]:
                missing[asked] = unknown
        for (question, _), contexts in missing.items():
            scorer.expect(question, contexts)  # an engine works on all questions at once
        for (question, answers), contexts in missing.items():
            try:
                beliefs = scorer.beliefs(question, answers, contexts)
            except UnscorableError as error:
                self.failures[str(error)[:200]] += 1
                continue
            self._memo |= {(question, answers, shown): belief for shown, belief in zip(contexts, beliefs, strict=True)}

    def _contexts(self, rollout: Rollout) -> list[tuple[Passage, ...]]:
        """Return what the reader sees: nothing, then the passages of the first, the first two ... searches."""
        count = len(rollout.turns)
        steps = {"answer": [], "advantage": [0], "delta": sorted({0, count}), "stepwise": list(range(count + 1))}
        return [rollout.found_by(searches) for searches in steps[self.variant]]

    def _score(self, scorer: SePerScorer, rollout: Rollout) -> Score | None:
        if not rollout.answers:
            self.failures["no gold answer"] += 1
            return None
        keys = [(rollout.question, rollout.answers, shown) for shown in self._contexts(rollout)]
        if any(key not in self._memo for key in keys):
            return None  # counted where it failed
        beliefs = tuple(self._memo[key] for key in keys)
        cost = self.cost(rollout)
        if self.variant in ("delta", "stepwise"):
            return Score(beliefs[-1].seper - beliefs[0].seper - cost, beliefs, cost)
        stated = scorer.support(rollout.question, rollout.answer, rollout.answers)
        return Score(stated - (beliefs[0].seper if beliefs else 0.0) - cost, beliefs, cost, stated)

    def _columns(self, rollouts: Sequence[Rollout], scores: Sequence[Score | None]) -> dict[str, list[Any]]:
        """Return what the table of rollouts shows beside prompt, completion and reward."""
        known = [score.beliefs if score is not None else () for score in scores]
        return {
            "question": [rollout.question for rollout in rollouts],
            "query": [" | ".join(turn.query for turn in rollout.turns) for rollout in rollouts],
            "passages": [" | ".join(passage.text for passage in rollout.passages) for rollout in rollouts],
            "exact_match": [exact_match(rollout.answer, rollout.answers) for rollout in rollouts],
            "baseline": [beliefs[0].seper if beliefs else None for beliefs in known],
            "gains": [None if score is None else score.gains for score in scores],
            "cost": [None if score is None else score.cost for score in scores],
            "belief_before": [beliefs[0].describe() if beliefs else None for beliefs in known],
            "belief_after": [beliefs[-1].describe() if len(beliefs) > 1 else None for beliefs in known],
        }

    def _seconds(self, rollouts: Sequence[Rollout], profile: Profile) -> dict[str, float]:
        """Return where this call's time went, and its share of all since the call before (a step, in training)."""
        spent, now = profile.seconds, time.perf_counter()
        found = {
            "sampling": spent["prefill"] + spent["decode"] + spent["draw"],
            "entailment": spent["entailment"] + spent["clustering"],
            "retrieval": sum(turn.seconds for rollout in rollouts for turn in rollout.turns),
            "reward": profile.total_seconds,
        }
        metrics = {f"seper/seconds_{name}": seconds for name, seconds in found.items()}
        if self._last_call is not None:
            metrics["seper/share_of_step"] = found["reward"] / (now - self._last_call)
        self._last_call = now
        return metrics

    def _metrics(self, rollouts: Sequence[Rollout], scores: Sequence[Score | None]) -> dict[str, list[float]]:
        pairs = [(rollout, score) for rollout, score in zip(rollouts, scores, strict=True) if score is not None]
        found = {
            "unscored": [float(score is None) for score in scores],
            "search_rate": [float(bool(rollout.turns)) for rollout, _ in pairs],
            "searches": [float(len(rollout.turns)) for rollout, _ in pairs],
            "exact_match": [exact_match(rollout.answer, rollout.answers) for rollout, _ in pairs],
            "cost": [score.cost for _, score in pairs],
            "reused_beliefs": self._reuse,
        }
        if self.variant != "answer":
            baselines = [score.beliefs[0].seper for _, score in pairs]
            for name, kind in (("needed", True), ("not_needed", False)):
                found[f"search_rate_{name}"] = [
                    searched
                    for searched, baseline in zip(found["search_rate"], baselines, strict=True)
                    if (baseline < self.needed) == kind
                ]
            found["baseline"] = baselines
        if self.variant in ("answer", "advantage"):
            found["answer"] = [score.answer for _, score in pairs if score.answer is not None]
        else:
            deltas = [sum(score.gains) for rollout, score in pairs if rollout.turns]
            found |= {"delta_of_searches": deltas, "share_harmful": [float(delta < 0) for delta in deltas]}
        return {f"seper/{name}": values for name, values in found.items()}


@functools.cache
def _default() -> SePerReward:
    return SePerReward(price=0.1)


def delta_seper(*args: Any, **columns: Any) -> list[float | None]:
    """``SePerReward`` with the embedded models and a price of 0.1 a search, for ``trl grpo --reward_funcs``."""
    return _default()(*args, **columns)


def _is_zero3(trainer: Any) -> bool:
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    return plugin is not None and plugin.zero_stage == 3
