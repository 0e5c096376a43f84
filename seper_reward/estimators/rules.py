"""Rules about answers that come before the entailment model: equal texts, values, and texts with a second answer.

Models of word pieces confuse 85 with 87, and a policy trained on a reward finds every text that fools the model. So
values are compared by rule, and texts that name, list or deny more than the answer are rejected.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from seper_reward.data.answers import normalize_answer
from seper_reward.data.values import Value, in_digits, names_table, values_of, words_named

_SHORT = 8  # words; in a text up to this length a word before the answer changes the meaning of the whole
_SHORTEST = 3  # letters of an answer that has other spellings: Hg is not H
_LONGEST_PARAPHRASE = 4  # words of a text that shares no word with an answer of one or two words
_STEM = 4  # first letters by which Norway and Norwegian are one word

_YES_OR_NO = {"yes": True, "no": False}
_REPLY = re.compile(
    r"\W*(?:it|he|she|they|we|i|you|this|that|there) (?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|"
    r"would|should|may|might|must|ca|wo)(?P<no>n['’]t| not|not)?\W*",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"^\W*(yes|yeah|yep|yup|indeed|correct|true|no|nope|nah|false|incorrect)\b"
    r"(?:\s*[,.;:!]|\s*$|\s+[-–—]|\s+(?:it|he|she|they|we|i|that|this|there)\b)|,\s*(yes|no)\W*$",
    re.IGNORECASE,
)
_UNSURE = {"sure", "idea", "doubt", "information", "know", "tell", "unknown", "clear", "unclear", "maybe", "perhaps"}
_SEPARATORS = re.compile(
    r"\s*(?:[,;/|()\[\]{}<>\n\\•·…~=+@#—–]|(?<=[^\W_]{3})[.!?](?=\s|$)|\.{2,}|->|→|\s-\s|\s&\s|\b(?:and|or|then|also|maybe|"
    r"perhaps|plus|followed by|as well as|along with|together with)\b)\s*",
    re.IGNORECASE,
)
_CLAUSES = re.compile(r"([,;()\[\]\n]|(?<=[^\W_]{3})[.!?](?=\s|$)|\s[-–—]\s)")
_RELATIVES, _COPULAS = (
    {"that", "which", "who", "whose"},
    {"is", "was", "are", "were", "be", "called", "named", "known"},
)
_PREPOSITIONS = {"of", "by", "with", "from", "for", "about", "on", "after", "before"}
_NAME = re.compile(r"[^\W\d_a-zß-ÿ][\w'’-]*(?:\s+(?:(?:of|de|van|von|the|da|del|la)\s+)?[^\W\d_a-zß-ÿ][\w'’-]*)*")
_ALTERNATIVES = re.compile(rf"({_NAME.pattern}),? (?:or|and) (?:the |a |an )?({_NAME.pattern})")
_LEADING = re.compile(
    r"^(?:(?:mr|mrs|ms|miss|dr|sir|dame|prof|professor|year) |(?:city|town|village|state|country|island|nation|planet|"
    r"republic|kingdom|commonwealth|federal republic|grand duchy|principality|sultanate) of )(?=\w)"
)
_LETTERS = str.maketrans({"đ": "d", "ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "ß": "ss", "Đ": "D", "Ł": "L", "Ø": "O"})
_DOTTED = re.compile(r"\b[^\W\d](?:\.[^\W\d])+\b\.?")
_ACRONYM = re.compile(r"\b[A-Z](?:\.[A-Z])+\b\.?|\b[A-Z]{2,}\b")
_NATIONALITY = re.compile(r"\w+(?:ish|an|ese|ch|sh|ic|eek|wiss)\b(?=\s+[a-zà-ÿ])")  # followed by a noun
_LEGAL_FORMS = re.compile(r"(?<=\w) (?:ltd|limited|inc|incorporated|corp|corporation|co|company|plc|llc|gmbh)$")
_FUNCTION_WORDS, _DENIALS, _YES = words_named("function"), words_named("denials"), words_named("yes")
_BEFORE, _AFTER = words_named("before"), words_named("after")
_DOUBTS = words_named("doubts")
_NO_NAMES = ("persons", "titles", "heads", "kinds_of", "measures", "dates")  # kinds of words next to a name
_NO_JOB = {"man", "woman", "person", "girl", "boy", "leader", "monarch", "scientist", "author", "writer"}
_STILL = {"present", "now", "today"}
_STARTS = _FUNCTION_WORDS | words_named("starts")


class Claim(NamedTuple):
    """A pair of texts whose values have the same spelling: the premise may entail the hypothesis."""

    premise: str
    hypothesis: str


def decide(premise: str, hypothesis: str, question: str) -> bool | Claim:
    """Return whether a premise entails a hypothesis, both answers to a question, or a claim if no rule decides.

    Texts that are equal in normal form entail each other, and so do texts that are equal without function words and
    the question's words. Values are compared (``settle``), and a yes with a no. Words of the question alone entail
    nothing. Without a question, values are not compared.
    """
    if not (premise and hypothesis):
        return premise == hypothesis
    unlabelled = normal_form(_without_label(premise, hypothesis))
    if same(premise, hypothesis) or _initials(premise, hypothesis) or unlabelled == normal_form(hypothesis):
        return True
    if not question:
        return Claim(premise, hypothesis)
    if _asks_who(question) and (person := _same_person(premise, hypothesis)) is not None:
        return person
    claim = settle(premise, hypothesis)
    if claim is None:
        return False
    if (polarity := _YES_OR_NO.get(normal_form(hypothesis))) is not None:
        stated_polarity = _polarity(premise, question)
        return claim if stated_polarity is None else stated_polarity == polarity
    changed = _changes(claim.premise, claim.hypothesis, _words(question)) or _other_capital(premise, hypothesis)
    if changed and len(premise.split()) <= _SHORT:
        return False
    asked, stated, wanted = _words(question), _content(claim.premise), _content(claim.hypothesis)
    if _only_values(hypothesis) and wanted <= stated and stated - wanted - asked <= words_named("measures"):
        return True
    if wanted - asked:
        if _in_order(claim, asked) and (wanted.isdisjoint(asked) or stated == wanted):
            return True
        if stated <= asked and not _stems(stated) & _stems(wanted):
            return False
    return claim


def _without_label(text: str, answer: str) -> str:
    """Return a text without a label before a colon, as in "Month: September".

    A label stays if it has a word that changes the answer ("Not", "After"), or a value of the answer's kind.
    """
    label, *rest = re.split(r"(?<=\w)\s*[:→]\s+", text, maxsplit=1)
    another = any(value.comparable(each) for value in values_of(label) for each in values_of(answer))
    changes = not _words(label).isdisjoint(_DENIALS | _BEFORE | {"than", "opposite", "or"})
    return text if another or changes or not rest else rest[0]


def _in_order(claim: Claim, asked: frozenset[str]) -> bool:
    """Return whether two texts have the same words in the same order, without the question's; or "Austen, Jane"."""

    def own(text: str) -> list[str]:
        return [word for word in _plain_words(text) if word not in _FUNCTION_WORDS and word not in asked]

    last, _, first = claim.premise.partition(", ")
    if re.findall(r"[+#]", claim.premise) != re.findall(r"[+#]", claim.hypothesis):
        return False  # C++ and C
    return own(claim.hypothesis) in (own(claim.premise), own(f"{first} {last}"))


