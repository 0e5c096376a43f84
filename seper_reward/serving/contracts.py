"""Requests of other trainers, as their own code sends them, read as rollouts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from seper_reward.data.rows import shown
from seper_reward.data.stated import CONTROL_TOKENS
from seper_reward.reward.rollouts import Rollout, read_rollouts
from seper_reward.reward.tools import SearchTools, SeveralToolsError
from seper_reward.serving.bodies import OpenRLHFBody, RolloutBody, VerifyBody


@dataclass(frozen=True)
class Reading:
    """How completions are read. It is a setting of the server: a pattern of a client could take for ever.

    Attributes:
        passage_tag: Name of the tag that OpenRLHF's search puts around what it found, such as ``information``; each
            such block is a search. ``None`` takes the label's ``passages`` only.
        answer_pattern: Regular expression of the answer (``read_rollouts``).
        search_tools: Names of the tools whose results are searches; ``None`` takes the only tool of a request.
    """

    passage_tag: str | None = None
    answer_pattern: str | None = None
    search_tools: Sequence[str] | None = None


DEFAULT_READING = Reading()


def read_bodies(bodies: Sequence[RolloutBody], reading: Reading) -> list[Rollout]:
    """Return the rollouts of ``POST /rewards``; a row that is unusable says so in ``problem``.

    If several tools have results in the request, and none is named, no row is usable.
    """
    tools = SearchTools(reading.search_tools)
    try:
        tools.see(body.completion for body in bodies if body.passages is None)
    except SeveralToolsError as error:
        return [Rollout("", (), (), "", str(error))] * len(bodies)
    reading = Reading(None, reading.answer_pattern, tools.chosen())
    return [_read(body.question, body.answers, body.completion, body.passages, reading) for body in bodies]


def read_openrlhf(body: OpenRLHFBody, reading: Reading) -> list[Rollout]:
    """Return the rollouts of a request of OpenRLHF."""
    rollouts = []
    for query, prompt, label in zip(body.query, body.prompts, body.labels, strict=True):
        # OpenRLHF decodes the tokens that end a turn with the text
        said = CONTROL_TOKENS.sub("", query.partition(prompt)[2] if prompt and prompt in query else query)
        rollouts.append(_labelled(label, said, reading))
    return rollouts


def read_verify(body: VerifyBody, reading: Reading) -> Rollout:
    """Return the rollout of a request of NeMo Gym: the outputs of its tools are the searches."""
    completion: list[dict[str, Any]] = []
    for item in body.response.output:
        kind = item.get("type", "message")
        if kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            completion.append({"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "function": function}]})
        elif kind == "function_call_output":
            completion.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        elif kind == "message":
            completion.append({"role": "assistant", "content": _content(item.get("content"))})
    question = body.question if body.question is not None else _asked(body.responses_create_params.input)
    answers = body.answers if body.answers is not None else [body.expected_answer]
    return _read(question, answers, completion, None, replace(reading, passage_tag=None))


def _labelled(label: Any, completion: str, reading: Reading) -> Rollout:
    row = label
    if isinstance(label, str):
        try:
            row = json.loads(label)
        except ValueError:
            row = None
    if not isinstance(row, Mapping):
        reason = f"a label must be {{question, answers, passages?}}, as an object or as JSON text, got {shown(label)}"
        return Rollout("", (), (), "", reason)
    return _read(row.get("question"), row.get("answers"), completion, row.get("passages"), reading)


def _read(question: Any, answers: Any, completion: Any, passages: Any, reading: Reading) -> Rollout:
    try:
        (rollout,) = read_rollouts([question], [answers], [completion], [passages], **asdict(reading))
    except (ValueError, AttributeError, TypeError) as error:  # what would be at fault with a whole column
        return Rollout("", (), (), "", str(error))
    return rollout


def _content(content: Any) -> str:
    """Return the text of a message of the Responses API, which may come in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))


def _asked(messages: str | Sequence[Mapping[str, Any]]) -> str | None:
    """Return the text of the user's last message."""
    if isinstance(messages, str):
        return messages
    asked = [_content(each.get("content")) for each in messages if each.get("role") == "user"]
    return asked[-1] if asked else None
