"""Requests of other trainers, as their own code sends them, read as rollouts."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from seper_reward.reward.rollouts import Rollout, read_rollouts
from seper_reward.serving.bodies import OpenRLHFBody, RolloutBody, VerifyBody

# tokens that end a turn, which OpenRLHF decodes with the text
_CONTROL = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|<end_of_turn>")


def read_bodies(bodies: Sequence[RolloutBody]) -> list[Rollout]:
    """Return the rollouts of ``POST /rewards``; a row that is unusable says so in ``problem``."""
    return [
        rollout for body in bodies for rollout in _read(body.question, body.answers, body.completion, body.passages)
    ]


def read_openrlhf(body: OpenRLHFBody, passage_tag: str | None) -> list[Rollout]:
    """Return the rollouts of a request of OpenRLHF.

    Args:
        body: The request.
        passage_tag: Name of the tag that the trainer's search puts around what it found, such as ``information``; each
            such block is a search. ``None`` takes the label's ``passages`` only.
    """
    rollouts = []
    for query, prompt, label in zip(body.query, body.prompts, body.labels, strict=True):
        row = _label(label)
        said = _CONTROL.sub("", query.partition(prompt)[2] if prompt in query else query)
        tag = re.compile(rf"<{re.escape(passage_tag)}>(.*?)</{re.escape(passage_tag)}>", re.S) if passage_tag else None
        found = [{"role": "tool", "content": text.strip()} for text in tag.findall(said)] if tag else []
        said = tag.sub("", said) if tag else said
        completion = [*found, {"role": "assistant", "content": said}]
        rollouts += _read(row.get("question"), row.get("answers"), completion, row.get("passages"))
    return rollouts


def read_verify(body: VerifyBody) -> Rollout:
    """Return the rollout of a request of NeMo Gym: the outputs of its tools are the searches."""
    completion: list[dict[str, Any]] = []
    for item in body.response.get("output") or []:
        kind = item.get("type", "message")
        if kind == "function_call":
            completion.append({"role": "assistant", "tool_calls": [{"function": {"name": item.get("name")}}]})
        elif kind == "function_call_output":
            completion.append({"role": "tool", "content": item.get("output")})
        elif kind == "message":
            completion.append({"role": "assistant", "content": _content(item.get("content"))})
    question = body.question if body.question is not None else _asked(body.responses_create_params.get("input"))
    (rollout,) = _read(question, body.answers, completion, None)
    return rollout


def _read(question: Any, answers: Any, completion: Any, passages: Any) -> list[Rollout]:
    try:
        return read_rollouts([question], [answers], [completion], [passages], None)
    except (ValueError, AttributeError, TypeError) as error:  # a whole column would be of another type: here one row
        return [Rollout("", (), (), "", str(error))]


def _label(text: str) -> Mapping[str, Any]:
    try:
        row = json.loads(text)
    except ValueError:
        row = None
    # a plain text may be a gold answer, but no question comes with it
    return row if isinstance(row, Mapping) else {}


def _content(content: Any) -> str:
    """Return the text of a message of the Responses API, which may come in parts."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or [])


def _asked(messages: Any) -> str | None:
    """Return the text of the user's last message."""
    if isinstance(messages, str):
        return messages
    asked = [_content(each.get("content")) for each in messages or [] if each.get("role") == "user"]
    return asked[-1] if asked else None