def settle(premise: str, hypothesis: str) -> Claim | None:
    """Return both texts with the same spelling of equal values and initials; ``None`` if the premise lacks a value.

    It lacks a value if it states another one of this kind, or if the hypothesis consists of values only. Less precise
    values, such as the year of a day, are left to the model.

    >>> settle("It is 2340 m high", "2,340 metres"), settle("It is 2350 m high", "2,340 metres")
    (Claim(premise='It is 2,340 metres high', hypothesis='2,340 metres'), None)
    """
    premise = _ACRONYM.sub(
        lambda found: hypothesis if _initials(found[0], hypothesis) or same(found[0], hypothesis) else found[0],
        premise,
    )
    wanted = values_of(hypothesis)
    if not wanted:
        return Claim(premise, hypothesis)
    stated, text, spelled = values_of(premise), in_digits(premise), in_digits(hypothesis)
    shares_words = not _content(premise).isdisjoint(_content(hypothesis))
    spellings: dict[Value, str] = {}
    for value in wanted:
        spellings |= dict.fromkeys((each for each in stated if each.entails(value)), spelled[value.start : value.end])
        if not any(each.entails(value) or each.agrees(value) for each in stated) and (
            _only_values(hypothesis) or (shares_words and any(each.comparable(value) for each in stated))
        ):
            return None
    if not spellings:
        return Claim(premise, hypothesis)
    for value in sorted(spellings, key=lambda each: -each.start):
        text = text[: value.start] + spellings[value] + text[value.end :]
    return Claim(text, spelled)


