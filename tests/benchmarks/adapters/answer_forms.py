"""Forms of answers that an entailment model must understand and that EVOUNA and NLI sets rarely have.

The forms are negation and correction, hedging between alternatives, lists, numbers and units, dates, yes and no by a
statement, an answer inside (or missing from) a paragraph, and answers of one type that are easily confused (London for
Paris). They are generated from questions with answers of one kind, for this project.
"""

import datetime
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from num2words import num2words

from tests.benchmarks.adapters import vocabulary

words, _types = vocabulary("forms"), vocabulary("types")


class AnswerType(NamedTuple):
    """Spellings of answers that exclude each other, and questions that each of them could answer."""

    members: tuple[tuple[str, ...], ...]
    questions: tuple[str, ...]


#: Members are written as "red, grey = gray".
TYPES = tuple(
    AnswerType(tuple(tuple(member.split(" = ")) for member in kind["members"].split(", ")), tuple(kind["questions"]))
    for kind in _types.types
)


class Form(NamedTuple):
    """A question, a response, an answer, and whether the response states the answer."""

    question: str
    response: str
    answer: str
    entailed: bool


class Fact(NamedTuple):
    """A question, the spellings of its answer, and answers of the same kind that are wrong."""

    question: str
    answers: tuple[str, ...]
    others: tuple[str, ...]


def confusable_forms(count: int, rng: random.Random) -> Iterator[Form]:
    """Yield two spellings of one answer, or two answers of one type."""
    for _ in range(count):
        kind = rng.choice(TYPES)
        question, gold = rng.choice(kind.questions), rng.choice(kind.members)
        chance = rng.random()
        if chance < 0.4:
            said = rng.choice(_types.forms[3:] if len(gold) == 1 else _types.forms).format(a=rng.choice(gold))
        elif chance < 0.92:
            other = rng.choice([member for member in kind.members if member != gold])
            said = rng.choice(_types.forms).format(a=rng.choice(other))
        else:
            said = rng.choice(_types.evasions)
        pair = [said[0].upper() + said[1:] if rng.random() < 0.5 else said, rng.choice(gold)]
        if rng.random() < 0.3:
            pair.reverse()
        yield Form(question, pair[0], pair[1], chance < 0.4)


def stated_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield responses that state, deny, correct or hedge the answer."""
    for _ in range(count):
        fact = rng.choice(facts)
        answer, (b, c) = rng.choice(fact.answers), rng.sample(fact.others, 2)
        entailed = rng.random() < 0.5
        # a last name stands for a person, too
        known_by_last_name = fact.question.lower().startswith("who") and re.fullmatch(r"[A-Z]\w+ [A-Z]\w+", answer)
        name = answer.split()[-1] if known_by_last_name and rng.random() < 0.3 else answer
        response = rng.choice(words.stated if entailed else words.not_stated).format(a=name, b=b, c=c)
        # aliases of a date or number may differ in meaning (1973, October 1973), so that both sides take the same
        gold = answer if any(character.isdigit() for character in answer) else rng.choice(fact.answers)
        yield Form(fact.question, response[0].upper() + response[1:], gold, entailed)


def list_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield lists that are complete in another order, and lists with an item left out or replaced."""
    questions = ("Name the {n}.", "Which {n} are meant?", "Which are the {n}?", "what are the {n}", "Who are the {n}?")
    for _ in range(count):
        size = rng.choice([2, 3, 3, 4])
        pool = rng.choice(facts).others
        if len(pool) < size + 1:
            continue
        *items, extra = rng.sample(pool, size + 1)
        shuffled, entailed = rng.sample(items, size), True
        if rng.random() < 0.5:
            entailed = False
            place = rng.randrange(size)
            shuffled = [*shuffled[:place], *([] if rng.random() < 0.5 else [extra]), *shuffled[place + 1 :]]
        question = rng.choice(questions).format(n=num2words(size))
        form = rng.choice(["{}", "{}", "They are {}", "{}, these are the ones", "First {}"])
        yield Form(question, form.format(_joined(shuffled, rng)), _joined(items, rng), entailed)


def listed(items: Sequence[str]) -> str:
    """Return a list in words."""
    return f"{', '.join(items[:-1])} and {items[-1]}"


def _joined(items: Sequence[str], rng: random.Random) -> str:
    if len(items) == 1:
        return items[0]
    last = rng.choice([" and ", ", ", ", and ", " as well as ", " & "])
    return ", ".join(items[:-1]) + last + items[-1]


def number_forms(count: int, rng: random.Random) -> Iterator[Form]:
    """Yield equal numbers in digits, words and other units, and numbers that differ in a digit, size or unit."""
    for _ in range(count):
        entailed = rng.random() < 0.5
        number = _some_number(rng)
        if rng.random() < 0.5:
            value = number if entailed else _other_number(number, rng)
            yield Form(rng.choice(words.counted), _about(_spelled(value, rng), rng), _spelled(number, rng), entailed)
            continue
        units, questions, factor, small = rng.choice(words.units)
        question, gold = rng.choice(questions), f"{_spelled(number, rng)} {rng.choice(units)}"
        if entailed and factor and rng.random() < 0.3:
            quantity = f"{_spelled(number * factor, rng)} {rng.choice(small)}"
        elif entailed:
            quantity = f"{_spelled(number, rng)} {rng.choice(units)}"
        elif rng.random() < 0.3:
            quantity = f"{_spelled(number, rng)} {rng.choice(small)}"  # right number, wrong unit
        else:
            quantity = f"{_spelled(_other_number(number, rng), rng)} {rng.choice(units)}"
        yield Form(question, _about(quantity, rng), gold, entailed)


