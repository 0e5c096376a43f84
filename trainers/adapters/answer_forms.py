"""Forms that answers take, made for this project: what a judge must see through, and EVOUNA and NLI sets show rarely.

Negation and correction, hedging between alternatives, lists, numbers and units, dates, yes/no by statement, and the
answer inside (or missing from) a paragraph. Everything is generated from questions with answers of one kind.
"""

import datetime
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from num2words import num2words


class Form(NamedTuple):
    """Does ``response`` state ``answer``, asked ``question``?"""

    question: str
    response: str
    answer: str
    entailed: bool


class Fact(NamedTuple):
    """A question, the spellings of its answer, and answers of the same kind that are wrong."""

    question: str
    answers: tuple[str, ...]
    others: tuple[str, ...]


# {a}: right answer; {b}, {c}: wrong ones
_STATED = (
    "Not {b}, but {a}", "It was not {b}; it was {a}", "It isn't {b}. It is {a}", "{a}, not {b}", "{a} and not {b}",
    "Many people say {b}, but in fact it is {a}", "{b} is often named, yet the right answer is {a}",
    "Contrary to what one hears, it is not {b} but {a}", "No, not {b}: {a}", "Neither {b} nor {c}, but {a}",
    "I think it is {a}", "I believe it was {a}", "Probably {a}", "If I am not mistaken, {a}", "It must have been {a}",
    "As far as I remember, {a}", "That would be {a}", "It's {a}, of course", "Without any doubt {a}", "{a}, I am sure",
    "The answer is {a}", "It is nothing other than {a}", "{b}? No, that is wrong. It is {a}", "There is no doubt: {a}",
    "{b} came second; {a} is the right answer", "Everyone thought of {b}, but it turned out to be {a}",
    "It can only be {a}, never {b}", "{a} rather than {b}", "Once it was {b}; today it is {a}",
    # what is added does not take the answer back
    "{a}, near {b}", "{a}, who was a friend of {b}", "{a}, which came long before {b}", "{a}, unlike {b}",
    "{a}, to be exact", "the famous {a}", "{a} (not to be confused with {b})", "{a}, as everybody in the village knows",
    "They chose {a}, although {b} was cheaper", "{a} took over from {b}", "{a} did, years before {b}",
    "{a}, and so it has been for years", "{a}, as it says on the label", "It was the old {a}, and nothing else",
    "{a}, if you want to know. {b} and {c} came later", "In those days {a}, whatever {b} may say", "{a}, one of many finds",
    "It lies in the north and is called {a}", "It is all about {a}, which people often forget",
)  # fmt: skip
_NOT_STATED = (
    "Not {a}", "It was not {a}", "It isn't {a}", "{a} is wrong", "{b}, not {a}", "Not {a}, but {b}",
    "It was not {a}; it was {b}", "Many people say {a}, but in fact it is {b}", "Anyone except {a}", "Never {a}",
    "{a} is often named, yet the right answer is {b}", "Contrary to what one hears, it is not {a} but {b}",
    "It cannot be {a}", "It can't have been {a}, because it was {b}", "{a} had nothing to do with it",
    "Neither {a} nor {b}", "No, not {a}: {b}", "{a}? No, that is wrong", "{b} rather than {a}",
    "{a} came second; {b} is the right answer", "Everyone thought of {a}, but it turned out to be {b}",
    "It is false that it was {a}", "By no means {a}", "Once it was {a}; today it is {b}", "It is hardly {a}",
    "{a} or {b}", "Either {a} or {b}", "{b} or {a}", "It could be {a}, {b} or {c}", "One of {b}, {a} and {c}",
    "Possibly {b}, possibly {a}", "{a}, {b}, {c}: take your pick", "Candidates are {c}, {b} and {a}",
    "Perhaps {a}, perhaps {b}", "Some say {a}, others say {b}", "I can't decide between {a} and {b}",
    "Whether it is {a} or not, I do not know", "I do not know if it was {a}", "I have never heard of {a}",
    "I think it is {b}", "That would be {b}", "{b}, I am sure", "Without any doubt {b}", "{b}, unlike {a}",
    "{b}, who was a friend of {a}", "{b}, near {a}", "{b}, which came long before {a}", "{a} wished it, but it was {b}",
    "{b} took over from {a}", "They chose {b}, although {a} was cheaper", "{b} (not to be confused with {a})",
    "In those days {b}, whatever {a} may say", "the famous {b}", "{b}, if you want to know. {a} and {c} came later",
)  # fmt: skip
_YES = (
    "Yes", "Yes, it is", "Yes, certainly", "Indeed", "That is right", "Correct", "True", "It is so", "Of course",
    "Absolutely", "That's true", "It does", "Definitely", "I would say so, yes", "Right",
)  # fmt: skip
_NO = (
    "No", "No, it is not", "Not at all", "By no means", "That is wrong", "False", "It is not so", "It isn't", "Never",
    "That's not true", "It does not", "Certainly not", "I would say no", "Incorrect", "On the contrary",
)  # fmt: skip
_UNSURE = (
    "It depends",
    "I do not know",
    "Nobody can say",
    "The text does not say",
    "Maybe",
    "unknown",
    "Good question",
)


