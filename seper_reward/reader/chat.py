"""Chat templates: rendered with a fixed date, and with thinking switched off by the template's own variable."""

import copy
import datetime
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seper_reward.options import ChatOptions, read_template

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TAG = r"[<\[◁]\|?[\w:]*(?:think|thought|reason|reflect|analysis|channel)\w*\|?[>\]▷]"
_OPEN_AT_END = re.compile(rf"{_TAG}\s*$", re.IGNORECASE)
# a thinking reader's response begins with such a tag, or with the header of a message
_BEGINS_TO_THINK = re.compile(rf"\s*(?:{_TAG}|[\w\s=\"']{{0,40}}<\|message\|>)", re.IGNORECASE)
# templates ignore variables that they do not use
_NO_THINKING = {"enable_thinking": False}
#: Remedy in messages about readers that think.
SWITCH_OFF = (
    "give chat_template_kwargs the variable that switches thinking off, if the template has another one than "
    "enable_thinking, or a chat_template that ends with an empty thought"
)
#: "Today" in templates that print the date, such as Llama 3's: prompts do not depend on the day.
PROMPT_DATE = "2024-07-26"
_PROBE = ({"role": "user", "content": "Who?"},)
_DIRECTIVES = "aAbBcdHIjmMpSUwWxXyY"
#: Chat template for policies whose own template has no tools: ChatML as in Qwen2.5, whose special tokens SmolLM2
#: shares, but shorter, because a policy reads it in every rollout.
TOOL_TEMPLATE = Path(__file__).with_name("tool_template.jinja").read_text(encoding="utf-8").rstrip()


class ChatTemplate:
    """The chat template of one tokenizer, which may have none.

    Raises ``ValueError`` if the template fails, does not show the user's text, opens a thought, or does not support an
    option.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", options: ChatOptions = ChatOptions(), date: str = PROMPT_DATE
    ) -> None:
        self.options, self._variables = options, dict(options.variables)
        self._tokenizer = tokenizer
        self._date = datetime.date.fromisoformat(date)
        self._source: str | None = tokenizer.get_chat_template() if tokenizer.chat_template else None
        self._turns: list[dict[str, str]] = []  # first turns of every conversation
        if self._source is not None:
            for name in self._variables:
                if not re.search(rf"\b{re.escape(name)}\b", self._source):
                    raise ValueError(
                        f"chat_template_kwargs has {name!r}, which the reader's chat template does not use; correct "
                        "the name, or leave it out"
                    )
            if options.system_prompt is not None:
                self._add_system_prompt(options.system_prompt)
            shown = self.render(_PROBE)
            if _PROBE[0]["content"] not in shown:
                raise ValueError(
                    f"the reader's chat template does not show the user's text: of {_PROBE[0]['content']!r} it makes "
                    f"{shown[:200]!r}; give a chat_template whose messages have plain texts as content"
                )
            if _OPEN_AT_END.search(shown):
                raise ValueError(f"the reader's chat template opens a thought; {SWITCH_OFF}")
        elif needs := options.needs_template:
            raise ValueError(
                f"{needs} needs a reader with a chat template; this one has none. Set chat_template, or write the "
                "text into prompt (closed_book and passages)"
            )

    @property
    def fingerprint(self) -> dict[str, Any]:
        """All settings that decide the rendered text, except for the template, JSON-able."""
        names = ("system_prompt", "chat_template_kwargs")
        return {name: getattr(self.options, name) for name in names} | {"prompt_date": self._date.isoformat()}

    @property
    def exists(self) -> bool:
        """Whether the tokenizer has a chat template."""
        return self._source is not None

    def render(self, turns: Sequence[Mapping[str, str]]) -> str:
        """Return the text of ``{role, content}`` turns, the last one the user's, up to where the response begins.

        Without a template, each turn begins with the name of its role. A template that fails raises ``ValueError``.
        """
        if self._source is None:
            return "\n\n".join([*(f"{turn['role'].capitalize()}: {turn['content']}" for turn in turns), "Assistant:"])
        try:
            text: str = self._tokenizer.apply_chat_template(
                [*self._turns, *turns],
                chat_template=with_date(self._source, self._date),
                tokenize=False,
                add_generation_prompt=True,
                date_string=f"{self._date:%d %b %Y}",
                **{**_NO_THINKING, **self._variables},
            )
            return text
        except Exception as error:  # templates raise any error
            reason = " ".join(str(error).split())
            remedy = f"correct chat_template_kwargs={self._variables!r}, or give" if self._variables else "give"
            raise ValueError(
                f"the reader's chat template fails ({type(error).__name__}: {reason}); {remedy} another chat_template"
            ) from error

    def _add_system_prompt(self, text: str) -> None:
        self._turns = [{"role": "system", "content": text}]
        effect = "leaves it out"
        try:
            shown = text.strip() in self.render(_PROBE)
        except ValueError as error:  # for unknown roles
            shown, effect = False, f"raises {str(error.__cause__)!r}"
        if not shown:
            raise ValueError(
                f"system_prompt needs a chat template that shows system messages; this reader's template {effect}. "
                "Write the text into prompt (closed_book and passages) instead"
            )


def with_template(tokenizer: "PreTrainedTokenizerBase", source: str | None) -> Any:
    """Return the tokenizer, or a copy with the given chat template, or the one in a file of this name."""
    template = read_template(source)
    if template is None:
        return tokenizer
    tokenizer = copy.copy(tokenizer)
    tokenizer.chat_template = template
    return tokenizer


def begins_to_think(text: str) -> bool:
    """Return whether a response begins with the tag of a thought instead of an answer."""
    return _BEGINS_TO_THINK.match(text) is not None


def with_date(source: str, date: datetime.date) -> str:
    """Return a chat template (Jinja) whose ``strftime_now`` is always midnight of a fixed date."""
    if "strftime_now" not in source:
        return source
    # transformers passes no functions to templates, so the template defines a macro
    values = {letter: date.strftime(f"%{letter}") for letter in _DIRECTIVES}
    values |= {f"-{letter}": value.lstrip("0") or "0" for letter, value in values.items()}  # %-d: without zeros
    body = "".join(f".replace({f'%{code}'!r}, {value!r})" for code, value in values.items())
    return f"{{%- macro strftime_now(format) -%}}{{{{ format{body} }}}}{{%- endmacro %}}\n{source}"