def _some_number(rng: random.Random) -> int:
    scales = ((2, 20, 1), (2, 99, 1), (100, 999, 1), (1, 99, 100), (1000, 99_999, 1), (1, 99, 100_000))
    return rng.choice([rng.randint(low, high) * size for low, high, size in (*scales, (1, 40, 1_000_000))])


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


def _about(quantity: str, rng: random.Random) -> str:
    return str(rng.choice(words.about)).format(quantity)


def date_forms(count: int, rng: random.Random) -> Iterator[Form]:
    """Yield equal dates in other formats or more precise, and dates that differ or are less precise."""
    for _ in range(count):
        day = datetime.date(rng.randint(1500, 2020), rng.randint(1, 12), rng.randint(1, 28))
        entailed = rng.random() < 0.5
        if rng.random() < 0.4:
            ways = [str(day.year), num2words(day.year, to="year"), *_written(day, True), f"{day:%B} {day.year}"]
            other = day.replace(year=max(1, day.year + rng.choice([-100, -10, -9, -3, -1, 1, 2, 7, 10, 50, 100])))
            wrong = [str(other.year), f"{other:%B} {other.year}", *_written(other, True)]
            century = num2words(day.year // 100 + 1, to="ordinal")
            wrong += [f"the {day.year // 10 * 10}s", f"the {century} century"]
            date = rng.choice(ways if entailed else wrong)
            yield Form(rng.choice(words.which_year), _on(date, rng), str(day.year), entailed)
            continue
        with_year = rng.random() < 0.8
        gold = rng.choice(_written(day, with_year))
        if entailed:
            date = rng.choice(_written(day, with_year))
        else:
            changed = [
                day.replace(day=day.day % 28 + 1),
                day.replace(month=(day.month + rng.randint(0, 10)) % 12 + 1),
                *([day.replace(year=day.year + rng.choice([-10, -1, 1, 2, 10]))] if with_year else []),
            ]
            vague = [f"{day:%B} {day.year}", str(day.year)] if with_year else [f"{day:%B}"]
            date = rng.choice(vague) if rng.random() < 0.3 else rng.choice(_written(rng.choice(changed), with_year))
        yield Form(rng.choice(words.when), _on(date, rng), gold, entailed)


def _written(day: datetime.date, with_year: bool) -> list[str]:
    month, ordinal = f"{day:%B}", num2words(day.day, to="ordinal_num")
    ways = [f"{day.day} {month}", f"{month} {day.day}", f"the {ordinal} of {month}", f"{month} {ordinal}"]
    ways += [f"the {num2words(day.day, to='ordinal')} of {month}", f"{day:%b} {day.day}"]
    if not with_year:
        return ways
    spoken = num2words(day.year, to="year")
    dated = [f"{way}, {day.year}" if way.startswith((month, f"{day:%b}")) else f"{way} {day.year}" for way in ways]
    return [*dated, f"{ways[2]} {spoken}", day.isoformat()]


def _on(date: str, rng: random.Random) -> str:
    return rng.choice(["{}", "{}", "It was {}", "That happened on {}", "It dates from {}", "{}, I think"]).format(date)


def yes_no_forms(statements: Sequence[tuple[str, str, str]], count: int, rng: random.Random) -> Iterator[Form]:
    """Turn NLI pairs into yes/no questions, answered by a statement or in words."""
    openings = ("Is it true that {}?", "is it the case that {}", "Can one say that {}?", "Does it hold that {}?")
    for premise, hypothesis, label in rng.sample(statements, min(count, len(statements))):
        claim = hypothesis.rstrip(" .")
        question = rng.choice(openings).format(claim[:1].lower() + claim[1:])
        answer = rng.choice(["yes", "no"])
        chance = rng.random()
        if chance < 0.65:
            response, truth = premise, {"entailment": "yes", "contradiction": "no"}.get(label)
        elif chance < 0.95:
            truth = rng.choice(["yes", "no"])
            response = rng.choice(words.yes if truth == "yes" else words.no)
        else:
            response, truth = rng.choice(words.unsure), None
        yield Form(question, response, answer, truth == answer)


def any_of(answers: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern for one of the answers as whole words, in any case, the longest first."""
    spellings = "|".join(re.escape(answer) for answer in sorted(answers, key=len, reverse=True))
    return re.compile(rf"(?<!\w)({spellings})(?!\w)", re.IGNORECASE)


def paragraph_forms(
    paragraphs: Sequence[tuple[str, str, Sequence[str], str]], count: int, rng: random.Random
) -> Iterator[Form]:
    """Yield paragraphs that state the answer, state another in its place, or leave it out."""
    for question, text, answers, other in rng.sample(paragraphs, min(count, len(paragraphs))):
        pattern = any_of(answers)
        sentences = re.split(r"(?<=[.!?])\s+", text)
        answer_places = [at for at, sentence in enumerate(sentences) if pattern.search(sentence)]
        other_sentences = [sentence for sentence in sentences if not pattern.search(sentence)]
        if not answer_places:
            continue
        start = max(0, rng.choice(answer_places) - rng.randint(0, 2))
        excerpt = " ".join(sentences[start : start + 3])
        alias = pattern.findall(excerpt)[0]
        chance = rng.random()
        if chance < 0.5:
            yield Form(question, excerpt, alias, True)
        elif chance < 0.85 or not other_sentences:
            yield Form(question, pattern.sub(other.replace("\\", ""), excerpt), alias, False)
        else:
            yield Form(question, " ".join(other_sentences[:3]), alias, False)