def stated_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield answers stated, denied, corrected and hedged."""
    for _ in range(count):
        fact = rng.choice(facts)
        answer, (b, c) = rng.choice(fact.answers), rng.sample(fact.others, 2)
        entailed = rng.random() < 0.5
        # a person is known by the last name, too
        known_by_last_name = fact.question.lower().startswith("who") and re.fullmatch(r"[A-Z]\w+ [A-Z]\w+", answer)
        said = answer.split()[-1] if known_by_last_name and rng.random() < 0.3 else answer
        response = rng.choice(_STATED if entailed else _NOT_STATED).format(a=said, b=b, c=c)
        # spellings of a date or number may differ in what they say (1973, October 1973)
        asked = answer if any(character.isdigit() for character in answer) else rng.choice(fact.answers)
        yield Form(fact.question, response[0].upper() + response[1:], asked, entailed)


def list_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield lists that are complete in another order, and lists that lack or replace an item."""
    questions = ("Name the {n}.", "Which {n} are meant?", "Which are the {n}?", "what are the {n}", "Who are the {n}?")
    for _ in range(count):
        size = rng.choice([2, 3, 3, 4])
        pool = rng.choice(facts).others
        if len(pool) < size + 1:
            continue
        *items, extra = rng.sample(pool, size + 1)
        said, entailed = rng.sample(items, size), True
        if rng.random() < 0.5:
            entailed = False
            place = rng.randrange(size)
            said = [*said[:place], *([] if rng.random() < 0.5 else [extra]), *said[place + 1 :]]
        question = rng.choice(questions).format(n=num2words(size))
        response = rng.choice(["{}", "{}", "They are {}", "{}, these are the ones", "First {}"]).format(
            _joined(said, rng)
        )
        yield Form(question, response, _joined(items, rng), entailed)


def _joined(items: Sequence[str], rng: random.Random) -> str:
    if len(items) == 1:
        return items[0]
    last = rng.choice([" and ", ", ", ", and ", " as well as ", " & "])
    return ", ".join(items[:-1]) + last + items[-1]


# unit: (spellings, questions, how many smaller ones make one, spellings of those)
_UNITS: tuple[tuple[Sequence[str], Sequence[str], int, Sequence[str]], ...] = (
    (("km", "kilometres", "kilometers"), ("How long is the tunnel?", "how far is it to the coast"), 1000, ("m", "metres")),
    (("m", "metres", "meters"), ("How high is the tower?", "What is the depth of the lake?"), 100, ("cm", "centimetres")),
    (("kg", "kilograms", "kilos"), ("How heavy is the bell?", "what does the parcel weigh"), 1000, ("g", "grams")),
    (("hours",), ("How long does the flight take?", "How long did the siege of the house last?"), 60, ("minutes",)),
    (("minutes", "min"), ("How long is the film?", "how long do you boil it"), 60, ("seconds",)),
    (("years",), ("How old was the tree?", "How long did she reign?"), 12, ("months",)),
    (("litres", "liters", "l"), ("How much water is in the tank?", "How much does the jar hold?"), 1000, ("ml",)),
    (("dollars", "US dollars"), ("What did the painting cost?", "how much was paid for the land"), 100, ("cents",)),
    (("miles",), ("How long is the trail?", "How far did he walk?"), 0, ("kilometres", "feet")),
    (("feet", "ft"), ("How tall is the statue?", "how high is the waterfall"), 12, ("inches",)),
    (("per cent", "%", "percent"), ("What share of the votes did he get?", "How much of the soil is sand?"), 0, ("per mille",)),
    (("degrees Celsius", "°C"), ("How hot is the spring?", "At what temperature does it melt?"), 0, ("degrees Fahrenheit", "°F")),
)  # fmt: skip
_COUNTED = (
    "How many bridges cross the river?", "how many people live in the town", "How many pages does the book have?",
    "How many students are there?", "What is the number of islands?", "how many soldiers took part",
    "How many copies were sold?", "How many seats does the hall have?", "What is the population?",
)  # fmt: skip


