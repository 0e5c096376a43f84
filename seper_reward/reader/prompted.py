"""PromptedReader: questions and passages in, the reader's responses out, through one prompt style and one cache."""

import copy
import functools
import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from seper_reward.reader.chat import ChatOptions, ChatTemplate, begins_to_think
from seper_reward.reader.in_process.response_sampler import ALGORITHM
from seper_reward.reader.prompts import Baseline, PromptBuilder, PromptStyle
from seper_reward.reader.sampler import NeedsMore, Sampler
from seper_reward.reader.thinking import ThinkingSampler
from seper_reward.runtime.cache import Cache, answers_through, content_keys
from seper_reward.runtime.profiling import count
from seper_reward.types import Asked, Passage, Query, Responses, UnscorableError

Q = TypeVar("Q", Query, Asked)

_TEXTS_AT_ONCE = 16  # behind one prompt; each token keeps the logits of the whole vocabulary
_BEGINNING, _BEGINNING_TOKENS = 60, 12  # characters and tokens in which a thought shows that it is one


@dataclass(frozen=True)
class EarlyStop:
    """When fewer than N responses are enough.

    Attributes:
        first: How many responses are sampled in any case.
        needs_more: Takes the first responses by prompt and returns the prompts that need all N.
        decides: JSON-able parts that this decision depends on, so that a cache does not mix decisions.
    """

    first: int
    needs_more: NeedsMore
    decides: tuple[Any, ...]


