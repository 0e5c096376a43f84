"""PromptedReader: samples the reader's responses to questions with passages, with one prompt style and one cache."""

import copy
import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from seper_reward.options import ChatOptions
from seper_reward.reader.chat import SWITCH_OFF, ChatTemplate, begins_to_think
from seper_reward.reader.in_process.response_sampler import ALGORITHM
from seper_reward.reader.prompts import PromptBuilder, PromptStyle
from seper_reward.reader.sampler import Sampler
from seper_reward.reader.tokens import usage
from seper_reward.runtime.cache import Cache, answers_through, content_keys, open_cache
from seper_reward.runtime.profiling import count
from seper_reward.types import Asked, Leaf, Query, Responses, UnscorableError, all_or_error, attempt

# prefix of a response that is checked for the tag of a thought
_HEAD_CHARS, _HEAD_TOKENS = 60, 12

Q = TypeVar("Q", Query, Asked)
Leaves = Sequence[Leaf] | UnscorableError


def ahead(
    reader: "PromptedReader", batches: Iterable[Sequence[Q]], *, closed_book: bool = True
) -> Iterator[Sequence[Q]]:
    """Yield batches of questions, and let an engine start on the next batches while the caller measures one.

    Servers answer many prompts at once, so this saves time; results do not change. With ``closed_book`` the caller
    also uses prompts without a passage.
    """
    bare = int(not closed_book)
    waiting: deque[tuple[Sequence[Q], int]] = deque()
    prompts = 0
    for batch in batches:
        reader.expect(Asked(each.question, each.answers, tuple(each.contexts[bare:])) for each in batch)
        size = sum(len(each.contexts) - bare for each in batch)
        waiting.append((batch, size))
        prompts += size
        while prompts > reader.sampler.prompts_ahead:
            done, size = waiting.popleft()
            prompts -= size
            yield done
    yield from (batch for batch, _ in waiting)


