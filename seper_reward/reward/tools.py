"""Results of tools in a completion: the tool of each result, failed calls, and which results are searches."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from http import HTTPStatus
from typing import Any, NamedTuple

from seper_reward.data.answers import is_list
from seper_reward.data.rows import shown
from seper_reward.types import UnscorableError

#: First characters of TRL's message of a failed call.
TRL_ERROR = "{'error': "
#: First words of an error. A colon, a status or nothing follows its name; in prose, words follow.
_ERROR = re.compile(
    r"\{'error': ''\}$"  # of an exception without a message
    r"|\{'(?:error|isError|is_error)': (?!None\b|False\b|''|\"\"|\[\]|\{\})"  # TRL writes a mapping so
    r"|(?:[\w.]{0,80}(?:Error|Exception)|ERROR|error)(?:\s*:|\s*$)|\[(?:Error|ERROR|error)\]"
    r"|\w{1,80}(?:Error|Exception) \(?[45]\d\d\b"
    r"|(?:HTTP )?[Ee]rror:? \(?[45]\d\d\)?(?:\s*[:,-]|\s*$)|HTTP [45]\d\d(?:\s*[:,(-]|\s*$| [A-Z])"
    r"|Error (?:executing|calling|running|invoking|searching|fetching|retrieving)\b[^\n:]{0,80}:"
    r"|Traceback \(most recent call last\)"
    r"|(?i:(?:tool|function|search|retrieval|request|connection|query)(?: (?:call|request|execution|query))?"
    r" (?:failed|timed out|refused|reset)(?:\s*[:.(]|\s*$| after \d| with (?:status|code|error|http)))"
    r"|Tool ['\"`]?[\w.-]{1,80}['\"`]? (?:was |is )?(?:not found|does not exist|not available)"
    r"|(?i:unknown|no such) (?:tool|function)(?::| ['\"`]|\s*$)"
)
_STATUSES = {status.value: status.phrase for status in HTTPStatus if status.value >= 400}
_CODES = "|".join(map(str, _STATUSES))
_PHRASES = "|".join(re.escape(phrase) for phrase in _STATUSES.values() if " " in phrase)
_ENDS = r"(?=\s*$|\s*[:;.,!()\n-])"
#: A short text with an error: a line with a status of HTTP, or a phrase for an error that no prose follows.
_REFUSAL = re.compile(
    rf"(?:HTTP(?:/[\d.]+)? |error )?(?:{_CODES})(?: (?:{_PHRASES}|Forbidden|Unauthorized))?{_ENDS}"
    rf"|(?:{_PHRASES}|(?:access|permission|authorization) (?:is |was )?denied|forbidden|unauthorized|time-?out"
    r"|(?:invalid|missing|no) api key|connection (?:refused|reset|timed out|error|aborted)"
    rf"|(?:\w+ )?quota (?:was )?exceeded|server error){_ENDS}"
    r"|(?:api )?rate[ -]?limit(?:s|ed)? ?(?:exceeded|reached|hit|error)?\b",
    re.IGNORECASE,
)
_LONGEST_REFUSAL = 300  # characters
_PAGE = re.compile(r"<(?:!doctype html|html|head|title|body|center|h1)\b", re.IGNORECASE)
_PAGE_TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
#: Roles of messages with results: OpenAI's, its former one, and Llama's.
_RESULT_ROLES = ("tool", "function", "ipython")
ROLES = ("assistant", "user", "system", "developer", *_RESULT_ROLES)
#: Qwen's chat template shows results to the model as the user's text between these tags.
_TOOL_RESPONSE = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
#: Tags around results in the texts of agents that search while they write.
_RESULT_TAGS = re.compile(
    r"<(information|tool_response|observation|results?|search_results?|documents?|passages?|context)>.*?</\1>",
    re.DOTALL,
)
#: Fields of a JSON object that has no content but an error.
_ERROR_FIELDS = {"error", "errors", "detail", "message", "status", "code", "status_code", "type", "title"}
#: Texts of errors about a tool that does not exist.
_MISSING = re.compile(
    r"\btool\b[^\n]{0,80}?\b(?:not found|(?:does not|doesn't) exist|not available)"
    r"|\b(?:unknown|no such) (?:tool|function)\b|\bnot a valid tool\b",
    re.IGNORECASE,
)


class Result(NamedTuple):
    """A message of a tool: the tool's name, if known, the first text among the call's arguments, and the text."""

    tool: str | None
    query: str
    text: str
    failed: bool

    @property
    def lacks_tool(self) -> bool:
        """Whether the call failed because there is no such tool."""
        return self.failed and bool(_MISSING.search(self.text[:300]))


class Call(NamedTuple):
    """A call of a tool: name and id (``None`` if missing), and the first text among its arguments."""

    tool: str | None
    id: str | None
    query: str


class SearchTools:
    """Names of the tools whose results are searches; without ``names``, the only tool that has results.

    ``seen`` counts the results of each tool so far, without failed calls. Names that are no list of texts raise
    ``ValueError``.
    """

    def __init__(self, names: Iterable[str] | None = None) -> None:
        tool_names = () if names is None or isinstance(names, str) else tuple(names)
        if names is not None and not (tool_names and all(isinstance(name, str) and name for name in tool_names)):
            raise ValueError(
                f"search_tools must be a list with at least one name of a tool, as in ('search',), got {names!r}"
            )
        self.names = None if names is None else tool_names
        self.seen: Counter[str] = Counter()

    def see(self, completions: Iterable[Any]) -> None:
        """Count the results in completions; then ``refuse_several``."""
        for completion in completions:
            try:
                results = read_results(as_messages(completion)) if is_list(completion) else []
            except UnscorableError:  # its rollout has the reason in ``problem``
                continue
            self.seen.update(result.tool for group in results for result in group if result.tool and not result.failed)
        self.refuse_several()

    def refuse_several(self, tools: Iterable[str] = ()) -> None:
        """Raise ``SeveralToolsError`` if ``tools`` and the results have several tools, and no names were given."""
        if self.names is None and len({*self.seen, *tools}) > 1:
            raise SeveralToolsError(
                f"several tools have results, and no setting names the search tools, got {counted(self.seen, tools)}: "
                "set search_tools=(...)"
            )

    def chosen(self) -> tuple[str, ...] | None:
        """Return the names of the search tools; ``None`` if no tool has a name."""
        return (tuple(self.seen) or None) if self.names is None else self.names


class SeveralToolsError(ValueError):
    """Several tools have results, and none is named as a search tool."""


def counted(seen: Mapping[str, int], tools: Iterable[str] = ()) -> str:
    """Return names of tools with the numbers of their results, in descending order.

    >>> counted({"python": 33, "search": 120}, ["notes"])
    'search (120), python (33), notes (0)'
    """
    numbers = dict.fromkeys(tools, 0) | dict(seen)
    return ", ".join(f"{tool} ({count})" for tool, count in sorted(numbers.items(), key=lambda item: -item[1]))


def as_messages(completion: Iterable[object]) -> list[Any]:
    """Return a completion as messages: items of OpenAI's Responses API (NeMo Gym) are converted, messages are kept.

    >>> as_messages([{"type": "function_call", "call_id": "1", "name": "search", "arguments": "{}"}])
    [{'role': 'assistant', 'tool_calls': [{'id': '1', 'name': 'search', 'arguments': '{}'}]}]
    >>> as_messages([{"type": "function_call_output", "call_id": "1", "output": "Rain."}])
    [{'role': 'tool', 'tool_call_id': '1', 'content': 'Rain.'}]
    >>> as_messages([{"role": "user", "content": "<tool_response>Rain.</tool_response>"}])
    [{'role': 'tool', 'content': 'Rain.'}]
    """
    return [message for item in completion if not _is_of_type(item, "reasoning") for message in _as_message(item)]


def _as_message(item: Any) -> list[object]:
    if _is_of_type(item, "function_call"):
        call = {"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments")}
        return [{"role": "assistant", "tool_calls": [call]}]
    if _is_of_type(item, "function_call_output"):
        return [{"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}]
    if isinstance(item, Mapping) and item.get("role") == "user" and (texts := _TOOL_RESPONSE.findall(text_of(item))):
        return [{"role": "tool", "content": text.strip()} for text in texts]
    return [item]


def _is_of_type(item: object, name: str) -> bool:
    return isinstance(item, Mapping) and "role" not in item and item.get("type") == name


def read_results(messages: Iterable[object]) -> list[list[Result]]:
    """Return the results of tools before the policy's first message, and after each message of the policy.

    A result without a name is matched to the call with its id, else to the next call of the policy's last message.
    Raises ``UnscorableError`` if a message is no mapping.
    """
    results: list[list[Result]] = [[]]
    by_id: dict[str, Call] = {}
    waiting: list[Call] = []
    for message in messages:
        if not isinstance(message, Mapping):
            raise UnscorableError(f"completion must be a text or a list of messages, got {shown(message)} in it")
        if message.get("role") == "assistant":
            results.append([])
            waiting = list(read_calls(message))
            by_id |= {call.id: call for call in waiting if call.id}
        elif message.get("role") in _RESULT_ROLES:
            name = message.get("name") or None
            call = by_id.get(str(message.get("tool_call_id"))) or next(
                (candidate for candidate in waiting if name in (None, candidate.tool)), None
            )
            if call in waiting:
                waiting.remove(call)
            tool, query = (None, "") if call is None else (call.tool, call.query)
            results[-1].append(Result(str(name) if name else tool, query, text_of(message), _is_error(message)))
    return results


def unread_results(completion: Any, passage_tag: str | None) -> str | None:
    """Return where a completion seems to have results that are not read as searches; ``None`` if it has none.

    >>> unread_results("<search>mill</search><information>Ida runs it.</information> Ida", None)
    "text between <information> tags (passage_tag='information' reads it)"
    """
    messages = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else completion
    if not is_list(messages) or not all(isinstance(message, Mapping) for message in messages):
        return None
    messages = as_messages(messages)
    roles = [message.get("role") for message in messages]
    for role in roles:
        if isinstance(role, str) and role not in ROLES:
            return f"messages of the role {role!r} (name it 'tool')"
    if "assistant" in roles and "user" in roles[roles.index("assistant") :]:
        return "messages of the user behind the policy's (results need the role 'tool')"
    for message in messages:
        for tag in _RESULT_TAGS.finditer(text_of(message)) if message.get("role") == "assistant" else ():
            if tag[1] != passage_tag:
                return f"text between <{tag[1]}> tags (passage_tag={tag[1]!r} reads it)"
    return None


def read_calls(message: Mapping[str, object]) -> Iterator[Call]:
    """Yield the calls of a policy's message, in the formats of OpenAI and of verifiers, also as JSON texts."""
    calls = unpacked(message.get("tool_calls"))
    for call in map(unpacked, calls if isinstance(calls, Sequence) and not isinstance(calls, str) else ()):
        call = call if isinstance(call, Mapping) else {}
        function = call.get("function") or call
        function = function if isinstance(function, Mapping) else {}
        arguments = unpacked(function.get("arguments"))
        values = arguments.values() if isinstance(arguments, Mapping) else ()
        name, call_id = function.get("name"), call.get("id")
        query = next((value for value in values if isinstance(value, str)), "")
        yield Call(name if isinstance(name, str) else None, None if call_id is None else str(call_id), query)


