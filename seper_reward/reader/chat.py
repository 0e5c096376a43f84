"""Chat templates: rendered with a fixed date, and with thinking switched off or on.

Whether a template can switch thinking off is detected by rendering it with and without its arguments, not by the
model's name.
"""

import copy
import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from seper_reward.runtime.settings import check_choice, check_least

Thinking = Literal["auto", "off", "on"]

_TAG = r"[<\[◁]\|?[\w:]*(?:think|thought|reason)\w*\|?[>\]▷]"
_OPEN_AT_END = re.compile(rf"({_TAG})\s*$", re.IGNORECASE)
_TAG_ANYWHERE = re.compile(_TAG, re.IGNORECASE)
# a thinking reader's response begins with such a tag, or with the header of a message
_BEGINS_TO_THINK = re.compile(
    r"\s*(?:[<\[◁]\|?[\w:]*(?:think|thought|reason|reflect|analysis|channel)\w*\|?[>\]▷]|[\w\s=\"']{0,40}<\|message\|>)",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(r"\b[a-z_]*(?:think|reason)[a-z_]*\b")
_FINAL_CHANNEL = "<|channel|>final<|message|>"
_NO_THINK = "/no_think"
_PROBE = ({"role": "user", "content": "Who?"},)
# arguments of ``_rendered``
_RESERVED_ARGUMENTS = {"chat_template", "tokenize", "add_generation_prompt", "date_string"}
_DIRECTIVES = "aAbBcdHIjmMpSUwWxXyY"
#: Chat template for policies whose own template has no tools: ChatML as in Qwen2.5, whose special tokens SmolLM2
#: shares, but shorter, because a policy reads it in every rollout.
TOOL_TEMPLATE = """\
{%- set system = messages[0].content if messages[0].role == 'system' else '' %}
{%- if tools or system %}
{{- '<|im_start|>system\\n' + system }}
{%- if tools %}
{{- '\\nTools:' }}
{%- for tool in tools %}
{{- ' ' + tool.function.name + '(' + tool.function.parameters.properties | join(', ') + ')' }}
{%- endfor %}
{{- '\\nCall one so: <tool_call>\\n{"name": NAME, "arguments": {ARGUMENT: VALUE}}\\n</tool_call>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif not (loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}"""


@dataclass(frozen=True)
class ChatOptions:
    """Options of rendering the reader's chat template; all of them decide the prompts.

    Attributes:
        thinking: Whether a reader that can think does so before each response: ``"auto"`` only if its template cannot
            switch it off, ``"off"`` never (if the template cannot, thoughts are closed as soon as they are opened, as
            in arXiv:2504.09858), ``"on"`` always.
        max_thinking_tokens: Maximum length of a thought in tokens, >= 1; then it is closed and the reader answers.
        prompt_date: Today's date in templates that print it, as ``YYYY-MM-DD``.
        system_prompt: System message of every prompt (default: the template's own); ``""`` is an empty system message
            in place of the template's own.
        chat_template_kwargs: Variables of the template, such as ``{"reasoning_effort": "low"}``.

    Raises:
        ValueError: ``thinking`` is unknown, the number is below 1, the date is invalid, or a variable is reserved.
    """

    thinking: Thinking = "auto"
    max_thinking_tokens: int = 1024
    prompt_date: str = "2024-07-26"
    system_prompt: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("thinking", self.thinking, get_args(Thinking))
        check_least(self, max_thinking_tokens=1)
        try:
            datetime.date.fromisoformat(self.prompt_date)
        except ValueError:
            raise ValueError(f"prompt_date must be a date such as 2024-07-26, got {self.prompt_date!r}") from None
        if reserved := sorted(_RESERVED_ARGUMENTS & set(self.chat_template_kwargs)):
            raise ValueError(
                f"chat_template_kwargs must not contain {', '.join(reserved)}, which is set for every prompt; remove "
                "it (use prompt_date for the date, and chat_template for a template)"
            )

    @property
    def needs_template(self) -> str:
        """Names of the given options that need a chat template, joined; empty if there are none."""
        given = {
            "thinking='on'": self.thinking == "on",
            "system_prompt": self.system_prompt is not None,
            "chat_template_kwargs": bool(self.chat_template_kwargs),
        }
        return " and ".join(name for name, is_given in given.items() if is_given)


@dataclass(frozen=True)
class ThoughtFormat:
    """The markup of a thought in a prompt.

    ``start`` opens a thought (empty if the template does), ``end`` ends it, ``answer`` stands between ``end`` and the
    response; ``closed``, in place of ``start``, makes the reader answer without thinking.
    """

    start: str
    end: str
    answer: str
    closed: str


class ChatTemplate:
    """The chat template of one tokenizer, which may have none; ``thought`` is ``None`` if the reader does not think.

    Raises:
        ValueError: An option does not go with the template: it shows no thoughts (``thinking="on"``), takes no system
            prompt, does not use a variable of ``chat_template_kwargs`` or fails with them; one of these contradicts
            ``thinking``; the template fails; or there is none.
    """

    def __init__(self, tokenizer: Any, options: ChatOptions = ChatOptions()) -> None:
        self.options = options
        self.thought: ThoughtFormat | None = None
        self._tokenizer = tokenizer
        self._date = datetime.date.fromisoformat(options.prompt_date)
        self._source: str | None = tokenizer.get_chat_template() if tokenizer.chat_template else None
        self._turns: list[dict[str, str]] = []  # first turns of every conversation
        self._arguments: dict[str, Any] = {}
        self._end = ""
        if self._source is not None:
            self._check_variables(self._source)
            self._add_system_prompt()
            self._choose(self._source, options.thinking)
        elif needs := options.needs_template:
            raise ValueError(
                f"{needs} needs a reader with a chat template; this one has none. Set chat_template, or write the "
                "text into closed_book_prompt and passages_prompt"
            )

    @property
    def exists(self) -> bool:
        """Whether the tokenizer has a chat template."""
        return self._source is not None

    def render(self, turns: Sequence[Mapping[str, str]]) -> str:
        """Return the text of ``{role, content}`` turns, the last one the user's, up to where the response begins."""
        return self._rendered(turns, self._arguments) + self._end

    def _rendered(self, turns: Sequence[Mapping[str, str]], arguments: Mapping[str, Any]) -> str:
        """Return the text of a conversation; raise ``ValueError`` if the template fails."""
        try:
            return self._applied(turns, arguments)
        except Exception as error:  # templates raise any error
            reason = " ".join(str(error).split())
            raise ValueError(
                f"the reader's chat template fails ({type(error).__name__}: {reason}); give another chat_template"
            ) from error

    def _applied(self, turns: Sequence[Mapping[str, str]], arguments: Mapping[str, Any]) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [*self._turns, *turns],
            chat_template=with_date(self._source or "", self._date),
            tokenize=False,
            add_generation_prompt=True,
            date_string=f"{self._date:%d %b %Y}",
            **{**self.options.chat_template_kwargs, **arguments},
        )
        return text

    def _check_variables(self, source: str) -> None:
        given = dict(self.options.chat_template_kwargs)
        if not given:
            return
        for name in given:
            if not re.search(rf"\b{re.escape(name)}\b", source):
                raise ValueError(
                    f"chat_template_kwargs has {name!r}, which the reader's chat template does not use; correct the "
                    "name, or leave it out"
                )
        try:
            self._applied(_PROBE, {})
        except Exception as error:  # templates raise any error for unknown values
            raise ValueError(f"chat_template_kwargs={given!r} fail in the reader's chat template: {error}") from error

    def _add_system_prompt(self) -> None:
        text = self.options.system_prompt
        if text is None:
            return
        self._turns = [{"role": "system", "content": text}]
        try:
            shown = text.strip() in self._applied(_PROBE, {})
            found = "leaves it out"
        except Exception as error:  # templates can raise any exception for unknown roles
            shown, found = False, f"raises {str(error)!r}"
        if not shown:
            raise ValueError(
                f"system_prompt needs a chat template that shows system messages; this reader's template {found}. "
                "Write the text into closed_book_prompt and passages_prompt instead"
            )

    def _choose(self, source: str, thinking: Thinking) -> None:
        """Find the arguments that switch thinking off or on, and the text to be added to the prompt."""
        off, on = self._changing(source, value=False), self._changing(source, value=True)
        self._refuse_contradictions(off | on, thinking)
        self._arguments = on if thinking == "on" else off
        if thinking != "on" and not off and _NO_THINK in source and _open_tag(self._rendered(_PROBE, {})):
            told = [turn["content"] for turn in self._turns if turn["content"]]
            self._turns = [{"role": "system", "content": "\n".join([*told, _NO_THINK])}]
        prompt = self._rendered(_PROBE, self._arguments)
        thought = _thought_format(source, prompt)
        if thinking == "on":
            if thought is None and (off or self._arguments) and (tag := _TAG_ANYWHERE.search(source)):
                thought = _tagged(tag[0], start=f"{tag[0]}\n")
            if thought is None or thought.end not in source:
                raise ValueError("thinking='on' needs a chat template that shows thoughts; this reader's shows none")
        if thought is not None:
            self.thought = thought if thinking != "off" else None
            self._end = thought.start if thinking != "off" else thought.closed

    def _refuse_contradictions(self, about_thinking: Mapping[str, bool], thinking: Thinking) -> None:
        """Raise if a variable that switches thinking contradicts ``thinking``."""
        for name, value in self.options.chat_template_kwargs.items():
            if name in about_thinking and value != (thinking == "on"):
                raise ValueError(
                    f"chat_template_kwargs has {name}={value!r}, but thinking={thinking!r} decides that; leave it "
                    "out and set thinking instead"
                )

    def _changing(self, source: str, value: bool) -> dict[str, bool]:
        """Return the arguments about thinking that change what the template renders."""
        plain = self._rendered(_PROBE, {})
        found = {}
        for name in sorted(set(_ARGUMENT.findall(source))):
            try:
                prompt = self._applied(_PROBE, {name: value})
            except Exception:  # templates raise any error for unknown values
                continue
            if prompt != plain and str(value) not in prompt:  # a printed value is meant as text, not as a switch
                found[name] = value
        return found


