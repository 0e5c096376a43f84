"""Guesses: several candidates at once, near misses, wrong answers of one kind, right ones in other words, word salads.

A policy that is paid for its answers, and a reader that is not sure, write texts near the answer: "Canberra, Sydney",
"after Canberra", "Jane Marsh" for Jane Austen, "deep deep no". Texts of this shape that state the answer are added.
All are generated from questions with answers of one kind and from passages, for this project.
"""

import random
import re
from collections.abc import Iterator, Sequence

from .answer_forms import Fact, Form
from .answer_modifiers import PEOPLE, PLACES
from .answer_statements import statement
from .guess_words import (
    ABOUT_PEOPLE,
    BESIDE_OTHERS,
    BODIES,
    CLOSED,
    COUNTRIES,
    HOMES,
    INITIALS,
    JOINED,
    NATIONS,
    NEAR_MISSES,
    NO_WORDS,
    PEOPLE_MISSED,
    SAID,
    SALAD,
    STILL_STATED,
    TRADES,
    YES_WORDS,
)
from .substitution import words_of

_SMALL_WORDS = frozenset({
    "a", "an", "the", "of", "in", "on", "at", "by", "to", "for", "from", "with", "and", "or", "is", "was", "are",
    "were", "it", "de", "la", "le", "von", "van", "der",
})  # fmt: skip


