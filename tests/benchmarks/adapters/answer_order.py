"""Who did what to whom: statements and their reverse, relations turned round, names exchanged, parts for the whole.

A model that compares bags of words takes "Karl Moss hired Ida Voss" for the answer "Ida Voss" to "Who hired Karl
Moss?". Next to each text that only has the words of the answer stands one that states it. There are also times in
words, refusals, terms with Greek letters, amounts and bounds. All are generated from lists, for this project.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace

import yaml

from tests.benchmarks.adapters.answer_forms import Form, listed
from tests.benchmarks.adapters.near_names import person, place

_words = SimpleNamespace(**yaml.safe_load(Path(__file__).with_name("order.yaml").read_text(encoding="utf-8")))
_HELD_OUT = 6  # every sixth verb and relation is only measured


def order_forms(count: int, rng: Random, held_out: bool = False) -> Iterator[Form]:
    """Yield texts that state an answer or reverse it, about half of each; ``held_out`` has verbs of its own."""
    makers: Sequence[Callable[[Random, bool], Form]] = (
        *[_deed] * 14, *[_relation] * 4, *[_made] * 2, *[_compared] * 3, *[_exchanged] * 2, *[_part] * 3, _refusal,
        *[_time] * 2, _term, *[_measure] * 4, *[_bound] * 2,
    )  # fmt: skip
    for _ in range(count):
        question, text, gold, entailed = rng.choice(makers)(rng, held_out)
        if rng.random() < 0.3:
            text = text[:1].upper() + text[1:] + ("." if text[-1:].isalnum() else "")
        yield Form(question, text, gold, entailed)


def _pick(rows: Sequence[list[str]], rng: Random, held_out: bool) -> list[str]:
    return rng.choice([row for at, row in enumerate(rows) if (at % _HELD_OUT == 0) == held_out])


def _name(rng: Random) -> str:
    return rng.choice([person, person, person, person, place])(rng)


def _both_ways(question: str, text: str, gold: str, entailed: bool, rng: Random, back: float = 0.35) -> Form:
    return Form(question, *((gold, text) if rng.random() < back else (text, gold)), entailed)


def _deed(rng: Random, held_out: bool) -> Form:
    """Return a statement of a deed, or its reverse; the answer did it or suffered it."""
    symmetric = rng.random() < 0.08
    did, suffered, do = _pick(_words.symmetric if symmetric else _words.verbs, rng, held_out and not symmetric)
    one, two, third = person(rng), person(rng), person(rng)
    when = str(rng.choice(_words.when)).format(year=rng.randint(1500, 2020), place=place(rng))
    late = when if rng.random() < 0.6 else ""
    by_doer = rng.random() < 0.6
    gold, other = (one, two) if by_doer else (two, one)
    asked = [f"Who {did} {two}{when}?"] if by_doer else [f"Who did {one} {do}{when}?", f"Whom did {one} {do}{when}?"]
    if suffered and by_doer:
        asked.append(f"By whom was {two} {suffered.removesuffix(' by')}{when}?")
    elif suffered:
        asked.append(f"Who was {suffered} {one}{when}?")
    question = rng.choice(asked)
    if rng.random() < 0.2:
        question = question[:-1].lower()

    def told(doer: str, target: str) -> str:
        ways = [f"{doer} {did} {target}{late}"] * 3 + [f"It was {doer} who {did} {target}{late}"]
        ways += [f"{doer}, who {did} {target}", f"{doer} {did} {target}, not {third}", f"{doer} {did} {target}{when}"]
        ways += [f"{when.strip().capitalize()}, {doer} {did} {target}"] * bool(when)
        if suffered:
            ways += [f"{target} was {suffered} {doer}{late}"] * 3 + [f"{target}, who was {suffered} {doer}"]
        return str(rng.choice(ways))

    chance = rng.random()
    if chance < 0.42:
        return _both_ways(question, told(one, two), gold, True, rng)
    if chance < 0.82:
        return _both_ways(question, told(two, one), gold, symmetric, rng)
    if chance < 0.88:
        return Form(question, other, gold, False)
    if chance < 0.94 and by_doer:
        text = rng.choice([f"{gold} did", f"it was {gold}", f"{gold}{late}", f"{gold} {did} them"])
        return _both_ways(question, text, gold, True, rng)
    return Form(question, told(third, two) if by_doer else told(one, third), gold, False)


def _relation(rng: Random, held_out: bool) -> Form:
    """Return a relation of the question with its two people in their places, or turned round."""
    kinds = [[each] for each in _words.relations]
    (kind,), (other,) = _pick(kinds, rng, held_out), _pick(kinds, rng, held_out)
    gold, subject, third = _name(rng), person(rng), person(rng)
    question = rng.choice([
        f"Who was the {kind} of {subject}?", f"Who was {subject}'s {kind}?", f"who is {subject}'s {kind}",
        f"Name the {kind} of {subject}.", f"What was the name of {subject}'s {kind}?",
    ])  # fmt: skip
    if rng.random() < 0.42:
        text = rng.choice([
            f"{gold} was the {kind} of {subject}", f"{subject}'s {kind} was {gold}", f"{subject}'s {kind}, {gold}",
            f"{gold}, the {kind} of {subject}", f"the {kind} of {subject} was {gold}", f"{gold}, {subject}'s {kind}",
            f"the {kind} was {gold}", f"{gold} was the {kind}", f"it was {gold}", f"{subject}'s {kind} {gold}",
            f"{gold}, who was the {kind} of {third} as well",
        ])  # fmt: skip
        return _both_ways(question, text, gold, True, rng)
    text = rng.choice([
        f"the {kind} of {gold}", f"{gold}'s {kind}", f"the {kind} of {gold}", f"{gold}'s {kind}",
        f"{subject} was the {kind} of {gold}", f"{gold}'s {kind} was {subject}", f"{subject}, {gold}'s {kind}",
        f"the {other} of {gold}", f"{gold}'s {other}", f"{gold}'s {kind}, {third}", f"{third}, the {kind} of {gold}",
        f"{gold} was the {other} of {third}", f"{third} was {subject}'s {kind}", f"{subject}'s {kind}", f"the {kind}",
    ])  # fmt: skip
    return _both_ways(question, text, gold, False, rng)


def _made(rng: Random, held_out: bool) -> Form:
    """Return the maker of a thing, or the thing of the maker's name."""
    verb, thing = _pick(_words.made, rng, held_out)
    gold, subject = person(rng), person(rng)
    question = rng.choice(
        [f"Who {verb} the {thing}?", f"Who {verb} the {thing} of {subject}?", f"who {verb} {subject}'s {thing}"]
    )
    if rng.random() < 0.5:
        text = rng.choice([f"{gold} {verb} it", f"the {thing} was {verb} by {gold}", f"{gold} {verb} the {thing}",
                           f"{gold} {verb} the {thing} of {subject}", f"{gold}, who {verb} the {thing}"])  # fmt: skip
        return _both_ways(question, text, gold, True, rng)
    text = rng.choice([f"the {thing} of {gold}", f"{gold}'s {thing}", f"{subject} {verb} the {thing} of {gold}",
                       f"{subject} {verb} {gold}'s {thing}", f"a pupil of {gold} {verb} it"])  # fmt: skip
    return _both_ways(question, text, gold, False, rng)