def text_of(message: Mapping[str, object]) -> str:
    """Return the text of a message, also if its content is a list of blocks ``{type: "text", text}``."""
    content = message.get("content") or ""
    content = [content] if isinstance(content, Mapping) and "text" in content else content
    if isinstance(content, list) and all(isinstance(block, Mapping) and "text" in block for block in content):
        return "".join(str(block["text"]) for block in content)
    return str(content)


def unpacked(value: object) -> Any:
    """Parse a text that is JSON, since tables store lists as JSON; return other values unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _is_error(message: Mapping[str, object]) -> bool:
    """Return whether a tool's message is an error, by a field of the message or its JSON, or by its first words."""
    text = text_of(message).strip()
    content = unpacked(text) if text.startswith("{") else None
    objects = [message, *(item for item in (content, message.get("content")) if isinstance(item, Mapping))]
    if any(item.get("error") or _is_only_error(item) for item in objects[1:]):
        return True
    flags = ("isError", "is_error")
    if any(item.get("status") == "error" or any(item.get(flag) is True for flag in flags) for item in objects):
        return True
    return bool(_ERROR.match(text)) or _is_refusal(text)


def _is_refusal(text: str) -> bool:
    """Return whether a text is an error of HTTP: a status line, a short phrase, or an HTML page with such a title."""
    if not _PAGE.match(text):
        return len(text) <= _LONGEST_REFUSAL and bool(_REFUSAL.match(text))
    titles = [unescape(title) for _, title in _PAGE_TITLE.findall(text)]
    parts = [part.strip() for title in titles for part in re.split(r"\s[|·–—-]\s", title)]  # "Access denied | host"
    return any(" " in part and _REFUSAL.match(part) for part in parts)


def _is_only_error(content: Mapping[str, object]) -> bool:
    """Return whether an object has errors and no content, as ``{"detail": "no such index"}``."""
    return bool(content.get("errors") or content.get("detail")) and not any(
        value for name, value in content.items() if name not in _ERROR_FIELDS
    )