def guess_forms(facts: Sequence[Fact], passages: Sequence[str], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield guesses that state the answer or do not, a fifth of them of each kind.

    Args:
        facts: Questions with right and wrong answers.
        passages: Texts that words of salads are taken from.
        count: About how many forms.
        rng: Source of every choice.
    """
    vocabulary = sorted({word for text in passages for word in text.split()})
    usual = [fact for fact in facts if not TRADES & {fact.answers[0]}]  # a person may have two trades
    for _ in range(count // 5):
        yield _candidates(rng.choice(usual), rng)
        yield _near_miss(rng.choice(facts), rng)
        yield _same_kind(rng.choice(facts), rng)
        yield _other_words(rng.choice(facts), rng) if rng.random() < 0.7 else _other_name(rng)
        yield _salad(rng.choice(facts), vocabulary, rng) if rng.random() < 0.6 else _closed(vocabulary, rng)


def _form(fact: Fact, said: str, answer: str, entailed: bool, rng: random.Random, turned: float) -> Form:
    """Return a form; with the chance ``turned``, of the answer as the response."""
    said = said[:1].upper() + said[1:] if rng.random() < 0.4 else said.lower() if rng.random() < 0.1 else said
    pair = (answer, said) if rng.random() < turned else (said, answer)
    return Form(fact.question, *pair, entailed)


def _candidates(fact: Fact, rng: random.Random) -> Form:
    """Return two to four candidates, the answer with its region or an apposition, or a list for an answer of two."""
    answer, chance = rng.choice(fact.answers), rng.random()
    if chance < 0.35:
        return _form(fact, _apposition(fact, answer, rng), answer, True, rng, 0.4)
    if chance < 0.45:
        b, c = rng.sample(fact.others, 2)
        return _form(fact, rng.choice(BESIDE_OTHERS).format(a=answer, b=b, c=c), answer, True, rng, 0.1)
    if chance < 0.6:
        return _two_asked(fact, answer, rng)
    more = rng.choice([1, 1, 1, 2, 3])
    items = [
        answer if rng.random() < 0.9 else rng.choice(fact.others),
        *rng.sample(fact.others, min(more, len(fact.others))),
    ]
    rng.shuffle(items)
    join = rng.choice(JOINED)
    if len(items) == 2:
        said = join.format(*items)
    else:
        glue = rng.choice([", ", ", ", "; ", " / ", " ", "\n", " or ", " and ", ". ", " - "])
        said = join.format(glue.join(items[:-1]), items[-1]) if rng.random() < 0.5 else glue.join(items)
    said = rng.choice(SAID).format(said) if rng.random() < 0.3 else said
    return _form(fact, said, answer, False, rng, 0.2)


def _two_asked(fact: Fact, answer: str, rng: random.Random) -> Form:
    """Return a list for an answer that has two parts: both in some order, one of them, or another in its place."""
    other, wrong = rng.sample(fact.others, 2)
    gold = rng.choice(["{} and {}", "{} and {}", "{}, {}", "{} & {}"]).format(answer, other)
    if rng.random() < 0.6:
        both = rng.sample([answer, other], 2)
        said = rng.choice(
            ["{} and {}", "{}, {}", "{} as well as {}", "both {} and {}", "{} plus {}", "{}\n{}"]
        ).format(*both)
        return _form(fact, rng.choice(SAID[:5]).format(said), gold, True, rng, 0.3)
    part = rng.choice([answer, other])
    said = rng.choice([part, f"only {part}", f"{part} alone", f"{part} and {wrong}", f"{wrong}, {part}"])
    return _form(fact, said, gold, False, rng, 0.1)


def _apposition(fact: Fact, answer: str, rng: random.Random) -> str:
    """Return an answer with what does not change it: a land, a job, years, the noun that was asked for."""
    kinds = ["{a}, of course", "the famous {a}", "{a}, as everybody knows", "{a} (so the guide says)", "{a}, no doubt"]
    noun = re.search(r"\b(?:which|what) (?!is|was|are|were|did|does|do|has|had|will)([a-z]+)\b", fact.question.lower())
    if answer in HOMES:
        kinds = ["{a}, {home}", "{a}, {home}", "{a} ({home})", "{a} in {home}", "the city of {a}", "{a} city"]
    elif _is_person(fact, answer):
        kinds = list(ABOUT_PEOPLE)
    elif noun and not answer[0].isdigit():
        kinds += [f"{{a}}, the {noun[1]}", f"the {noun[1]} {{a}}", f"{{a}} (the {noun[1]})"]
    born = rng.randint(1400, 1970)
    return rng.choice(kinds).format(a=answer, born=born, died=born + rng.randint(20, 90), home=HOMES.get(answer))


def _near_miss(fact: Fact, rng: random.Random) -> Form:
    """Return the answer with a word that makes it another, or with one that does not."""
    answer = rng.choice(fact.answers)
    person = _is_person(fact, answer)
    if rng.random() < 0.5:
        said = rng.choice(STILL_STATED + (ABOUT_PEOPLE if person else ())).format(
            a=answer, born=rng.randint(1400, 1900), died=rng.randint(1901, 1970)
        )
        return _form(fact, said, answer, True, rng, 0.4)
    said = rng.choice(PEOPLE_MISSED if person and rng.random() < 0.5 else NEAR_MISSES).format(a=answer)
    return _form(fact, said, answer, False, rng, 0.3)


def _same_kind(fact: Fact, rng: random.Random) -> Form:
    """Return another answer of the same kind, short, or the answer in the same wording."""
    answer = rng.choice(fact.answers)
    wording = rng.choice(SAID) if rng.random() < 0.5 else "{}"
    chance = rng.random()
    if chance < 0.35:
        return _form(fact, wording.format(rng.choice(fact.answers)) + rng.choice(["", "."]), answer, True, rng, 0.3)
    wrong = rng.choice(fact.others)
    if chance > 0.75 and (mixed := _mixed(answer, wrong, rng)) and not _same(mixed, fact.answers):
        wrong = mixed
    return _form(fact, wording.format(wrong), answer, False, rng, 0.4)


def _mixed(answer: str, other: str, rng: random.Random) -> str | None:
    """Return an answer with one of its capitalised words replaced by a word of another: Jane Marsh for Jane Austen."""
    words, new = answer.split(), [word for word in other.split() if word[0].isupper() and len(word) > 2]
    places = [at for at, word in enumerate(words) if word[0].isupper() and len(word) > 2]
    if len(words) < 2 or not places or not new:
        return None
    words[rng.choice(places)] = rng.choice(new)
    return " ".join(words)


def _same(text: str, answers: Sequence[str]) -> bool:
    """Return whether a text has all the words of an answer."""
    return any(words_of(answer) - _SMALL_WORDS <= words_of(text) for answer in answers)


def _other_words(fact: Fact, rng: random.Random) -> Form:
    """Return a whole sentence that is built of the question, or a name in another form; right or wrong."""
    answer, wrong = rng.choice(fact.answers), rng.choice(fact.others)
    right = rng.random() < 0.65
    stated = answer if right else wrong
    if _is_person(fact, answer) and _is_person(fact, stated) and rng.random() < 0.7:
        *first, last = stated.split()
        short = "".join(f"{name[0]}. " for name in first)
        middle = rng.choice([rng.choice(PEOPLE).split()[0], rng.choice("ABCDEFGHJLMRST") + "."])
        said = rng.choice(
            [last, last, last, f"{short}{last}", f"{last}, {' '.join(first)}", f"{first[0][0]}. {last}"]
            + [f"{first[0]} {middle} {last}"] * 3
        )
        return _form(fact, said, answer, right, rng, 0.3)
    said = statement(fact.question, stated) or rng.choice(SAID).format(stated)
    return _form(fact, said + rng.choice([".", "", "."]), answer, right, rng, 0.3)


def _other_name(rng: random.Random) -> Form:
    """Return an official name, initials or a firm's name for the usual one, of the same or of another."""
    names, questions = rng.choice([(COUNTRIES, NATIONS), (INITIALS, BODIES)])
    pair, other = rng.sample(names, 2)
    question, right = rng.choice(questions), rng.random() < 0.6
    answer = rng.choice(pair)
    said = rng.choice([name for name in pair if name != answer]) if right else rng.choice(other)
    return _form(
        Fact(question, pair, other),
        rng.choice(SAID).format(said) if rng.random() < 0.3 else said,
        answer,
        right,
        rng,
        0.3,
    )


def _closed(vocabulary: Sequence[str], rng: random.Random) -> Form:
    """Return a yes/no question with a statement that answers it, a word that does, both, or words that do not."""
    closed, (p, q), (t, u) = rng.choice(CLOSED), rng.sample(PLACES, 2), rng.sample(PEOPLE, 2)
    question, affirmed, denied = (
        [text.format(p=p, q=q, t=t, u=u) for text in texts] for texts in ((closed[0],), *closed[1:])
    )
    answer = rng.choice(["yes", "no"])
    fact = Fact(question[0], (answer,), ("no" if answer == "yes" else "yes",))
    chance = rng.random()
    if chance < 0.15:
        said = rng.choice(JOINED).format(*rng.sample(["yes", "no"], 2))
        return _form(fact, said, answer, False, rng, 0.1)
    if chance < 0.5:
        return _salad(fact, vocabulary, rng)
    truth = rng.choice(["yes", "no"])
    words = ("yes", "Yes.", "true", "correct") if truth == "yes" else ("no", "No.", "false", "not at all")
    said = rng.choice([rng.choice(affirmed if truth == "yes" else denied), rng.choice(words)])
    return _form(fact, said, answer, truth == answer, rng, 0.1)


def _salad(fact: Fact, vocabulary: Sequence[str], rng: random.Random) -> Form:
    """Return one to eight words that state nothing, with no word of the answer."""
    answer = rng.choice(fact.answers)
    banned = set(words_of(" ".join(fact.answers)) - _SMALL_WORDS)
    for word, said_so in (("yes", YES_WORDS), ("no", NO_WORDS)):
        banned |= said_so if word in banned else frozenset()
    pools: tuple[Sequence[str], ...] = (
        vocabulary,
        fact.question.rstrip("?").split(),
        SALAD,
        SALAD,
        rng.sample(vocabulary, 2),
    )
    length, pool = rng.randint(1, 8), [rng.choice(pools), rng.choice(pools)]
    words = [rng.choice(rng.choice(pool)) for _ in range(length)]
    if rng.random() < 0.25:
        words = words[: rng.randint(1, 3)] * rng.choice([2, 3, 6, 12])
    words = [word for word in words if not words_of(word) & banned] or ["deep"]
    said = rng.choice([" ", " ", " ", " ", ", ", "; ", " - ", "\n", ". "]).join(words)
    said = rng.choice([said, said, said, said.lower(), said.upper(), said.title()])
    pair = (answer, said) if rng.random() < 0.15 else (said, answer)
    return Form(fact.question, *pair, False)


def _is_person(fact: Fact, answer: str) -> bool:
    asks = re.search(r"\bwho(?:se|m)?\b", fact.question.lower())
    other = re.search(r"\b(sings?|sang|band|team|won|plays? for|owns?|group|company|country)\b", fact.question.lower())
    return bool(
        asks and not other and re.fullmatch(r"[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){1,2}", answer)
    ) and not answer.startswith("The ")
