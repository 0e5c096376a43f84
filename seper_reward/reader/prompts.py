"""Prompts without and with passages: wording, chat template, passages cut to fit the model's window."""

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seper_reward.reader.chat import ChatTemplate
from seper_reward.runtime.control_tokens import ControlTokens
from seper_reward.types import Passage, UnscorableError


@dataclass(frozen=True)
class PromptStyle:
    """The wording of one way to ask.

    Attributes:
        closed_book: Template without passages, with the field ``{question}``.
        with_passages: Template with the fields ``{reference}`` and ``{question}``.
        with_passages_examples: Example turns, (whole user text, answer), in front of a prompt with passages.
        answer_prefix: Text after the prompt where there is no chat template, so that a base model answers.
    """

    closed_book: str
    with_passages: str
    with_passages_examples: tuple[tuple[str, str], ...] = ()
    answer_prefix: str = "\nAnswer:"


_PAPER_CLOSED = (
    "Answer the question based on your own knowledge. Only give me the answer and do not output any other words. "
    "Question: {question}"
)
_BRIEF_CLOSED = "Answer the question in a few words.\nQuestion: {question}"
_BRIEF_OPEN = "Answer the question in a few words, using the passage.\nPassage:{reference}\nQuestion: {question}"

STYLES: dict[str, PromptStyle] = {
    # the paper's two prompts, word for word
    "paper": PromptStyle(
        closed_book=_PAPER_CLOSED,
        with_passages=(
            "Answer the question based on the given document. Only give me the answer and do not output any other "
            "words. The following are given documents.{reference} Question: {question}"
        ),
    ),
    "brief": PromptStyle(closed_book=_BRIEF_CLOSED, with_passages=_BRIEF_OPEN),
    # after examples, small readers copy better from a passage but recall less without one: so with passages only
    "few_shot": PromptStyle(
        closed_book=_PAPER_CLOSED,
        with_passages=_BRIEF_OPEN,
        with_passages_examples=(
            (
                _BRIEF_OPEN.format(
                    reference=" The Hallow Mill was built by Peter Voss in 1812. A fire closed it in 1840.",
                    question="Who built the Hallow Mill?",
                ),
                "Peter Voss",
            ),
            (
                _BRIEF_OPEN.format(
                    reference=" Members of the rowing club wear a green cap; the coach's is white.",
                    question="What colour is the cap of the rowing club's members?",
                ),
                "green",
            ),
            (
                _BRIEF_OPEN.format(
                    reference=" The night bus leaves the square at 23:15 and does not run on Sundays.",
                    question="When does the night bus leave the square?",
                ),
                "23:15",
            ),
        ),
    ),
}


