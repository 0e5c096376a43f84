"""Answers that say more than was asked: nouns with modifiers, and places with the region that they are in.

A reader asked for an occupation answers "an American actress", and states "actress"; a model that learned that cities
and colours exclude each other takes it for another answer. Beside these stand what only looks so: another noun with
the same modifier, words that take the noun back ("would-be actress"), people near the noun ("the actress's brother"),
and names that become others by a word ("New Orleans"). All are generated, for this project.
"""

from collections.abc import Iterator
from random import Random

from tests.benchmarks.adapters import vocabulary
from tests.benchmarks.adapters.answer_forms import Form

_words = vocabulary("modifiers")


def modified_forms(count: int, rng: Random) -> Iterator[Form]:
    """Yield occupations with modifiers, and places with their regions, that state the answer or another."""
    for _ in range(count):
        yield _occupation(rng) if rng.random() < 2 / 3 else _place(rng)


def _occupation(rng: Random) -> Form:
    person = rng.choice(_words.people)
    names = rng.choice(_words.same) if rng.random() < 0.15 else (rng.choice(_words.occupations),)
    gold, said = rng.choice(names), rng.choice(names)
    other = rng.choice([each for each in _words.occupations if each not in names and not _related(each, gold)])
    question = rng.choice(_words.asked).format(p=person)
    chance = rng.random()
    if chance < 0.8:
        response, entailed = _modified(said if chance < 0.5 else other, other, rng), chance < 0.5
    elif chance < 0.92:
        return Form(question, rng.choice(_words.taken_back).format(n=said, other=other), gold, False)
    else:  # a plain noun does not say what the gold answer says
        gold, response, entailed = f"{rng.choice(_words.demonyms)} {gold}", said, False
    article = "an" if response[0].lower() in "aeiou" else "a"
    sentence = rng.choice(_words.said).format(r=response, p=person, article=article)
    return Form(question, sentence[0].upper() + sentence[1:] if rng.random() < 0.5 else sentence, gold, entailed)


def _modified(noun: str, other: str, rng: Random) -> str:
    """Return a noun with modifiers, mostly nationalities; ``other`` is a second occupation that may be named."""
    chance = rng.random()
    before = f"{rng.choice(_words.demonyms)} " if chance < 0.7 else ""
    if chance > 0.55:
        before = f"{rng.choice(_words.qualities)} {before}"
    after = ""
    if rng.random() < 0.25:
        century = rng.choice(["12th", "17th", "18th", "19th", "20th"])
        after = " " + rng.choice(_words.after).format(land=rng.choice(_words.lands), age=century, other=other)
    return f"{before}{noun}{after}"


def _related(one: str, other: str) -> bool:
    return bool(set(one.split()) & set(other.split())) or {one, other} == {"actor", "actress"}


def _place(rng: Random) -> Form:
    person, land = rng.choice(_words.people), rng.choice(_words.lands)
    gold, other = rng.sample(_words.places, 2)
    question, entailed = rng.choice(_words.born).format(p=person), rng.random() < 0.5
    if entailed or rng.random() < 0.6:
        placed = rng.choice(_words.placed).format(a=gold if entailed else other, land=land, p=person)
        return Form(question, placed, gold, entailed)
    return Form(question, rng.choice(_words.other_places).format(a=gold), gold, False)
