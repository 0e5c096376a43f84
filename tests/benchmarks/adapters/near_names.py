"""Made-up names, numbers and dates, and names, offices, initials and nouns that are near another."""

import random
import re
from collections.abc import Callable
from typing import NamedTuple

from tests.benchmarks.adapters import vocabulary

words = vocabulary("second")


def last_name(rng: random.Random) -> str:
    return f"{rng.choice(words.last_starts)}{rng.choice(words.last_ends)}"


def person(rng: random.Random) -> str:
    """Return a person: first name, sometimes a middle name or its initial, last name."""
    middle = f"{rng.choice('ABCDEFGHJKLMNPRSTW')}. " if rng.random() < 0.1 else ""
    middle = f"{rng.choice(words.first_names)} " if rng.random() < 0.1 else middle
    return f"{rng.choice(words.first_names)} {middle}{last_name(rng)}"


def place(rng: random.Random) -> str:
    made_up = rng.choice(list(words.homes)), rng.choice(words.last_starts) + rng.choice(words.place_ends)
    return str(rng.choice(made_up))


def title(rng: random.Random) -> str:
    first, second, third = rng.sample(words.title_words, 3)
    forms = (f"The {first} {second}", f"{first} and {second}", f"{first} of the {second}", f"A {third} {first}")
    return rng.choice(forms)


def body(rng: random.Random) -> str:
    return rng.choice([
        f"{rng.choice(words.regions)} {rng.choice(words.topics)} {rng.choice(words.bodies)}",
        f"{rng.choice(words.bodies)} for {rng.choice(words.topics)} in {rng.choice(words.regions)}",
        f"{last_name(rng)} & {last_name(rng)} Ltd.", f"{place(rng)} {rng.choice(words.clubs)}",
    ])  # fmt: skip


def number(rng: random.Random) -> str:
    return rng.choice([
        str(rng.randint(3, 99)), f"{rng.randint(1000, 90_000):,}", f"{rng.randint(2, 98)}%",
        f"{rng.randint(20, 999)} {rng.choice(['metres', 'km'])}", f"${rng.randint(2, 900)},000",
        f"{rng.randint(2, 90)} million",
    ])  # fmt: skip


def date(rng: random.Random) -> str:
    month = rng.choice(["January", "March", "April", "June", "July", "August", "October", "December"])
    year = rng.randint(1450, 2020)
    days = f"{rng.randint(1, 28)} {month} {year}", f"{month} {rng.randint(1, 28)}, {year}"
    return rng.choice([str(year), *days, month])


#: Makers of answers by kind.
MAKERS: dict[str, Callable[[random.Random], str]] = {
    "person": person, "place": place, "title": title, "organisation": body, "number": number, "date": date,
    "thing": lambda rng: rng.choice(words.nouns),
}  # fmt: skip


class Said(NamedTuple):
    """A text and the answer that it states or does not state."""

    text: str
    gold: str
    entailed: bool
    mutual: bool = True  # whether the same holds with text and answer exchanged


def topic(rng: random.Random) -> str:
    return str(rng.choice(words.subjects)).format(place=place(rng), person=last_name(rng))


def _question(kind: str, rng: random.Random) -> str:
    return str(rng.choice(words.asked[kind])[0]).format(t=topic(rng))


def _near_person(rng: random.Random) -> tuple[str, Said]:
    first, other_first = rng.sample(words.first_names, 2)
    if rng.random() < 0.4:
        other_first = rng.choice([name for name in words.first_names if name[0] == first[0]])
    last, one, two = last_name(rng), *rng.sample("ABCDEFGHJKLMNPRSTW", 2)
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


def _near_place(rng: random.Random) -> tuple[str, Said]:
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


def _relative(rng: random.Random) -> tuple[str, Said]:
    name, (one, other) = person(rng), rng.sample(words.relatives, 2)
    question = _question("person", rng)
    gold, same = f"the {one} of {name}", f"{name}'s {one}"
    if rng.random() < 0.5:
        gold, same = same, gold
    if rng.random() < 0.42:
        return question, Said(rng.choice([same, f"it was {same}", same]), gold, True)
    wrong = [name, f"the {other} of {name}", f"{name}'s {other}", f"the {one} of {person(rng)}", f"{name}, the {one}"]
    return question, Said(rng.choice(wrong), gold, False)