class PromptBuilder:
    """Renders a question and passages to prompt texts for one tokenizer.

    Args:
        tokenizer: The reader's tokenizer; its chat template is used when it has one.
        style: A name of ``STYLES``.
        chat: The tokenizer's chat template; ``None`` renders it by the default options.
        max_prompt_tokens: Longest prompt in tokens; passages are cut to fit, the question never is.
        max_passage_tokens: Longest single passage in tokens, >= 1; ``None`` for no bound beside the prompt's.

    Raises:
        ValueError: An unknown style, or ``max_passage_tokens`` below 1.
    """

    def __init__(
        self,
        tokenizer: Any,
        style: str = "paper",
        *,
        chat: ChatTemplate | None = None,
        max_prompt_tokens: int,
        max_passage_tokens: int | None = None,
    ) -> None:
        if style not in STYLES:
            raise ValueError(f"prompt must be one of {', '.join(STYLES)}, got {style!r}")
        if max_passage_tokens is not None and max_passage_tokens < 1:
            raise ValueError(f"max_passage_tokens must be at least 1, got {max_passage_tokens}")
        self.style = STYLES[style]
        self.max_prompt_tokens = max_prompt_tokens
        self.max_passage_tokens = max_passage_tokens
        self.chat = ChatTemplate(tokenizer) if chat is None else chat
        self._tokenizer = tokenizer
        self._control_tokens = ControlTokens(tokenizer)

    def build(self, question: str, passages: Sequence[Passage] = ()) -> str:
        """Return the prompt text, with passages cut (all to one common length) until it fits.

        Args:
            question: The question, which is never cut.
            passages: What the reader may use; none for the closed-book prompt.

        Raises:
            UnscorableError: The question alone is longer than ``max_prompt_tokens``.
        """
        # what a passage says cannot end its turn and answer in the reader's name
        question = self._control_tokens.break_up(question)
        texts = [self._control_tokens.break_up(passage.full_text) for passage in passages]
        if self.max_passage_tokens is not None:
            texts = [self._cut(text, self.max_passage_tokens) for text in texts]
        prompt = self._render(question, texts)
        if self._count(prompt) <= self.max_prompt_tokens:
            return prompt
        overhead = self._count(self._render(question, [""] * len(texts)))
        if overhead > self.max_prompt_tokens:
            raise UnscorableError(
                f"question has no room: the prompt without passages takes {overhead} tokens of "
                f"{self.max_prompt_tokens}; shorten the question or use a reader with a longer window"
            )
        room = self.max_prompt_tokens - overhead
        longest = _common_length([self._count(text) for text in texts], room)
        while longest >= 0:
            prompt = self._render(question, [self._cut(text, longest) for text in texts])
            excess = self._count(prompt) - self.max_prompt_tokens
            if excess <= 0:
                return prompt
            longest -= max(1, excess // len(texts))  # tokens merge differently where texts meet
        return self._render(question, [""] * len(texts))

    def cuts(self, question: str, passages: Sequence[Passage]) -> bool:
        """Tell whether ``build`` cuts a passage."""
        unbounded = copy.copy(self)
        unbounded.max_prompt_tokens, unbounded.max_passage_tokens = sys.maxsize, None
        return self.build(question, passages) != unbounded.build(question, passages)

    def response_text(self, answer: str) -> str:
        """Return an answer as it would continue a prompt: after a space where there is no chat template."""
        answer = self._control_tokens.break_up(answer)
        return answer if self.chat.exists else f" {answer}"

    def _render(self, question: str, passages: Sequence[str]) -> str:
        style = self.style
        if passages:
            # a plain space between documents keeps the paper's wording for one document
            reference = "".join(f" {text}" for text in passages if text)
            user = _fill(style.with_passages, reference=reference, question=question)
            examples = style.with_passages_examples
        else:
            user, examples = _fill(style.closed_book, question=question), ()
        if self.chat.exists:
            turns = [
                {"role": role, "content": text}
                for example in examples
                for role, text in zip(("user", "assistant"), example, strict=True)
            ]
            turns.append({"role": "user", "content": user})
            return self.chat.render(turns)
        turns_text = [f"{example}{style.answer_prefix} {answer}\n\n" for example, answer in examples]
        return "".join(turns_text) + user + style.answer_prefix

    def _count(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False).input_ids)

    def _cut(self, text: str, tokens: int) -> str:
        if not self._tokenizer.is_fast:
            ids = self._tokenizer(text, add_special_tokens=False).input_ids
            if len(ids) <= tokens:
                return text
            return self._control_tokens.break_up(str(self._tokenizer.decode(ids[:tokens])))
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        if len(offsets) <= tokens:
            return text
        return text[: offsets[tokens][0]].rstrip()


def _fill(template: str, **fields: str) -> str:
    # each field is filled once: a passage may hold braces, and a question may hold "{reference}"
    parts = template.split("{")
    filled = parts[0]
    for part in parts[1:]:
        name, _, rest = part.partition("}")
        filled += fields[name] + rest
    return filled


def _common_length(lengths: Sequence[int], room: int) -> int:
    """Return the largest cap c with sum(min(length, c)) <= room, or the longest length if all fit."""
    remaining = sorted(lengths)
    while remaining and remaining[0] * len(remaining) <= room:
        room -= remaining.pop(0)
    return room // len(remaining) if remaining else max(lengths, default=0)
