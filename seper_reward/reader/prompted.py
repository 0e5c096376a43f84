"""PromptedReader: samples the reader's responses to questions with passages, with one prompt style and one cache."""

import copy
import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seper_reward.options import SamplingOptions
from seper_reward.reader.chat import SWITCH_OFF, ChatTemplate, begins_to_think
from seper_reward.reader.in_process.response_sampler import ALGORITHM
from seper_reward.reader.prompts import PromptBuilder, PromptStyle
from seper_reward.reader.sampler import Request, Sampler
from seper_reward.runtime.cache import Cache, answers_through, content_keys, open_cache
from seper_reward.runtime.profiling import timed
from seper_reward.types import Asked, Query, Responses, UnscorableError, all_or_error, attempt

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# prefix of a response that is checked for the tag of a thought
_HEAD_CHARS, _HEAD_TOKENS = 60, 12

Q = TypeVar("Q", Query, Asked)


def ahead(
    reader: "PromptedReader",
    batches: Iterable[Sequence[Q]],
    known: Callable[[Query | Asked], Sequence[str]],
    *,
    closed_book: bool = True,
) -> Iterator[Sequence[Q]]:
    """Yield batches of questions, and let an engine start on the next batches while the caller measures one.

    ``known`` returns the answers whose probabilities the caller uses; with ``closed_book`` it also uses prompts
    without a passage.
    """
    bare = int(not closed_book)
    waiting: deque[tuple[Sequence[Q], int]] = deque()
    prompts = 0
    for batch in batches:
        # without an answer there is no belief to sample for
        queries = [
            Asked(query.question, query.answers, tuple(query.contexts[bare:])) for query in batch if query.answers
        ]
        reader.expect(queries, known)
        size = sum(len(query.contexts) for query in queries)
        waiting.append((batch, size))
        prompts += size
        while prompts > reader.sampler.prompts_ahead:
            done, size = waiting.popleft()
            prompts -= size
            yield done
    yield from (batch for batch, _ in waiting)