def _office(rng: random.Random) -> tuple[str, Said]:
    one, other = rng.sample(words.offices, 2)
    land, other_land = rng.sample(words.countries, 2)
    question, gold = "Who signed the order?", f"the {one} of {land[0]}"
    if rng.random() < 0.4:
        same = rng.choice([f"the {land[1]} {one}", f"{land[0]}'s {one}"])
        return question, Said(same, gold, True)
    wrong = [f"the {other} of {land[0]}", f"the {one} of {other_land[0]}", f"the {one}'s envoy in {land[0]}",
             f"the deputy {one} of {land[0]}", f"the {land[1]} {other}"]  # fmt: skip
    return question, Said(rng.choice(wrong), gold, False)


def _organisation(rng: random.Random) -> tuple[str, Said]:
    club, other = rng.sample(words.clubs, 2)
    town, question = place(rng), "Which club won the shield?"
    if rng.random() < 0.5:
        return question, Said(f"{town} {other}", f"{town} {club}", False)
    if rng.random() < 0.5:
        form = rng.choice(["{} FC", "FC {}", "the {}", "{} F.C.", "the team of {}"])
        return question, Said(form.format(f"{town} {club}"), f"{town} {club}", True)
    name = f"{last_name(rng)} & {last_name(rng)}"
    texts = [f"{name} Limited", name.replace("&", "and"), f"{name.replace('&', 'and')} Ltd", f"the {name} company"]
    return "Which firm built it?", Said(rng.choice(texts), rng.choice([name, f"{name} Ltd."]), True)


def _acronym(rng: random.Random) -> tuple[str, Said]:
    if rng.random() < 0.4:
        (name, short), (_, other) = rng.sample(words.acronyms, 2)
    else:
        name = f"{rng.choice(words.regions)} {rng.choice(words.topics)} {rng.choice(words.bodies)}"
        short = "".join(word[0] for word in re.findall(r"[A-Z]\w+", name))
        other = "".join(rng.sample(short, len(short))) if rng.random() < 0.4 else rng.choice(words.acronyms)[1]
    question, right = "Which organisation runs it?", rng.random() < 0.65 or other == short
    if rng.random() < 0.25:
        return question, Said(rng.choice([f"the {name} ({short})", f"{short} ({name})"]), name, True)
    text = rng.choice(["{}", "the {}", "it is {}"]).format(short if right else other)
    text = text.replace(short, ".".join(short) + ".") if right and rng.random() < 0.15 else text
    return question, Said(text, name, right)


def _closed(rng: random.Random) -> tuple[str, Said]:
    question, yes, no, *_ = rng.choice(words.compared)
    one, two = place(rng), place(rng)
    gold, truth = rng.choice(["yes", "no"]), rng.choice(["yes", "no"])
    said = rng.choice(yes if truth == "yes" else no).format(a=one, b=two)
    if rng.random() < 0.3:
        said = f"{truth}, {said}" if rng.random() < 0.7 else f"{said}, so {truth}"
    return question.format(a=one, b=two), Said(said, gold, truth == gold)


def _noun(rng: random.Random) -> tuple[str, Said]:
    chance = rng.random()
    if chance < 0.35:
        one, many = rng.choice(words.plurals)
        return "What was found there?", Said(rng.choice([many, f"the {many}"]), rng.choice([one, f"the {one}"]), True)
    if chance < 0.65:
        (land, adjective, *_), (other, *_) = rng.sample(words.countries, 2)
        right = rng.random() < 0.6
        text = rng.choice(words.origin).format(land if right else other)
        return "What nationality did the owner have?", Said(text, adjective, right)
    wide, narrow = rng.choice(words.nouns), rng.choice(["bronze", "wild", "double", "royal", "lesser", "northern"])
    if chance < 0.85:
        return "What was found there?", Said(wide, f"{narrow} {wide}", False, mutual=False)
    return "What was found there?", Said(f"{narrow} {wide}", wide, True, mutual=False)


#: Each returns a question, and a text that states its answer or a near one.
NEAR = (
    _near_person, _near_person, _near_place, _relative, _office, _organisation, _acronym, _closed, _closed, _noun,
)  # fmt: skip