def number_forms(count: int, rng: random.Random) -> Iterator[Form]:
    """Yield numbers in digits, in words and in other units, and numbers that differ in a digit, size or unit."""
    for _ in range(count):
        entailed = rng.random() < 0.5
        number = _some_number(rng)
        if rng.random() < 0.5:
            said = number if entailed else _other_number(number, rng)
            yield Form(rng.choice(_COUNTED), _about(_spelled(said, rng), rng), _spelled(number, rng), entailed)
            continue
        units, questions, factor, small = rng.choice(_UNITS)
        question, gold = rng.choice(questions), f"{_spelled(number, rng)} {rng.choice(units)}"
        if entailed and factor and rng.random() < 0.3:
            said = f"{_spelled(number * factor, rng)} {rng.choice(small)}"
        elif entailed:
            said = f"{_spelled(number, rng)} {rng.choice(units)}"
        elif rng.random() < 0.3:
            said = f"{_spelled(number, rng)} {rng.choice(small)}"  # right number, wrong unit
        else:
            said = f"{_spelled(_other_number(number, rng), rng)} {rng.choice(units)}"
        yield Form(question, _about(said, rng), gold, entailed)


def _some_number(rng: random.Random) -> int:
    return rng.choice(
        [
            rng.randint(2, 20),
            rng.randint(2, 99),
            rng.randint(100, 999),
            rng.randint(1, 99) * 100,
            rng.randint(1000, 99_999),
            rng.randint(1, 99) * 100_000,
            rng.randint(1, 40) * 1_000_000,
        ]
    )


