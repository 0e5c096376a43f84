"""Made-up names, numbers and dates, and names, offices, initials and nouns that are near another."""

import re
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from tests.benchmarks.adapters import vocabulary

words = vocabulary("second")
_LETTERS = "ABCDEFGHJKLMNPRSTW"


class Said(NamedTuple):
    """A text and the answer that it states or does not state."""

    text: str
    gold: str
    entailed: bool
    mutual: bool = True  # whether the same holds with text and answer exchanged


Asked = tuple[str, Said]  # a question, and a text that states its answer or a near one


def last_name(rng: Random) -> str:
    return f"{rng.choice(words.last_starts)}{rng.choice(words.last_ends)}"


def person(rng: Random) -> str:
    middle = f"{rng.choice(_LETTERS)}. " if rng.random() < 0.1 else ""
    middle = f"{rng.choice(words.first_names)} " if rng.random() < 0.1 else middle
    return f"{rng.choice(words.first_names)} {middle}{last_name(rng)}"


def place(rng: Random) -> str:
    found = rng.choice(list(words.homes)), rng.choice(words.last_starts) + rng.choice(words.place_ends)
    return str(rng.choice(found))


def _title(rng: Random) -> str:
    one, two, three = rng.sample(words.title_words, 3)
    return rng.choice([f"The {one} {two}", f"{one} and {two}", f"{one} of the {two}", f"A {three} {one}"])


def _institution(rng: Random) -> str:
    return f"{rng.choice(words.regions)} {rng.choice(words.topics)} {rng.choice(words.bodies)}"


def _organisation(rng: Random) -> str:
    return rng.choice([
        _institution(rng), f"{rng.choice(words.bodies)} for {rng.choice(words.topics)} in {rng.choice(words.regions)}",
        f"{last_name(rng)} & {last_name(rng)} Ltd.", f"{place(rng)} {rng.choice(words.clubs)}",
    ])  # fmt: skip


def _number(rng: Random) -> str:
    return rng.choice([
        str(rng.randint(3, 99)), f"{rng.randint(1000, 90_000):,}", f"{rng.randint(2, 98)}%",
        f"{rng.randint(20, 999)} {rng.choice(['metres', 'km'])}", f"${rng.randint(2, 900)},000",
        f"{rng.randint(2, 90)} million",
    ])  # fmt: skip


def _date(rng: Random) -> str:
    month = rng.choice(["January", "March", "April", "June", "July", "August", "October", "December"])
    year = rng.randint(1450, 2020)
    days = f"{rng.randint(1, 28)} {month} {year}", f"{month} {rng.randint(1, 28)}, {year}"
    return rng.choice([str(year), *days, month])


#: Makers of answers by kind.
MAKERS: dict[str, Callable[[Random], str]] = {
    "person": person, "place": place, "title": _title, "organisation": _organisation, "number": _number,
    "date": _date, "thing": lambda rng: rng.choice(words.nouns),
}  # fmt: skip


def topic(rng: Random) -> str:
    """Return the subject of a question."""
    return str(rng.choice(words.subjects)).format(place=place(rng), person=last_name(rng))


def _question(kind: str, rng: Random) -> str:
    return str(rng.choice(words.asked[kind])[0]).format(t=topic(rng))


def _near_person(rng: Random) -> Asked:
    first, other_first = rng.sample(words.first_names, 2)
    if rng.random() < 0.4:
        other_first = rng.choice([name for name in words.first_names if name[0] == first[0]])
    last, one, two = last_name(rng), *rng.sample(_LETTERS, 2)
    rank, other_rank = rng.sample(words.ranks, 2)
    name, other_last = f"{first} {last}", last_name(rng)
    form = rng.choice(words.namesakes) if rng.random() < 0.55 else None
    question = _question("person", rng)
    if form is not None and first != other_first:
        letters = {"i": one, "j": two, "r": rank, "q": other_rank}
        said, gold = (each.format(f=first, o=other_first, l=last, m=other_last, **letters) for each in form)
        return question, Said(said, gold, False)
    if rng.random() < 0.12:
        return question, Said(name, first, True, mutual=False)
    texts = [last, f"{last}, {first}", f"{first[0]}. {last}", f"{first} {one}. {last}", f"Mr. {name}",
             f"the {rng.choice(words.jobs)} {name}", f"Dr {name}", f"{name} himself",
             f"{first} {rng.choice(words.first_names)} {last}"]  # fmt: skip
    return question, Said(rng.choice(texts), name, True)


def _near_place(rng: Random) -> Asked:
    question = _question("place", rng)
    if rng.random() < 0.5:
        said, gold = rng.sample(rng.choice(words.near_places), 2)
        return question, Said(said, gold, False)
    town = place(rng)
    if rng.random() < 0.5:
        form = rng.choice(["New {}", "{}-Ostra", "{} Falls", "{} state", "Upper {}", "South {}", "{} province"])
        return question, Said(form.format(town), town, False)
    country, *names = rng.choice(words.countries)
    return "In which country did it happen?", Said(rng.choice(names[1:]), country, True)


