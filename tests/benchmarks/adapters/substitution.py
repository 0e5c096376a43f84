"""Passages that state another answer of the same kind (entity substitution, Longpre et al., arXiv:2109.05052)."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from seper_reward.data.marks import is_relevant
from seper_reward.runtime.messages import say
from seper_reward.types import Passage, Query, answer_aliases, answer_text
from tests.benchmarks.adapters.answer_forms import any_of

_COPY = "-substituted"  # ends the id of a copy


def answer_type(answer: str) -> str:
    """Return the coarse type of an answer: ``date``, ``number``, or ``name of N`` for up to 3 words.

    An answer swapped with another of its type is a plausible mistake.
    """
    if re.search(r"\b(1\d{3}|20\d{2})\b", answer):
        return "date"
    if any(character.isdigit() for character in answer):
        return "number"
    return f"name of {min(len(answer.split()), 3)}"


def answers_by_type(queries: Sequence[Query]) -> dict[str, list[str]]:
    """Return the answers of the questions, each in its first spelling, by ``answer_type``."""
    by_type: dict[str, list[str]] = {}
    for query in queries:
        answer = answer_text(query.answers)
        by_type.setdefault(answer_type(answer), []).append(answer)
    return by_type


def substituted(passage: Passage, answers: Sequence[str], other: str) -> Passage:
    """Return the passage with another answer in the place of every alias, also in its title."""
    title, text = (any_of(answers).sub(lambda _: other, field) for field in (passage.title, passage.text))
    return Passage(text, title)


def misleads(query: Query, other: str) -> bool:
    """Tell whether another answer in a passage would be wrong: it shares no word with the right one.

    Questions that name their answer are none to mislead in: their wording would contradict the passage. Yes and no are
    no answers that a passage states.
    """
    aliases = answer_aliases(query.answers)
    if not {"yes", "no"}.isdisjoint(alias.lower() for alias in (other, *aliases)):
        return False
    return not states(query.question, aliases) and words_of(other).isdisjoint(words_of(" ".join(aliases)))


def states(text: str, answers: Sequence[str]) -> bool:
    """Tell whether a text holds one of the answers as whole words, in any case."""
    return any_of(answers).search(text) is not None


def words_of(text: str) -> set[str]:
    """Return the lower-cased words of a text."""
    return set(re.findall(r"\w+", text.lower()))


def with_substituted_copies(queries: Sequence[Query], share: float) -> list[Query]:
    """Return the questions, some of them with passages more that mislead.

    Each relevant passage that states the answer gets a copy that states the answer of another question instead, of the
    same type, marked ``"relevant": False, "counterfactual": True``, in the role ``misleading``.

    What is drawn depends on a question's id and on the answers of all questions, not on their order.

    Args:
        queries: Questions whose passages carry people's marks.
        share: Share of the questions that get copies, in [0, 1], of those where that can be done.

    Raises:
        ValueError: There is nothing to copy: no relevant passage states the answer.
    """
    if not share:
        return list(queries)
    by_type = {kind: sorted(answers) for kind, answers in answers_by_type(queries).items()}
    changed = [_with_copies(query, share, by_type) for query in queries]
    count = sum(len(new.passages) > len(old.passages) for new, old in zip(changed, queries, strict=True))
    if not count:
        raise ValueError(
            "substituted_copies: expected passages with 'relevant': true that state the answer, got none; mark them, "
            "or leave the copies out"
        )
    say(f"{count} of {len(queries)} questions have copies of passages that state another answer")
    return changed


def copies_of(queries: Sequence[Query]) -> dict[str, Passage]:
    """Return the copies that ``with_substituted_copies`` made, by id and without marks, as a corpus holds passages."""
    copies = (each for query in queries for each in query.passages if each.id.endswith(_COPY))
    return {copy.id: replace(copy, metadata={}) for copy in copies}


def _with_copies(query: Query, share: float, by_type: Mapping[str, Sequence[str]]) -> Query:
    rng = random.Random(f"substitution-{query.id}")
    if rng.random() >= share:
        return query
    aliases = answer_aliases(query.answers)
    others = [other for other in by_type[answer_type(answer_text(query.answers))] if misleads(query, other)]
    if not others:
        return query
    other = rng.choice(others)
    copies = [
        replace(
            substituted(passage, aliases, other),
            id=f"{passage.id}-{query.id}{_COPY}",  # another question may have a copy of the same passage
            metadata={**passage.metadata, "relevant": False, "role": "misleading", "counterfactual": True},
        )
        for passage in query.passages
        if is_relevant(passage) and states(passage.text, aliases)
    ]
    return replace(query, passages=(*query.passages, *copies))
