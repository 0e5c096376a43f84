"""Values near gold answers, drawn with a seed: numbers, dates, times, money, quantities."""

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from num2words import num2words

_SHORT = {"kilometres": "km", "metres": "m", "kilograms": "kg", "grams": "g"}
_SMALLER = {"kilometres": "metres", "kilograms": "grams"}  # a thousandth


@dataclass(frozen=True)
class NearValue:
    """A text with a value, judged against a gold answer with the same or another value."""

    kind: str  # key of `KINDS`
    distance: str  # difference of the values; "0" for the gold answer's value in another spelling
    question: str
    text: str  # the value as a response
    gold: str  # the gold answer


@dataclass(frozen=True)
class _Kind:
    """A kind of values: questions, a sampler, spellings (the first for gold answers), moves by distance and sign."""

    questions: tuple[str, ...]
    draw: Callable[[Random], Any]
    spell: Callable[[Any], list[str]]
    moves: Mapping[str, Callable[[Any, int], Any]]


def near_values(seed: int, golds: int) -> Iterator[NearValue]:
    """Draw ``golds`` gold answers of each kind, and yield for each another spelling and one wrong value per distance.

    The least distance occurs again in another spelling, so a judge cannot pass by comparing characters.
    """
    random = Random(seed)
    for name, kind in KINDS.items():
        for number in range(golds):
            question, value = kind.questions[number % len(kind.questions)], kind.draw(random)
            spellings = kind.spell(value)
            gold = spellings[0]
            yield NearValue(name, "0", question, random.choice(spellings[1:]), gold)
            for place, (distance, move) in enumerate(kind.moves.items()):
                wrong = kind.spell(move(value, random.choice((-1, 1))))
                yield NearValue(name, distance, question, wrong[0], gold)
                if not place:
                    yield NearValue(name, f"{distance}, other spelling", question, random.choice(wrong[1:]), gold)


def number_words(number: int) -> str:
    """Return a number in words, without commas."""
    return str(num2words(number)).replace(",", "")


def _off_by(*distances: int) -> dict[str, Callable[[Any, int], Any]]:
    return {str(distance): partial(_shift, distance) for distance in distances}


def _shift(distance: int, value: int, sign: int) -> int:
    return value + sign * distance


def _spell_date(date: datetime.date) -> list[str]:
    month = f"{date:%B}"
    spelled = [f"{date.day} {month} {date.year}", f"{month} {date.day}, {date.year}", date.isoformat()]
    return [*spelled, f"{date.day}/{date.month:02}/{date.year}"] if date.day > 12 else spelled  # 3/4 is two dates


def _spell_money(dollars: int) -> list[str]:
    written = [f"${dollars:,}", f"{dollars:,} dollars", f"{dollars} USD"]
    if dollars >= 10**6:
        millions = f"{dollars / 10**6:g}"
        return [f"${millions} million", f"{millions} million dollars", f"${millions}M", *written]
    return [*written, f"${dollars}", f"${dollars / 1000:g}k"] if dollars >= 1000 else written


def _money_by_one(dollars: int, sign: int) -> int:
    return dollars + sign * next(scale for scale in (10**6, 10**3, 1) if not dollars % scale)


def _spell_quantity(quantity: tuple[int, str]) -> list[str]:
    amount, unit = quantity
    written = [f"{amount:,} {unit}", f"{amount:,} {_SHORT[unit]}", f"{amount}{_SHORT[unit]}"]
    return [*written, f"{number_words(amount)} {unit}"] if amount < 10_000 else written


def _quantities(large: str, *questions: str) -> _Kind:
    units = (large, _SMALLER[large])
    return _Kind(
        questions,
        lambda random: (random.randint(11, 999), random.choice(units)),
        _spell_quantity,
        {
            "1": lambda value, sign: (value[0] + sign, value[1]),
            "factor 10": lambda value, sign: (value[0] * 10, value[1]),
            "factor 1000": lambda value, sign: (value[0], units[value[1] == large]),
        },
    )


