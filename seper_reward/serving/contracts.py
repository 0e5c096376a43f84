"""Requests of other trainers, as their own code sends them, read as rollouts."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from seper_reward.data.rows import shown
from seper_reward.reward.rollouts import Rollout, read_rollouts
from seper_reward.serving.bodies import OpenRLHFBody, RolloutBody, VerifyBody

# tokens that end a turn, which OpenRLHF decodes with the text
_CONTROL = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|<end_of_turn>")


def read_bodies(bodies: Sequence[RolloutBody]) -> list[Rollout]:
    """Return the rollouts of ``POST /rewards``; a row that is unusable says so in ``problem``."""
    return [_read(body.question, body.answers, body.completion, body.passages) for body in bodies]


def read_openrlhf(body: OpenRLHFBody, passage_tag: str | None) -> list[Rollout]:
    """Return the rollouts of a request of OpenRLHF.

    Args:
        body: The request.
        passage_tag: Name of the tag that the trainer's search puts around what it found, such as ``information``; each
            such block is a search. ``None`` takes the label's ``passages`` only.
    """
    rollouts = []
    for query, prompt, label in zip(body.query, body.prompts, body.labels, strict=True):
        said = _CONTROL.sub("", query.partition(prompt)[2] if prompt and prompt in query else query)
        rollouts.append(_labelled(label, said, passage_tag))
    return rollouts


def read_verify(body: VerifyBody) -> Rollout:
    """Return the rollout of a request of NeMo Gym: the outputs of its tools are the searches."""
    completion: list[dict[str, Any]] = []
    for item in body.response.output:
        kind = item.get("type", "message")
        if kind == "function_call":
            completion.append({"role": "assistant", "tool_calls": [{"function": {"name": item.get("name")}}]})
        elif kind == "function_call_output":
            completion.append({"role": "tool", "content": item.get("output")})
        elif kind == "message":
            completion.append({"role": "assistant", "content": _content(item.get("content"))})
    question = body.question if body.question is not None else _asked(body.responses_create_params.input)
    answers = body.answers if body.answers is not None else [body.expected_answer]
    return _read(question, answers, completion, None)


def _labelled(label: Any, completion: str, passage_tag: str | None) -> Rollout:
    row = label
    if isinstance(label, str):
        try:
            row = json.loads(label)
        except ValueError:
            row = None
    if not isinstance(row, Mapping):
        reason = f"a label must be {{question, answers, passages?}}, as an object or as JSON text, got {shown(label)}"
        return Rollout("", (), (), "", reason)
    return _read(row.get("question"), row.get("answers"), completion, row.get("passages"), passage_tag)


def _read(question: Any, answers: Any, completion: Any, passages: Any, passage_tag: str | None = None) -> Rollout:
    try:
        (rollout,) = read_rollouts([question], [answers], [completion], [passages], None, passage_tag)
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