class PromptedReader:
    """A reader of questions with and without passages; independent of the judgment of answers.

    Arguments are those of ``SePerScorer``.

    Attributes:
        sampler: The sampler.
        prompts: Builder of the prompts.

    Raises:
        ValueError: The reader's chat template or window does not support an option.
        WeightsMovedError: Servers have other weights than those whose responses the cache has.
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        prompt: str | PromptStyle = "paper",
        chat: ChatOptions = ChatOptions(),
        max_passage_tokens: int | None = None,
        cache: Cache | str | Path | None = None,
    ) -> None:
        template = ChatTemplate(sampler.tokenizer, chat)
        self.sampler, self.cache = sampler, open_cache(cache)
        if self.cache is not None:
            sampler.remember(self.cache)
        self.prompts = PromptBuilder(
            sampler.tokenizer,
            prompt,
            chat=template,
            max_prompt_tokens=sampler.max_prompt_tokens,
            max_passage_tokens=max_passage_tokens,
        )

    @property
    def sampling(self) -> dict[str, Any]:
        """All settings that decide a response to a prompt, JSON-able."""
        return {**asdict(self.sampler.options), "algorithm": ALGORITHM}

    @property
    def fingerprint(self) -> dict[str, Any]:
        """All settings and hashes that decide a response to a question, JSON-able."""
        return {
            "backend": self.sampler.backend,
            "reader": self.sampler.name,
            "reader_weights": self.sampler.weights_hash,
            "prompt": asdict(self.prompts.style),
            "chat": asdict(self.prompts.chat.options),
            "max_prompt_tokens": self.prompts.max_prompt_tokens,
            "max_passage_tokens": self.prompts.max_passage_tokens,
            "sampling": self.sampling,
        }

    def responses(
        self, asked: Sequence[Query | Asked], answers: Sequence[Sequence[str]] | None = None
    ) -> list[list[Responses] | UnscorableError]:
        """Sample the responses to several questions in their ``contexts``, of which an empty one is the baseline.

        Prompts without a passage are a separate batch, so a question's baseline does not depend on its passages; an
        engine makes its own batches. Low digits of the results depend on the other questions. ``answers`` are texts
        per question whose ``known_leaves`` are added to its responses, each once and only texts with a token (default:
        none); samplers without ``knows_leaves`` add none. A question has an error if it is longer than the reader's
        window; see also ``sample``.
        """
        prompts = list(map(self._prompts_or_error, asked))
        texts = [self.prompts.response_texts(own) for own in answers] if answers else [[] for _ in asked]
        given: dict[str, dict[str, int]] = {}  # by prompt, each text with its position; questions can share a prompt
        questions: dict[str, str] = {}
        closed_book = set()
        for own, each, wanted in zip(prompts, asked, texts, strict=True):
            if isinstance(own, UnscorableError):
                continue
            for prompt, context in zip(own, each.contexts, strict=True):
                places = given.setdefault(prompt, {})
                for text in wanted:
                    places.setdefault(text, len(places))
                questions[prompt] = self.prompts.question_text(each.question)
                if not context:
                    closed_book.add(prompt)
        batches = [list(given)]
        if not self.sampler.prompts_ahead:
            batches = [[prompt for prompt in given if (prompt in closed_book) is kind] for kind in (True, False)]
        sampled: dict[str, Responses | UnscorableError] = {}
        for batch in batches:
            of_batch = {prompt: list(given[prompt]) for prompt in batch}
            sampled |= self.sample(sorted(batch), closed_book=closed_book, given=of_batch, questions=questions)

        def with_leaves(prompt: str, wanted: Sequence[str]) -> Responses | UnscorableError:
            row = sampled[prompt]
            if isinstance(row, UnscorableError) or not row.known_leaves:
                return row
            return replace(row, known_leaves=tuple(row.known_leaves[given[prompt][text]] for text in wanted))

        return [
            own if isinstance(own, UnscorableError) else all_or_error(with_leaves(prompt, wanted) for prompt in own)
            for own, wanted in zip(prompts, texts, strict=True)
        ]

    def sample(
        self,
        prompts: Sequence[str],
        *,
        closed_book: Collection[str] = (),
        given: Mapping[str, Sequence[str]] = MappingProxyType({}),
        questions: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Responses | UnscorableError]:
        """Sample responses to prompts of ``prompts`` as one batch, or read them from the cache; return them by prompt.

        Texts ``given`` for a prompt are added to its responses as ``known_leaves``, and the likelihood of its question
        (``questions``) as ``question_log_prob``, if the reader runs in this process. A prompt has an error if it is
        empty or longer than the reader's window, or half of its responses begin with thoughts. For ``closed_book``
        prompts, where no passage can be the cause, thoughts raise ``ValueError``.
        """
        key = self.sampling

        def compute(missing: list[int]) -> list[Responses | UnscorableError]:
            batch = [prompts[at] for at in missing]
            rows = self.sampler.sample(batch, given, questions)
            scored = [row for row in rows if not isinstance(row, UnscorableError)]
            lengths = [len(row) for each in scored for row in each.token_log_probs]
            count(lambda: usage(self.sampler.tokenizer, batch, lengths))
            return rows

        if not self.sampler.knows_leaves:
            given = {}
        apart: Mapping[str, Leaves] = {}
        if self.sampler.prompts_ahead:  # an engine samples before it scores given answers
            apart, given, questions = self._leaves(given), {}, {}
        keys = [(key, prompt, questions.get(prompt), *given.get(prompt, ())) for prompt in prompts]
        rows = answers_through(self.cache, "responses", self.sampler, keys, compute, Responses)
        sampled: dict[str, Responses | UnscorableError] = dict(zip(prompts, rows, strict=True))
        for prompt, row in sampled.items():
            if not isinstance(row, UnscorableError) and prompt in apart:
                leaves = apart[prompt]
                row = leaves if isinstance(leaves, UnscorableError) else replace(row, known_leaves=tuple(leaves))
            if not isinstance(row, UnscorableError) and (reason := _thoughts_problem(row, self.sampler)):
                if prompt in closed_book:
                    raise ValueError(reason)
                row = UnscorableError(reason)
            sampled[prompt] = row
        return sampled

    def _leaves(self, given: Mapping[str, Sequence[str]]) -> dict[str, Leaves]:
        """Return the leaves of the texts of each prompt, from the cache if possible."""
        pairs = [(prompt, text) for prompt, texts in given.items() for text in texts]

        def compute(missing: list[int]) -> Sequence[Leaf | UnscorableError]:
            return self.sampler.leaves(*zip(*(pairs[at] for at in missing), strict=True))

        keys = [(self.sampling, *pair) for pair in pairs]
        rows = iter(answers_through(self.cache, "leaf", self.sampler, keys, compute, Leaf))
        return {prompt: all_or_error(list(itertools.islice(rows, len(texts)))) for prompt, texts in given.items()}

    def _prompts_or_error(self, asked: Query | Asked) -> list[str] | UnscorableError:
        return attempt(lambda: [self.prompts.build(asked.question, passages) for passages in asked.contexts])

    def answer_log_probs(
        self, asked: Sequence[Query | Asked], answers: Sequence[Sequence[str]]
    ) -> list[list[list[float]] | UnscorableError]:
        """Return, per question and context, the mean natural-log probability (<= 0) per token of each of its answers.

        Answers are cut to ``max_new_tokens`` tokens. A question has an error if it is longer than the reader's window,
        or its answers have no token.
        """
        prompts = list(map(self._prompts_or_error, asked))
        pairs = [
            (prompt, self.prompts.response_text(text))
            for own, texts in zip(prompts, answers, strict=True)
            if not isinstance(own, UnscorableError)
            for prompt, text in itertools.product(own, texts)
        ]
        means = iter(self._mean_log_probs(pairs))
        return [
            own
            if isinstance(own, UnscorableError)
            else all_or_error([all_or_error(list(itertools.islice(means, len(texts)))) for _ in own])
            for own, texts in zip(prompts, answers, strict=True)
        ]

    def _mean_log_probs(self, pairs: Sequence[tuple[str, str]]) -> list[float | UnscorableError]:
        """Return the mean log-probability per token of each text after its prompt."""

        def compute(missing: list[int]) -> list[float | UnscorableError]:
            batch, texts = zip(*(pairs[at] for at in missing), strict=True)
            found = self.sampler.log_probs(batch, texts)
            lengths = [len(row) for row in found if not isinstance(row, UnscorableError)]
            count(lambda: usage(self.sampler.tokenizer, batch, lengths))
            return [row if isinstance(row, UnscorableError) else float(row.mean()) for row in found]

        longest = self.sampler.options.max_new_tokens
        keys = [(longest, *pair) for pair in pairs]
        return answers_through(self.cache, "answer log-prob", self.sampler, keys, compute)

    def expect(self, asked: Iterable[Query | Asked]) -> None:
        """Start sampling for questions of a later call of ``responses``, if the sampler can prefetch."""
        if not self.sampler.prompts_ahead:
            return
        for each in asked:
            prompts = self._prompts_or_error(each)
            if isinstance(prompts, UnscorableError):
                continue  # returned again when the question is measured
            if self.cache is not None:
                keys = content_keys("responses", self.sampler, [(self.sampling, prompt, None) for prompt in prompts])
                prompts = [prompts[at] for at in self.cache.missing(keys)]
            self.sampler.expect(prompts)

    def with_style(self, style: PromptStyle) -> "PromptedReader":
        """Return the same reader with another prompt style."""
        other = copy.copy(self)
        other.prompts = copy.copy(self.prompts)
        other.prompts.style = style
        return other

    def reading_with(self, model: Any, *, frozen: bool) -> "PromptedReader":
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
