"""Numbers, dates, times, money and quantities in a text, as values that can be compared.

The entailment model reads digits as word pieces and confuses 85 with 87, so values are compared by rule. No library
reads them all: quantulum3 reads no dates and no times, dateparser completes "November 1989" with today's day, and
text2num reads "nineteen eighty-nine" as 19 and 89; the first two need more than a millisecond per text.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_CARDINALS = {word: at for at, word in enumerate(_SMALL)} | {word: 10 * at for at, word in enumerate(_TENS, 2)}
_IRREGULAR = {"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12}
_ORDINALS = _IRREGULAR | {
    (word[:-1] + "ieth" if word.endswith("y") else word + "th"): number
    for word, number in (_CARDINALS | _SCALES).items()
    if number not in (0, 1, 2, 3, 5, 8, 9, 12)
}
_PARTS = {"hal": 2, "third": 3, "quarter": 4, "fifth": 5, "tenth": 10}
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
_MONTH += r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
_ERA = r"(?P<era>b\.?c\.?(?:e\.?)?|a\.?d\.?|c\.?e\.?)(?![a-z])"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})(?![\d.,:/]\d)"
_NUMBER = r"\d{1,3}(?:(?:,\d{3}){1,6}|(?: \d{3}){1,6}(?!\d))(?:\.\d+)?|\d+(?:\.\d+)?"
_ODD_LETTERS = {0x17F: "s", 0x131: "i", 0x130: "I", 0x212A: "K"}  # letters whose other case is an ASCII letter
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴-⁹]+(?![⁄/])(?<!m[²³])")
_DECADE = re.compile(
    rf"\b({'|'.join(_SMALL[11:])})[\s-]({'|'.join(word[:-1] + 'ies' for word in _TENS)})\b", re.IGNORECASE
)
_DIGIT = "|".join(_SMALL[:10])
_SPELLINGS = (
    (re.compile(r"(?<=\d)\s?½"), ".5"),
    (re.compile(r"\b(?<!and )(?:an?|one)[ -]half\b", re.IGNORECASE), "1/2"),
    (re.compile(r"\b(?:an?|one)[ -]third\b", re.IGNORECASE), "1/3"),
    (re.compile(r"\b(?:an?|one)[ -](?:quarter|fourth)\b(?! (?:to|past))", re.IGNORECASE), "1/4"),
    (re.compile(r"\b(?:an?|one)[ -]fifth\b", re.IGNORECASE), "1/5"),
    (re.compile(r"(?:(?<=\s)|^)['’](?=[2-9]0s\b)"), "19"),
    (
        re.compile(rf"(?:(?<=the )|^)({'|'.join(word[:-1] + 'ies' for word in _TENS)})(?=\W*$)", re.IGNORECASE),
        lambda found: f"19{_CARDINALS[found[1].lower()[:-3] + 'y']}s",
    ),
    (re.compile(r"(?<=\d)\s?¼"), ".25"),
    (re.compile(r"(?<=\d)\s?¾"), ".75"),
    (re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}"), r"\1/\2"),
    (re.compile(r"\b(?:minus|negative) (?=\d|(?:" + "|".join(_CARDINALS) + r")\b)", re.IGNORECASE), "-"),
    (re.compile(r"\bnos?\. ?(?=\d)", re.IGNORECASE), "number "),
    (re.compile(r"(?<=\d),(?=\d{1,2}(?!\d|,\d))"), "."),  # European decimal comma: 42,5
    (
        re.compile(
            rf"\b((?:(?:{'|'.join(_TENS)})[ -])?(?:{'|'.join(_CARDINALS)})) point ({_DIGIT})(?: ({_DIGIT}))?\b",
            re.IGNORECASE,
        ),
        lambda found: (
            f"{_plain(_numbers(re.findall('[a-z]+', found[1].lower()))[0][0])}."
            + "".join(str(_CARDINALS[each.lower()]) for each in found.groups()[1:] if each)
        ),
    ),
)
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+(?:the\s+)?)?"
_AND_A_HALF = re.compile(r"\b(\d+) and a half\b", re.IGNORECASE)
# web text often lacks the spaces around a date and the brackets of the citation after it: in19891.
_LOST_SPACE = re.compile(
    rf"\b(in|on|of|to|from|was|is|since|by|number|until)(?=\d|{_MONTH.replace('?P<month>', '?:')})"
    r"|\b(\d{4})(?=(?!st\b|nd\b|rd\b|th\b)[A-Za-z]{2})"
)
_CITED_YEAR = re.compile(r"(?<=\b(?:in|\d,) )((?:1[1-9]|20)\d\d)[1-9]\d?(?=\s*\.(?:\s|$))")
_ROUNDED = 0.01  # relative difference of equal quantities in metres and feet
_ABOVE = re.compile(
    r"\b(?:over|above|more than|at least|not less than|no fewer than|greater than|exceeding|after|later than)"
    r"\s+(?:the\s+)?(?:year\s+)?$",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|circa|ca?\.|roughly|some)|~|≈)\s*(?:the\s+)?$", re.IGNORECASE
)
_BELOW = re.compile(
    r"\b(?:under|below|less than|fewer than|at most|no more than|up to|almost|nearly|just short of|before|prior to|"
    r"earlier than)\s+(?:the\s+)?(?:year\s+)?$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Value:
    """A value that a text states."""

    kind: str  # "number", "ordinal", "percent", "date", "time", "score", a currency or a dimension
    low: float  # lower end of the value; of a date the year, of a time the minute of the day
    high: float  # upper end of the value; of a time without am or pm, the same time in the other half of the day
    month: int = 0  # of a date, 1 to 12; 0 if not stated
    day: int = 0  # of a date, 1 to 31; 0 if not stated
    size: float = 1.0  # of the unit in the dimension's base unit
    rounds: bool = False  # whether a conversion to the base unit rounds
    start: int = 0  # of the value in `in_digits(text)`
    end: int = 0
    bare: bool = False  # whether it is a whole number without a unit, which may also be a year
    counted: bool = False  # whether a noun follows: 42 votes are not 42 %
    ends: bool = False  # whether it is a range with two stated ends
    about: float = 0.0  # half a unit of the last digit that is not 0 if the text has "about" before the value, else 0

    def entails(self, other: "Value") -> bool:
        """Return whether this value entails another.

        A day entails its month and year, and a year its decade, not the reverse. A range with two stated ends is
        entailed only by an equal one. A number without a unit is assumed to have the unit of the other number.
        """
        if "date" in (self.kind, other.kind):
            return self._entails_date(other)
        if not self.comparable(other) or (self.counted and self.kind != other.kind):
            return False
        if self.kind == "time":
            return bool({self.low, self.high} & {other.low, other.high})
        size = self.size / other.size if self.kind == other.kind else 1.0
        near = _ROUNDED if size != 1 and (self.rounds or other.rounds) else 1e-9
        low, high = self.low * size, self.high * size
        lowest, highest = (math.isclose(*each, rel_tol=near) for each in ((low, other.low), (high, other.high)))
        if other.ends:
            return lowest and highest
        return (lowest or other.low <= low) and (highest or high <= other.high)

    def agrees(self, other: "Value") -> bool:
        """Return whether both may mean the same, although one may be less precise: a year and a day in it."""
        if not self.comparable(other) or (self.counted and self.kind != other.kind):
            return False
        if "date" in (self.kind, other.kind):
            days = all(
                one == two or 0 in (one, two) for one, two in ((self.month, other.month), (self.day, other.day))
            )
            return days and max(self.low, other.low) <= min(self.high, other.high)
        size = self.size / other.size if self.kind == other.kind else 1.0
        near = max(self.about, other.about)
        return max(self.low * size, other.low) - near <= min(self.high * size, other.high)

    def comparable(self, other: "Value") -> bool:
        """Return whether both are values of the same kind, which exclude each other unless they agree."""
        kinds = {self.kind, other.kind}
        if "date" in kinds:
            return self._is_date() and other._is_date()
        return len(kinds) == 1 or ("number" in kinds and kinds.isdisjoint(("time", "score")))

    def _is_date(self) -> bool:
        return self.kind == "date" or self.bare

    def _entails_date(self, other: "Value") -> bool:
        if self.ends and other.ends:  # of years, or of other numbers with four digits
            return (self.low, self.high) == (other.low, other.high)
        if not (self._is_date() and other._is_date()):
            return False
        if other.ends:
            return (self.low, self.high) == (other.low, other.high)
        years = other.low <= self.low <= self.high <= other.high  # without a year, -inf to inf
        return years and other.month in (0, self.month) and other.day in (0, self.day)


Reader = Callable[[re.Match[str]], Value | None]


@functools.lru_cache(maxsize=65536)
def values_of(text: str) -> tuple[Value, ...]:
    """Return the values in a text, in order, with their positions in ``in_digits(text)``.

    "About" and its synonyms are ignored. "Over", "at least", "before" and similar words mean all numbers on that side.

    >>> [(value.kind, value.low) for value in values_of("On 14 March 1702 they paid $45k for 78 per cent.")]
    [('date', 1702.0), ('dollar', 45000.0), ('percent', 78.0)]
    """
    digits = in_digits(text)
    found: list[Value] = []
    taken = [False] * len(digits)
    for pattern, read in _readers():
        for match in pattern.finditer(digits):
            start, end = match.span()
            if any(taken[start:end]):
                continue
            value = read(match)
            if value is None:
                continue
            taken[start:end] = [True] * (end - start)
            found.append(replace(value, start=start, end=end))
    ordered = sorted(found, key=lambda value: value.start)
    return tuple(_in_context(value, digits) for value in ordered)


@functools.lru_cache(maxsize=65536)
def in_digits(text: str) -> str:
    """Return a text with its number words in digits.

    >>> in_digits("In nineteen eighty-nine, one of the twenty-first century's half a million"), in_digits("no one")
    ("In 1989, one of the 21st century's 500000", 'no one')
    """
    text = text.translate(_ODD_LETTERS)
    text = _SUPERSCRIPTS.sub("", text.replace("\u00a0", " ").replace("\u202f", " ").replace("−", "-"))
    text = _CITED_YEAR.sub(r"\1", _LOST_SPACE.sub(r"\g<0> ", text))
    for pattern, plain in _SPELLINGS:
        text = pattern.sub(plain, text)
    text = _DECADE.sub(_decade_in_digits, text)
    return _AND_A_HALF.sub(r"\1.5", _word_runs().sub(_run_in_digits, text))


def _decade_in_digits(match: re.Match[str]) -> str:
    return f"{_CARDINALS[match[1].lower()]}{_CARDINALS[match[2].lower()[:-3] + 'y']}s"


@functools.cache
def _word_runs() -> re.Pattern[str]:
    number = "|".join(sorted([*_CARDINALS, *_SCALES, *_ORDINALS, "dozen", "oh"], key=len, reverse=True))
    return re.compile(
        rf"\b(?:(?:half\s+)?an?\s+(?=hundred|thousand|million|billion|trillion|dozen)|half\s+(?=dozen))?"
        rf"(?:{number})\b(?:(?:(?<=sand|lion),)?(?:\s+and)?[\s-]+(?:{number})\b)*"
        r"|\b(?:twice|thrice)\b|\bonce\b(?=\s*(?:[.,;]|$|in\b))",
        re.IGNORECASE,
    )


def _run_in_digits(match: re.Match[str]) -> str:
    run = match.group().lower()
    if run in ("once", "twice", "thrice"):
        return {"once": "1", "twice": "2", "thrice": "3"}[run] + " times"
    if run == "oh":
        return match.group()
    before, after = match.string[: match.start()].lower(), match.string[match.end() :].lower()
    if run == "one" and (
        re.search(r"\b(?:the|no|any|some|every|this|that|which|each|another|only)\s+$", before)
        or re.match(r"(?:'s|’s|\s+(?:of|another|who|that|which|day|can|may|should|must|is|was)\b)", after)
    ):
        return match.group()
    if run == "second" and re.search(r"\d\s*$", before):
        return match.group()  # a unit: 1 second
    if run in _SCALES and re.search(r"(?:(?:^|[^\w.,])[\d.,]*\d|\band a half)\s*$", before):
        return match.group()  # 1.5 million: _number multiplies
    half = re.match(r"half\s+", run)
    words = re.findall(r"[a-z]+", run.removeprefix(half.group()) if half else run)
    numbers, ordinal = _numbers([word for word in words if word not in ("a", "an", "and")])
    if half:
        numbers = [number / 2 for number in numbers]
    if ordinal:
        return " ".join([*map(_plain, numbers[:-1]), _with_ending(int(numbers[-1]))])
    return " ".join(map(_plain, numbers))


def _numbers(words: list[str]) -> tuple[list[float], bool]:
    """Return the numbers in a run of number words, in order, and whether the last one is an ordinal."""
    numbers: list[float] = []
    total, current = 0, None
    ordinal = False

    def finish() -> None:
        nonlocal total, current
        if current is not None or total:
            numbers.append(float(total + (current or 0)))
        total, current = 0, None

    for word in words:
        if ordinal:
            finish()
            ordinal = False
        if word == "oh":
            finish()
            numbers.append(-1.0)  # nineteen oh five
            continue
        if (word == "dozen" and current and current >= 12) or (word == "hundred" and current and current >= 100):
            finish()
        if word == "dozen":
            current = 12 * (1 if current is None else current)
            continue
        ordinal = word in _ORDINALS
        number = _ORDINALS.get(word, _CARDINALS.get(word, _SCALES.get(word, 0)))
        if number >= 100 and number in _SCALES.values():
            if number == 100:
                current = 100 * (1 if current is None else current)
            else:
                total, current = total + number * (1 if current is None else current), None
            continue
        if current is None:
            current = number
        elif (current % 100 == 0 and current and number < 100) or (
            current % 10 == 0 and current % 100 >= 20 and 0 < number < 10
        ):
            current += number
        else:
            finish()
            current = number
    finish()
    return _years(numbers), ordinal


def _years(numbers: list[float]) -> list[float]:
    """Join two numbers that form a year: 19 89, and 19 oh 5."""
    joined: list[float] = []
    for number in numbers:
        if joined and joined[-1] == -1.0:
            joined.pop()
            if joined and 10 <= joined[-1] <= 20 and number < 10:
                number += 100 * joined.pop()
        elif joined and 10 <= joined[-1] <= 20 and 10 <= number <= 99:
            number += 100 * joined.pop()
        joined.append(number)
    return [number for number in joined if number >= 0]


def _with_ending(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _plain(number: float) -> str:
    return f"{number:.12g}" if abs(number) < 1e12 else f"{number:.0f}"


@functools.cache
def names_table() -> Any:
    """Return ``names.yaml``: units, currencies, equivalent names, and word lists."""
    return yaml.safe_load(Path(__file__).with_name("names.yaml").read_text())


@functools.cache
def words_named(kind: str) -> frozenset[str]:
    """Return a word list of ``names.yaml``."""
    return frozenset(names_table()["words"][kind].split())


@functools.cache
def _units() -> dict[str, tuple[str, float, bool]]:
    """Return dimension, size in its base unit, and whether a conversion rounds, by spelling of the unit."""
    return {
        spelling: (dimension, float(row[0]), len(row) > 2)
        for dimension, units in names_table()["units"].items()
        for row in units
        for spelling in row[1].split(", ")
    }


@functools.cache
def _currencies() -> dict[str, str]:
    return {
        spelling: currency
        for currency, spellings in names_table()["currencies"].items()
        for spelling in (currency, *spellings.split(", "))
    }


def _any_of(spellings: Iterable[str]) -> str:
    return "|".join(re.escape(each) for each in sorted(spellings, key=len, reverse=True))


@functools.cache
def _readers() -> list[tuple[re.Pattern[str], Reader]]:
    """Return the patterns of values and their parsers, most specific first."""
    money, unit = _any_of(_currencies()), _any_of(_units())
    sign = _any_of(each for each in _currencies() if not each.isalpha() or len(each) == 3)  # before a number
    scale = r"(?:\s*(?P<scale>k|m|b|bn|mn|hundred|thousand|million|billion|trillion)\b)?"
    number = rf"(?<![\w.,/:])(?P<sign>-(?=\d))?(?P<number>{_NUMBER})"
    to = r"\s*(?:-|–|—|to)\s*"
    part_of_day = r"(?:\s+(?:in\s+the\s+)?(?P<half>morning|afternoon|evening))?"
    percent = r"(?:%|pct\b|per\s?cent\b|percent(?:age points?)?\b|percentage points?\b)"
    rows: list[tuple[str, Reader]] = [
        (r"(?<![\w/.-])(?P<year>\d{4})-(?P<month_number>\d{2})-(?P<day>\d{2})(?!\d)", _date),
        (r"(?<![\w/.-])(?P<day>\d{1,2})[/.](?P<month_number>\d{1,2})[/.](?P<year>\d{4})(?!\d)", _date),
        (rf"(?<!\w){_WEEKDAY}{_DAY}(?:\s+day)?(?:\s+of)?[\s-]+{_MONTH},?(?:\s+of)?[\s-]+(?:the\s+year\s+)?{_YEAR}", _date),
        (rf"\b{_WEEKDAY}{_MONTH}\s+(?:the\s+)?{_DAY}\b(?:,?\s+(?:in\s+)?{_YEAR})?", _date),
        (rf"(?<!\w){_DAY}(?:\s+day)?(?:\s+of)?[\s-]+{_MONTH}(?!\s+\d)", _date),
        (rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}", _date),
        (rf"(?:(?<=^)|(?<=in )|(?<=since )|(?<=by )|(?<=early )|(?<=late )|(?<=mid-)|(?<=of )|(?<=every )|(?<=is )|(?<=: )){_MONTH}(?=\W*$)", _date),
        (r"(?<![\w.,/])(?P<year>\d{3}0)['’]?s\b", _decade),
        (rf"(?<![\w.,/])(?P<century>\d{{1,2}})(?:st|nd|rd|th)[\s-]+(?:century\b|c\.)(?:\s*{_ERA})?", _century),
        (rf"(?<![\w.,/])(?P<year>\d{{1,4}})\s*{_ERA}", _year),
        (rf"\b{_ERA}\s+(?P<year>\d{{1,4}})\b", _year),
        (r"(?<![\w:.])(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?\s*(?P<half>[ap])\.?\s?m\b\.?", _time),
        (r"(?<![\w:.])(?P<hour>\d{2})(?P<minute>\d{2})\s?(?:hours|hrs|h)\b", _time),
        (r"(?<![\w:.])(?P<hour>\d{1,2})h(?P<minute>\d{2})\b", _time),
        (rf"(?<![\w:.])(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?!\d|:\d){part_of_day}", _time),
        (rf"(?<!\w)(?P<hour>\d{{1,2}})\s+o['’]clock\b{part_of_day}", _time),
        (r"\b(?P<part>half|quarter)\s+(?P<side>past|to)\s+(?P<hour>\d{1,2})\b", _time),
        (r"(?:(?<=^)|(?<=at ))(?P<part>noon|midday|midnight)(?=\W*$)", _time),
        (rf"(?<![a-z])(?P<unit>{sign})\s?(?P<number>{_NUMBER}){scale}", _money),
        (rf"{number}{scale}[\s-]?(?P<unit>{money})(?!\w)", _money),
        (rf"{number}{to}(?P<high>{_NUMBER})\s*{percent}", _percent),
        (rf"{number}{scale}\s*{percent}", _percent),
        (rf"{number}{to}(?P<high>{_NUMBER}){scale}\s?(?P<unit>{unit})(?!\w)", _quantity),
        (r"(?<!\w)(?P<number>\d+)\s?(?:ft|feet|foot|['’])\s?(?P<inches>\d{1,2})(?:\s?(?:in|inches|inch|[\"”]))?(?!\w)", _feet),
        (rf"{number}{scale}[\s-]?(?P<unit>{unit})(?!\w)", _quantity),
        (r"(?<![\w.,/:-])(?P<year>\d{4})\s*(?:-|–|—|to|until)\s*(?P<until>\d{4}|\d{2})(?![\w:/-]|[.,]\d)", _years_between),
        (r"(?<=between )(?P<year>\d{4})\s+and\s+(?P<until>\d{4})(?![\w:/-]|[.,]\d)", _years_between),
        (r"(?<![\w.,/])(?P<number>\d+)(?:st|nd|rd|th)\b", _ordinal),
        (r"(?<=\w )(?P<roman>(?=[IVXL])(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3}))(?![\w'’])", _roman),
        (r"(?<![\w.,/])(?P<over>\d{1,12})\s?/\s?(?P<under>\d{1,12})(?![\w/])", _fraction),
        (r"(?<![\w.,/])(?:(?P<over>\d{1,12}|an?|one)[\s-])?(?P<part>half|halves|thirds?|quarters?|fifths?|tenths?)(?=\s+of\b|\W*$)", _fraction),
        (rf"(?<=between )(?P<number>{_NUMBER})\s+and\s+(?P<high>{_NUMBER}){scale}(?![\w:/])", _number),
        (rf"{number}{to}(?P<high>{_NUMBER}){scale}(?![\w:/-])", _number),
        (rf"{number}{scale}(?![\w/]|[.,:]\d)", _number),
    ]  # fmt: skip
    return [(re.compile(pattern, 0 if read is _roman else re.IGNORECASE), read) for pattern, read in rows]


def _group(match: re.Match[str], name: str) -> str:
    return (match.groupdict().get(name) or "").strip().lower()


def _date(match: re.Match[str]) -> Value | None:
    month, day, year = int(_group(match, "month_number") or 0), int(_group(match, "day") or 0), _group(match, "year")
    if name := _group(match, "month"):
        month = next(at for at, each in enumerate(_MONTHS, 1) if name.startswith(each))
    if month > 12 and day <= 12:
        day, month = month, day  # American order: 03/14/1702
    if not 1 <= month <= 12 or day > 31:
        return None
    low, high = (float(year), float(year)) if year else (-math.inf, math.inf)
    return Value("date", low, high, month, day)


def _decade(match: re.Match[str]) -> Value:
    year = int(match["year"])
    return Value("date", year, year + (9 if year % 100 else 99))


def _century(match: re.Match[str]) -> Value:
    number = int(match["century"])
    low = -100 * number if _group(match, "era").startswith("b") else 100 * (number - 1)
    return Value("date", low, low + 100)


def _year(match: re.Match[str]) -> Value:
    year = int(match["year"]) * (-1 if _group(match, "era").startswith("b") else 1)
    return Value("date", year, year)


def _years_between(match: re.Match[str]) -> Value | None:
    low, until = match["year"], match["until"]
    high = low[: 4 - len(until)] + until
    return Value("date", float(low), float(high), ends=True) if 1000 <= int(low) < int(high) <= 2100 else None


def _time(match: re.Match[str]) -> Value | None:
    part, half = _group(match, "part"), _group(match, "half")
    if part in ("noon", "midday", "midnight"):
        at = 0 if part == "midnight" else 720
        return Value("time", at, at)
    hour, minute = int(match["hour"]), int(_group(match, "minute") or 0)
    if part:
        minute = 30 if part == "half" else 15
        hour, minute = (hour, minute) if _group(match, "side") == "past" else (hour - 1, 60 - minute)
    if hour > 24 or minute > 59 or (half and hour > 12):
        return None
    if half:
        at = (hour % 12 + (0 if half in ("a", "morning") else 12)) * 60 + minute
        return Value("time", at, at)
    at = hour % 24 * 60 + minute
    either = hour <= 12 and not match.group().startswith("0")  # 07:30 is in the morning, 7:30 may be in the evening
    return Value("time", at, (at + 720) % 1440 if either else at)


def _amounts(match: re.Match[str]) -> tuple[float, float]:
    """Return the lower and the upper end of a written number or range."""
    size = {"k": 1e3, "m": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9, "": 1.0, **_SCALES}[_group(match, "scale")]
    low, *high = (float(re.sub("[, ]", "", each)) * size for each in (match["number"], _group(match, "high")) if each)
    return (-low if _group(match, "sign") else low), (high[0] if high else low * (-1 if _group(match, "sign") else 1))


def _money(match: re.Match[str]) -> Value:
    return Value(_currencies()[_group(match, "unit")], *_amounts(match))


def _percent(match: re.Match[str]) -> Value:
    return Value("percent", *_amounts(match), ends="high" in match.groupdict())


def _quantity(match: re.Match[str]) -> Value:
    dimension, size, rounds = _units()[_group(match, "unit")]
    return Value(dimension, *_amounts(match), size=size, rounds=rounds, ends="high" in match.groupdict())


def _feet(match: re.Match[str]) -> Value:
    feet = float(match["number"]) + float(match["inches"]) / 12
    return Value("length", feet, feet, size=0.3048, rounds=True)


def _ordinal(match: re.Match[str]) -> Value:
    number = float(match["number"])
    return Value("ordinal", number, number)


def _roman(match: re.Match[str]) -> Value | None:
    before, numeral = match.string[: match.start()], match["roman"]
    named = re.search(r"(?:^|\W)(\w+\s+)?([A-Z][\w'’]*)\s+$", before)
    if not numeral or named is None:
        return None
    if numeral == "I" and named[2] != "War" and re.match(r"\s+(?!of\b)\w", match.string[match.end() :]):
        return None  # the pronoun in "Then I went"
    digits = [{"I": 1, "V": 5, "X": 10, "L": 50}[each] for each in numeral]
    number = sum(-one if one < after else one for one, after in zip(digits, [*digits[1:], 0], strict=True))
    return Value("ordinal", number, number)


def _fraction(match: re.Match[str]) -> Value | None:
    over = _group(match, "over")
    parts = next((number for part, number in _PARTS.items() if _group(match, "part").startswith(part)), 0)
    under = parts or int(_group(match, "under") or 0)
    return Value("number", share, share) if under and (share := int(over if over.isdigit() else 1) / under) else None


def _number(match: re.Match[str]) -> Value:
    low, high = _amounts(match)
    if low > high:
        return Value("score", low, low + high / 1e6)  # 3-1
    noun = re.match(r"\s+(?!always|plus|thus|this|does)[a-z]{3,}s\b", match.string[match.end() :])
    bare = bool(re.fullmatch(r"[12]\d{3}", match.group()))
    return Value("number", low, high, bare=bare, counted=bool(noun), ends=low < high)


def _in_context(value: Value, digits: str) -> Value:
    """Return a value changed by the words before it: "over 300" is every greater number."""
    before = digits[max(0, value.start - 32) : value.start]
    if value.kind == "time" or not math.isfinite(value.low):
        return value
    least = 1e-6 * max(1.0, abs(value.low))
    if _ABOVE.search(before):
        return replace(value, low=value.low + least, high=math.inf)
    if _BELOW.search(before):
        return replace(value, low=-math.inf, high=value.high - least)
    if _ABOUT.search(before):
        last = re.search(r"[1-9](?=0*(?:e|$))", f"{value.low:.9e}".replace(".", ""))
        return replace(
            value, about=0.5 * 10.0 ** (math.floor(math.log10(abs(value.low))) - last.start()) if last else 0.0
        )
    return value