def states_another(text: str, question: str, answer: str, aliases: Sequence[str] = ()) -> bool:
    """Return whether a text denies or changes an answer, adds a second one, or is no answer at all.

    A second answer is another value of the answer's kind, or another name or item, that occurs neither in the question
    nor in the answer or its other aliases. Names in a detail after the answer do not count ("Elmwick, where Ruth Okoro
    was born"), nor does the country or region of a place. The values of the answer are spelled as in the text
    (``settle``).
    """
    text, answer = re.sub(r"[^\S\n]+", " ", _without_diacritics(text)), _without_diacritics(answer)
    said = [_words(each) for each in (question, answer, *map(_without_diacritics, aliases))]
    answer = next(
        (each for each in (answer, *map(_without_diacritics, aliases)) if _as_words(each).search(text)), answer
    )
    known, wanted = frozenset[str]().union(*said), _words(answer)
    if normal_form(answer) in ("yes", "no"):
        words = _plain_words(text)
        if not {"yes", "yeah", "yep"}.isdisjoint(words) and not {"no", "nope", "not"}.isdisjoint(words):
            return True
        return _polarity(text, question) is None and (
            text.endswith("?") or (_content(text).isdisjoint(_content(question)))
        )
    if len(answer) < _SHORTEST and answer.isascii() and answer.isalpha() and not _as_words(answer).search(text):
        return answer.upper() not in "".join(word[0].upper() for word in _plain_words(text))
    text = _without_details(text, answer)
    if wanted <= said[0]:
        text = re.sub(r"\bthan\b[^,.;!?]*", "", text)  # Ann is older than Bob
    words = _plain_words(text)
    return (
        bool(set(words) & _DENIALS - known)
        or _repeats(words, question, answer)
        or _rambles(text, wanted, known)
        or _has_other_value(text, question, answer)
        or _changes(text, answer, known)
        or _has_other_name(text, question, answer, said)
        or _has_other_item(text, answer, known)
    )


def _without_details(text: str, answer: str) -> str:
    """Return a text without clauses that add a detail to the answer before them: "(it burnt down)", "which ...".

    Such a clause begins with a word in lower case and expresses no doubt and no second answer, or it begins with "not"
    and names something else.
    """
    clauses = _CLAUSES.split(text)
    first = next((at for at in range(0, len(clauses), 2) if _as_words(answer).search(clauses[at])), None)
    if first is None:
        return text
    kept = clauses[: first + 1]
    for mark, clause in zip(clauses[first + 1 :: 2], clauses[first + 2 :: 2], strict=True):
        words = _plain_words(clause)
        detail = clause.lstrip()[:1].islower() and words[0] != "and" and _DOUBTS.isdisjoint(words)
        detail = detail and (text != text.lower() or bool(values_of(answer)))
        contrast = len(words) > 1 and words[0] == "not"
        if not ((detail and _DENIALS.isdisjoint(words)) or contrast) or _as_words(answer).search(clause):
            kept += [mark, clause]
    return "".join(kept)


