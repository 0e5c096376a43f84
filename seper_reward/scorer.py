"""SePerScorer: the one place that composes reader and estimators."""

import copy
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from seper_reward.data.queries import as_query
from seper_reward.estimators.belief import Pair
from seper_reward.estimators.entailment import EntailmentScorer
from seper_reward.estimators.judge import BeliefJudge, SampledQuestion
from seper_reward.estimators.seper import Estimator
from seper_reward.estimators.utility import query_utilities
from seper_reward.reader.backends import load_sampler
from seper_reward.reader.chat import ChatOptions
from seper_reward.reader.loading import reader_defaults
from seper_reward.reader.prompted import EarlyStop, PromptedReader
from seper_reward.reader.prompts import Baseline, PromptStyle
from seper_reward.reader.sampler import AdaptiveSampling, EngineOptions, ReaderOptions, Sampler
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.pretrained import EMBEDDED, LoadedModel, LoadOptions
from seper_reward.types import (
    Answers,
    Asked,
    Belief,
    Measured,
    Passage,
    Query,
    Responses,
    UnscorableError,
    Utility,
    answer_items,
)

_NEXT_DRAW = 1_000_003  # from a draw's seed to the next one's: runs whose seeds are neighbours share no draw


class SePerScorer:
    """Measures a reader's belief in the gold answers, and what passages do to it (ΔSePer).

    Args:
        sampler: Samples the reader's responses: a ``ResponseSampler`` in this process, or an ``EngineSampler`` over
            servers.
        entailment: The NLI model that judges what the responses say.
        prompt: The wording, or the name of a style in ``prompts.STYLES``; it also says what stands for no passage.
        chat: How the reader's chat template is rendered, and whether the reader thinks before it answers.
        estimator: The options of SePer; ``Estimator.preset("paper")`` and ``"official"`` are the published ones.
        max_passage_tokens: Longest passage in tokens; ``None`` for the reader's window.
        cache: Where responses and entailment scores are kept between runs.
        adaptive: When fewer than N responses are enough; ``None`` samples all. Servers sample all N anyway.

    Attributes:
        reader: The prompted reader: its responses, and how likely it finds given answers.
        judge: The entailment model with the options of SePer.

    Raises:
        ValueError: ``adaptive`` with a sampler that refills its batch, which samples all responses at once; or an
            option does not go with the reader's chat template or window.
    """

    def __init__(
        self,
        sampler: Sampler,
        entailment: EntailmentScorer,
        *,
        prompt: str | PromptStyle = "paper",
        chat: ChatOptions = ChatOptions(),
        estimator: Estimator | None = None,
        max_passage_tokens: int | None = None,
        cache: Cache | None = None,
        adaptive: AdaptiveSampling | None = None,
    ) -> None:
        if adaptive is not None and sampler.refill:
            raise ValueError(
                "enough_std_error does not go with throughput (refill), which samples all responses at once"
            )
        self.reader = PromptedReader(
            sampler, prompt=prompt, chat=chat, max_passage_tokens=max_passage_tokens, cache=cache
        )
        self.entailment, self.adaptive = entailment, adaptive
        self.estimator = estimator or Estimator()
        self.judge = BeliefJudge(entailment, self.estimator, cache)
        self._refuse_distinct_draws()

    @classmethod
    def from_pretrained(
        cls,
        reader: str | LoadedModel = EMBEDDED,
        entailment: str = EMBEDDED,
        *,
        prompt: str | PromptStyle | None = None,
        chat: ChatOptions = ChatOptions(),
        estimator: Estimator | None = None,
        max_passage_tokens: int | None = None,
        cache: Cache | None = None,
        adaptive: AdaptiveSampling | None = None,
        reader_options: ReaderOptions = ReaderOptions(),
        entailment_options: LoadOptions = LoadOptions(),
        engine: EngineOptions | Sequence[str] = (),
        **sampling: Any,
    ) -> "SePerScorer":
        """Load both models by name: ``"embedded"``, ``"plain"`` (reader only), a hub id or a local folder.

        Args:
            reader: The causal language model to ask, by name or already loaded.
            entailment: The NLI model that judges.
            prompt: A prompt style or its name; ``None``: the reader's own (``READER_DEFAULTS``), else the paper's.
            chat: How the reader's chat template is rendered, and whether the reader thinks before it answers.
            estimator: The options of SePer; ``None`` takes the defaults.
            max_passage_tokens: Longest passage in tokens; ``None`` for the reader's window.
            cache: Where responses and entailment scores are kept between runs.
            adaptive: When fewer than N responses are enough; ``None`` samples all.
            reader_options: How the reader is loaded and used, and where it runs.
            entailment_options: How the entailment model is loaded.
            engine: Servers that run the reader, such as ``["http://localhost:8000/v1"]``, or ``EngineOptions``;
                ``reader`` then names its tokenizer, and of ``reader_options`` only ``backend``, ``revision``,
                ``chat_template`` and ``trust_remote_code`` count.
            **sampling: Fields of ``SamplingOptions``. Defaults are the paper's (N=10, temperature 1) unless
                ``READER_DEFAULTS`` has others for the reader.

        Raises:
            OSError: A model cannot be loaded; the message says what to do.
            ConnectionError: A server does not answer.
            ValueError: An option is out of range, or a server cannot be used as this reader.
        """
        defaults = reader_defaults(reader.name if isinstance(reader, LoadedModel) else reader)
        sampler = load_sampler(
            reader,
            options=reader_options,
            engine=engine if isinstance(engine, EngineOptions) else EngineOptions(tuple(engine)),
            prompt=prompt or defaults.prompt,
            **{"temperature": defaults.temperature, "max_new_tokens": defaults.max_new_tokens, **sampling},
        )
        return cls(
            sampler,
            EntailmentScorer.from_pretrained(entailment, entailment_options),
            prompt=prompt or defaults.prompt,
            chat=chat,
            estimator=estimator,
            max_passage_tokens=max_passage_tokens,
            cache=cache,
            adaptive=adaptive,
        )

    @property
    def sampler(self) -> Sampler:
        """Sampler of the reader's responses."""
        return self.reader.sampler

    @property
    def cache(self) -> Cache | None:
        """Where responses and entailment scores are kept between runs."""
        return self.reader.cache

    @functools.cached_property
    def fingerprint(self) -> dict[str, Any]:
        """All settings and model hashes that decide a label, JSON-able."""
        sampler, prompts, adaptive = self.sampler, self.reader.prompts, self.adaptive
        return {
            "backend": sampler.backend,
            "reader": sampler.name,
            "reader_weights": sampler.weights_hash,
            "prompt": asdict(prompts.style),
            "chat": asdict(prompts.chat.options),
            "max_prompt_tokens": prompts.max_prompt_tokens,
            "max_passage_tokens": prompts.max_passage_tokens,
            "sampling": self.reader.sampling,
            "batching": {
                "reader": "refilled" if sampler.refill else sampler.max_batch_tokens,
                "entailment": self.entailment.max_batch_tokens,
                "compiled": sampler.compiled,
                "layout": sampler.layout,
            },
            **self.judge.fingerprint,
            "adaptive": None if adaptive is None else [adaptive.enough_std_error, adaptive.min_samples],
        }

    def utilities(self, queries: Sequence[Query | Mapping[str, Any]]) -> list[list[Utility]]:
        """Measure each passage of each query by itself: ΔSePer (arXiv:2503.01478, eq. 11).

        Args:
            queries: ``Query`` records or dicts ``{question, answers, passages}``.

        Returns:
            Per query, one ``Utility`` per passage, in order.

        Raises:
            BadRowError: A dict is not a usable query.
            UnscorableError: A question is longer than the reader's window.
        """
        return [
            query_utilities(query, self.beliefs(query.question, query.answers, query.contexts))
            for query in self.reader.ahead(map(as_query, queries))
        ]

    def beliefs(
        self, question: str, answers: Answers, passage_sets: Sequence[Sequence[Passage]], *, draws: int = 1
    ) -> list[Belief]:
        """Measure the belief in an answer given each set of passages: a unit of work that depends on nothing else.

        Args:
            question: The question, the same for all sets.
            answers: Aliases of the gold answer or, where it is a list, those of each of its items.
            passage_sets: What the reader sees each time; an empty set is the baseline.
            draws: How many draws of N responses a belief is measured on, >= 1. Each has a seed of its own, the first
                one that of a single draw; what a cache holds is not drawn again.

        Returns:
            One ``Belief`` per set, in order.

        Raises:
            UnscorableError: The question is longer than the reader's window.
            ValueError: There are several draws, and they are without replacement.
        """
        known: dict[Pair, Tensor] = {}
        early_stop = self._early_stop(question, answers, known)
        drawn = [
            self._redrawn(number).responses(question, answers, passage_sets, early_stop) for number in range(draws)
        ]
        responses = list(map(Responses.pooled, zip(*drawn, strict=True)))
        (beliefs,) = self.judge.beliefs([SampledQuestion(question, answers, responses, known)])
        return beliefs

    @property
    def block(self) -> int:
        """How many questions are measured side by side where nobody says it.

        16 where a device has room for them, 32 where waiting prompts take the room of finished ones, and 1 on a CPU,
        where it gains less and costs that labels depend on their neighbours in low digits. 1, too, with ``adaptive``,
        which decides question by question, and with servers, which make batches of their own.
        """
        if self.adaptive is not None or self.sampler.prompts_ahead:
            return 1
        if self.sampler.refill:
            return 32
        device = self.sampler.device
        return 1 if device is not None and device.type == "cpu" else 16

    def block_beliefs(self, asked: Sequence[Query | Asked]) -> list[list[Belief] | UnscorableError]:
        """Measure the beliefs of several questions in their ``contexts``, side by side, on one draw each.

        Returns:
            Per question, the beliefs that ``beliefs`` returns, or the error that it would raise.

        Raises:
            ValueError: The scorer has ``adaptive``, which decides question by question.
        """
        if self.adaptive is not None:
            raise ValueError("enough_std_error does not go with blocks of queries, which sample all responses at once")
        drawn = self.reader.block_responses(asked, [self.known_answers(each.answers) for each in asked])
        sampled = [
            SampledQuestion(each.question, each.answers, rows)
            for each, rows in zip(asked, drawn, strict=True)
            if not isinstance(rows, UnscorableError)
        ]
        beliefs = iter(self.judge.beliefs(sampled))
        return [rows if isinstance(rows, UnscorableError) else next(beliefs) for rows in drawn]

    def attempt(self, asked: Query | Asked) -> list[Belief] | UnscorableError:
        """Return a question's beliefs in its ``contexts``, or the error that ``beliefs`` raises."""
        draws = asked.draws if isinstance(asked, Asked) else 1
        try:
            return self.beliefs(asked.question, asked.answers, asked.contexts, draws=draws) if asked.contexts else []
        except UnscorableError as error:
            return error

    def measure(self, asked: Sequence[Asked]) -> list[Measured | UnscorableError]:
        """Measure beliefs and texts of several questions, ``block`` of them side by side.

        What has several draws is measured question by question.

        Returns:
            Per question what was measured, or the reason why it cannot be.
        """
        self.expect(asked)  # an engine works on all questions at once
        blocks = [asked[start : start + self.block] for start in range(0, len(asked), self.block)]
        return list(itertools.chain.from_iterable(map(self._measured, blocks)))

    def expect(self, asked: Sequence[Asked]) -> None:
        """Let an engine begin with what ``measure`` will be called with; only the time it takes changes.

        What has several draws is not announced: all but the last draw come out of the cache.
        """
        for each in asked:
            if each.draws == 1:
                self.reader.expect(each.question, each.contexts)

    def _measured(self, block: Sequence[Asked]) -> list[Measured | UnscorableError]:
        places = [place for place, each in enumerate(block) if each.contexts and each.draws == 1]
        known: dict[int, list[Belief] | UnscorableError] = {}
        if len(places) > 1:
            known = dict(zip(places, self.block_beliefs([block[place] for place in places]), strict=True))
        beliefs = [known[place] if place in known else self.attempt(each) for place, each in enumerate(block)]
        stated = [
            (each.question, text, each.answers)
            for each, found in zip(block, beliefs, strict=True)
            if not isinstance(found, UnscorableError)
            for text in each.texts
        ]
        supports = iter(self.judge.mutual_supports(stated))
        return [
            found
            if isinstance(found, UnscorableError)
            else Measured(tuple(found), tuple(itertools.islice(supports, len(each.texts))))
            for each, found in zip(block, beliefs, strict=True)
        ]

    def responses(
        self,
        question: str,
        answers: Answers,
        passage_sets: Sequence[Sequence[Passage]],
        early_stop: EarlyStop | None = None,
    ) -> list[Responses]:
        """Sample the reader's responses as ``beliefs`` does: with ``known_answers``.

        Args:
            question: The question, the same for all sets.
            answers: The gold answer.
            passage_sets: What the reader sees each time; an empty set is the baseline.
            early_stop: When fewer than N responses are enough; ``None`` samples all.

        Returns:
            One ``Responses`` per set, in order.

        Raises:
            UnscorableError: The question is longer than the reader's window.
        """
        return self.reader.responses(question, passage_sets, early_stop, answers=self.known_answers(answers))

    def known_answers(self, answers: Answers) -> Sequence[str]:
        """Return the answers whose own probabilities the estimator uses: all that have a token, or none.

        Of an answer that is a list there are none: what is right as a whole has no one wording, in the order of its
        items and what stands between them, and one item alone says little about the others.
        """
        aliases, *more = answer_items(answers)
        if self.estimator.weighting != "mass" or more:
            return ()
        tokenizer, as_response = self.sampler.tokenizer, self.reader.prompts.response_text
        return [
            alias
            for alias in dict.fromkeys(aliases)
            if tokenizer(as_response(alias), add_special_tokens=False).input_ids
        ]

    def mutual_support(self, question: str, text: str, answers: Answers) -> float:
        """Return how surely a policy's text states a gold answer, in [0, 1] (``BeliefJudge.mutual_support``)."""
        return self.judge.mutual_support(question, text, answers)

    def with_baseline(self, baseline: Baseline) -> "SePerScorer":
        """Return the same scorer whose reader is shown something else where there is no passage."""
        other = copy.copy(self)
        other.__dict__.pop("fingerprint", None)
        other.reader = self.reader.with_baseline(baseline)
        return other

    def reading_with(self, model: Any, *, frozen: bool = False) -> "SePerScorer":
        """Return the same scorer with another model that has the reader's tokenizer.

        Args:
            model: Causal language model in eval mode.
            frozen: Whether its weights never change, so that its responses may be kept in the cache.
        """
        other = copy.copy(self)
        other.__dict__.pop("fingerprint", None)
        other.reader = self.reader.reading_with(model, frozen=frozen)
        # a reader in training seldom gives a response twice: its entailment scores are not kept either
        other.judge = BeliefJudge(self.entailment, self.estimator, other.cache)
        return other

    def with_sampling(self, **changes: Any) -> "SePerScorer":
        """Return a scorer with the same models, options and cache that samples otherwise.

        Args:
            **changes: Fields of ``SamplingOptions``, such as another ``seed``.

        Raises:
            ValueError: The estimator, or the reader, does not go with them.
        """
        other = copy.copy(self)
        other.__dict__.pop("fingerprint", None)
        other.reader = self.reader.with_sampling(**changes)
        other._refuse_distinct_draws()
        return other

    def _redrawn(self, number: int) -> "SePerScorer":
        """Return the scorer that makes the draw of this number, from 0: the first is that of the scorer itself."""
        return self.with_sampling(seed=self.sampler.options.seed + number * _NEXT_DRAW) if number else self

    def _refuse_distinct_draws(self) -> None:
        weighting = self.estimator.weighting
        if self.sampler.options.draw == "without_replacement" and weighting != "mass":
            raise ValueError(
                f"weighting={weighting!r} needs independent draws; set draw=independent, or take weighting=mass"
            )

    def _early_stop(self, question: str, answers: Answers, known: dict[Pair, Tensor]) -> EarlyStop | None:
        """Return when fewer responses are enough; pairs that are judged to decide it are put into ``known``."""
        adaptive = self.adaptive
        if adaptive is None or self.sampler.prompts_ahead:  # servers sample all N
            return None

        def needs_more(sampled: Mapping[str, Responses]) -> set[str]:
            first = SampledQuestion(question, answers, list(sampled.values()), known)
            return set(itertools.compress(sampled, self.judge.undecided(first, adaptive.enough_std_error)))

        # answers and judge decide how many responses are sampled
        options = [adaptive.enough_std_error, adaptive.min_samples, asdict(self.estimator)]
        decides = (*options, self.entailment.weights_hash, question, *answers)
        return EarlyStop(adaptive.min_samples, needs_more, decides)
