"""Made-up names, numbers and dates for ``answer_second.py``."""

import random
from collections.abc import Callable

from tests.benchmarks.adapters.vocabulary import vocabulary

words = vocabulary("second")


def last_name(rng: random.Random) -> str:
    """Return a last name."""
    return f"{rng.choice(words.last_starts)}{rng.choice(words.last_ends)}"


def person(rng: random.Random) -> str:
    """Return a person: first name, sometimes a middle name or its initial, last name."""
    middle = f"{rng.choice('ABCDEFGHJKLMNPRSTW')}. " if rng.random() < 0.1 else ""
    middle = f"{rng.choice(words.first_names)} " if rng.random() < 0.1 else middle
    return f"{rng.choice(words.first_names)} {middle}{last_name(rng)}"


def place(rng: random.Random) -> str:
    """Return a real city, or a place that is made up."""
    return str(
        rng.choice([rng.choice(list(words.homes)), rng.choice(words.last_starts) + rng.choice(words.place_ends)])
    )


def title(rng: random.Random) -> str:
    """Return a title of a work."""
    first, second, third = rng.sample(words.title_words, 3)
    return rng.choice(
        [f"The {first} {second}", f"{first} and {second}", f"{first} of the {second}", f"A {third} {first}"]
    )


def body(rng: random.Random) -> str:
    """Return the name of an institution, a firm or a club."""
    return rng.choice([
        f"{rng.choice(words.regions)} {rng.choice(words.topics)} {rng.choice(words.bodies)}",
        f"{rng.choice(words.bodies)} for {rng.choice(words.topics)} in {rng.choice(words.regions)}",
        f"{last_name(rng)} & {last_name(rng)} Ltd.", f"{place(rng)} {rng.choice(words.clubs)}",
    ])  # fmt: skip


def number(rng: random.Random) -> str:
    """Return a number, some with a unit."""
    return rng.choice([
        str(rng.randint(3, 99)), f"{rng.randint(1000, 90_000):,}", f"{rng.randint(2, 98)}%",
        f"{rng.randint(20, 999)} {rng.choice(['metres', 'km'])}", f"${rng.randint(2, 900)},000",
        f"{rng.randint(2, 90)} million",
    ])  # fmt: skip


def date(rng: random.Random) -> str:
    """Return a year, a day or a month."""
    month = rng.choice(["January", "March", "April", "June", "July", "August", "October", "December"])
    year = rng.randint(1450, 2020)
    return rng.choice(
        [str(year), f"{rng.randint(1, 28)} {month} {year}", f"{month} {rng.randint(1, 28)}, {year}", month]
    )


#: Makers of answers by kind.
MAKERS: dict[str, Callable[[random.Random], str]] = {
    "person": person, "place": place, "title": title, "organisation": body, "number": number, "date": date,
    "thing": lambda rng: rng.choice(words.nouns),
}  # fmt: skip