def _relative(rng: Random) -> Asked:
    name, (one, other) = person(rng), rng.sample(words.relatives, 2)
    question = _question("person", rng)
    gold, same = f"the {one} of {name}", f"{name}'s {one}"
    if rng.random() < 0.5:
        gold, same = same, gold
    if rng.random() < 0.42:
        return question, Said(rng.choice([same, f"it was {same}", same]), gold, True)
    wrong = [name, f"the {other} of {name}", f"{name}'s {other}", f"the {one} of {person(rng)}", f"{name}, the {one}"]
    return question, Said(rng.choice(wrong), gold, False)


def _office(rng: Random) -> Asked:
    one, other = rng.sample(words.offices, 2)
    land, other_land = rng.sample(words.countries, 2)
    question, gold = "Who signed the order?", f"the {one} of {land[0]}"
    if rng.random() < 0.4:
        return question, Said(rng.choice([f"the {land[1]} {one}", f"{land[0]}'s {one}"]), gold, True)
    wrong = [f"the {other} of {land[0]}", f"the {one} of {other_land[0]}", f"the {one}'s envoy in {land[0]}",
             f"the deputy {one} of {land[0]}", f"the {land[1]} {other}"]  # fmt: skip
    return question, Said(rng.choice(wrong), gold, False)


def _near_organisation(rng: Random) -> Asked:
    club, other = rng.sample(words.clubs, 2)
    town, question = place(rng), "Which club won the shield?"
    if rng.random() < 0.5:
        return question, Said(f"{town} {other}", f"{town} {club}", False)
    if rng.random() < 0.5:
        form = rng.choice(["{} FC", "FC {}", "the {}", "{} F.C.", "the team of {}"])
        return question, Said(form.format(f"{town} {club}"), f"{town} {club}", True)
    name = f"{last_name(rng)} & {last_name(rng)}"
    spelled = name.replace("&", "and")
    texts = [f"{name} Limited", spelled, f"{spelled} Ltd", f"the {name} company"]
    return "Which firm built it?", Said(rng.choice(texts), rng.choice([name, f"{name} Ltd."]), True)


def acronym(rng: Random) -> Asked:
    """Return a body's initials for its name, or another's."""
    if rng.random() < 0.4:
        (name, short), (_, other) = rng.sample(words.acronyms, 2)
    else:
        name = _institution(rng)
        short = "".join(word[0] for word in re.findall(r"[A-Z]\w+", name))
        other = "".join(rng.sample(short, len(short))) if rng.random() < 0.4 else rng.choice(words.acronyms)[1]
    question, right = "Which organisation runs it?", rng.random() < 0.65 or other == short
    if rng.random() < 0.25:
        return question, Said(rng.choice([f"the {name} ({short})", f"{short} ({name})"]), name, True)
    text = rng.choice(["{}", "the {}", "it is {}"]).format(short if right else other)
    text = text.replace(short, ".".join(short) + ".") if right and rng.random() < 0.15 else text
    return question, Said(text, name, right)


def _closed(rng: Random) -> Asked:
    question, yes, no, *_ = rng.choice(words.compared)
    one, two = place(rng), place(rng)
    gold, truth = rng.choice(["yes", "no"]), rng.choice(["yes", "no"])
    said = rng.choice(yes if truth == "yes" else no).format(a=one, b=two)
    if rng.random() < 0.3:
        said = f"{truth}, {said}" if rng.random() < 0.7 else f"{said}, so {truth}"
    return question.format(a=one, b=two), Said(said, gold, truth == gold)


def _noun(rng: Random) -> Asked:
    chance, question = rng.random(), "What was found there?"
    if chance < 0.35:
        one, many = rng.choice(words.plurals)
        return question, Said(rng.choice([many, f"the {many}"]), rng.choice([one, f"the {one}"]), True)
    if chance < 0.65:
        (land, adjective, *_), (other, *_) = rng.sample(words.countries, 2)
        right = rng.random() < 0.6
        text = rng.choice(words.origin).format(land if right else other)
        return "What nationality did the owner have?", Said(text, adjective, right)
    wide, narrow = rng.choice(words.nouns), rng.choice(["bronze", "wild", "double", "royal", "lesser", "northern"])
    text, gold = (wide, f"{narrow} {wide}") if chance < 0.85 else (f"{narrow} {wide}", wide)
    return question, Said(text, gold, chance >= 0.85, mutual=False)


NEAR = (
    _near_person, _near_person, _near_place, _relative, _office, _near_organisation, acronym, _closed, _closed, _noun,
)  # fmt: skip