def holds(text: str, answer: str) -> bool:
    """Return whether a text contains an answer word for word; a single word in lower case must be a whole clause."""
    if not (values_of(answer) or answer != answer.lower() or " " in answer):
        clauses = re.split(r"[,;(.]|\s(?:in|at|from|who|which|where)\s", text)
        return len(clauses) > 1 and normal_form(clauses[0]) == normal_form(answer)
    return _as_words(_without_diacritics(answer)).search(_without_diacritics(text)) is not None


@functools.lru_cache(maxsize=65536)
def _as_words(answer: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)", re.IGNORECASE)


def reading_without_echo(text: str, question: str, answer: str) -> str:
    """Return a text without the question's words, except those of the answer.

    >>> reading_without_echo("Oslo is the capital of Norway.", "What is the capital of Norway?", "Oslo")
    'Oslo.'
    """
    echoed = _words(question) - _words(answer)
    left = re.sub(r"\w+", lambda word: "" if word.group().casefold() in echoed else word.group(), text)
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join(left.split()))


def same(one: str, other: str) -> bool:
    """Return whether two texts are equal in normal form, except for spaces and a plural's s.

    >>> same("**New-York**", "the city of New York"), same("Oslo", "Bergen")
    (True, False)
    """
    plural = re.compile(r"(?<=[a-z]{3})s$" if one == one.lower() or other == other.lower() else r"$^")  # Mars, Mar
    one, other = (plural.sub("", normal_form(text).replace(" ", "")) for text in (one, other))
    return one == other


@functools.lru_cache(maxsize=65536)
def normal_form(text: str) -> str:
    """Return a text without features that change no answer.

    It drops case, markup, quotes, diacritics, punctuation, articles, "the city of", titles such as Mr and the legal
    form of a company, and replaces countries, cities, wars and currencies by one of their common names
    (``names.yaml``).

    >>> normal_form("**São Paulo**"), normal_form("the U.S."), normal_form("the city of Oslo")
    ('sao paulo', 'united states', 'oslo')
    """
    plain = re.sub(r"[*_`#\"“”„«»‘’']+", " ", _without_diacritics(text))
    plain = _DOTTED.sub(lambda found: found.group().replace(".", ""), plain)
    words = normalize_answer(re.sub(r"(?<=\w)-(?=[^\W\d])", " ", plain).replace("&", " and ")).split()
    kept = " ".join(word for word in words if word != "the") or " ".join(words)
    kept = _LEADING.sub("", _LEADING.sub("", _LEGAL_FORMS.sub("", kept)))
    kept = re.sub(r"^st (?=\w)", "saint ", re.sub(r"isation(?=s?\b)", "ization", kept))
    return _same_names().get(kept, kept)


def _without_diacritics(text: str) -> str:
    if text.isascii():
        return text
    text = text.translate(_LETTERS)
    return "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))


@functools.cache
def _same_names() -> dict[str, str]:
    rows = (line.split(", ") for kind in ("countries", "same") for line in names_table()[kind])
    return {spelling: row[0] for row in rows for spelling in row}


@functools.cache
def _regions() -> frozenset[str]:
    countries = (line.split(", ")[0] for line in names_table()["countries"])
    return frozenset((*names_table()["regions"].split(", "), *countries))


@functools.cache
def _capitals() -> frozenset[str]:
    return frozenset(names_table()["capitals"].split(", "))


def _other_capital(text: str, answer: str) -> bool:
    """Return whether the answer is a capital and the text names another capital instead."""
    wanted = normal_form(answer)
    if wanted not in _capitals():
        return False
    words = normal_form(text).split()
    named = {" ".join(words[at : at + length]) for at in range(len(words)) for length in (1, 2, 3)}
    return wanted not in named and not named.isdisjoint(_capitals())


def _initials(short: str, name: str) -> bool:
    letters = re.sub(r"^the\s+|[.\s]", "", short)
    if not (2 < len(letters) < 10 and letters.isalpha() and letters.isupper()):
        return False
    words = re.findall(r"[^\W_][\w'’]*", name)
    capitals = "".join(word[0] for word in words if word[0].isupper())
    return len(words) > 1 and letters in (capitals, "".join(word[0].upper() for word in words))


