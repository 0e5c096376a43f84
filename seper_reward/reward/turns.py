"""A search of a rollout, and the messages that a search tool returns to a policy."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from seper_reward.types import Passage

NO_MORE = "No more searches. Answer now."
NOTHING_FOUND = "Nothing was found."
_FIELD = r"\"\w+\"\s*:\s*(?:\[\s*\]|null|0|\"\")"
#: Messages of search tools that found nothing, and empty lists or objects in JSON.
_EMPTY = re.compile(
    r"[(\[]?(?:sorry, )?(?:there (?:are|were) |(?:(?:the )?search )?(?:found|returned) )?"
    r"(?:no|0|zero) (?:\w+ ){0,3}(?:results?|passages?|documents?|matches|hits)"
    r"(?: (?:were |was )?(?:found|available))?(?: for\b[^\n]*)?[.!]?[)\]]?"
    r"|nothing (?:was |is )?found(?: for\b[^\n]*)?[.!]?|your search\b[^\n]* did not match any \w+[.!]?|null|none"
    rf"|[\[{{]\s*[\]}}]|\{{\s*{_FIELD}(?:\s*,\s*{_FIELD})*\s*\}}",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\[(\d+)\] (.*)")


def tool_message(passages: Sequence[Passage]) -> str:
    r"""Return the message of a search: one passage unchanged, or several passages numbered, one per line.

    >>> tool_message([Passage("Ida runs it."), Passage("Rain fell.")])
    '[1] Ida runs it.\n[2] Rain fell.'
    """
    if not passages:
        return NOTHING_FOUND
    if len(passages) == 1:
        return passages[0].text
    return "\n".join(f"[{number}] {passage.text}" for number, passage in enumerate(passages, 1))


def read_tool_message(text: str, query: str = "") -> tuple[Passage, ...]:
    r"""Return the passages of a message of ``tool_message``, without ids; "No results found." and empty JSON are none.

    So are these messages with the ``query`` in them, whose text is the policy's own. Any other text is one passage.

    >>> read_tool_message("[1] Ida runs it.\n[2] Rain fell.")
    (Passage(text='Ida runs it.', title='', id=''), Passage(text='Rain fell.', title='', id=''))
    >>> read_tool_message("[1] Ida runs it.")
    (Passage(text='[1] Ida runs it.', title='', id=''),)
    """
    rest = text.replace(query, "").replace(json.dumps(query)[1:-1], "") if query else text
    if not text or (rest != text and not rest.strip()) or any(_EMPTY.fullmatch(part.strip()) for part in (text, rest)):
        return ()
    lines = [_NUMBERED.fullmatch(line) for line in text.split("\n")]
    if len(lines) > 1 and [line and line[1] for line in lines] == [str(place + 1) for place in range(len(lines))]:
        return tuple(Passage(line[2]) for line in lines if line)
    return (Passage(text),)


@dataclass(frozen=True)
class Turn:
    """One search of a rollout: its query, the passages as the policy saw them, and its duration in seconds."""

    query: str
    passages: tuple[Passage, ...]
    seconds: float = 0.0