def _spell_time(minutes: int) -> list[str]:
    hour, minute = divmod(minutes, 60)
    half, shown = ("am" if hour < 12 else "pm"), (hour - 1) % 12 + 1
    return [f"{shown}:{minute:02} {half}", f"{hour:02}:{minute:02}", f"{shown}:{minute:02} {half[0]}.m."]


_COUNTS = (
    "How many members does the Alder choir have?",
    "How many rooms are there in the Brandt hotel?",
    "How many paintings hang in the Marlow gallery?",
    "How many pupils does the school in Tessel have?",
)
_DATES = (
    "When did the Osmund Library open?",
    "When was the bridge at Quern finished?",
    "When was Signe Lund born?",
    "When was the Stanwick charter signed?",
)
KINDS = {
    "years": _Kind(
        tuple(question.replace("When", "In what year") for question in _DATES),
        lambda random: random.randint(1650, 2023),
        lambda year: [str(year), num2words(year, to="year").replace("oh-", "oh "), f"the year {year}", f"{year} AD"],
        _off_by(1, 2, 5, 10, 50),
    ),
    "two digits": _Kind(
        ("How old was Runa Solberg when she retired?", *_COUNTS[:2]),
        lambda random: random.randint(12, 94),
        lambda number: [str(number), number_words(number)],
        _off_by(1, 2, 5),
    ),
    "per cent": _Kind(
        ("What share of the island is forest?", "What share of the members voted?"),
        lambda random: random.randint(12, 94),
        lambda n: [f"{n}%", f"{n} per cent", f"{n} %", f"{n} percent", f"{number_words(n)} percent"],
        _off_by(1, 2, 5),
    ),
    "three digits": _Kind(
        _COUNTS,
        lambda random: random.randint(201, 899),
        lambda number: [str(number), number_words(number)],
        _off_by(1, 2, 10, 100),
    ),
    "four digits": _Kind(
        (_COUNTS[3], "How many people live in Port Wenlow?"),
        lambda random: random.randint(1101, 8899),
        lambda number: [f"{number:,}", str(number), number_words(number)],
        _off_by(1, 10, 1000),
    ),
    "dates": _Kind(
        _DATES,
        lambda random: datetime.date(random.randint(1650, 2023), random.randint(1, 12), random.randint(1, 28)),
        _spell_date,
        {
            "a day": lambda date, sign: date + datetime.timedelta(sign),
            "a month": lambda date, sign: date.replace(month=(date.month - 1 + sign) % 12 + 1, day=min(date.day, 28)),
            "a year": lambda date, sign: date.replace(year=date.year + sign),
            "ten years": lambda date, sign: date.replace(year=date.year + 10 * sign),
        },
    ),
    "money": _Kind(
        ("What did the fountain in Larch Street cost?", "What did the museum pay for the Hadley diaries?"),
        lambda random: random.randint(11, 98) * 10 ** random.choice((0, 3, 6)),
        _spell_money,
        {
            "1": _money_by_one,
            "factor 10": lambda dollars, sign: dollars // 10 if sign < 0 and not dollars % 10 else dollars * 10,
            "factor 1000": lambda dollars, sign: dollars // 1000 if dollars >= 10**6 else dollars * 1000,
        },
    ),
    "lengths": _quantities("kilometres", "How long is the Corrie line?", "How far is it from Merriton to the coast?"),
    "weights": _quantities("kilograms", "How heavy is the bell of Quern?", "How much does the Tessel stone weigh?"),
    "times": _Kind(
        ("At what time does the Selwyn ferry leave?", "When does the night market close?"),
        lambda random: random.randrange(12, 276) * 5,
        _spell_time,
        {
            "10 minutes": lambda minutes, sign: minutes + 10 * sign,
            "an hour": lambda minutes, sign: minutes + 60 * sign,
        },
    ),
}
