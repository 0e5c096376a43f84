"""SePerScorer: the one place that composes prompts, sampling, entailment, clusters and estimators."""

import copy
import functools
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from seper_reward.data.queries import as_query
from seper_reward.estimators.belief import Pair
from seper_reward.estimators.entailment import EntailmentScorer
from seper_reward.estimators.judge import BeliefJudge, Sampled
from seper_reward.estimators.seper import Estimator
from seper_reward.estimators.utility import utility
from seper_reward.models import EMBEDDED, READER_DEFAULTS, LoadedModel
from seper_reward.reader.backends import load_sampler
from seper_reward.reader.in_process.response_sampler import DRAWING
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.reader.sampler import More, Sampler
from seper_reward.runtime.cache import Cache, answers_through, content_keys
from seper_reward.types import Belief, Passage, Query, Responses, UnscorableError, Utility


class SePerScorer:
    """Measures a reader's belief in the gold answers, and what passages do to it (ΔSePer).

    Args:
        sampler: of the reader's responses: a ``ResponseSampler`` in this
            process, or an ``EngineSampler`` over servers.
        entailment: judge of what the responses say.
        prompt: a name of ``prompts.STYLES``.
        estimator: the options of SePer; ``Estimator.preset("paper")`` and ``"official"`` are the published ones.
        max_passage_tokens: longest passage in tokens, ``None`` for the reader's window.
        cache: where responses and entailment scores are kept between runs.
        enough_std_error: of a belief, in (0, 1], up to which ``min_samples`` responses are enough; ``None`` draws all.
            Few responses that agree look surer than they are, so that beliefs are drawn a little towards 0 and 1.
        min_samples: drawn in any case, >= 2.

    Raises:
        ValueError: ``enough_std_error`` or ``min_samples`` is out of range, or the sampler refills its batch.
    """

    def __init__(
        self,
        sampler: Sampler,
        entailment: EntailmentScorer,
        *,
        prompt: str = "paper",
        estimator: Estimator | None = None,
        max_passage_tokens: int | None = None,
        cache: Cache | None = None,
        enough_std_error: float | None = None,
        min_samples: int = 4,
    ) -> None:
        if (enough_std_error is not None and not 0 < enough_std_error <= 1) or min_samples < 2:
            raise ValueError(
                f"enough_std_error must be in (0, 1] and min_samples at least 2, got {enough_std_error}, {min_samples}"
            )
        if enough_std_error is not None and sampler.refill:
            raise ValueError("enough_std_error does not go with throughput (refill), which draws all samples at once")
        self.sampler, self.entailment, self.cache = sampler, entailment, cache
        self.enough_std_error, self.min_samples = enough_std_error, min_samples
        self.estimator = estimator or Estimator()
        self._judge = BeliefJudge(entailment, self.estimator, cache)
        self.prompts = PromptBuilder(
            sampler.tokenizer,
            prompt,
            max_prompt_tokens=sampler.max_prompt_tokens,
            max_passage_tokens=max_passage_tokens,
        )

    @classmethod
    def from_pretrained(
        cls,
        reader: str | LoadedModel = EMBEDDED,
        entailment: str = EMBEDDED,
        *,
        prompt: str | None = None,
        estimator: Estimator | None = None,
        max_passage_tokens: int | None = None,
        cache: Cache | None = None,
        reader_options: Mapping[str, Any] | None = None,
        entailment_options: Mapping[str, Any] | None = None,
        engine: Sequence[str] = (),
        engine_options: Mapping[str, Any] | None = None,
        backend: str | None = None,
        enough_std_error: float | None = None,
        min_samples: int = 4,
        **sampling: Any,
    ) -> "SePerScorer":
        """Load both models by name: ``"embedded"``, ``"plain"`` (reader only), a hub id or a local folder.

        Args:
            reader: the causal language model to ask, by name or already loaded.
            entailment: the NLI model that judges.
            prompt: see the class; ``None`` takes the reader's own (``READER_DEFAULTS``), else the paper's.
            estimator: see the class.
            max_passage_tokens: see the class.
            cache: see the class.
            reader_options: ``revision``, ``dtype``, ``device``, ``trust_remote_code`` of the reader, and
                ``max_batch_tokens``.
            entailment_options: the same for the entailment model.
            engine: base URLs of servers that run the reader, as ``["http://localhost:8000/v1"]``; ``reader`` then
                names its tokenizer, and of ``reader_options`` only ``revision`` and ``trust_remote_code`` count.
            engine_options: ``model``, ``requests``, ``timeout`` and ``retries`` of
                ``EngineSampler``.
            backend: ``"process"``, ``"engine"`` or ``"auto"``, which measures both and keeps the faster (see
                ``load_sampler``); ``None``: the engine where ``engine`` has a URL.
            enough_std_error: see the class.
            min_samples: see the class.
            **sampling: fields of ``SamplingOptions``. Defaults are the
                paper's (N=10, temperature 1) unless ``READER_DEFAULTS`` has others for the reader.
        """
        name = reader.name if isinstance(reader, LoadedModel) else reader
        defaults = READER_DEFAULTS.get(name, READER_DEFAULTS[None])
        drawn = {"temperature": defaults.temperature, "max_new_tokens": defaults.max_new_tokens, **sampling}
        sampler = load_sampler(
            reader,
            backend=backend,
            engine=engine,
            engine_options=engine_options or {},
            reader_options=reader_options or {},
            prompt=prompt or defaults.prompt,
            **drawn,
        )
        return cls(
            sampler,
            EntailmentScorer.from_pretrained(entailment, **(entailment_options or {})),
            prompt=prompt or defaults.prompt,
            estimator=estimator,
            max_passage_tokens=max_passage_tokens,
            cache=cache,
            enough_std_error=enough_std_error,
            min_samples=min_samples,
        )

    @functools.cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Everything of this scorer that decides a label, JSON-able."""
        return {
            "backend": self.sampler.backend,
            "reader": self.sampler.name,
            "reader_weights": self.sampler.weights_hash,
            "entailment": self.entailment.name,
            "entailment_weights": self.entailment.weights_hash,
            "prompt": asdict(self.prompts.style),
            "max_prompt_tokens": self.prompts.max_prompt_tokens,
            "max_passage_tokens": self.prompts.max_passage_tokens,
            "sampling": self._draws(),
            "batching": {
                "reader": "refilled" if self.sampler.refill else self.sampler.max_batch_tokens,
                "entailment": self.entailment.max_batch_tokens,
                "compiled": self.sampler.compiled,
            },
            "estimator": asdict(self.estimator),
            "adaptive": None if self.enough_std_error is None else [self.enough_std_error, self.min_samples],
        }

    def utilities(self, queries: Sequence[Query | Mapping[str, Any]]) -> list[list[Utility]]:
        """Measure each passage of each query by itself: ΔSePer (arXiv:2503.01478, eq. 11).

        Args:
            queries: ``Query`` records or dicts ``{question, answers, passages}``.

        Returns:
            Per query, one ``Utility`` per passage, in order.

        Raises:
            BadRowError: a dict is not a usable query.
            UnscorableError: a question is longer than the reader's window.
        """
        return [self.query_utilities(query) for query in self.ahead(map(as_query, queries))]

    def ahead(self, queries: Iterable[Query]) -> Iterator[Query]:
        """Yield the queries; an engine is told of the next ones while one is measured.

        A server answers many prompts at once. What is measured does not depend on it.
        """
        waiting: deque[Query] = deque()
        prompts = 0
        for query in queries:
            waiting.append(query)
            prompts += 1 + len(query.passages)
            self.expect(query.question, query.contexts)
            while prompts > self.sampler.prompts_ahead:
                prompts -= 1 + len(waiting[0].passages)
                yield waiting.popleft()
        yield from waiting

    def expect(self, question: str, passage_sets: Sequence[Sequence[Passage]]) -> None:
        """Begin to sample what ``beliefs`` will be asked for, where the sampler can; arguments as there."""
        if not self.sampler.prompts_ahead:
            return
        try:
            prompts = [self.prompts.build(question, passages) for passages in passage_sets]
        except UnscorableError:
            return  # raised when it is measured
        if self.cache is not None:
            keys = content_keys("responses", self.sampler, [(self._draws(), prompt) for prompt in prompts])
            prompts = [prompts[at] for at in self.cache.missing(keys)]
        self.sampler.expect(prompts)

    def query_utilities(self, query: Query) -> list[Utility]:
        """Measure the passages of one query: the fixed unit of work, whose batches depend on it alone."""
        return _utilities(query, self.beliefs(query.question, query.answers, query.contexts))

    def attempt(self, query: Query) -> list[Utility] | UnscorableError:
        """Return what ``query_utilities`` gives, or the error that it raises."""
        try:
            return self.query_utilities(query)
        except UnscorableError as error:
            return error

    def block_size(self, wanted: int) -> int:
        """Return how many queries are measured side by side: as many as wanted; with an engine one after another.

        Raises:
            ValueError: ``wanted`` is below 1, or above 1 with ``enough_std_error``, which decides query by query.
        """
        if wanted < 1 or (wanted > 1 and self.enough_std_error is not None):
            raise ValueError(f"block must be at least 1, and 1 with enough_std_error, got {wanted}")
        return 1 if self.sampler.prompts_ahead else wanted

    def measured(self, blocks: Iterable[Sequence[Query]]) -> Iterator[tuple[Query, list[Utility] | UnscorableError]]:
        """Measure block after block and yield each query with what ``attempt`` or ``block_utilities`` gives.

        An engine is told of the next queries instead: it makes its batches itself.
        """
        if self.sampler.prompts_ahead:
            for query in self.ahead(itertools.chain.from_iterable(blocks)):
                yield query, self.attempt(query)
            return
        for block in blocks:
            judged = self.block_utilities(block) if len(block) > 1 else map(self.attempt, block)
            yield from zip(block, judged, strict=True)

    def block_utilities(self, queries: Sequence[Query]) -> list[list[Utility] | UnscorableError]:
        """Measure the passages of several queries together: sampled side by side, and judged.

        Faster where one query does not fill the device. In low digits the numbers depend on the whole block.

        Returns:
            Per query, what ``query_utilities`` gives, or the error that it would raise.

        Raises:
            ValueError: with ``enough_std_error``, which decides query by query.
        """
        if self.enough_std_error is not None:
            raise ValueError("enough_std_error does not go with blocks of queries, which draw all samples at once")
        prompts: dict[int, list[str]] = {}
        judged: dict[int, list[Utility] | UnscorableError] = {}
        for place, query in enumerate(queries):
            try:
                prompts[place] = [self.prompts.build(query.question, passages) for passages in query.contexts]
            except UnscorableError as error:
                judged[place] = error
        try:
            said = self._sample(sorted({prompt for asked in prompts.values() for prompt in asked}))
        except UnscorableError:  # of one query: the others are measured by themselves
            return [self.attempt(query) for query in queries]
        sampled = [
            Sampled(queries[place].question, queries[place].answers, [said[prompt] for prompt in asked])
            for place, asked in prompts.items()
        ]
        for place, beliefs in zip(prompts, self._judge.beliefs(sampled), strict=True):
            judged[place] = _utilities(queries[place], beliefs)
        return [judged[place] for place in range(len(queries))]

    def beliefs(
        self, question: str, answers: Sequence[str], passage_sets: Sequence[Sequence[Passage]]
    ) -> list[Belief]:
        """Measure the belief in an answer given each set of passages.

        Args:
            question: asked each time.
            answers: aliases of the one gold answer.
            passage_sets: what the reader sees each time; an empty set is the baseline.

        Returns:
            One ``Belief`` per set, in order.

        Raises:
            UnscorableError: the question is longer than the reader's window.
        """
        known: dict[Pair, Tensor] = {}
        sampled = self.responses(question, passage_sets, answers, known)
        (beliefs,) = self._judge.beliefs([Sampled(question, answers, sampled, known)])
        return beliefs

    def responses(
        self,
        question: str,
        passage_sets: Sequence[Sequence[Passage]],
        answers: Sequence[str] = (),
        known: dict[Pair, Tensor] | None = None,
    ) -> list[Responses]:
        """Sample the reader's responses given each set of passages; arguments and errors as in ``beliefs``.

        With ``enough_std_error`` and ``answers`` as few as are enough, and ``known`` takes what was judged for that.
        """
        enough = None
        if self.enough_std_error is not None and answers and not self.sampler.prompts_ahead:  # servers draw all N
            enough = functools.partial(self._undecided, question, answers, {} if known is None else known)
        prompts = [self.prompts.build(question, passages) for passages in passage_sets]
        # the baseline is a batch of its own, so that it is the same whatever passages are judged beside it; a server
        # makes its batches itself
        alone = {prompt for prompt, passages in zip(prompts, passage_sets, strict=True) if not passages}
        batches = [set(prompts)] if self.sampler.prompts_ahead else [alone, set(prompts) - alone]
        asked = (question, *answers)
        sampled: dict[str, Responses] = {}
        for batch in batches:
            sampled |= self._sample(sorted(batch), enough, asked)
        return [sampled[prompt] for prompt in prompts]

    def _undecided(
        self, question: str, answers: Sequence[str], known: dict[Pair, Tensor], sampled: Mapping[str, Responses]
    ) -> set[str]:
        """Return the prompts whose belief is not yet as sure as ``enough_std_error``."""
        asked = Sampled(question, answers, list(sampled.values()), known)
        return set(itertools.compress(sampled, self._judge.undecided(asked, self.enough_std_error or 0.0)))

    def answer_log_probs(
        self, question: str, answers: Sequence[str], passage_sets: Sequence[Sequence[Passage]]
    ) -> list[list[float]]:
        """Return the mean log-probability per token of each answer (its first ``max_new_tokens``) given passages.

        Args:
            question: asked each time.
            answers: texts, each by itself.
            passage_sets: as in ``beliefs``.

        Returns:
            Per set, one natural-log probability (<= 0) per answer.

        Raises:
            UnscorableError: the question is longer than the reader's window.
        """
        prompts = [self.prompts.build(question, passages) for passages in passage_sets]
        asked = [(prompt, self.prompts.response_text(answer)) for prompt in prompts for answer in answers]

        def compute(missing: list[int]) -> list[float]:
            found = self.sampler.log_probs(*zip(*(asked[at] for at in missing), strict=True))
            return [float(row.mean()) for row in found]

        length = self.sampler.options.max_new_tokens
        keys = [(length, *pair) for pair in asked]
        means = answers_through(self.cache, "answer log-prob", self.sampler, keys, compute)
        return [means[start : start + len(answers)] for start in range(0, len(means), len(answers))]

    def support(self, question: str, response: str, answers: Sequence[str]) -> float:
        """Return how far a response entails the gold answer it fits best, in [0, 1]; 0 for an empty one."""
        return self._judge.support(question, response, answers)

    def reading_with(self, model: Any, *, frozen: bool = False) -> "SePerScorer":
        """Return the same scorer with another model of the reader's tokenizer.

        Args:
            model: causal language model in eval mode.
            frozen: its weights never change, so what it says may be kept in the cache.
        """
        other = copy.copy(self)
        other.__dict__.pop("fingerprint", None)
        other.sampler, other.cache = self.sampler.reading_with(model), self.cache if frozen else None
        other._judge = BeliefJudge(self.entailment, self.estimator, other.cache)  # a moving reader says new things
        return other

    def _sample(
        self, prompts: Sequence[str], enough: More | None = None, asked: Sequence[str] = ()
    ) -> dict[str, Responses]:
        def compute(missing: list[int]) -> list[dict[str, Any]]:
            some = [prompts[at] for at in missing]
            return [row.to_json() for row in self.sampler.sample(some, self.min_samples, enough)]

        options = self._draws()
        if enough is not None:  # then answers and judge decide how many responses there are
            decides = [self.enough_std_error, self.min_samples, asdict(self.estimator), self.entailment.weights_hash]
            options["adaptive"] = [*decides, *asked]
        rows = answers_through(
            self.cache, "responses", self.sampler, [(options, prompt) for prompt in prompts], compute
        )
        return {prompt: Responses.from_json(row) for prompt, row in zip(prompts, rows, strict=True)}

    def _draws(self) -> dict[str, Any]:
        """Return what decides a response beside reader and prompt."""
        return {**asdict(self.sampler.options), "algorithm": DRAWING}


def _utilities(query: Query, beliefs: Sequence[Belief]) -> list[Utility]:
    """Return the utility of each passage from the beliefs in its ``contexts``."""
    baseline, *others = beliefs
    return [utility(belief, baseline, passage.id) for passage, belief in zip(query.passages, others, strict=True)]
