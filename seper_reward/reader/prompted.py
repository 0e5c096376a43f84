"""PromptedReader: questions and passages in, the reader's responses out, through one prompt style and one cache."""

import copy
import functools
import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, TypeVar

from seper_reward.reader.chat import ChatOptions, ChatTemplate, begins_to_think
from seper_reward.reader.in_process.response_sampler import ALGORITHM
from seper_reward.reader.prompts import Baseline, PromptBuilder, PromptStyle
from seper_reward.reader.sampler import Sampler
from seper_reward.reader.thinking import ThinkingSampler
from seper_reward.runtime.cache import Cache, answers_through, content_keys
from seper_reward.runtime.profiling import count
from seper_reward.types import Asked, Passage, Query, Responses, UnscorableError, all_or_error, attempt, unwrap

Q = TypeVar("Q", Query, Asked)

_TEXTS_AT_ONCE = 16  # behind one prompt; each token keeps the logits of the whole vocabulary
_BEGINNING, _BEGINNING_TOKENS = 60, 12  # length of the prefix checked for a thinking tag, in characters and tokens


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
        self, asked: Sequence[Query | Asked], answers: Sequence[Sequence[str]] | None = None
    ) -> list[list[Responses] | UnscorableError]:
        """Sample the responses to questions in their ``contexts``, side by side.

        The prompts without a passage are a batch of their own, so a question's baseline does not depend on its
        passages; an engine makes its own batches. In low digits, responses depend on the other questions.

        Args:
            asked: The questions; an empty context is the baseline.
            answers: Per question, texts whose ``known_leaves`` come with its responses; ``None`` for none. Neither
                servers nor readers that think return any.

        Returns:
            Per question one ``Responses`` per context, or its error: it is longer than the reader's window, or see
            ``sample``.

        Raises:
            ValueError: See ``sample``.
        """
        prompts = list(map(self._prompts_or_error, asked))
        usable = {place: own for place, own in enumerate(prompts) if not isinstance(own, UnscorableError)}
        bare = {
            prompt
            for place, own in usable.items()
            for prompt, passages in zip(own, asked[place].contexts, strict=True)
            if not passages
        }
        closed_book: dict[str, list[str]] = {}  # given texts by prompt
        open_book: dict[str, list[str]] = {}
        leaves: dict[tuple[int, str], slice] = {}  # two questions can share a prompt but have different answers
        for place, own in usable.items():
            texts = list(map(self.prompts.response_text, answers[place])) if answers else []
            for prompt in dict.fromkeys(own):
                given = (closed_book if prompt in bare else open_book).setdefault(prompt, [])
                leaves[place, prompt] = slice(len(given), len(given) + len(texts))
                given += texts
        sampled: dict[str, Responses | UnscorableError] = {}
        for batch in [closed_book | open_book] if self.sampler.prompts_ahead else [closed_book, open_book]:
            sampled |= self.sample(sorted(batch), closed_book=bare, given=batch)

        def with_leaves(place: int, prompt: str) -> Responses | UnscorableError:
            row = sampled[prompt]
            if isinstance(row, UnscorableError):
                return row
            return replace(row, known_leaves=row.known_leaves[leaves[place, prompt]])

        return [
            all_or_error(with_leaves(place, prompt) for prompt in usable[place]) if place in usable else own
            for place, own in enumerate(prompts)
        ]

    def sample(
        self,
        prompts: Sequence[str],
        *,
        closed_book: Collection[str] = (),
        given: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> dict[str, Responses | UnscorableError]:
        """Sample responses to prompts as one batch, from the cache where that has them; return them by prompt.

        Args:
            prompts: Prompts as ``build_prompts`` returns them.
            closed_book: Those of the prompts in which no passage speaks.
            given: For some of the prompts, texts whose ``known_leaves`` come with the responses.

        Returns:
            Per prompt its responses, or its error: it is empty or longer than the reader's window, or half of its
            responses begin with thoughts instead of answers.

        Raises:
            ValueError: Half of the responses to a prompt in ``closed_book`` begin with thoughts: no passage can be at
                fault.
        """
        key = self.sampling

        def compute(missing: list[int]) -> list[dict[str, Any] | UnscorableError]:
            batch = [prompts[at] for at in missing]
            rows = self.sampler.sample(batch, given)
            scored = [row for row in rows if not isinstance(row, UnscorableError)]
            count(lambda: self._asked(batch, [len(row) for each in scored for row in each.token_log_probs]))
            return [row if isinstance(row, UnscorableError) else row.to_json() for row in rows]

        if not self.sampler.knows_leaves:
            given = {}
        keys = [(key, prompt, *given.get(prompt, ())) for prompt in prompts]
        rows = answers_through(self.cache, "responses", self.sampler, keys, compute)
        return {
            prompt: row if isinstance(row, UnscorableError) else self._checked(row, prompt in closed_book)
            for prompt, row in zip(prompts, rows, strict=True)
        }

    def _prompts_or_error(self, asked: Query | Asked) -> list[str] | UnscorableError:
        return attempt(lambda: self.build_prompts(asked.question, asked.contexts))

    def _checked(self, row: Mapping[str, Any], closed_book: bool) -> Responses | UnscorableError:
        """Return sampled responses, or an error if they begin with thoughts."""
        responses = Responses.from_json(row)
        beginnings = self._beginnings(responses)
        if 2 * sum(map(begins_to_think, beginnings)) < len(responses.texts):
            return responses
        reason = (
            f"reader {self.sampler.name!r} begins its responses with thoughts, such as {beginnings[0]!r}, and its "
            "chat template shows no way to switch that off; take another reader, or give it a chat_template that ends "
            "behind an empty thought"
        )
        if closed_book:
            raise ValueError(reason)
        return UnscorableError(reason)

    def _beginnings(self, responses: Responses) -> list[str]:
        """Return the first words of each response, with control tokens where the tokens are known."""
        if not responses.token_ids:
            return [text[:_BEGINNING] for text in responses.texts]
        heads = [ids[:_BEGINNING_TOKENS] for ids in responses.token_ids]
        return [self.sampler.tokenizer.decode(head, skip_special_tokens=False) for head in heads]

    def answer_log_probs(
        self, asked: Sequence[Query | Asked], answers: Sequence[Sequence[str]]
    ) -> list[list[list[float]] | UnscorableError]:
        """Return the mean log-probability per token of answers to questions in their ``contexts``.

        Args:
            asked: The questions.
            answers: Per question its texts, cut to ``max_new_tokens`` tokens.

        Returns:
            Per question and context one natural-log probability (<= 0) per answer, or the error of a question that is
            longer than the reader's window, or whose answers have no token.
        """
        found: list[list[list[float]] | UnscorableError] = []
        prompts = list(map(self._prompts_or_error, asked))
        pairs = [
            (prompt, self.prompts.response_text(text))
            for own, texts in zip(prompts, answers, strict=True)
            if not isinstance(own, UnscorableError)
            for prompt, text in itertools.product(own, texts)
        ]
        means = iter(self._mean_log_probs(pairs))
        for own, texts in zip(prompts, answers, strict=True):
            if isinstance(own, UnscorableError):
                found.append(own)
                continue
            rows = [all_or_error(list(itertools.islice(means, len(texts)))) for _ in own]
            found.append(all_or_error(rows))
        return found

    def _mean_log_probs(self, pairs: Sequence[tuple[str, str]]) -> list[float | UnscorableError]:
        """Return the mean log-probability per token of each text behind its prompt."""

        def compute(missing: list[int]) -> list[float | UnscorableError]:
            batch, texts = zip(*(pairs[at] for at in missing), strict=True)
            found = self.sampler.log_probs(batch, texts)
            count(lambda: self._asked(batch, [len(row) for row in found if not isinstance(row, UnscorableError)]))
            return [row if isinstance(row, UnscorableError) else float(row.mean()) for row in found]

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
                log_probs = [unwrap(row).tolist() for row in sampler.log_probs(batch, chunk)]
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

    def expect(self, asked: Iterable[Query | Asked]) -> None:
        """Begin to sample the questions that ``responses`` will be called with, if the sampler can work ahead."""
        if not self.sampler.prompts_ahead:
            return
        for each in asked:
            prompts = self._prompts_or_error(each)
            if isinstance(prompts, UnscorableError):
                continue  # returned again when the question is measured
            if self.cache is not None:
                keys = content_keys("responses", self.sampler, [(self.sampling, prompt) for prompt in prompts])
                prompts = [prompts[at] for at in self.cache.missing(keys)]
            self.sampler.expect(prompts)

    def ahead(self, batches: Iterable[Sequence[Q]], *, closed_book: bool = True) -> Iterator[Sequence[Q]]:
        """Yield batches of questions, and have an engine begin with the next ones while the caller measures one.

        Servers answer many prompts at once; only the time depends on it.

        Args:
            batches: The batches.
            closed_book: Whether the caller also asks without a passage.
        """
        bare = int(not closed_book)
        waiting: deque[tuple[Sequence[Q], int]] = deque()
        prompts = 0
        for batch in batches:
            size = sum(len(query.contexts) - bare for query in batch)
            self.expect(Asked(query.question, (), tuple(query.contexts[bare:])) for query in batch)
            waiting.append((batch, size))
            prompts += size
            while prompts > self.sampler.prompts_ahead:
                done, size = waiting.popleft()
                prompts -= size
                yield done
        yield from (batch for batch, _ in waiting)

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
