"""Values that a text states, compared by rule, since the entailment model reads digits as word pieces: 85 is not 87.

Units convert by pint. No library reads the rest: quantulum3 reads no dates, dateparser completes "November 1989" with
today's day, and text2num reads "nineteen eighty-nine" as 19 and 89.
"""

import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from seper_reward.judge.equality import plain

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen""".split()  # noqa: SIM905
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_CARDINALS = {word: at for at, word in enumerate(_SMALL)} | {word: 10 * at for at, word in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS = {re.sub("y$", "ie", word) + "th": number for word, number in (_CARDINALS | _SCALES).items()} | {
    "first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12,
}  # fmt: skip
_NUMBERS = _CARDINALS | _SCALES | _ORDINALS | {"dozen": 12}
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_ABBREVIATED = {"k": 1e3, "m": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9, **_SCALES}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_CURRENCIES = {
    "USD": "$ us$ usd dollar dollars",
    "GBP": "£ gbp pound pounds quid",
    "EUR": "€ eur euro euros",
    "JPY": "¥ jpy yen",
    "INR": "₹ inr rs rupee rupees",
}
_MONEY = {sign: (code, 1.0) for code, signs in _CURRENCIES.items() for sign in signs.split()}
_MONEY |= {"p": ("GBP", 0.01), "pence": ("GBP", 0.01), "cents": ("USD", 0.01)}
# spellings of units that pint lacks or reads otherwise; pounds of money are also pounds of mass
_SPELLED = {"c": "degC", "celsius": "degC", "f": "degF", "fahrenheit": "degF", "kilo": "kg", "kilos": "kg"}
# words behind an amount that pint would read as units: 300 m in diameter, 5 kg at birth, 12 hours a day
_NO_UNITS = frozenset({"a", "an", "as", "at", "in", "or", "of", "on", "to", "by", "and"})

_NUMBER = (
    r"(?P<number>\d{1,3}(?:,\d{3}){1,6}(?:\.\d+)?(?![\d,])|\d{1,3}(?:\.\d{3}){2,6}(?![\d.,])"
    r"|\d{1,3}(?: \d{3}){1,6}(?!\d)(?:\.\d+)?|\d+/\d+|\d+(?:[.,]\d+)?|\.\d+)"
)
_HIGH = _NUMBER.replace("number", "high")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_TAIL = re.compile(r"[\s-]?(?P<unit>°?\s?[^\W\d_]+(?:[23]\b)?(?:[ /^](?:[^\W\d_]+|[23](?!\d)))*|[%€$£¥₹¢²³])")


class Reading(NamedTuple):
    """One way to read a value: numbers of a kind, which are comparable with others of this kind only.

    ``step`` is half a unit of the last digit, by which a rounded or converted value may differ; ``size`` is that of
    the unit, 0 of a fraction.
    """

    kind: str
    numbers: tuple[Any, ...]
    step: float = 0.0
    size: float = 1.0

    def same_kind(self, other: "Reading") -> bool:
        """Return whether two readings are comparable: 85 may be 85 kg, but 85 kg are no 85 metres."""
        return self.kind == other.kind != "amount" or {self.kind, other.kind} == {"number", "amount"}

    def entails(self, other: "Reading") -> bool:
        """Return whether this reading is the other one, or a date within it."""
        if not self.same_kind(other):
            return False
        if self.kind == "date":
            low, high, month, day = self.numbers
            lowest, highest, months, days = other.numbers
            return bool(lowest <= low <= high <= highest and months in (0, month) and days in (0, day))
        pairs = zip(self.numbers, other.numbers, strict=True)
        near = (abs(one - two) <= max(1e-9 * abs(two), self._rounding(other, 0.01 * abs(two))) for one, two in pairs)
        return all(near)

    def _rounding(self, other: "Reading", most: float) -> float:
        """Return the difference that rounding and converting may make; coarse numbers of multiple units are exact.

        2.34 km are 2,344 m, and 8 km are 5 miles, but 2 hours are not 119 minutes, and 1/365 is not 1/366.
        """
        step = max(self.step, other.step)
        small, large = sorted((self.size, other.size))
        multiples = small > 0 and abs(large / small - round(large / small)) < 1e-6
        return 0.0 if small == large == 0 or (multiples and step > most) else min(step, most)


class Value(NamedTuple):
    """A value that a text states at ``start:end`` of ``in_digits(text)``, with all ways to read it."""

    start: int
    end: int
    readings: tuple[Reading, ...]

    def comparable(self, other: "Value") -> bool:
        """Return whether both are of one kind, so that one excludes the other unless they are equal."""
        return any(one.same_kind(two) for one in self.readings for two in other.readings)

    def entails(self, other: "Value") -> bool:
        """Return whether this value is the other one, or a date within it: a day entails its month and year."""
        return any(one.entails(two) for one in self.readings for two in other.readings)

    def excludes(self, other: "Value") -> bool:
        """Return whether this is another value of the same kind, or the same number of another unit."""
        if self.comparable(other):
            return not self.entails(other)
        return self.has_unit and self.readings[-1] == other.readings[-1]

    def agrees(self, other: "Value") -> bool:
        """Return whether this is a date that may be the other one, which is more precise: a year, and a day in it."""
        return any(two.entails(one) for one in self.readings for two in other.readings if one.kind == "date")

    @property
    def has_unit(self) -> bool:
        """Whether the value has a unit, which a number may leave out but not add."""
        return self.readings[-1].kind == "amount"


@functools.lru_cache(maxsize=65536)
def in_digits(text: str) -> str:
    """Return a text, as ``plain`` returns it, with number words, parts and Roman numerals in digits.

    >>> in_digits("In nineteen eighty-nine two thirds of the twenty-first army"), in_digits("World War II")
    ('In 1989 2/3 of the 21st army', 'World War 2')
    """
    text = plain(text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text


_WORD = rf"\b(?:{'|'.join(_NUMBERS)})\b"


def _clock(match: re.Match[str]) -> str:
    minutes = {"half": 30, "quarter": 15}.get(match[1].lower()) or int(match[1].split()[0])
    total = 60 * int(match[3]) + (minutes if match[2].lower() == "past" else -minutes)
    return f"{total // 60}:{total % 60:02}"


def _part(match: re.Match[str]) -> str:
    over = match[1].lower()
    return f"{over if over.isdigit() else _CARDINALS.get(over, 1)}/{_PARTS[match[2].lower()]}"


def _run(match: re.Match[str]) -> str:
    """Return a run of number words in digits; unchanged if it is the scale or unit of digits."""
    words = re.findall(_WORD, match[0].lower().replace("oh", "hundred"))  # nineteen oh five
    if (words[0] in _SCALES or words == ["second"]) and re.search(r"\d\s*$", match.string[: match.start()]):
        return match[0]
    numbers: list[int] = []
    total = current = 0
    for word in words:
        number = _NUMBERS[word]
        if (word == "dozen" or number == 100) and current < 100:
            current = (current or 1) * number
        elif number >= 1000:
            total, current = total + (current or 1) * number, 0
        elif 10 <= current <= 20 and number >= 10:
            current = 100 * current + number  # nineteen eighty-nine
        elif current % 100 == 0 or (current % 10 == 0 and current % 100 >= 20 and 0 < number < 10):
            current += number
        else:
            numbers.append(total + current)
            total, current = 0, number
    spelled = " ".join(map(str, [*numbers, total + current]))
    if words[-1] not in _ORDINALS:
        return spelled
    return spelled + ("th" if spelled[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(spelled[-1], "th"))


_ROMAN_ONES = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"]
_TENS_IN_ROMAN = ["", "X", "XX", "XXX", "XL", "L", "LX", "LXX", "LXXX"]
# "I" is a pronoun but before punctuation, and L and XL alone are letters and a size
_ROMAN = r"(?<=[A-Za-z] )(?!I\b(?![,.;:)]|$)|X?L\b)(?=[IVXL])(XL|L?X{0,3})(IX|IV|V?I{0,3})(?![\w'-]|\.\w)"


def _numeral(match: re.Match[str]) -> str:
    return str(_TENS_IN_ROMAN.index(match[1]) * 10 + _ROMAN_ONES.index(match[2]))


#: What ``in_digits`` rewrites, in this order.
_REWRITES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # web text often lacks the spaces around a date and the brackets of the citation after it: in19891.
        (r"\b([a-z]{2,5})(?=[A-Z]|\d\d)", r"\1 "),
        (r"(?<=\b(?:in|\d,) )((?:1[1-9]|20)\d\d)[1-9]\d?(?=\s*\.(?:\s|$))", r"\1"),
        (r"(?i)\ban hour and a half\b", "90 minutes"),
        (r"(?i)\bhalf an hour\b", "30 minutes"),
        (r"(?i)\bhalf a year\b", "6 months"),
        (r"(?i)\ba fortnight\b", "2 weeks"),
        (r"(?i)\ba decade\b", "10 years"),
        (r"(?i)\b(?:(?:12|twelve) )?(?:noon|midday)\b", "12:00 pm"),
        (r"(?i)\b(?:(?:12|twelve) )?midnight\b", "12:00 am"),
        (rf"(?i)\b(an?|\d+|{'|'.join(_SMALL[1:10])})[\s-]({'|'.join(_PARTS)})s?\b(?=\s+of\b|\W*$)", _part),
        (rf"(?i)(?<!per ){_WORD}(?:(?:,|\s+and|[\s-]+oh)?[\s-]+{_WORD})*", _run),
        (_ROMAN, _numeral),
        (r"\b(\d+) \(\1\)", r"\1"),  # three (3)
        (r"(?i)\b(\d{1,2}(?:[:.]\d\d)?)(?: o'clock)?,? in the morning\b", r"\1 am"),
        (r"(?i)\b(\d{1,2}(?:[:.]\d\d)?)(?: o'clock)?,? in the (?:afternoon|evening)\b", r"\1 pm"),
        (r"(?i)\b(?:a )?(half|quarter|\d{1,2} minutes) (past|to) (\d{1,2})\b(?!:)", _clock),
        (r"(?i)(?<=\d) degrees?\b(?! (?:c|f|kel))", "°"),
        (r"\b(\d+)'(\d{1,2})(?:\"|'')", r"\1 ft \2 in"),
    )
]


@functools.lru_cache(maxsize=65536)
def values_in(text: str) -> tuple[Value, ...]:
    """Return the values in a text, in order.

    >>> [value.readings[0][:2] for value in values_in("On 14 March 1702 they paid $45k for 78 per cent.")]
    [('date', (1702, 1702, 3, 14)), ('USD', (45000.0,)), ('percent', (78.0,))]
    """
    digits = in_digits(text)
    if not re.search(r"\d", digits):
        return ()
    values: list[Value] = []
    taken = [False] * len(digits)
    for pattern, read in _READERS:
        for match in pattern.finditer(digits):
            value = None if any(taken[match.start() : match.end()]) else read(match)
            if value is not None:
                taken[value.start : value.end] = [True] * (value.end - value.start)
                values.append(value)
    joined: list[Value] = []
    for value in sorted(values):
        last = joined[-1] if joined else value
        one, two = last.readings[0], value.readings[0]
        near = joined and re.fullmatch(r",?\s*(?:and\s+)?", digits[last.end : value.start])
        if near and one.kind == two.kind and one.kind.startswith("[") and one.step > two.step:  # 2 hours 15 minutes
            both = Reading(one.kind, (one.numbers[0] + two.numbers[0],), two.step, two.size)
            joined[-1] = Value(last.start, value.end, (both, Reading("amount", both.numbers)))
        else:
            joined.append(value)
    return tuple(joined)


_FILLER = re.compile(r"\b(?:an?|the)\b|[\s.,;:!?\"']", re.IGNORECASE)


@functools.lru_cache(maxsize=65536)
def whole_value(text: str) -> Value | None:
    """Return the value that a text consists of, apart from articles and punctuation; ``None`` for other texts.

    >>> [value and value.readings[0].kind for value in map(whole_value, ["The 14th century.", "85 books", "98-95"])]
    ['date', None, 'pair']
    """
    values, digits = values_in(text), in_digits(text)
    is_whole = len(values) == 1 and not _FILLER.sub("", digits[: values[0].start] + digits[values[0].end :])
    return values[0] if is_whole else None


def _value(match: re.Match[str], *readings: Reading) -> Value:
    return Value(match.start(), match.end(), readings)


def _date(match: re.Match[str]) -> Value:
    groups = {name: text.lower() for name, text in match.groupdict("").items()}
    month, day, year = (int(groups.get(name) or 0) for name in ("month_number", "day", "year"))
    if groups.get("month"):
        month = _MONTHS.index(groups["month"][:3]) + 1
    # 0 March and 1702-00-14 are other dates than all of March or 1702
    day, month = day or 32 * bool(groups.get("day")), month or 13 * bool(groups.get("month_number"))
    low, high = (year, year) if groups.get("year") else (-math.inf, math.inf)
    before_christ = groups.get("era", "").startswith("b")
    if groups.get("century"):
        low = 100 * (-int(groups["century"]) if before_christ else int(groups["century"]) - 1)
        high = low + 100
    elif "decade" in groups:
        high = year + (9 if year % 100 else 99)
    elif before_christ:
        low = high = -year
    # 9/11/2001 may be either day, and of 14/03/1702 and 03/14/1702 only one exists
    orders = [(month, day), (day, month)] if "/" in match[0] else [(month, day)]
    return _value(match, *(Reading("date", (low, high, *order)) for order in orders))


def _time(match: re.Match[str]) -> Value | None:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match.groupdict("").get("half", "").lower()
    if hour > 24 or minute > 59 or (half and hour > 12):
        return None
    at = (hour % 12 + 12 * (half == "p") if half else hour % 24) * 60 + minute
    # 07:30 is in the morning, 7:30 may be in the evening
    times = (at,) if half or hour > 12 or match[0][0] == "0" else (at, (at + 720) % 1440)
    return _value(match, *(Reading("time", (minutes,)) for minutes in times))


def _amount(match: re.Match[str]) -> Value | None:
    groups = {name: text.lower() for name, text in match.groupdict("").items()}
    scale = _ABBREVIATED.get(groups.get("scale", "").strip(), 1.0) * float(f"1e{groups.get('power') or 0}")
    written = groups["number"] or "1"  # 10^6
    # half a unit of the last digit; of a fraction, the precision of its usual decimal form
    step = scale * (1e-3 if "/" in written else 0.5 * 10.0 ** -len(written.partition(".")[2]))
    number = _parsed(written) * (-scale if groups.get("sign") else scale)
    if not math.isfinite(number):  # 10^500
        return None
    if "money" in groups:
        return _value(match, Reading(_MONEY[groups["money"]][0], (number,)), Reading("amount", (number,)))
    units, end = _unit_behind(match)
    if units:
        readings = [_converted(number, step, *unit) for unit in units]
        return Value(match.start(), end, (*readings, Reading("amount", (number,))))
    readings = [Reading("number", (number,), 1e-3, size=0.0) if "/" in written else Reading("number", (number,))]
    if re.fullmatch(r"[1-9]\d{0,2}\.\d\d0", written):  # 587.000 may be 587,000
        readings.append(Reading("number", (1000 * number,)))
    if re.fullmatch(r"[12]\d{3}", match[0]):
        readings.append(Reading("date", (int(number), int(number), 0, 0)))
    return _value(match, *readings)


def _ordinal(match: re.Match[str]) -> Value:
    number = (float(match[1]),)
    return _value(match, Reading("ordinal", number), Reading("amount", number))  # 12th may be 12., as in German


def _pair(match: re.Match[str]) -> Value:
    """Read two joined numbers, a score or a range."""
    one, two = _parsed(match["number"]), _parsed(match["high"])
    if re.fullmatch(r"[12]\d{3}", match["number"]) and re.fullmatch(r"\d{2}", match["high"]):
        two += 100 * (one // 100)  # 1914-18
    return _value(match, Reading("pair", (one, two)))


def _parsed(written: str) -> float:
    if "/" in written:
        over, under = map(float, written.split("/"))
        return over / (under or math.nan)
    if re.fullmatch(r"\d+,\d{1,2}", written):
        return float(written.replace(",", "."))  # European decimal comma: 42,5
    return float(re.sub("[, .]" if written.count(".") > 1 else "[, ]", "", written))  # 1.345.596


Unit = tuple[str, Any]  # kind, and the unit's size or pint's unit


def _unit_behind(match: re.Match[str]) -> tuple[tuple[Unit, ...], int]:
    """Return the ways to read the longest unit behind a number, and its end; ``()`` if there is none."""
    tail = _TAIL.match(match.string, match.end())
    words = re.findall(r"[^ ]+", tail["unit"])[:4] if tail else []
    for size in range(len(words), 0, -1):
        name, last = " ".join(words[:size]), words[size - 1].lower()
        end = match.string.index(name, match.end()) + len(name)
        # 12 in are inches, 12 in all are not
        is_unit = last not in _NO_UNITS or (name == "in" and not re.match(r"\s+\w", match.string[end:]))
        if is_unit and (units := _units(name)):
            return units, end
    return (), match.end()


@functools.lru_cache(maxsize=4096)
def _units(name: str) -> tuple[Unit, ...]:
    """Return the ways to read a unit: kind and size, or kind and pint's unit."""
    name = re.sub(r"(?<=[^\W\d_])(?=[23]$)", "^", name.strip())  # km2
    lower = re.sub(r"^(?:° ?|degrees? )(?=[cf])", "", name.lower())
    if lower in ("%", "pct", "percent", "per cent", "percentage points"):
        return (("percent", 1.0),)
    money = (_MONEY[lower],) if lower in _MONEY else ()
    registry = unit_registry()  # outside the block: without it, all units would be unknown
    try:
        unit = registry.parse_units(_SPELLED.get(lower, re.sub(r"\b(?:an|a) ", "per ", name)))
    except Exception:  # pint raises errors of many kinds for words that are no units
        return money
    kind = str(unit.dimensionality)
    return (*money, (kind, unit)) if kind.startswith("[") else money


