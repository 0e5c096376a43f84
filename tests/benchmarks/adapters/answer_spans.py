"""Short answers that a reader copies from a passage or makes up: most are wrong, and are of the right kind.

A reader that does not know the answer gives a name, a number or a noun of its passage, or the answer to a question of
the same kind. They are from passages of training questions, without those that share a word with an answer. Next to
them stand other spellings of the answer, and sentences that state it.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.benchmarks.adapters import vocabulary
from tests.benchmarks.adapters.answer_forms import Form
from tests.benchmarks.adapters.substitution import words_of

_words = vocabulary("traps")
_NAME = re.compile(r"[A-Z][\w'’.-]+(?: (?:of |de |the |van )?[A-Z][\w'’.-]+){0,3}")
_NUMBER = re.compile(r"\b(?:\d{1,2} \w+ )?\d[\d,.]*\b(?: (?:million|years|miles|km|percent))?")
_ENDINGS = ("en", "ia", "er", "ton", "berg", "mann", "ulumi", "son", "o", "ing", "ist", "ian")


class Read(NamedTuple):
    """A question with the spellings of its answer, wrong answers of the same kind, and a passage that was read."""

    question: str
    answers: Sequence[str]
    others: Sequence[str]
    passage: str


def span_forms(questions: Sequence[Read], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield short responses, a quarter of which state the answer."""
    made = 0
    while made < count:
        read = rng.choice(questions)
        entailed = rng.random() < 0.25
        answer = rng.choice(read.answers)
        text = _right(read, answer, rng) if entailed else _wrong(read, rng)
        if not text or text.casefold() == answer.casefold():
            continue
        if not entailed and not words_of(text).isdisjoint(words_of(" ".join(read.answers))):
            continue
        text = text[:1].upper() + text[1:] if rng.random() < 0.2 else text.lower() if rng.random() < 0.1 else text
        mutual = not entailed or len(text.split()) <= len(answer.split()) + 3
        pair = (answer, text) if mutual and rng.random() < 0.3 else (text, answer)
        yield Form(read.question, *pair, entailed)
        made += 1


def _right(read: Read, answer: str, rng: random.Random) -> str:
    if len(read.answers) > 1 and rng.random() < 0.5:
        other = rng.choice(read.answers)
        # aliases of a date or number may differ in meaning: 1973, October 1973
        return "" if any(character.isdigit() for character in f"{answer}{other}") else other
    return str(rng.choice(_words.said_alone)).format(a=answer)


def _wrong(read: Read, rng: random.Random) -> str:
    makers: Sequence[tuple[int, Callable[[Read, random.Random], str]]] = (
        (30, _name), (8, _number), (18, _span), (12, _noun), (32, _other), (5, _made_up), (5, _nothing),
    )  # fmt: skip
    text = rng.choices([maker for _, maker in makers], [weight for weight, _ in makers])[0](read, rng).strip(" ,.;:")
    return str(rng.choice(_words.said_alone)).format(a=text) if text and rng.random() < 0.1 else text


def _name(read: Read, rng: random.Random) -> str:
    names = _NAME.findall(read.passage)
    return rng.choice(names) if names else ""


def _number(read: Read, rng: random.Random) -> str:
    numbers = _NUMBER.findall(read.passage)
    return rng.choice(numbers) if numbers else ""


def _span(read: Read, rng: random.Random) -> str:
    words = read.passage.split()
    start = rng.randrange(len(words))
    return " ".join(words[start : start + rng.randint(1, 6)])


def _noun(read: Read, rng: random.Random) -> str:
    nouns = re.findall(r"\b(?:(?:the|a|an) )[a-z]{4,}(?: [a-z]{4,})?\b", read.passage)
    noun = rng.choice(nouns) if nouns else ""
    return noun.partition(" ")[2] if rng.random() < 0.5 else noun


def _other(read: Read, rng: random.Random) -> str:
    other = rng.choice(read.others) if read.others else ""
    return rng.choice(other.split()) if rng.random() < 0.15 and other else other


def _made_up(read: Read, rng: random.Random) -> str:
    """Return a word that does not exist, as a reader makes up from the pieces of its passage."""
    words = re.findall(r"[A-Za-z]{4,}", read.passage)
    return (rng.choice(words)[: rng.randint(3, 6)] + rng.choice(_ENDINGS)).capitalize() if words else ""


def _nothing(read: Read, rng: random.Random) -> str:
    return str(rng.choice(_words.nothing_said))
