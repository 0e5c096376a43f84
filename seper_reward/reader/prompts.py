"""Prompts without and with passages: wording, chat template, and passages cut to fit the model's window."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import yaml

from seper_reward.options import Baseline, ScorerOptions, check_choice, check_least, check_template
from seper_reward.reader.chat import ChatTemplate
from seper_reward.reader.loading import reader_defaults
from seper_reward.runtime.control_tokens import ControlTokens
from seper_reward.runtime.token_ids import token_ids
from seper_reward.types import Passage, UnscorableError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# as long as the demo's passages, without names, places, numbers and colours
PLACEBO = (
    "Cut the felt to the shape of the drawer with scissors, peel the paper off its back and press it on with a dry "
    "cloth. Leave the drawer open for a while. Spare pieces can go under a lamp or a vase."
)


@dataclass(frozen=True)
class Example:
    """A question and the answer shown as the reader's own before the actual question, maybe with a passage."""

    question: str
    answer: str
    passage: str = ""


@dataclass(frozen=True)
class PromptStyle:
    """The wording of prompts, with the form of the baseline.

    Attributes:
        closed_book_prompt: Template without passages, with the field ``{question}``.
        passages_prompt: Template with the fields ``{reference}`` (the passages) and ``{question}``.
        examples: Examples before every prompt: the same with and without passages, so they cancel out in the
            difference of two beliefs.
        answer_prefix: Text after the prompt if there is no chat template; it makes a base model answer.
        baseline: Prompt without a passage: ``"none"`` for the closed-book prompt, or ``"placebo"`` for the prompt with
            the placebo as its passage. With the placebo, the effect of the mere presence of a passage is subtracted
            from a passage's utility.
        placebo: Text of a passage that answers no question.

    Raises:
        ValueError: A template lacks a field or has another one, ``baseline`` is unknown, or the placebo is blank.
    """

    closed_book_prompt: str
    passages_prompt: str
    examples: tuple[Example, ...] = ()
    answer_prefix: str = "\nAnswer:"
    baseline: Baseline = "none"
    placebo: str = PLACEBO

    def __post_init__(self) -> None:
        check_template("closed_book_prompt", self.closed_book_prompt, ["question"])
        check_template("passages_prompt", self.passages_prompt, ["question", "reference"])
        check_choice("baseline", self.baseline, get_args(Baseline))
        if not self.placebo.strip():
            raise ValueError(f"placebo must be the text of a passage, got {self.placebo!r}")

    def ask(self, question: str, passages: Sequence[str] = ()) -> str:
        """Return the user's message with the question, closed-book or with texts of passages; several are numbered."""
        template = self.passages_prompt if passages else self.closed_book_prompt
        numbered = [f"[{number}] {text}" for number, text in enumerate(passages, 1) if text]
        reference = "\n".join(numbered if len(passages) > 1 else passages)
        return fill_template(template, reference=reference, question=question)


def _load_styles() -> dict[str, PromptStyle]:
    styles = yaml.safe_load(Path(__file__).with_name("prompt_styles.yaml").read_text(encoding="utf-8"))
    for style in styles.values():
        style["examples"] = tuple(Example(**example) for example in style.get("examples", ()))
    return {name: PromptStyle(**style) for name, style in styles.items()}


STYLES = _load_styles()
# fields of ``PromptStyle`` by their names in the option ``prompt``
_TEXTS = {"closed_book": "closed_book_prompt", "passages": "passages_prompt", "placebo": "placebo"}


def prompt_style(options: ScorerOptions) -> PromptStyle:
    """Return the style of the option ``prompt``, by default the reader's own, with its texts and the baseline."""
    prompt = options.prompt if isinstance(options.prompt, dict) else {"style": options.prompt}
    named = STYLES[prompt.get("style") or reader_defaults(options.reader).prompt]
    texts: dict[str, Any] = {field: prompt[name] for name, field in _TEXTS.items() if name in prompt}
    return replace(named, baseline=options.baseline, **texts)


@dataclass(frozen=True)
class Prompt:
    """A prompt's text, and the tokenizer's encoding of it without special tokens."""

    text: str
    encoding: Any = field(compare=False, repr=False)

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.encoding["input_ids"])


