"""Other names of one thing and names that are confused with it, opposites, and one fact stated from both of its ends.

"Sodium chloride" is table salt and "hypotension" is not hypertension; "B borrowed it from A" answers who lent it. All
are generated from a list of words, for this project.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from random import Random
from types import SimpleNamespace

import yaml
from num2words import num2words

from tests.benchmarks.adapters.answer_forms import Form
from tests.benchmarks.adapters.near_names import person, place

words = SimpleNamespace(**yaml.safe_load(Path(__file__).with_name("lexicon.yaml").read_text(encoding="utf-8")))


def lexicon_forms(count: int, rng: Random) -> Iterator[Form]:
    """Yield names, opposites and statements, about half of which state the answer."""
    makers: Sequence[Callable[[Random], Form]] = (
        *[named] * 5, *[opposite] * 4, *[_predicate] * 4, *[_traded] * 4, *[_short] * 2, *[_dated] * 3,
    )  # fmt: skip
    for _ in range(count):
        question, text, gold, entailed = rng.choice(makers)(rng)
        if rng.random() < 0.3 and len(text.split()) < 4 and not text.startswith(("it ", "that ")):
            text = rng.choice(["It was {}.", "It is {}.", "{}.", "The answer is {}.", "{}, I think"]).format(text)
        yield Form(question, *((gold, text) if rng.random() < 0.4 else (text, gold)), entailed)


def named(rng: Random) -> Form:
    kind = rng.choice([kind for kind in words.same for _ in kind["groups"]])
    question, groups = rng.choice(kind["asked"]), kind["groups"]
    names = rng.choice(groups)
    gold = rng.choice(names)
    if len(names) > 1 and rng.random() < 0.55:
        return Form(question, rng.choice([name for name in names if name != gold]), gold, True)
    others = [name for group in groups if group is not names for name in group]
    rng.shuffle(others)
    nearest = max(others[: rng.choice([1, 5, 60])], key=lambda name: SequenceMatcher(None, name, gold).ratio())
    return Form(question, nearest, gold, False)


def opposite(rng: Random) -> Form:
    question, *sides = rng.choice(words.opposites)
    side, other = rng.sample(sides, 2)
    gold = rng.choice(side)
    if len(side) > 1 and rng.random() < 0.5:
        return Form(question, rng.choice([name for name in side if name != gold]), gold, True)
    return Form(question, rng.choice(other), gold, False)


def _filler(kind: str, rng: Random) -> str:
    if kind in ("person", "place"):
        return person(rng) if kind == "person" else place(rng)
    return str(rng.choice(words.fill[kind]))


def _predicate(rng: Random) -> Form:
    (question, true, false), kind = rng.choice(list(zip(words.predicates, words.fillers, strict=True)))
    gold, other = _filler(kind, rng), _filler(kind, rng)
    subject = (
        f"{place(rng)} {rng.choice(words.things)}" if "the {x}" in question and "flow" not in question else place(rng)
    )
    chance = rng.random()
    if chance < 0.5 or gold == other:
        return Form(question.format(x=subject), rng.choice(true).format(a=gold, x=subject), gold, True)
    text = rng.choice(true).format(a=other, x=subject) if chance < 0.7 else rng.choice(false).format(a=gold, x=subject)
    return Form(question.format(x=subject), text, gold, False)


def _traded(rng: Random) -> Form:
    thing = rng.choice(words.goods)
    gave, took, give, take = (form.format(t=thing) for form in rng.choice(words.trades))
    giver, taker = person(rng), person(rng)
    to_whom = f"To whom did {giver} {give.removesuffix(' to')}?" if give.endswith(" to") else f"Who {took} {giver}?"
    by_take = f"From whom did {taker} {take.removesuffix(' from')}?"
    from_whom = by_take if take.endswith(" from") else f"Who {gave} {taker}?"
    by_name = [(giver, f"Who {gave} {taker}?"), (taker, f"Who {took} {giver}?")]
    questions = [*by_name, (taker, to_whom), (giver, from_whom)]
    gold, asked = rng.choice(questions)
    right = rng.random() < 0.5
    one, two = (giver, taker) if right else (taker, giver)
    text = rng.choice(
        [f"{one} {gave} {two}", f"{two} {took} {one}", f"it was {one} who {gave} {two}", f"{two}, who {took} {one}"]
    )
    return Form(asked, text, gold, right)


def _short(rng: Random) -> Form:
    """Return a made-up organisation and its short name, or that of another."""
    parts = [rng.choice(words.heads), *rng.sample(words.middles, rng.choice([1, 1, 2])), rng.choice(words.tails)]
    name = " ".join(parts) if len(parts) == 3 else f"{parts[0]} {parts[1]} and {parts[2]} {parts[3]}"
    letters = "".join(part[0] for part in parts)
    question = rng.choice(["Which organisation is it?", "Who published the report?", "Who paid for the study?"])
    if rng.random() < 0.55:
        text = rng.choice([letters, f"{name} ({letters})", f"the {letters}", ".".join(letters) + "."])
        return Form(question, text, name, True)
    at = rng.randrange(len(parts))
    pool = words.heads if at == 0 else words.tails if at == len(parts) - 1 else words.middles
    changed = rng.choice([word for word in pool if word[0] != letters[at]])
    other = [*parts[:at], changed, *parts[at + 1 :]]
    return Form(question, rng.choice(["".join(part[0] for part in other), " ".join(other)]), name, False)


def _dated(rng: Random) -> Form:
    """Return a decade, a part of a year or a year before Christ in other words, or another one."""
    year, chance = rng.randint(1700, 2020), rng.random()
    if chance < 0.35:
        decade, other = (rng.randrange(1710, 2000, 10) // 10 * 10 for _ in range(2))
        gold = f"the {decade}s"
        spoken = [f"{num2words(of // 100)} {words.tens[of % 100 // 10]}" for of in (decade, other)]
        texts = [f"the {spoken[0]}", f"in the {spoken[0].replace(' ', '-')}", gold]
        texts += [f"the {words.tens[decade % 100 // 10]} of that century"] * (decade % 100 >= 20)
        if rng.random() < 0.5 or spoken[0] == spoken[1] or decade % 100 < 20:
            return Form(rng.choice(words.decade_asked), rng.choice(texts), gold, True)
        return Form(rng.choice(words.decade_asked), rng.choice([f"the {spoken[1]}", f"the {other}s"]), gold, False)
    if chance < 0.7:
        one, other = rng.sample(words.parts_of_year, 2)
        right = rng.random() < 0.5
        question, text = rng.choice(words.when_asked), rng.choice(one if right else other)
        return Form(question, text.format(year), rng.choice(one).format(year), right)
    day = f"{rng.choice(words.months)} {rng.randint(1, 28)}, {year}"
    if rng.random() < 0.6:
        question, text = rng.choice(words.year_asked), rng.choice(["{}", "in {}", "it was in {}", "that was {}"])
        return Form(question, text.format(year), day, True)
    wrong = rng.choice([str(year + rng.choice([-10, -1, 1, 10])), day.split(",")[0], day.split()[0]])
    return Form(rng.choice(words.year_asked), wrong, day, False)