@functools.lru_cache(maxsize=65536)
def _asks_who(question: str) -> bool:
    words = _plain_words(question)
    which = next((at for at, word in enumerate(words) if word in ("which", "what")), len(words))
    return not {"who", "whom", "whose"}.isdisjoint(words) or not words_named("persons").isdisjoint(
        words[which + 1 : which + 4]
    )


def _same_person(short: str, name: str) -> bool | None:
    """Return whether two names are the same person's: a last name, or a last name with initials or a first name.

    Different first names mean different persons. ``None`` if the texts are not two names with the same last name.
    """
    words = normal_form(name).split()
    if not (2 <= len(words) <= 4 and all(word[0].isupper() for word in name.split()) and not values_of(name)):
        return None
    given = normal_form(short).split()
    while (
        len(given) > 1 and len(given[0]) > 1 and given[0] in _STARTS | words_named("titles") | words_named("persons")
    ):
        given.pop(0)
    if given[-1:] != words[-1:] or len(given) > 4 or short[:1].islower():
        return None
    if all(any(each in (word, word[0]) for word in words[:-1]) for each in given[:-1]):
        if len(given) not in (1, len(words)):
            return None  # John Adams and John Quincy Adams
        return True
    capitals = all(word[0].isupper() for word in re.findall(r"\w+", short))
    firsts = {word[0] for word in words[:-1]} | {
        each[0] for word in words[:-1] for names in _nicknames() if word in names for each in names
    }
    return False if capitals and {word[0] for word in given[:-1]}.isdisjoint(firsts) else None


@functools.cache
def _nicknames() -> list[list[str]]:
    return [line.split(", ") for line in names_table()["nicknames"]]


def _only_values(text: str) -> bool:
    left = in_digits(text)
    for value in reversed(values_of(text)):
        left = f"{left[: value.start]} {left[value.end :]}"
    return bool(values_of(text)) and _content(left) <= words_named("measures")


@functools.lru_cache(maxsize=65536)
def _content(text: str) -> frozenset[str]:
    """Return the words of a text that are not function words."""
    return _words(text) - _FUNCTION_WORDS


@functools.lru_cache(maxsize=65536)
def _words(text: str) -> frozenset[str]:
    return frozenset(_plain_words(text))


def _stems(words: Iterable[str]) -> set[str]:
    return {word[:_STEM] for word in words}


def _plain_words(text: str) -> list[str]:
    return re.findall(r"\w+(?:'t\b)?", _without_diacritics(text).casefold().replace("’", "'"))


def _polarity(text: str, question: str) -> bool | None:
    """Return whether a text is a yes or a no; ``None`` if no rule decides.

    It is a yes or a no in normal form, by its first or last word, as a reply such as "They can't", or as a statement
    in the question's words and order: "Ostriches cannot fly" is a no to "Can ostriches fly?".
    """
    for clause in (text, _CLAUSES.split(text)[0]):
        words = _plain_words(clause)
        if (known := _YES_OR_NO.get(normal_form(clause))) is not None or not words:
            return known
        if not _UNSURE.isdisjoint(words) or text.endswith("?"):
            return None
        verb = next(iter(_plain_words(question)), "")
        if (reply := _REPLY.fullmatch(clause)) and words[1].startswith(verb[:2]):
            return reply["no"] is None
        if said := _SAID.search(clause):
            polarity = (said[1] or said[2]).lower() in _YES
            return None if polarity and not _DENIALS.isdisjoint(words) else polarity
        stated = [word[:_STEM] for word in words if word not in _FUNCTION_WORDS | _DENIALS | _YES]
        wanted = [word[:_STEM] for word in _plain_words(question) if word not in _FUNCTION_WORDS]
        asked = iter(wanted)
        pronoun = words[0] in ("it", "he", "she", "they") and stated[-1:] == wanted[-1:]
        least = 1 if pronoun else max(2, len(set(wanted)) - 1)
        has_verb = verb in ("do", "does", "did") or any(word.startswith(verb) for word in words)
        if has_verb and len(stated) >= least and all(stem in asked for stem in stated):
            return _DENIALS.isdisjoint(words)
    return None