class PromptBuilder:
    """Renders a question and passages to prompt texts for one tokenizer, with its chat template if it has one.

    Passages are cut to fit ``max_prompt_tokens``, the question never; a single passage has at most
    ``max_passage_tokens`` >= 1 tokens (default: only the prompt's limit).
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        style: str | PromptStyle = "paper",
        *,
        chat: ChatTemplate | None = None,
        max_prompt_tokens: int,
        max_passage_tokens: int | None = None,
    ) -> None:
        if isinstance(style, str):
            check_choice("prompt", style, tuple(STYLES))
        self.style = STYLES[style] if isinstance(style, str) else style
        self.max_prompt_tokens = max_prompt_tokens
        self.max_passage_tokens = max_passage_tokens
        check_least(self, max_passage_tokens=1)
        self.chat = ChatTemplate(tokenizer) if chat is None else chat
        self._tokenizer = tokenizer
        self._control_tokens = ControlTokens(tokenizer)

    def build(self, question: str, passages: Sequence[Passage] = ()) -> str:
        """Return the text of ``prompt``."""
        return self.prompt(question, passages).text

    def prompt(self, question: str, passages: Sequence[Passage] = ()) -> Prompt:
        """Return the prompt, with passages cut (all to one length) until it fits; without any, the baseline.

        The question is never cut: alone too long, it raises ``UnscorableError``.
        """
        question = self.as_data(question)
        if not passages and self.style.baseline == "placebo":
            passages = (Passage(self.style.placebo),)
        return self.fit(passages, lambda texts: self._render(question, texts), self.max_prompt_tokens)

    def question_text(self, question: str) -> str:
        """Return the question as it occurs in a prompt after the passages; empty if it is not there."""
        template = self.style.passages_prompt
        after = template.index("{reference}") < template.index("{question}")
        return self.as_data(question).strip() if after else ""  # chat templates strip messages

    def as_data(self, text: str) -> str:
        """Return a text without control tokens: it cannot end its turn and answer for the reader."""
        return self._control_tokens.break_up(text)

    def fit(self, passages: Sequence[Passage], render: Callable[[Sequence[str]], str], most: int) -> Prompt:
        """Return the prompt of passages, cut to one length; ``UnscorableError`` if empty ones do not fit."""
        texts = [self.as_data(passage.full_text) for passage in passages]
        if self.max_passage_tokens is not None:
            texts = [self._cut(text, self.max_passage_tokens) for text in texts]
        prompt = self._encoded(render(texts))
        if prompt.length <= most:
            return prompt
        bare = self._encoded(render([""] * len(texts)))
        if bare.length > most:
            raise UnscorableError(
                f"question has no room: the prompt without passages takes {bare.length} tokens of {most}; shorten the "
                "question or use a reader with a longer window"
            )
        longest = _common_length([self._count(text) for text in texts], most - bare.length)
        while longest >= 0:
            prompt = self._encoded(render([self._cut(text, longest) for text in texts]))
            if prompt.length <= most:
                return prompt
            longest -= max(1, (prompt.length - most) // len(texts))  # tokens can merge at the borders of texts
        return bare

    def cuts(self, question: str, passages: Sequence[Passage]) -> bool:
        """Return whether ``build`` cuts a passage."""
        texts = [self.as_data(passage.full_text) for passage in passages]
        if self.max_passage_tokens is not None and any(self._count(text) > self.max_passage_tokens for text in texts):
            return True
        prompt = self._render(self.as_data(question), texts)
        # a token has at least one byte
        return len(prompt.encode()) > self.max_prompt_tokens and self._count(prompt) > self.max_prompt_tokens

    def token_count(self, passage: Passage) -> int:
        """Return the number of tokens of an uncut passage."""
        return self._count(self.as_data(passage.full_text))

    def response_text(self, answer: str) -> str:
        """Return an answer as the continuation of a prompt: after a space if there is no chat template."""
        answer = self.as_data(answer)
        return answer if self.chat.exists else f" {answer}"

    def response_texts(self, answers: Sequence[str]) -> list[str]:
        """Return answers as continuations of a prompt: each once, and only answers with a token."""
        texts = map(self.response_text, dict.fromkeys(answers))
        return [text for text in texts if token_ids(self._tokenizer, text)]

    def _render(self, question: str, passages: Sequence[str]) -> str:
        style = self.style
        user = style.ask(question, passages)
        shown = [
            (style.ask(example.question, [example.passage] if example.passage else []), example.answer)
            for example in style.examples
        ]
        if self.chat.exists:
            turns = [
                {"role": role, "content": text}
                for example in shown
                for role, text in zip(("user", "assistant"), example, strict=True)
            ]
            turns.append({"role": "user", "content": user})
            return self.chat.render(turns)
        turns_text = [f"{example}{style.answer_prefix} {answer}\n\n" for example, answer in shown]
        return "".join(turns_text) + user + style.answer_prefix

    def _encoded(self, text: str) -> Prompt:
        tokenizer = self._tokenizer
        return Prompt(text, tokenizer(text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast))

    def _count(self, text: str) -> int:
        return len(token_ids(self._tokenizer, text))

    def _cut(self, text: str, tokens: int) -> str:
        if not self._tokenizer.is_fast:
            ids = token_ids(self._tokenizer, text)
            if len(ids) <= tokens:
                return text
            return self._control_tokens.break_up(str(self._tokenizer.decode(ids[:tokens])))
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        if len(offsets) <= tokens:
            return text
        return text[: offsets[tokens][0]].rstrip()


def fill_template(template: str, **fields: str) -> str:
    """Return a template with its fields filled; braces in the values are unchanged."""
    # each field is filled once: a passage may contain braces, and a question may contain "{reference}"
    return re.sub(r"\{(\w+)\}", lambda match: fields[match[1]], template)


def _common_length(lengths: Sequence[int], room: int) -> int:
    """Return the largest cap c with sum(min(length, c)) <= room, or the longest length if all fit."""
    remaining = sorted(lengths)
    while remaining and remaining[0] * len(remaining) <= room:
        room -= remaining.pop(0)
    return room // len(remaining) if remaining else max(lengths, default=0)