def _other_number(number: int, rng: random.Random) -> int:
    digits = list(str(number))
    place = rng.randrange(len(digits))
    digits[place] = rng.choice([digit for digit in "123456789" if digit != digits[place]])
    changed = [int("".join(digits)), number * 10, number + rng.randint(1, 9), number * 2, number // 10 or number + 1]
    return rng.choice(changed)


def _spelled(number: int, rng: random.Random) -> str:
    ways = [str(number), f"{number:,}"]
    if number < 20_000 or number % 1000 == 0:
        words = num2words(number).replace(",", "")
        ways += [words, words.replace("-", " ")]
    if number >= 1_000_000 and number % 100_000 == 0:
        ways += [f"{number / 1_000_000:g} million"] * 2
    elif number >= 10_000 and number % 1000 == 0:
        ways.append(f"{number // 1000} thousand")
    elif number >= 1100 and number % 100 == 0 and number % 1000:
        ways.append(f"{num2words(number // 100)} hundred")
    if number in (6, 12, 24, 36):
        ways.append({6: "half a dozen", 12: "a dozen", 24: "two dozen", 36: "three dozen"}[number])
    return rng.choice(ways)


_ABOUT = (
    "{}", "{}", "{}", "It is {}", "There are {}", "{} in all", "exactly {}", "It comes to {}", "The answer is {}",
    "{}, counting everything", "{}, the last of them added later", "It has {} altogether", "{}, or so they say",
)  # fmt: skip


def _about(said: str, rng: random.Random) -> str:
    return rng.choice(_ABOUT).format(said)


_WHEN = (
    "When was the bridge opened?", "when did the ship sink", "On which date was she born?", "When did the king die?",
    "What day was the treaty signed?", "when was the first issue printed", "On what date did the strike begin?",
)  # fmt: skip
_WHICH_YEAR = (
    "In which year was the bridge opened?", "what year did the ship sink", "In what year was she born?",
    "Which year did the king die?", "what year was the club founded",
)  # fmt: skip


def date_forms(count: int, rng: random.Random) -> Iterator[Form]:
    """Yield dates in other formats or more precise than asked for, and others or less precise ones."""
    for _ in range(count):
        day = datetime.date(rng.randint(1500, 2020), rng.randint(1, 12), rng.randint(1, 28))
        entailed = rng.random() < 0.5
        if rng.random() < 0.4:
            ways = [
                str(day.year),
                num2words(day.year, to="year"),
                *_written(day, with_year=True),
                f"{day:%B} {day.year}",
            ]
            other = day.replace(year=max(1, day.year + rng.choice([-100, -10, -9, -3, -1, 1, 2, 7, 10, 50, 100])))
            wrong = [
                str(other.year),
                f"{other:%B} {other.year}",
                *_written(other, True),
                f"the {day.year // 10 * 10}s",
            ]
            wrong.append(f"the {num2words(day.year // 100 + 1, to='ordinal')} century")
            said = rng.choice(ways if entailed else wrong)
            yield Form(rng.choice(_WHICH_YEAR), _on(said, rng), str(day.year), entailed)
            continue
        with_year = rng.random() < 0.8
        gold = rng.choice(_written(day, with_year))
        if entailed:
            said = rng.choice(_written(day, with_year))
        else:
            changed = [
                day.replace(day=day.day % 28 + 1),
                day.replace(month=(day.month + rng.randint(0, 10)) % 12 + 1),
                *([day.replace(year=day.year + rng.choice([-10, -1, 1, 2, 10]))] if with_year else []),
            ]
            vague = [f"{day:%B} {day.year}", str(day.year)] if with_year else [f"{day:%B}"]
            said = rng.choice(vague) if rng.random() < 0.3 else rng.choice(_written(rng.choice(changed), with_year))
        yield Form(rng.choice(_WHEN), _on(said, rng), gold, entailed)


def _written(day: datetime.date, with_year: bool) -> list[str]:
    month, ordinal = f"{day:%B}", num2words(day.day, to="ordinal_num")
    ways = [f"{day.day} {month}", f"{month} {day.day}", f"the {ordinal} of {month}", f"{month} {ordinal}"]
    ways += [f"the {num2words(day.day, to='ordinal')} of {month}", f"{day:%b} {day.day}"]
    if not with_year:
        return ways
    spoken = num2words(day.year, to="year")
    dated = [f"{way}, {day.year}" if way.startswith((month, f"{day:%b}")) else f"{way} {day.year}" for way in ways]
    return [*dated, f"{ways[2]} {spoken}", day.isoformat()]


def _on(said: str, rng: random.Random) -> str:
    return rng.choice(["{}", "{}", "It was {}", "That happened on {}", "It dates from {}", "{}, I think"]).format(said)


def yes_no_forms(statements: Sequence[tuple[str, str, str]], count: int, rng: random.Random) -> Iterator[Form]:
    """Turn NLI pairs into yes/no questions, answered by a statement or in words.

    Args:
        statements: (premise, hypothesis, ``entailment|neutral|contradiction``).
        count: of forms.
        rng: of every choice.
    """
    openings = ("Is it true that {}?", "is it the case that {}", "Can one say that {}?", "Does it hold that {}?")
    for premise, hypothesis, label in rng.sample(statements, min(count, len(statements))):
        claim = hypothesis.rstrip(" .")
        question = rng.choice(openings).format(claim[:1].lower() + claim[1:])
        answer = rng.choice(["yes", "no"])
        fate = rng.random()
        if fate < 0.65:
            response, truth = premise, {"entailment": "yes", "contradiction": "no"}.get(label)
        elif fate < 0.95:
            truth = rng.choice(["yes", "no"])
            response = rng.choice(_YES if truth == "yes" else _NO)
        else:
            response, truth = rng.choice(_UNSURE), None
        yield Form(question, response, answer, truth == answer)


def any_of(answers: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern for one of the answers as whole words, in any case, the longest first."""
    spellings = "|".join(re.escape(answer) for answer in sorted(answers, key=len, reverse=True))
    return re.compile(rf"(?<!\w)({spellings})(?!\w)", re.IGNORECASE)


def paragraph_forms(
    paragraphs: Sequence[tuple[str, str, Sequence[str], str]], count: int, rng: random.Random
) -> Iterator[Form]:
    """Yield paragraphs that state the answer, state another in its place, or leave it out.

    Args:
        paragraphs: (question, text that states the answer, spellings of the answer, another answer of its kind).
        count: of forms.
        rng: of every choice.
    """
    for question, text, answers, other in rng.sample(paragraphs, min(count, len(paragraphs))):
        pattern = any_of(answers)
        sentences = re.split(r"(?<=[.!?])\s+", text)
        holding = [at for at, sentence in enumerate(sentences) if pattern.search(sentence)]
        silent = [sentence for sentence in sentences if not pattern.search(sentence)]
        if not holding:
            continue
        start = max(0, rng.choice(holding) - rng.randint(0, 2))
        shown = " ".join(sentences[start : start + 3])
        stated = pattern.findall(shown)[0]
        fate = rng.random()
        if fate < 0.5:
            yield Form(question, shown, stated, True)
        elif fate < 0.85 or not silent:
            yield Form(question, pattern.sub(other.replace("\\", ""), shown), stated, False)
        else:
            yield Form(question, " ".join(silent[:3]), stated, False)