def _compared(rng: Random, held_out: bool) -> Form:
    more, less = _pick(_words.compared, rng, held_out)
    if rng.random() < 0.5:
        more, less = less, more
    gold, other = _name(rng), _name(rng)
    question = rng.choice([f"Who or what is {more} {other}?", f"Which is {more} the other, {gold} or {other}?",
                           f"Who was {more} {other}?"])  # fmt: skip
    right = rng.random() < 0.5
    one, two = (gold, other) if right else (other, gold)
    text = rng.choice([f"{one} is {more} {two}", f"{two} is {less} {one}", f"{one} was {more} {two}"])
    return _both_ways(question, text, gold, right, rng)


def _exchanged(rng: Random, _: bool) -> Form:
    """Return an answer of two names in their places, or with the names exchanged; of a list both are right."""
    form, (one, two) = rng.choice(_words.events), ([_name(rng), _name(rng)])
    question = rng.choice(["What was the result?", "Who did what?", "What were the roles?", "How was it divided?"])
    gold, chance = form.format(one, two), rng.random()
    if chance < 0.3:
        pair = [one, two, person(rng)][: rng.choice([2, 3])]
        shuffled = rng.sample(pair, len(pair))
        return Form("Who were they?", listed(shuffled), listed(pair), True)
    if chance < 0.55:
        text = rng.choice(["{}", "it was {}", "{}, as far as I know", "The answer is: {}", "I believe {}"])
        return Form(question, text.format(gold), gold, True)
    text = form.format(two, one) if chance < 0.85 else form.format(one, person(rng))
    return Form(question, text, gold, False)


