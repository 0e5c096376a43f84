"""Strict parsers of a reader's replies to requests for judgments: they never guess. Pure."""

import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_NUMBERS = r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]"
_SET = re.compile(rf"{_NUMBERS}(?:\s*(?:,|;|and)?\s*{_NUMBERS})*\.?")
_ORDER = re.compile(rf"{_NUMBERS}(?:\s*[>,]?\s*{_NUMBERS})*\.?")
_NONE = re.compile(r"(?:none|\[\s*\])\.?", re.IGNORECASE)
_BOTH = re.compile(r"(?:Answer|Needed):\s*((?:(?!Useful:)[^\n])*\S)\s+Useful:\s*([^\n]+)", re.IGNORECASE)
_YES_OR_NO = re.compile(r"(yes|no)[.!]?", re.IGNORECASE)


def chosen_numbers(text: str, count: int) -> tuple[int, ...] | None:
    """Return the numbers of the passages that a reply chooses, of 1 to ``count``; ``None`` if it has another form.

    >>> chosen_numbers("[3], [1]", 3), chosen_numbers("None.", 3), chosen_numbers("Passage 3 is useful.", 3)
    ((3, 1), (), None)
    """
    reply = text.strip()
    if _NONE.fullmatch(reply):
        return ()
    return _numbers(reply, count) if _SET.fullmatch(reply) else None


def text_and_numbers(text: str, count: int) -> tuple[str, tuple[int, ...]] | None:
    r"""Return the two parts of a reply, a text and numbers of passages; ``None`` if it has another form.

    >>> text_and_numbers("Answer: Ann Lee\nUseful: [3], [1]", 3), text_and_numbers("Ann Lee [3]", 3)
    (('Ann Lee', (3, 1)), None)
    """
    return _text_and(text, lambda part: chosen_numbers(part, count))


def text_and_verdict(text: str) -> tuple[str, bool] | None:
    r"""Return the two parts of a reply, a text and yes or no; ``None`` if it has another form.

    >>> text_and_verdict("Answer: Ann Lee\nUseful: yes"), text_and_verdict("Ann Lee, yes")
    (('Ann Lee', True), None)
    """
    return _text_and(text, yes_or_no)


def ordered_numbers(text: str, count: int) -> tuple[int, ...] | None:
    """Return the order of all passages in a reply; ``None`` if it has another form or leaves passages out.

    >>> ordered_numbers("[2] > [3] > [1]", 3), ordered_numbers("[2] > [3]", 3)
    ((2, 3, 1), None)
    """
    reply = text.strip()
    numbers = _numbers(reply, count) if _ORDER.fullmatch(reply) else None
    return numbers if numbers is not None and len(numbers) == count else None


def yes_or_no(text: str) -> bool | None:
    """Return whether a one-word reply is yes or no; ``None`` for any other reply.

    >>> yes_or_no("Yes."), yes_or_no("no"), yes_or_no("No, but it is close.")
    (True, False, None)
    """
    match = _YES_OR_NO.fullmatch(text.strip())
    return match[1].casefold() == "yes" if match else None


def _text_and(reply: str, parse: Callable[[str], T | None]) -> tuple[str, T] | None:
    parts = _BOTH.fullmatch(reply.strip())
    judged = parse(parts[2]) if parts else None
    return None if parts is None or judged is None else (parts[1], judged)


def _numbers(reply: str, count: int) -> tuple[int, ...] | None:
    numbers = tuple(map(int, re.findall(r"\d+", reply)))
    if len(set(numbers)) < len(numbers) or not all(1 <= number <= count for number in numbers):
        return None
    return numbers
