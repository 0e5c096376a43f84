"""Texts that an entailment model takes for an answer although they say nothing, and long texts that do answer.

They are unrelated prose and gibberish of all lengths, words of the question given back, lists of everything, denials,
phrases that could stand for any answer; beside them answers at any place of a long text, so that length decides
nothing. All are generated from questions with answers of one kind and from passages, for this project.
"""

import random
import string
from collections.abc import Callable, Iterator, Sequence

from tests.benchmarks.adapters import vocabulary
from tests.benchmarks.adapters.answer_forms import Fact, Form, any_of

_words = vocabulary("traps")
LONGEST = 78  # words of a generated text: about the 96 tokens that the model is fed at most


def prose_forms(facts: Sequence[Fact], passages: Sequence[str], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield prose that has nothing to do with the question, of all lengths; in some of it the answer is stated."""
    for _ in range(count):
        fact = rng.choice(facts)
        words = _prose(fact, passages, rng.randint(3, LONGEST), rng)
        chance = rng.random()
        if chance < 0.3:
            said = rng.choice(_words.said).format(a=rng.choice(fact.answers))
            yield Form(fact.question, _with(words[: LONGEST - 10], said, rng), rng.choice(fact.answers), True)
        elif chance < 0.4:
            said = rng.choice(_words.said).format(a=rng.choice(fact.others))
            yield Form(fact.question, _with(words[: LONGEST - 10], said, rng), rng.choice(fact.answers), False)
        elif chance < 0.5:
            yield Form(fact.question, rng.choice(fact.answers), " ".join(words), False)
        else:
            yield Form(fact.question, " ".join(words), rng.choice(fact.answers), False)


def _prose(fact: Fact, passages: Sequence[str], length: int, rng: random.Random) -> list[str]:
    pattern, words = any_of(fact.answers), list[str]()
    while len(words) < length:
        text = rng.choice(passages)
        if not pattern.search(text):
            words += text.split()[rng.randrange(12) if rng.random() < 0.3 else 0 :]
    return words[:length]


def _with(words: Sequence[str], said: str, rng: random.Random) -> str:
    ends = [at + 1 for at, word in enumerate(words) if word.endswith(".")]
    place = rng.choice([0, len(words), len(words), *ends])
    return " ".join([*words[:place], said, *words[place:]])


def gibberish_forms(facts: Sequence[Fact], passages: Sequence[str], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield repeated words, random words, characters and markup of all lengths, as responses and as answers."""
    known = sorted({word for text in passages for word in text.split()})

    def letters() -> str:
        return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9)))

    def phrase(length: int) -> list[str]:
        return rng.choices(known, k=length)

    makers: Sequence[Callable[[Fact, int], list[str]]] = (
        lambda fact, length: [rng.choice(_words.marks)] * length,
        lambda fact, length: [rng.choice(known)] * length,
        lambda fact, length: phrase(length),
        lambda fact, length: rng.choices(_words.marks, k=length),
        lambda fact, length: [letters() for _ in range(length)],
        lambda fact, length: (phrase(rng.randint(2, 6)) * length)[:length],
        lambda fact, length: rng.choices([rng.choice(known), rng.choice(_words.marks), letters()], k=length),
        lambda fact, length: rng.choices(fact.question.split(), k=length),
        lambda fact, length: [str(rng.randint(0, 10 ** rng.randint(1, 6))) for _ in range(length)],
        lambda fact, length: (rng.choice(_words.nothing_said).split() * length)[:length],
    )
    for _ in range(count):
        fact = rng.choice(facts)
        length = rng.choice([rng.randint(1, 8), rng.randint(4, LONGEST), rng.randint(30, LONGEST)])
        said, answer = " ".join(rng.choice(makers)(fact, length)), rng.choice(fact.answers)
        if any_of(fact.answers).search(said):
            continue
        pair = (answer, said) if rng.random() < 0.15 else (said, answer)
        yield Form(fact.question, *pair, False)


def echo_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield words of the question given back as its answer, and phrases that would fit every question."""
    for _ in range(count):
        fact = rng.choice(facts)
        if any_of(fact.answers).search(fact.question):
            continue
        words, answer = fact.question.rstrip("?. ").split(), rng.choice(fact.answers)
        start = rng.randrange(len(words))
        rests = (
            words[-1:], words[-2:], words[-3:], words[start : start + rng.randint(1, 6)], words[1:], words[2:],
            words * rng.randint(1, 5), [*words[1:], "?"], [fact.question],
        )  # fmt: skip
        echo = " ".join(rng.choice(rests)[:LONGEST])
        chance = rng.random()
        if chance < 0.2:
            echo = rng.choice(_words.nothing_said)
        elif chance < 0.35:
            echo = rng.choice(_words.said_alone).format(a=echo)
        elif chance < 0.45:
            echo = f"{echo} {rng.choice(_words.nothing_said)}"
        echo = echo[:1].upper() + echo[1:] if rng.random() < 0.4 else echo
        if chance > 0.9:
            said = rng.choice(_words.said_alone).format(a=answer)
            yield Form(fact.question, f"{fact.question} {said}", answer, True)
        elif answer.lower() not in ("yes", "no", "true", "false"):
            pair = (answer, echo) if rng.random() < 0.15 else (echo, answer)
            yield Form(fact.question, *pair, False)


def shotgun_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield lists of many candidates, the answer among them or not: a list of everything states nothing."""
    for _ in range(count):
        fact = rng.choice(facts)
        answer = rng.choice(fact.answers)
        wrong = rng.sample(fact.others, min(len(fact.others), rng.choice([2, 3, 4, 6, 9, 13, 20, 25])))
        items = [*wrong]
        if rng.random() < 0.8:
            items.insert(rng.randint(0, len(items)), answer)
        said = str(rng.choice(_words.listed)).format(rng.choice(_words.joined).join(items))
        yield Form(fact.question, *((answer, said) if rng.random() < 0.1 else (said, answer)), False)


def denied_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield denials of the answer, and the answer beside the denial of another, in both directions."""
    for _ in range(count):
        fact = rng.choice(facts)
        answer, other = rng.choice(fact.answers), rng.choice(fact.others)
        chance = rng.random()
        if chance < 0.45:
            yield Form(fact.question, rng.choice(_words.denied).format(a=answer), answer, False)
        elif chance < 0.55:
            yield Form(fact.question, answer, rng.choice(_words.denied).format(a=answer), False)
        elif chance < 0.65:
            yield Form(fact.question, rng.choice(_words.denied).format(a=other), answer, False)
        elif chance < 0.75:
            said = f"{rng.choice(_words.denied).format(a=other)}, it is {answer}"
            yield Form(fact.question, said, answer, True)
        elif chance < 0.9:
            yield Form(fact.question, answer, rng.choice(_words.said_alone).format(a=answer), True)
        else:
            yield Form(fact.question, answer, rng.choice(_words.said_alone).format(a=other), False)


def asked_kindly(question: str, rng: random.Random) -> str:
    """Return a question in a sentence of politeness, which changes nothing about its answer."""
    return str(rng.choice(_words.asked_kindly)).format(question[:1].lower() + question[1:])
