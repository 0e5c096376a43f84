"""Passages that state another answer of the same kind (entity substitution, Longpre et al., arXiv:2109.05052)."""

import re
from collections.abc import Sequence

from seper_reward.types import Passage, Query
from tests.benchmarks.adapters.answer_forms import any_of


def answer_type(answer: str) -> str:
    """Return the coarse type of an answer: ``date``, ``number``, or ``name of N`` for up to 3 words.

    An answer swapped with another of its type is a plausible mistake.
    """
    if re.search(r"\b(1\d{3}|20\d{2})\b", answer):
        return "date"
    if any(character.isdigit() for character in answer):
        return "number"
    return f"name of {min(len(answer.split()), 3)}"


def substituted(passage: Passage, answers: Sequence[str], other: str) -> Passage:
    """Return the passage with another answer in the place of every alias, also in its title."""
    title, text = (any_of(answers).sub(lambda _: other, field) for field in (passage.title, passage.text))
    return Passage(text, title)


def misleads(query: Query, other: str) -> bool:
    """Tell whether another answer in a passage would be wrong: it shares no word with the right one.

    Questions that name their answer are none to mislead in: their wording would contradict the passage. Yes and no are
    no answers that a passage states.
    """
    aliases = query.answers
    if not {"yes", "no"}.isdisjoint(alias.lower() for alias in (other, *aliases)):
        return False
    return not states(query.question, aliases) and words_of(other).isdisjoint(words_of(" ".join(aliases)))


def states(text: str, answers: Sequence[str]) -> bool:
    """Tell whether a text holds one of the answers as whole words, in any case."""
    return any_of(answers).search(text) is not None


def words_of(text: str) -> set[str]:
    """Return the lower-cased words of a text."""
    return set(re.findall(r"\w+", text.lower()))