def _repeats(words: list[str], question: str, answer: str) -> bool:
    """Return whether the words of a text are a part of a question that names the answer, or name another candidate.

    Such a question asks for one of several names ("Which is longer, the Nile or the Amazon?") or quotes the answer.
    """
    asked, wanted = _plain_words(question), _plain_words(answer)
    if not set(wanted) <= set(asked):
        return False
    if len(words) > len(wanted) + 2 and f" {' '.join(words)} " in f" {' '.join(asked)} ":
        return True
    plain = _without_diacritics(question)
    names = [set(_plain_words(name)) - _STARTS for pair in _ALTERNATIVES.findall(plain) for name in pair]
    return any(name - set(wanted) and name <= set(words) for name in names)


def _rambles(text: str, wanted: frozenset[str], known: frozenset[str]) -> bool:
    """Return whether a text repeats words, or has many words or sentences without a word of the answer."""
    content = [word for word in _plain_words(text) if word not in _FUNCTION_WORDS]
    own = [word for word in content if word not in known]
    if 3 * (len(own) - len(set(own))) >= max(3, len(content)):
        return True
    if _stems(wanted - _FUNCTION_WORDS) & _stems(content):
        return False
    sentences = [part for part in re.split(r"[;/|\n]|[.!?](?=\s)", text) if _words(part)]
    return len(sentences) > 1 or len(own) > max(_LONGEST_PARAPHRASE, 2 * len(wanted))


def _has_other_value(text: str, question: str, answer: str) -> bool:
    wanted, asked, stated = values_of(answer), values_of(question), values_of(text)
    others = [value for value in stated if not any(value.entails(each) for each in (*wanted, *asked))]
    if any(value not in others for value in stated):  # a range may surround the answer: 1990 (aired 1990-1995)
        others = [value for value in others if not value.ends]
    return any(_rival(value, each) for value in others for each in wanted)


def _rival(one: Value, other: Value) -> bool:
    """Return whether the first value is another answer than the other: not a year and a count, nor a number and a 1st.

    A range with two stated ends is another answer than one of its values.
    """
    return one.comparable(other) and (
        (one.ends > other.ends and not other.low <= one.low <= one.high <= other.high)
        or (one.bare == other.bare and ("ordinal" in (one.kind, other.kind)) <= (one.kind == other.kind))
    )


def _changes(text: str, answer: str, known: frozenset[str]) -> bool:
    """Return whether the words around the answer turn it into another answer."""
    found = _as_words(answer).search(text)
    if found is None:
        names = [word for word in answer.split() if word[0].isupper() and "'" not in answer]
        return any(re.search(rf"\b{re.escape(name)}['’]s\s+\w", text) for name in names)
    before, after = _plain_words(text[: found.start()]), _plain_words(text[found.end() :])
    while before and before[-1] in words_named("titles"):
        before.pop()
    if before and before[-1] in _BEFORE - known:
        return True
    if before[-1:] == ["to"] and not words_named("near_to").isdisjoint(before[-2:]):
        return True
    if before[-1:] == ["of"] and len(before) == 2:
        return before[-2] not in known | words_named("kinds_of") | _FUNCTION_WORDS
    if (
        before[:1] in (["the"], ["a"], ["an"])
        and len(before) < 6
        and not values_of(answer)
        and _COPULAS.isdisjoint(before)
    ):  # a film inspired by, a state that borders
        kind_of = before[-1] == "of" and before[-2] in known | words_named("kinds_of")
        relates = before[-1] in _PREPOSITIONS or before[-1].endswith("ing") or not _RELATIVES.isdisjoint(before)
        if relates and not kind_of:
            return True
    owned = "|".join(re.escape(word) for word in answer.split() if word[0].isupper()) or re.escape(answer)
    possessive = "'" not in answer and re.search(rf"\b(?:{owned})['’]s?\s+\w", text)
    return bool(possessive) or bool(set(after[:1]) & _AFTER - known)