def with_template(tokenizer: Any, source: str | None) -> Any:
    """Return the tokenizer, or a copy with the given chat template."""
    if source is None:
        return tokenizer
    tokenizer = copy.copy(tokenizer)
    tokenizer.chat_template = source
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


def _thought_format(source: str, prompt: str) -> ThoughtFormat | None:
    """Return the markup of thoughts in a template that makes the reader think; ``None`` if it shows none."""
    if tag := _open_tag(prompt):
        return _tagged(tag, start="" if prompt.endswith("\n") else "\n")
    if _FINAL_CHANNEL in source and prompt.endswith("<|start|>assistant"):  # OpenAI's harmony
        return ThoughtFormat(
            start="<|channel|>analysis<|message|>",
            end="<|end|>",
            answer=f"<|start|>assistant{_FINAL_CHANNEL}",
            closed=_FINAL_CHANNEL,
        )
    return None


def _tagged(tag: str, start: str) -> ThoughtFormat:
    opening = re.search("begin|start", tag, re.IGNORECASE)
    if opening:
        end = tag.replace(opening[0], "END" if opening[0].isupper() else "end")
    else:
        bracket = 2 if tag[1] == "|" else 1
        end = f"{tag[:bracket]}/{tag[bracket:]}"
    return ThoughtFormat(start, end, answer="", closed=f"{start}\n{end}\n\n")


def _open_tag(prompt: str) -> str | None:
    found = _OPEN_AT_END.search(prompt)
    return found[1] if found else None