@functools.cache
def unit_registry() -> Any:
    """Return pint's registry; reading it takes half a second, once."""
    import pint

    return pint.UnitRegistry(cache_folder=":auto:")


def _converted(number: float, step: float, kind: str, unit: object) -> Reading:
    if isinstance(unit, float):
        return Reading(kind, (number * unit,))
    quantity = unit_registry().Quantity
    base, zero, one = (quantity(count, unit).to_base_units().magnitude for count in (number, 0, 1))
    return Reading(kind, (base,), 0.0 if zero else step * one, one - zero)  # degrees are not rounded


_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+(?:the\s+)?)?"
_DAY_BEFORE = rf"(?<!\w){_WEEKDAY}{_DAY}(?:\s+day)?(?:\s+of)?[\s-]+{_MONTH}"
_YEAR = r"(?P<year>\d{4})(?![\d.,:/]\d)"
_ERA = r"(?P<era>b\.?c\.?(?:e\.?)?|a\.?d\.?|c\.?e\.?)(?![a-z])"
_BEFORE = "|".join(map(re.escape, (sign for sign in _MONEY if not sign.isalpha() or len(sign) == 3)))
_SCALE = r"\s*(?:hundred|thousand|million|billion|trillion)\b"
_READERS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], Value | None]]] = [
    (re.compile(pattern, re.IGNORECASE), read)
    for pattern, read in (
        (r"(?<![\w/.-])(?P<year>\d{4})-(?P<month_number>\d{2})-(?P<day>\d{2})(?!\d)", _date),
        (r"(?<![\w/.-])(?P<day>\d{1,2})[/.](?P<month_number>\d{1,2})[/.](?P<year>\d{4})(?!\d)", _date),
        (rf"{_DAY_BEFORE}(?:,?(?:\s+of)?[\s-]+{_YEAR}|(?!\s+\d))", _date),
        (rf"\b{_WEEKDAY}{_MONTH}\s+(?:the\s+)?{_DAY}\b(?:,?\s+(?:(?:in|of)\s+)?{_YEAR})?", _date),
        (rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}", _date),
        (r"(?<![\w.,/])(?P<decade>)(?P<year>\d{3}0)'?s\b", _date),
        (rf"(?<![\w.,/])(?P<century>\d{{1,2}})(?:st|nd|rd|th)[\s-]+(?:century\b|c\.)(?:\s*{_ERA})?", _date),
        (rf"(?<![\w.,/])(?P<year>\d{{1,4}})\s*{_ERA}", _date),
        (r"\b(?P<era>(?-i:A\.?D\.?|B\.?C\.?))\s*(?P<year>\d{1,4})(?![\w,:/-]|\.\d)", _date),
        (r"(?<![\w:.])(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?\s*(?P<half>[ap])\.?\s?m\b\.?", _time),
        (r"(?<![\w:.])(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?!\d|:\d)|\s+o'clock\b)", _time),
        (rf"(?<![a-z])(?P<money>{_BEFORE})\s?{_NUMBER}(?!\d)(?P<scale>(?:[kmb]|bn|mn)\b|{_SCALE})?", _amount),
        (
            rf"(?:(?P<between>\bbetween\s+)|(?<![\w.,/:-])){_NUMBER}(?:\s?[a-z%°]+)?"
            rf"(?:(?(between)\s+and\s+|\s*-\s*)|:|\s+to\s+){_HIGH}(?![\w/:-]|[.,]\d)",
            _pair,
        ),
        (r"(?<![\w.,/])(\d{1,9})(?:st|nd|rd|th)\b", _ordinal),
        (rf"(?<![\w.,/:^])(?:{_NUMBER}(?:\s*[x*]\s*10\^|e)|10\^)(?P<power>-?\d+)\b", _amount),
        (
            rf"(?<![\w.,/:])(?<!\d-)(?:(?<![\w)])(?P<sign>-|minus |negative )(?=[\d.]))?{_NUMBER}"
            rf"(?![\d/]|[.,:]\d)(?P<scale>(?:k|bn|mn)\b|{_SCALE})?",  # 7m may be a length
            _amount,
        ),
    )
]