def _has_other_name(text: str, question: str, answer: str, said: Sequence[frozenset[str]]) -> bool:
    """Return whether a text has another name in addition to the answer, if the answer is a name.

    In a text without capitals, words are names if all words around the answer are unknown: "sydney canberra".
    """
    if answer == answer.lower():
        return False
    region = normal_form(answer) in _regions()
    if text in (text.lower(), text.upper()):
        around = set(_plain_words(_as_words(answer).sub(" ", text)))
        if _asks_who(question) and len(around) + len(answer.split()) < 4:
            return False  # more of a person's names
        known = _no_names(regions=not region).union(*said)
        return _as_words(answer).search(text) is not None and bool(around) and around.isdisjoint(known)
    for name, touches in _other_names(text, answer):
        words = [word for word in name if len(word) > 1 and word not in words_named("dates")]
        if any(_stems(each).issuperset(_stems(words)) for each in said):
            continue
        if touches and len(words) == 1 and words[0] in words_named("heads"):
            continue
        if touches and _asks_who(question) and len(words) + len(answer.split()) < 4:
            continue  # more of a person's names
        place = normal_form(" ".join(name))
        if touches or place not in (names_table()["continents"].split(", ") if region else _regions()):
            return True
    return False


@functools.cache
def _no_names(regions: bool) -> frozenset[str]:
    """Return words that are not another name next to a name, with or without those of countries and regions."""
    return _STARTS.union(*map(words_named, _NO_NAMES), _words(" ".join(_regions())) if regions else ())


def _other_names(text: str, answer: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each other name in a text, and whether only a space separates it from the answer.

    The first word of a sentence is not a name by its capital alone, nor is "English" in "the English novelist".
    """
    parts = _as_words(answer).split(text)
    for at, part in enumerate(parts if len(parts) > 1 else ()):
        for found in _NAME.finditer(part):
            before, after, words = part[: found.start()], part[found.end() :], _plain_words(found.group())
            while words and words[0] in _STARTS:
                words.pop(0)
            touches = (at > 0 and before.isspace()) or (at + 1 < len(parts) and after.isspace())
            begins = (at == 0 and not before.strip(" \"'“‘*(")) or before.rstrip()[-1:] in (".", "!", "?", ":")
            joined = touches or re.match(
                r"\s*(?:[,;/|(&?-]|(?:and|or|then|vs|versus|possibly|maybe|perhaps)\b|\.?$)", after
            )
            noun = _NATIONALITY.match(f"{words[-1]}{after}") if words else None
            if touches and found.group().endswith(("'s", "’s")):
                continue  # the owner: Tchaikovsky's Nutcracker
            if (
                len(words) > bool(begins and not joined)
                and not noun
                and not re.search(r"\b(?:in|by|from|at) $", before, re.IGNORECASE)
            ):
                yield words, touches


def _has_other_item(text: str, answer: str, known: frozenset[str]) -> bool:
    """Return whether a text lists the answer with another item of the same form, or with another occupation."""
    jobs = words_named("persons") - _NO_JOB
    stated = answer == answer.lower() and _as_words(answer).search(text)
    if stated and not jobs.isdisjoint(_plain_words(answer)[-1:]) and not (_words(text) - known).isdisjoint(jobs):
        return True
    parts = [part for part in _SEPARATORS.split(text) if re.search(r"\w", part)]
    wanted = normal_form(answer)
    if not any(normal_form(part) == wanted for part in parts):
        return False
    any_case = text == text.lower() or answer == answer.lower()
    return any(
        normal_form(part) != wanted
        and len(part.split()) <= max(3, len(answer.split()))
        and _plain_words(part)[0] not in _STARTS | _STILL
        and (any_case or part[0].isupper())
        and not _words(part) <= known | _FUNCTION_WORDS
        and normal_form(part) not in _regions()
        and not values_of(part)
        for part in parts
    )
