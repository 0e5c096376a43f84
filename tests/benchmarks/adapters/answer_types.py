"""Answers of one type that are easily confused, written for this project.

NLI sets and EVOUNA have few of them; an entailment model trained on those alone takes London for Paris.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.benchmarks.adapters import vocabulary

Member = tuple[str, ...]  # the spellings of one answer


@dataclass(frozen=True)
class AnswerType:
    """Answers that exclude each other, and questions that each of them could answer."""

    members: tuple[Member, ...]
    questions: tuple[str, ...]


_words = vocabulary("types")
#: Members are written as "red, grey = gray".
TYPES = tuple(
    AnswerType(tuple(tuple(member.split(" = ")) for member in kind["members"].split(", ")), tuple(kind["questions"]))
    for kind in _words.types
)


def confusable_pairs(count: int, rng: random.Random) -> Iterator[tuple[str, str, str, bool]]:
    """Yield (question, premise, hypothesis, entailed): two forms of one answer, or answers that differ."""
    for _ in range(count):
        kind = rng.choice(TYPES)
        question, gold = rng.choice(kind.questions), rng.choice(kind.members)
        chance = rng.random()
        if chance < 0.4:
            response, entailed = (
                rng.choice(_words.forms[3:] if len(gold) == 1 else _words.forms).format(a=rng.choice(gold)),
                True,
            )
        elif chance < 0.92:
            other = rng.choice([member for member in kind.members if member != gold])
            response, entailed = rng.choice(_words.forms).format(a=rng.choice(other)), False
        else:
            response, entailed = rng.choice(_words.evasions), False
        response = response[0].upper() + response[1:] if rng.random() < 0.5 else response
        pair = [response, rng.choice(gold)]
        if rng.random() < 0.3:
            pair.reverse()
        yield question, pair[0], pair[1], entailed