class PromptedReader:
    """A reader that is asked questions, with and without passages; knows nothing of right and wrong answers.

    Args:
        sampler: Samples the reader's responses, in this process or on servers.
        prompt: The wording, or the name of a style in ``prompts.STYLES``.
        chat: How the reader's chat template is rendered, and whether the reader thinks before it answers.
        max_passage_tokens: Longest passage in tokens; ``None`` for the reader's window.
        cache: Where responses are kept between runs.

    Attributes:
        sampler: The sampler; that of a reader that thinks samples thoughts first.
        prompts: Builder of the prompts.

    Raises:
        ValueError: An option does not go with the reader's chat template or window.
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        prompt: str | PromptStyle = "paper",
        chat: ChatOptions = ChatOptions(),
        max_passage_tokens: int | None = None,
        cache: Cache | None = None,
    ) -> None:
        template = ChatTemplate(sampler.tokenizer, chat)
        if template.thought is not None:
            sampler = ThinkingSampler(sampler, template.thought, chat.max_thinking_tokens)
        self.sampler, self.cache = sampler, cache
        self.prompts = PromptBuilder(
            sampler.tokenizer,
            prompt,
            chat=template,
            max_prompt_tokens=sampler.max_prompt_tokens,
            max_passage_tokens=max_passage_tokens,
        )

    @property
    def sampling(self) -> dict[str, Any]:
        """Everything that decides a response beside the reader and the prompt, JSON-able."""
        chat = self.prompts.chat
        thoughts = chat.options.max_thinking_tokens if chat.thought is not None else 0
        return {**asdict(self.sampler.options), "max_thinking_tokens": thoughts, "algorithm": ALGORITHM}

    def build_prompts(self, question: str, passage_sets: Sequence[Sequence[Passage]]) -> list[str]:
        """Return the prompt of a question with each set of passages.

        Raises:
            UnscorableError: The question is longer than the reader's window.
        """
        return [self.prompts.build(question, passages) for passages in passage_sets]

    def responses(
        self,
        question: str,
        passage_sets: Sequence[Sequence[Passage]],
        early_stop: EarlyStop | None = None,
        *,
        answers: Sequence[str] = (),
    ) -> list[Responses]:
        """Sample the reader's responses to a question given each set of passages.

        Args:
            question: The question, the same for all sets.
            passage_sets: What the reader sees each time; an empty set is the baseline.
            early_stop: When fewer than N responses are enough; ``None`` samples all. Servers sample all N anyway.
            answers: Texts whose ``known_leaves`` come with the responses; none come from a server or a reader that
                thinks.

        Returns:
            One ``Responses`` per set, in order.

        Raises:
            UnscorableError: The question is longer than the reader's window; or see ``sample``.
            ValueError: See ``sample``.
        """
        prompts = self.build_prompts(question, passage_sets)
        # the baseline is a batch of its own, so that it is the same whatever passages are sampled beside it; a server
        # makes its own batches
        alone = {prompt for prompt, passages in zip(prompts, passage_sets, strict=True) if not passages}
        batches = [set(prompts)] if self.sampler.prompts_ahead else [alone, set(prompts) - alone]
        sampled: dict[str, Responses] = {}
        texts = list(map(self.prompts.response_text, answers))
        for batch in batches:
            given = dict.fromkeys(batch, texts)
            sampled |= self.sample(sorted(batch), early_stop, closed_book=alone, given=given)
        return [sampled[prompt] for prompt in prompts]

    def block_responses(
        self, asked: Sequence[Query | Asked], answers: Sequence[Sequence[str]]
    ) -> list[list[Responses] | UnscorableError]:
        """Sample the responses to several questions in their ``contexts`` side by side.

        Args:
            asked: The questions.
            answers: Per question, the texts whose ``known_leaves`` come with its responses, as in ``responses``.

        Returns:
            Per question, what ``responses`` returns, or the ``UnscorableError`` that it would raise.

        Raises:
            ValueError: See ``sample``.
        """
        prompts: dict[int, list[str]] = {}
        found: dict[int, list[Responses] | UnscorableError] = {}
        for place, each in enumerate(asked):
            try:
                prompts[place] = self.build_prompts(each.question, each.contexts)
            except UnscorableError as error:
                found[place] = error
        given: dict[str, list[str]] = {}
        own_leaves: dict[tuple[int, str], slice] = {}  # a prompt may be that of two questions with other answers
        for place, own in prompts.items():
            for prompt in dict.fromkeys(own):
                start = len(given.setdefault(prompt, []))
                given[prompt] += map(self.prompts.response_text, answers[place])
                own_leaves[place, prompt] = slice(start, len(given[prompt]))
        try:
            sampled = self.sample(sorted(given), given=given)
        except UnscorableError:  # one question's fault; by themselves the others can be sampled
            return [self.attempt(each, texts) for each, texts in zip(asked, answers, strict=True)]
        for place, own in prompts.items():
            found[place] = [
                replace(sampled[prompt], known_leaves=sampled[prompt].known_leaves[own_leaves[place, prompt]])
                for prompt in own
            ]
        return [found[place] for place in range(len(asked))]

    def attempt(self, asked: Query | Asked, answers: Sequence[str]) -> list[Responses] | UnscorableError:
        """Return a question's responses in its ``contexts``, or the error that ``responses`` raises."""
        try:
            return self.responses(asked.question, asked.contexts, answers=answers)
        except UnscorableError as error:
            return error

    def sample(
        self,
        prompts: Sequence[str],
        early_stop: EarlyStop | None = None,
        *,
        closed_book: Collection[str] = (),
        given: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> dict[str, Responses]:
        """Sample responses to prompts as one batch, from the cache where that has them; return them by prompt.

        Args:
            prompts: Prompts as ``build_prompts`` returns them.
            early_stop: When fewer than N responses are enough; ``None`` samples all. Servers sample all N anyway.
            closed_book: Those of the prompts in which no passage speaks.
            given: For some of the prompts, texts whose ``known_leaves`` come with the responses.

        Raises:
            UnscorableError: A prompt is empty or longer than the reader's window; or half of its responses begin with
                thoughts instead of answers.
            ValueError: The same in ``closed_book``, where no passage can be at fault.
        """
        key = self.sampling
        if early_stop is not None:
            key["adaptive"] = list(early_stop.decides)

        def compute(missing: list[int]) -> list[dict[str, Any]]:
            batch = [prompts[at] for at in missing]
            first, more = (None, None) if early_stop is None else (early_stop.first, early_stop.needs_more)
            sampled = self.sampler.sample(batch, first, more, given)
            count(lambda: self._asked(batch, [len(row) for each in sampled for row in each.token_log_probs]))
            return [row.to_json() for row in sampled]

        if not self.sampler.knows_leaves:
            given = {}
        keys = [(key, prompt, *given.get(prompt, ())) for prompt in prompts]
        rows = answers_through(self.cache, "responses", self.sampler, keys, compute)
        sampled = {prompt: Responses.from_json(row) for prompt, row in zip(prompts, rows, strict=True)}
        for prompt, responses in sampled.items():
            if 2 * sum(map(begins_to_think, self._beginnings(responses))) >= len(responses.texts):
                error = ValueError if prompt in closed_book else UnscorableError
                raise error(
                    f"reader {self.sampler.name!r} begins its responses with thoughts, such as "
                    f"{self._beginnings(responses)[0]!r}, and its chat template shows no way to switch that off; take "
                    "another reader, or give it a chat_template that ends behind an empty thought"
                )
        return sampled

    def _beginnings(self, responses: Responses) -> list[str]:
        """Return the first words of each response, with control tokens where the tokens are known."""
        if not responses.token_ids:
            return [text[:_BEGINNING] for text in responses.texts]
        heads = [ids[:_BEGINNING_TOKENS] for ids in responses.token_ids]
        return [self.sampler.tokenizer.decode(head, skip_special_tokens=False) for head in heads]

    def answer_log_probs(
        self, question: str, answers: Sequence[str], passage_sets: Sequence[Sequence[Passage]]
    ) -> list[list[float]]:
        """Return the mean log-probability per token of each answer, cut to ``max_new_tokens``, given passages.

        Args:
            question: The question, the same for all sets.
            answers: Texts, each scored by itself.
            passage_sets: What the reader sees each time.

        Returns:
            Per set, one natural-log probability (<= 0) per answer.

        Raises:
            UnscorableError: The question is longer than the reader's window.
        """
        means = iter(self._mean_log_probs(self._pairs(question, answers, passage_sets)))
        return [list(itertools.islice(means, len(answers))) for _ in passage_sets]

    def block_answer_log_probs(
        self, asked: Sequence[Query | Asked], answers: Sequence[Sequence[str]]
    ) -> list[list[list[float]] | UnscorableError]:
        """Score the answers to several questions in their ``contexts`` side by side.

        Args:
            asked: The questions.
            answers: Per question, texts, each scored by itself.

        Returns:
            Per question, what ``answer_log_probs`` returns, or the ``UnscorableError`` that it would raise.
        """
        found = [self._pairs_or_error(each, texts) for each, texts in zip(asked, answers, strict=True)]
        pairs = [pair for own in found if not isinstance(own, UnscorableError) for pair in own]
        try:
            means = iter(self._mean_log_probs(pairs))
        except UnscorableError as error:
            if len(asked) == 1:
                return [error]
            # one question's fault; by themselves the others can be scored
            alone = (self.block_answer_log_probs([each], [texts]) for each, texts in zip(asked, answers, strict=True))
            return list(itertools.chain(*alone))
        return [
            own
            if isinstance(own, UnscorableError)
            else [list(itertools.islice(means, len(texts))) for _ in each.contexts]
            for own, each, texts in zip(found, asked, answers, strict=True)
        ]

    def _pairs_or_error(self, asked: Query | Asked, answers: Sequence[str]) -> list[tuple[str, str]] | UnscorableError:
        try:
            return self._pairs(asked.question, answers, asked.contexts)
        except UnscorableError as error:
            return error

    def _pairs(
        self, question: str, answers: Sequence[str], passage_sets: Sequence[Sequence[Passage]]
    ) -> list[tuple[str, str]]:
        """Return each prompt with each answer behind it."""
        return [
            (prompt, self.prompts.response_text(answer))
            for prompt in self.build_prompts(question, passage_sets)
            for answer in answers
        ]

    def _mean_log_probs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the mean log-probability per token of each text behind its prompt."""

        def compute(missing: list[int]) -> list[float]:
            batch, texts = zip(*(pairs[at] for at in missing), strict=True)
            log_probs = self.sampler.log_probs(batch, texts)
            count(lambda: self._asked(batch, list(map(len, log_probs))))
            return [float(row.mean()) for row in log_probs]

        longest = self.sampler.options.max_new_tokens
        keys = [(longest, *pair) for pair in pairs]
        return answers_through(self.cache, "answer log-prob", self.sampler, keys, compute)

    def token_log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
        """Return how likely the reader finds each token of whole texts behind prompts, as a plain language model.

        Args:
            prompts: What stands before each text, not blank; nothing is put around it.
            texts: The texts, each with at least one token.

        Returns:
            Per text, one natural-log probability (<= 0) per token.

        Raises:
            UnscorableError: A prompt and the longest text beside it, of 16 that are read at once, are longer than the
                reader's window.
            ValueError: The reader thinks first.
        """
        pairs = list(zip(prompts, texts, strict=True))

        def compute(missing: list[int]) -> list[list[float]]:
            found: list[list[float]] = []
            for start in range(0, len(missing), _TEXTS_AT_ONCE):
                batch, chunk = zip(*(pairs[at] for at in missing[start : start + _TEXTS_AT_ONCE]), strict=True)
                longest = max(map(len, self.sampler.tokenizer(list(chunk), add_special_tokens=False).input_ids))
                sampler = self.sampler.with_options(replace(self.sampler.options, max_new_tokens=max(longest, 1)))
                log_probs = [row.tolist() for row in sampler.log_probs(batch, chunk)]
                count(functools.partial(self._asked, batch, list(map(len, log_probs))))
                found += log_probs
            return found

        return answers_through(self.cache, "token log-probs", self.sampler, pairs, compute)

    def _asked(self, prompts: Sequence[str], response_tokens: Sequence[int]) -> dict[str, int]:
        prompt_tokens = map(len, self.sampler.tokenizer(list(prompts)).input_ids)
        return {
            "calls": len(prompts),
            "prompt_tokens": sum(prompt_tokens),
            "response_tokens": sum(response_tokens),
        }

    def expect(self, question: str, passage_sets: Sequence[Sequence[Passage]]) -> None:
        """Begin to sample what ``responses`` will be called with, if the sampler can; only the time changes."""
        if not self.sampler.prompts_ahead:
            return
        try:
            prompts = self.build_prompts(question, passage_sets)
        except UnscorableError:
            return  # raised again when the question is measured
        if self.cache is not None:
            keys = content_keys("responses", self.sampler, [(self.sampling, prompt) for prompt in prompts])
            prompts = [prompts[at] for at in self.cache.missing(keys)]
        self.sampler.expect(prompts)

    def ahead(self, queries: Iterable[Q], *, closed_book: bool = True) -> Iterator[Q]:
        """Yield the queries, and have an engine begin with the next ones while the caller measures one.

        Servers answer many prompts at once; only the time depends on it.

        Args:
            queries: The queries.
            closed_book: Whether the caller also asks without a passage.
        """
        waiting: deque[Q] = deque()
        prompts, bare = 0, int(not closed_book)
        for query in queries:
            contexts = query.contexts[bare:]
            waiting.append(query)
            prompts += len(contexts)
            self.expect(query.question, contexts)
            while prompts > self.sampler.prompts_ahead:
                prompts -= len(waiting[0].contexts) - bare
                yield waiting.popleft()
        yield from waiting

    def with_style(self, style: PromptStyle) -> "PromptedReader":
        """Return the same reader that is asked in other words."""
        other = copy.copy(self)
        other.prompts = copy.copy(self.prompts)
        other.prompts.style = style
        return other

    def with_baseline(self, baseline: Baseline) -> "PromptedReader":
        """Return the same reader that is shown something else where there is no passage."""
        return self.with_style(replace(self.prompts.style, baseline=baseline))

    def reading_with(self, model: Any, *, frozen: bool) -> "PromptedReader":
        """Return the same reader with another model that has the same tokenizer.

        Args:
            model: Causal language model in eval mode.
            frozen: Whether its weights never change, so that its responses may be kept in the cache.
        """
        other = copy.copy(self)
        other.sampler, other.cache = self.sampler.reading_with(model), self.cache if frozen else None
        return other

    def with_sampling(self, **changes: Any) -> "PromptedReader":
        """Return the same reader with some fields of ``SamplingOptions`` changed."""
        other = copy.copy(self)
        other.sampler = self.sampler.with_options(replace(self.sampler.options, **changes))
        return other
