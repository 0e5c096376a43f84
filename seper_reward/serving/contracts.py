"""Reader of the rollouts in requests, the same as for a reward."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from seper_reward.reward.rollouts import Rollout, read_rollouts
from seper_reward.reward.tools import SearchTools, SeveralToolsError
from seper_reward.serving.bodies import RolloutBody


@dataclass(frozen=True)
class Reading:
    """Options for reading completions. They are settings of the server: a client's pattern could run forever.

    Attributes:
        passage_tag: Name of the tag around the passages of a search in completions that are texts, such as
            ``information``; each such block is a search. ``None`` if there is no such tag.
        answer_pattern: Regular expression of the answer (``read_rollouts``).
        search_tools: Names of the tools whose results are searches; ``None`` for the only tool of a request.
    """

    passage_tag: str | None = None
    answer_pattern: str | None = None
    search_tools: Sequence[str] | None = None


DEFAULT_READING = Reading()


def read_bodies(bodies: Sequence[RolloutBody], reading: Reading) -> list[Rollout]:
    """Return the rollouts of ``POST /rewards``; unusable rows have the reason in ``problem``.

    If several tools have results in the request, and none is named, no row is usable.
    """
    tools = SearchTools(reading.search_tools)
    try:
        tools.see(body.completion for body in bodies if body.passages is None)
    except SeveralToolsError as error:
        return [Rollout("", (), (), "", str(error))] * len(bodies)
    reading = replace(reading, search_tools=tools.chosen())
    return [_read(body.question, body.answers, body.completion, body.passages, reading) for body in bodies]


def _read(question: Any, answers: Any, completion: Any, passages: Any, reading: Reading) -> Rollout:
    try:
        (rollout,) = read_rollouts([question], [answers], [completion], [passages], **asdict(reading))
    except (ValueError, AttributeError, TypeError) as error:  # errors of a whole column
        return Rollout("", (), (), "", str(error))
    return rollout
