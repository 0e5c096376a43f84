"""Second guesses, qualifiers, near names, and right answers in other words.

A text with a second candidate, with a word that makes the answer another one ("after the war"), or with a name that
differs by a word shares most of its words with the answer, and does not state it. Next to these stand texts of the
same shape that do. All are generated from questions with answers of one kind, and from names made up here.
"""

import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.benchmarks.adapters.answer_forms import Fact, Form, listed
from tests.benchmarks.adapters.near_names import MAKERS, NEAR, Said, person, topic, words

_ACCENTS = {"a": "áàâä", "e": "éèêë", "i": "íîï", "o": "óôöø", "u": "úûü", "c": "čç", "s": "šś", "z": "žź", "n": "ñń"}


class Asked(NamedTuple):
    """A question with its answer: what a generator varies."""

    kind: str  # person, organisation, place, number, date, title, thing, or other
    question: str
    gold: str
    others: Sequence[str]
    statements: Sequence[str] = ()  # statements that answer the question, with {a} for the answer


def second_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield second guesses, qualifiers, near names and right wordings, about half of which state the answer."""
    makers: Sequence[Callable[[Asked, random.Random], Said | None]] = (
        guess, guess, guess, guess, _apposition, _apposition, _apposition, qualifier, qualified_gold,
        _wording, _wording, _wording, _sentence, _sentence,
    )  # fmt: skip
    made = 0
    while made < count:
        if rng.random() < 0.27:
            question, said = rng.choice(NEAR)(rng)
        else:
            asked = _of_fact(rng.choice(facts), rng) if rng.random() < 0.45 else _invented(rng)
            found = rng.choice(makers)(asked, rng)
            if found is None:
                continue
            question, said = asked.question, found
        if said.text.lower() == said.gold.lower():
            continue
        yield _form(question, said, rng)
        made += 1


def _form(question: str, said: Said, rng: random.Random) -> Form:
    text, gold, entailed, mutual = said
    chance = rng.random()
    text = text[:1].upper() + text[1:] if chance < 0.4 else text.lower() if chance < 0.46 else text
    pair = (gold, text) if mutual and rng.random() < 0.42 else (text, gold)
    return Form(question, *pair, entailed)


def _invented(rng: random.Random) -> Asked:
    kind = rng.choice(words.all_kinds)
    distinct = list(dict.fromkeys(MAKERS[kind](rng) for _ in range(9)))
    while len(distinct) < 4:
        distinct = list(dict.fromkeys([*distinct, MAKERS[kind](rng)]))
    question, *statements = rng.choice(words.asked[kind])
    subject = topic(rng)
    # at times with another description of what was asked
    full = f"{subject}, {rng.choice(words.heads)}," if rng.random() < 0.1 else subject
    question = question.format(t=subject)
    return Asked(kind, question, distinct[0], distinct[1:], [each.format(t=full, a="{a}") for each in statements])


def _of_fact(fact: Fact, rng: random.Random) -> Asked:
    gold = rng.choice(fact.answers)
    kind = _kind(fact.question.lower(), gold)
    return Asked(kind, fact.question, gold, fact.others, _statements(fact.question))


def _kind(question: str, gold: str) -> str:
    if re.search(r"\b(1\d{3}|20\d\d)\b", gold):
        return "date"
    if any(character.isdigit() for character in gold):
        return "number"
    if re.match(r"who\b(?!.*\b(team|band|won|owns|sings?|sang|plays? for)\b)", question):
        return "person" if re.fullmatch(r"[A-Z][\w.'-]*( [A-Z][\w.'-]*){1,2}", gold) else "other"
    if re.search(r"\b(where|city|country|town|capital|river|village|island)\b", question) and gold[:1].isupper():
        return "place"
    if re.search(r"\b(film|movie|novel|book|song|album|play)\b", question) and gold[:1].isupper():
        return "title"
    return "other"


def _statements(question: str) -> list[str]:
    asked = question.strip().rstrip("?. ").replace("{", "").replace("}", "")
    if match := re.fullmatch(r"(?:who|what|which \w+) (is|was|are|were) (the .+|.+'s \w+)", asked, re.IGNORECASE):
        return [f"{match[2]} {match[1]} {{a}}", f"{{a}} {match[1]} {match[2]}"]
    if match := re.fullmatch(r"where (is|are|was|were) (.+)", asked, re.IGNORECASE):
        return [f"{match[2]} {match[1]} in {{a}}"]
    if match := re.fullmatch(r"who ((?!is|was|are|were|did|does|do|will|has)\w+ .+)", asked, re.IGNORECASE):
        return [f"{{a}} {match[1]}", f"it was {{a}} who {match[1]}"]
    if match := re.fullmatch(r"how many (.+?) (are|were) (?:there )?(in .+)", asked, re.IGNORECASE):
        return [f"there {match[2]} {{a}} {match[1]} {match[3]}"]
    return []


# several candidates


def guess(asked: Asked, rng: random.Random) -> Said:
    more = rng.choice([1, 1, 1, 1, 1, 2, 3])
    items = [asked.gold, *rng.sample(list(asked.others), min(more, len(asked.others)))]
    rng.shuffle(items)
    if len(items) == 2:
        text = rng.choice(words.guesses).format(*items)
    else:
        glue = rng.choice([", ", ", ", "; ", " / ", " ", "\n", " or ", " - ", " | "])
        text = rng.choice(words.more_guesses).format(items[0], glue.join(items[1:-1]), items[-1], all=glue.join(items))
    if rng.random() < 0.12 and len(items) < 4:  # a list that is the answer, in another order or with an item left out
        gold = listed(items)
        left_out = rng.random() < 0.5
        rng.shuffle(items)
        kept = items[1:] if left_out else items
        return Said(rng.choice([", ", " and ", " & "]).join(kept), gold, not left_out)
    return Said(rng.choice(words.said).format(text) if rng.random() < 0.2 else text, asked.gold, False)


def _apposition(asked: Asked, rng: random.Random) -> Said | None:
    gold = asked.gold
    born = rng.randint(1400, 1970)
    if gold in words.homes:
        home = words.homes[gold]
        if rng.random() < 0.25:
            other = rng.choice([place for place in words.homes if place != gold])
            return Said(rng.choice(["{}, {}", "{} ({})"]).format(other, home), gold, False)
        text = rng.choice(["{a}, {h}", "{a} ({h})", "{a} in {h}", "the city of {a}", "{a}, a city in {h}"])
        return Said(text.format(a=gold, h=home), gold, True)
    if asked.kind == "person":
        text = rng.choice(words.about).format(
            a=gold, born=born, died=born + rng.randint(25, 90), job=rng.choice(words.jobs)
        )
        return Said(text, gold, True)
    if asked.kind == "title":
        text = rng.choice(["{a} ({born})", "{a}, from {born}", "{a} by {p}", "the {n} {a}", "{a} (a {n})"])
        text = text.format(a=gold, born=born, p=person(rng), n=rng.choice(["work", "piece"]))
        return Said(text, gold, True, mutual=False)
    return None


# words that change the answer


def forms_of(kind: str, groups: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    return [form for kinds, forms in groups for form in forms if not kinds or kind in kinds.split()]


def qualifier(asked: Asked, rng: random.Random) -> Said:
    forms = forms_of(asked.kind, words.qualifiers)
    special = [form for kinds, forms in words.qualifiers for form in forms if asked.kind in kinds.split()]
    form = rng.choice(special if special and rng.random() < 0.4 else forms)
    other = rng.choice(list(asked.others))
    text = form.format(a=asked.gold, b=other)
    return Said(rng.choice(words.said[:4]).format(text) if rng.random() < 0.15 else text, asked.gold, False)


def qualified_gold(asked: Asked, rng: random.Random) -> Said:
    form, other_form = rng.sample(forms_of(asked.kind, words.qualifiers[:-1]), 2)
    other = rng.choice(list(asked.others))
    gold = form.format(a=asked.gold, b=other)
    if rng.random() < 0.6:
        frames = [*words.said, "{}, of course", "it happened {}", "this was {}"]
        return Said(rng.choice(frames).format(gold), gold, True)
    text = other_form.format(a=asked.gold, b=other)
    if gold in text or rng.random() < 0.5:  # "shortly after X" is after X
        text = form.format(a=other, b=asked.gold)
    return Said(text, gold, False)


# right answers in other words


def _wording(asked: Asked, rng: random.Random) -> Said | None:
    right = rng.random() < 0.75
    stated = asked.gold if right else rng.choice(list(asked.others))
    text, chance = stated, rng.random()
    if asked.kind == "person" and chance < 0.4 and len(stated.split()) > 1:
        *first, last = stated.split()
        text = rng.choice([last, last, last, f"{last}, {' '.join(first)}", f"{first[0][0]}. {last}"])
    elif chance < 0.12:
        text = _respelled(stated, rng)
    elif chance < 0.3 and stated[:1].isupper():  # another first letter makes another name
        letter = rng.choice([letter for letter in "BDFGHKLMNPRSTVW" if letter != stated[0]])
        text, right = letter + stated[1:], False
    elif chance < 0.35:
        text = "".join(c if rng.random() < 0.6 else rng.choice(_ACCENTS.get(c, c)) for c in stated)
    elif chance < 0.45:
        text = "".join(c for c in unicodedata.normalize("NFKD", stated) if not unicodedata.combining(c))
        text = text.upper() if rng.random() < 0.5 else text.lower()
    if chance > 0.45 or rng.random() < 0.2:
        text = rng.choice(words.frames).format(text)
    elif text == stated:
        return None
    return Said(text, asked.gold, right)


def _respelled(name: str, rng: random.Random) -> str:
    parts = name.split()
    places = [at for at, word in enumerate(parts) if len(word) >= 6 and word.isalpha()]
    if not places:
        return name
    at = rng.choice(places)
    word = parts[at]
    place = rng.randrange(1, len(word) - 2)
    other = rng.choice("aeioulnrst")
    swapped = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    errors = [swapped, swapped, word[:place] + word[place + 1 :], word[:place] + word[place] + word[place:],
              word[:place] + other + word[place + 1 :]]  # fmt: skip
    letters = [word.replace(one, two) for one, two in words.respelled if one in word]
    parts[at] = rng.choice(letters if letters and rng.random() < 0.4 else errors)
    return " ".join(parts)


def _sentence(asked: Asked, rng: random.Random) -> Said | None:
    if not asked.statements:
        return None
    right = rng.random() < 0.68
    stated = asked.gold if right else rng.choice(list(asked.others))
    text = rng.choice(asked.statements).format(a=stated)
    chance = rng.random()
    if chance < 0.15:  # a reading without the question's words
        echoed = set(re.findall(r"\w+", asked.question.lower())) - set(re.findall(r"\w+", stated.lower()))
        text = " ".join(re.sub(r"\w+", lambda word: "" if word[0].lower() in echoed else word[0], text).split())
    elif chance < 0.35:
        text += rng.choice(words.credited).format(p=person(rng), year=rng.randint(1500, 2015))
        return Said(text, asked.gold, right, mutual=False)
    return Said(text + rng.choice(["", "."]), asked.gold, right)