class PromptedReader:
    """A reader of questions with and without passages; independent of the judgment of answers.

    Arguments and errors are those of ``SePerScorer``; ``WeightsMovedError`` if servers have other weights than those
    whose responses the cache has.
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        prompt: str | PromptStyle = "paper",
        chat: ChatTemplate | None = None,
        max_passage_tokens: int | None = None,
        cache: Cache | str | Path | None = None,
    ) -> None:
        self.sampler, self.cache = sampler, open_cache(cache)
        if self.cache is not None:
            sampler.remember(self.cache)
        self.prompts = PromptBuilder(
            sampler.tokenizer,
            prompt,
            chat=chat,
            max_prompt_tokens=sampler.max_prompt_tokens,
            max_passage_tokens=max_passage_tokens,
        )

    @property
    def sampling(self) -> dict[str, Any]:
        """All settings that decide a response to a prompt, JSON-able."""
        options = {name: getattr(self.sampler.options, name) for name in SamplingOptions.__dataclass_fields__}
        return {**options, "algorithm": ALGORITHM}

    @property
    def fingerprint(self) -> dict[str, Any]:
        """All settings and hashes that decide a response to a question, JSON-able."""
        return {
            "backend": self.sampler.backend,
            "reader": self.sampler.name,
            "reader_weights": self.sampler.weights_hash,
            "prompt": asdict(self.prompts.style),
            "chat": self.prompts.chat.fingerprint,
            "max_prompt_tokens": self.prompts.max_prompt_tokens,
            "max_passage_tokens": self.prompts.max_passage_tokens,
            "sampling": self.sampling,
        }

    def responses(
        self, queries: Sequence[Query | Asked], answers: Sequence[Sequence[str]] = ()
    ) -> list[list[Responses] | UnscorableError]:
        """Sample the responses to several questions in their ``contexts``, of which an empty one is the baseline.

        Prompts without a passage are a separate batch, so a question's baseline does not depend on its passages. Low
        digits of the results depend on the other questions. ``answers`` are texts per question whose ``known_leaves``
        are added, if the sampler ``knows_leaves``. A question has an error if it is longer than the reader's window;
        see also ``sample``.
        """
        requests = self._requests(queries, answers)
        closed_book: dict[Request, bool] = {}
        for group, query in zip(requests, queries, strict=True):
            for request, context in zip(
                [] if isinstance(group, UnscorableError) else group, query.contexts, strict=False
            ):
                closed_book[request] = closed_book.get(request, False) or not context
        self._start(closed_book)
        sampled: dict[Request, Responses | UnscorableError] = {}
        for kind in (True, False):
            batch = [request for request, bare in closed_book.items() if bare is kind]
            sampled |= zip(batch, self.sample(batch, closed_book=kind), strict=True)
        return [
            group if isinstance(group, UnscorableError) else all_or_error(sampled[request] for request in group)
            for group in requests
        ]

    def sample(self, requests: Sequence[Request], *, closed_book: bool = False) -> list[Responses | UnscorableError]:
        """Sample responses to requests as one batch, or read them from the cache; equal ones are sampled once.

        A request has an error if its prompt is empty or longer than the window, or half of its responses begin with
        thoughts, which raise ``ValueError`` for ``closed_book`` prompts, where no passage can be the cause.
        """
        distinct = sorted(set(requests))

        def compute(missing: list[int]) -> list[Responses | UnscorableError]:
            return self.sampler.sample([distinct[at] for at in missing])

        keys = self._keys(distinct)
        answers = answers_through(self.cache, "responses", self.sampler, keys, compute, Responses)
        sampled = dict(zip(distinct, answers, strict=True))
        for request, responses in sampled.items():
            if not isinstance(responses, UnscorableError) and (reason := _thoughts_problem(responses, self.sampler)):
                if closed_book:
                    raise ValueError(reason)
                sampled[request] = UnscorableError(reason)
        return [sampled[request] for request in requests]

    def expect(
        self, queries: Sequence[Query | Asked], known: Callable[[Query | Asked], Sequence[str]] = lambda query: ()
    ) -> None:
        """Start sampling for a later call of ``responses`` with the answers that ``known`` returns, if possible."""
        if self.sampler.prompts_ahead:
            requests = self._requests(queries, list(map(known, queries)))
            # errors are returned again when the question is measured
            self._start(
                itertools.chain.from_iterable(group for group in requests if not isinstance(group, UnscorableError))
            )

    def _start(self, requests: Iterable[Request]) -> None:
        if self.sampler.prompts_ahead:
            wanted = list(requests)
            if self.cache is not None:
                keys = content_keys("responses", self.sampler, self._keys(wanted))
                wanted = [wanted[at] for at in self.cache.missing(keys)]
            self.sampler.expect(wanted)

    def _keys(self, requests: Sequence[Request]) -> list[tuple[object, ...]]:
        sampling = self.sampling
        return [(sampling, request.prompt, request.question or None, *request.answers) for request in requests]

    def _requests(
        self, queries: Sequence[Query | Asked], answers: Sequence[Sequence[str]]
    ) -> list[list[Request] | UnscorableError]:
        if not (answers and self.sampler.knows_leaves):
            answers = [()] * len(queries)

        def of_question(query: Query | Asked, texts: Sequence[str]) -> list[Request]:
            known, question = tuple(self.prompts.response_texts(texts)), self.prompts.question_text(query.question)
            prompts = [self.prompts.prompt(query.question, passages) for passages in query.contexts]
            return [Request(prompt.text, known, question, prompt.encoding) for prompt in prompts]

        with timed("prompts"):
            return [attempt(functools.partial(of_question, *pair)) for pair in zip(queries, answers, strict=True)]

    def answer_log_probs(
        self, queries: Sequence[Query | Asked], answers: Sequence[Sequence[str]]
    ) -> list[list[list[float]] | UnscorableError]:
        """Return, per question and context, the mean natural-log probability (<= 0) per token of each of its answers.

        Answers are cut to ``max_new_tokens``. A question that exceeds the window, or whose answers have no token, has
        an error.
        """
        requests = self._requests(queries, ())
        pairs = [
            (request.prompt, self.prompts.response_text(text))
            for group, texts in zip(requests, answers, strict=True)
            if not isinstance(group, UnscorableError)
            for request, text in itertools.product(group, texts)
        ]

        def compute(missing: list[int]) -> list[float | UnscorableError]:
            results = self.sampler.log_probs(*zip(*(pairs[at] for at in missing), strict=True))
            return [result if isinstance(result, UnscorableError) else float(result.mean()) for result in results]

        keys = [(self.sampler.options.max_new_tokens, *pair) for pair in pairs]
        means = iter(answers_through(self.cache, "answer log-prob", self.sampler, keys, compute))
        return [
            group
            if isinstance(group, UnscorableError)
            else all_or_error([all_or_error(list(itertools.islice(means, len(texts)))) for _ in group])
            for group, texts in zip(requests, answers, strict=True)
        ]

    def with_style(self, style: PromptStyle) -> "PromptedReader":
        """Return the same reader with another prompt style."""
        other = copy.copy(self)
        other.prompts = copy.copy(self.prompts)
        other.prompts.style = style
        return other

    def reading_with(self, model: "PreTrainedModel", *, frozen: bool) -> "PromptedReader":
        """Return the same reader with another model, in eval mode; responses are cached if its weights are frozen."""
        other = copy.copy(self)
        other.sampler, other.cache = self.sampler.reading_with(model), self.cache if frozen else None
        return other

    def with_sampling(self, **changes: Any) -> "PromptedReader":
        """Return the same reader with some fields of ``SamplingOptions`` changed."""
        other = copy.copy(self)
        other.sampler = self.sampler.with_options(replace(self.sampler.options, **changes))
        return other


def _thoughts_problem(responses: Responses, sampler: Sampler) -> str | None:
    """Return an error message if half of the responses or more begin with thoughts instead of answers."""
    if responses.token_ids:
        heads = [ids[:_HEAD_TOKENS] for ids in responses.token_ids]
        beginnings = [sampler.tokenizer.decode(head, skip_special_tokens=False) for head in heads]
    else:
        beginnings = [text[:_HEAD_CHARS] for text in responses.texts]
    if 2 * sum(map(begins_to_think, beginnings)) < len(responses.texts):
        return None
    return f"reader {sampler.name!r} begins its responses with thoughts, such as {beginnings[0]!r}; {SWITCH_OFF}"