def _part(rng: Random, _: bool) -> Form:
    """Return a town for "town, land", which is right, or the land alone, or another of either."""
    gold_town, town, (land, other_land), who = place(rng), place(rng), rng.sample(_words.lands, 2), person(rng)
    question = str(rng.choice(_words.where_asked)).format(p=who)
    gold = rng.choice([f"{gold_town}, {land}", f"{gold_town} ({land})", f"{gold_town} in {land}"])
    chance = rng.random()
    said = str(rng.choice(_words.said[:5]))
    if chance < 0.42:
        text = said.format(rng.choice([gold_town, gold_town, f"in {gold_town}", f"the city of {gold_town}", gold]))
        return _both_ways(question, text, gold, True, rng)
    if chance < 0.5:
        asked = ["In which country was it?", "Which country is it in?", "What country was it?"]
        return Form(rng.choice(asked), gold, land, True)
    wrong = rng.choice([land, land, land, f"in {land}", f"{town}, {land}", f"{gold_town}, {other_land}", town])
    return _both_ways(question, said.format(wrong), gold, False, rng)


def _refusal(rng: Random, _: bool) -> Form:
    gold, text = rng.sample(_words.refusals, 2)
    asked = rng.choice([*_words.where_asked, "What is {p}'s favourite dish?", "How old is {p}?"])
    question = str(asked).format(p=person(rng))
    chance = rng.random()
    if chance < 0.55:
        return Form(question, text, gold, True)
    answer = rng.choice([_name(rng), str(rng.randint(2, 99)), str(rng.randint(1500, 2020)), "yes", "no"])
    pair = (answer, gold) if chance < 0.8 else (gold, answer)
    return Form(question, pair[0], pair[1], False)


def _time(rng: Random, held_out: bool) -> Form:
    right = rng.random() < 0.5
    ways = _pick(_words.times, rng, held_out)
    gold, *others = rng.sample(ways, len(ways))
    text = rng.choice(others) if right else rng.choice(rng.choice([row for row in _words.times if row is not ways]))
    return Form(rng.choice(_words.when_asked), str(rng.choice(_words.said)).format(text), gold, right)


def _term(rng: Random, _: bool) -> Form:
    form, (one, two) = rng.choice(_words.terms), rng.sample(_words.letters, 2)
    right = rng.random() < 0.55
    text = str(rng.choice(_words.said)).format(form.format(one if right else two))
    question = rng.choice(["Which one is it?", "What is it called?", "What was measured?", "How large is it?"])
    return Form(question, text, form.format(one), right)


def _measure(rng: Random, _: bool) -> Form:
    """Return an amount with words that change nothing, or that make it another amount."""
    questions, units, words = rng.choice(_words.measures)
    question = rng.choice(questions).format(t=rng.choice(_words.made)[1], p=person(rng))
    amount = f"{rng.choice([rng.randint(2, 99), rng.randint(100, 9000)])} {rng.choice(units)}"
    more = f"{amount} {rng.choice(words)}"
    if rng.random() < 0.6:
        other = f"{amount} {rng.choice(words)}"
        gold, text = rng.choice([(amount, more), (amount, more), (more, amount), (more, other)])
        return Form(question, str(rng.choice(_words.said[:5])).format(text), gold, True)
    text = str(rng.choice(_words.amount_changed)).format(amount)
    return _both_ways(question, text, rng.choice([amount, more]), False, rng)


def _bound(rng: Random, _: bool) -> Form:
    """Return a bound in other words, or another bound of the same number."""
    number, question = rng.randint(2, 99), rng.choice(_words.bounds_asked)
    kind, other = rng.sample(_words.bounds, 2)
    right = rng.random() < 0.5
    gold, text = rng.choice(kind), rng.choice(kind if right else other)
    return Form(question, text.format(number), gold.format(number), right)
