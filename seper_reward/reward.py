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
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from .answer_metrics import exact_match
from .borrowing import borrowed_reader
from .environment import Turn
from .scorer import SePerScorer
from .types import Belief, Passage, UnscorableError

Variant = Literal["delta", "stepwise", "answer", "advantage"]
_MEMO = 4096  # beliefs kept in memory: a question's baseline serves its whole group, and later epochs


@dataclass(frozen=True)
class Rollout:
    """What a policy did with one question."""

    question: str
    answers: tuple[str, ...]
    turns: tuple[Turn, ...]
    answer: str


@dataclass(frozen=True)
class Score:
    """A rollout's reward and what it is made of."""

    reward: float
    baseline: float
    gains: tuple[float, ...]
    cost: float
    answer: float | None


class SePerReward:
    """Scores rollouts; pass it as a reward function to a TRL trainer, or call it by hand.

    Columns: ``question`` (text) and ``answers`` (aliases of the gold answer). A rollout's searches come from its
    ``environments`` (as many as the completion has tool results, since TRL rolls back results that are too long), else
    from a column ``passages`` (a list of texts or ``{id?, title?, text}``, one search), else from the texts of the
    completion's tool messages.

    Args:
        scorer: measures beliefs; ``None`` makes the embedded one at the first call.
        variant: a formula above.
        price: λ per search, in units of belief.
        word_price: μ per retrieved word.
        needed: a question counts as one that needs a search if its baseline SePer is below this.
        reader: ``"separate"`` reads with the scorer's own weights; ``"policy-base"`` and ``"policy"`` with the
            trainer's, without and with its adapter, once [`attach`] has been called.

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
        self._memo: dict[tuple[Any, ...], Belief] = {}

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
        count = len(question)
        for name, column in (("answers", answers), ("passages", passages or [])):
            wrong = next((row for row in column if isinstance(row, str)), None)
            if wrong is not None:
                raise ValueError(f"{name} must be a list per row, got the text {wrong[:80]!r}; wrap it in a list")
        said = completions if completions is not None else [""] * count
        given = passages if passages is not None else [None] * count
        worlds = environments if environments is not None else [None] * count
        rollouts = [
            Rollout(asked, tuple(gold), _turns(words, world, shown), _last_answer(words))
            for asked, gold, words, world, shown in zip(question, answers, said, worlds, given, strict=True)
        ]
        scores = self.score(rollouts)
        self._log(rollouts, scores, log_metric, log_extra)
        return [None if score is None else score.reward for score in scores]

    def score(self, rollouts: Sequence[Rollout]) -> list[Score | None]:
        """Score rollouts, each distinct (question, passages) once."""
        with self._reading() as scorer:
            self._measure(scorer, rollouts)
            return [self._score(scorer, rollout) for rollout in rollouts]

    def attach(self, trainer: Any) -> None:
        """Read with the trainer's own weights from now on.

        Samples one prompt under the trainer's real settings and compares its log-probabilities with teacher-forced
        ones: gradient checkpointing and train mode would spoil them silently.

        Args:
            trainer: of TRL, after it was built.

        Raises:
            ValueError: the reader is ``"separate"``; or weights are sharded (ZeRO-3, FSDP), where every rank would
                have to make the same calls.
            RuntimeError: the log-probabilities differ.
        """
        if self.reader == "separate":
            raise ValueError("reader='separate' has weights of its own; attach is for policy-base and policy")
        if getattr(trainer, "is_fsdp_enabled", False) or _is_zero3(trainer):
            raise ValueError(
                "weights are sharded (ZeRO-3 or FSDP): each forward pass is collective, and ranks read different "
                "passages; use reader='separate', ZeRO-2 or DDP"
            )
        self._model = trainer.accelerator.unwrap_model(trainer.model)
        self._memo.clear()
        with self._reading() as scorer:
            scorer.sampler.check("Question: Who wrote Hamlet?\nAnswer:")

    def __getstate__(self) -> dict[str, Any]:
        """Leave models behind: a copy makes the embedded ones anew, or says that it lost those it was given."""
        return {**self.__dict__, "_scorer": None, "_model": None, "_memo": {}}

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
            yield self._own_scorer().reading_with(model)

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
        for (question, answers), sets in wanted.items():
            missing = [shown for shown in sets if (question, answers, shown) not in self._memo]
            if not missing or not answers:
                continue
            try:
                beliefs = scorer.beliefs(question, answers, missing)
            except UnscorableError as error:
                self.failures[str(error)[:200]] += 1
                continue
            self._memo |= {(question, answers, shown): belief for shown, belief in zip(missing, beliefs, strict=True)}

    def _contexts(self, rollout: Rollout) -> list[tuple[Passage, ...]]:
        """Return what the reader sees: nothing, then the passages of the first, the first two ... searches."""
        every = range(len(rollout.turns) + 1)
        steps = {"answer": [], "advantage": [0], "delta": sorted({0, len(rollout.turns)}), "stepwise": list(every)}
        return [_union(rollout.turns[:step]) for step in steps[self.variant]]

    def _score(self, scorer: SePerScorer, rollout: Rollout) -> Score | None:
        if not rollout.answers:
            self.failures["no gold answer"] += 1
            return None
        keys = [(rollout.question, rollout.answers, shown) for shown in self._contexts(rollout)]
        if any(key not in self._memo for key in keys):
            return None  # counted where it failed
        values = [self._memo[key].seper for key in keys]
        words = sum(len(passage.text.split()) for turn in rollout.turns for passage in turn.passages)
        cost = self.price * len(rollout.turns) + self.word_price * words
        gains = tuple(after - before for before, after in itertools.pairwise(values))
        baseline = values[0] if values else 0.0
        if self.variant in ("delta", "stepwise"):
            return Score(sum(gains) - cost, baseline, gains, cost, None)
        stated = scorer.support(rollout.question, rollout.answer, rollout.answers)
        return Score(stated - (baseline if self.variant == "advantage" else 0.0) - cost, baseline, (), cost, stated)

    def _log(
        self,
        rollouts: Sequence[Rollout],
        scores: Sequence[Score | None],
        log_metric: Callable[[str, float], None] | None,
        log_extra: Callable[[str, list[Any]], None] | None,
    ) -> None:
        if log_extra is not None:
            log_extra("question", [rollout.question for rollout in rollouts])
            log_extra("query", [" | ".join(turn.query for turn in rollout.turns) for rollout in rollouts])
            log_extra(
                "passages",
                [" | ".join(p.text for turn in rollout.turns for p in turn.passages) for rollout in rollouts],
            )
            for name in ("baseline", "gains", "cost"):
                log_extra(name, [None if score is None else getattr(score, name) for score in scores])
        if log_metric is not None:
            for name, value in self._metrics(rollouts, scores).items():
                log_metric(name, value)

    def _metrics(self, rollouts: Sequence[Rollout], scores: Sequence[Score | None]) -> Mapping[str, float]:
        pairs = [(rollout, score) for rollout, score in zip(rollouts, scores, strict=True) if score is not None]
        searched = [float(bool(rollout.turns)) for rollout, _ in pairs]
        found = {
            "seper/unscored": [float(score is None) for score in scores],
            "seper/search_rate": searched,
            "seper/searches": [float(len(rollout.turns)) for rollout, _ in pairs],
            "seper/exact_match": [exact_match(rollout.answer, rollout.answers) for rollout, _ in pairs],
            "seper/cost": [score.cost for _, score in pairs],
        }
        if self.variant != "answer":
            for name, kind in (("needed", True), ("not_needed", False)):
                found[f"seper/search_rate_{name}"] = [
                    value
                    for value, (_, score) in zip(searched, pairs, strict=True)
                    if (score.baseline < self.needed) == kind
                ]
            found["seper/baseline"] = [score.baseline for _, score in pairs]
        if self.variant in ("delta", "stepwise"):
            deltas = [sum(score.gains) for rollout, score in pairs if rollout.turns]
            found["seper/delta_of_searches"] = deltas
            found["seper/share_harmful"] = [float(delta < 0) for delta in deltas]
        return {name: statistics.fmean(values) for name, values in found.items() if values}


@functools.cache
def _default() -> SePerReward:
    return SePerReward(price=0.1)


def delta_seper(*args: Any, **columns: Any) -> list[float | None]:
    """``SePerReward`` with the embedded models and a price of 0.1 a search, for ``trl grpo --reward_funcs``."""
    return _default()(*args, **columns)


def _turns(completion: Any, environment: Any, given: Sequence[Any] | None) -> tuple[Turn, ...]:
    results = _tool_results(completion)
    if environment is not None:
        return tuple(environment.turns[: len(results)])
    if given is not None:
        return (Turn("", tuple(map(_passage, given))),) if len(given) else ()
    return tuple(Turn("", (Passage(text),)) for text in results)


def _passage(value: Any) -> Passage:
    if isinstance(value, Passage):
        return value
    if isinstance(value, str):
        return Passage(value)
    return Passage(value["text"], value.get("title") or "", str(value.get("id", "")))


def _tool_results(completion: Any) -> list[str]:
    if isinstance(completion, str):
        return []
    return [str(message.get("content") or "") for message in completion if message.get("role") == "tool"]


def _last_answer(completion: Any) -> str:
    if isinstance(completion, str):
        return completion.strip()
    last = completion[-1] if len(completion) else {}
    # cut off after a search: nothing was answered
    return "" if last.get("role") != "assistant" or last.get("tool_calls") else str(last.get("content") or "").strip()


def _union(turns: Sequence[Turn]) -> tuple[Passage, ...]:
    return tuple(dict.fromkeys(passage for turn in turns for passage in turn.passages))


def _is_zero3(trainer: Any) -> bool:
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    return plugin is not None and plugin.zero_stage == 3
