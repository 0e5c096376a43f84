"""Values that a text states: numbers, quantities, money, dates, times, scores, ranges, fractions and identifiers.

The entailment model reads digits as word pieces and confuses 85 with 87, so values are compared by rule. Units convert
by pint. No library reads the rest: quantulum3 reads no dates and no times, dateparser completes "November 1989" with
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
_IRREGULAR = {"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12}
_ORDINALS = _IRREGULAR | {
    (word[:-1] + "ieth" if word.endswith("y") else word + "th"): number
    for word, number in (_CARDINALS | _SCALES).items()
    if number not in (0, 1, 2, 3, 5, 8, 9, 12)
}
_PARTS = {"hal": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_ABBREVIATED = {"k": 1e3, "m": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9, **_SCALES}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_CURRENCIES = {
    "USD": "$ us$ usd dollar dollars",
    "GBP": "£ gbp pound pounds quid",
    "EUR": "€ eur euro euros",
    "JPY": "¥ jpy yen",
    "INR": "₹ inr rs rupee rupees",
    "CNY": "cny rmb yuan",
    "CHF": "chf franc francs",
    "RUB": "₽ rub rouble roubles ruble rubles",
    "KRW": "₩ krw won",
}
_MONEY = {sign: code for code, signs in _CURRENCIES.items() for sign in signs.split()}
_HUNDREDTHS = {"p": "GBP", "pence": "GBP", "penny": "GBP", "¢": "USD", "cent": "USD", "cents": "USD"}
# spellings of units that pint lacks or reads otherwise; pounds of money are also pounds of mass
_UNITS = {
    "degC": "c, °c, celsius, centigrade, degrees c, degrees celsius, degrees centigrade",
    "degF": "f, °f, fahrenheit, degrees f, degrees fahrenheit",
    "kg": "kilo, kilos",
    "MW": "mw",
    "kW": "kw",
    "GB": "gb",
    "MB": "mb",
    "TB": "tb",
    "nautical_mile": "nautical miles",
    "year": "years old, year old, years of age",
    "m^2": "m2",
    "km^2": "km2",
    "m^3": "m3",
}
_SPELLED = {spelling: unit for unit, spellings in _UNITS.items() for spelling in spellings.split(", ")}
# words behind a number that pint would read as units
_NO_UNITS = frozenset("a as at are point points d e u am pm x ad bc us p y b".split())  # noqa: SIM905

_NUMBER = (
    r"(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d+)?(?![\d,])|\d{1,3}(?: \d{3}){1,6}(?!\d)(?:\.\d+)?|\d+ \d+/\d+|\d+/\d+"
    r"|\d+(?:[.,]\d+)?|\.\d+)"
)
_SIGN = r"(?:(?<![\w)])(?P<sign>-|minus |negative )(?=[\d.]))?"
_SCALE, _MONEY_SCALE = (
    rf"(?:(?P<letter>{letters})\b|\s*(?P<word>hundred|thousand|million|billion|trillion)\b)?"
    for letters in ("k|bn|mn", "[kmb]|bn|mn")  # $7m; 7m may be a length
)
_AMOUNT = rf"(?<![\w.,/:])(?<!\d-){_SIGN}(?P<number>{_NUMBER})(?![\d/]|[.,:]\d)"
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+(?:the\s+)?)?"
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>\d{4})(?![\d.,:/]\d)"
_ERA = r"(?P<era>b\.?c\.?(?:e\.?)?|a\.?d\.?|c\.?e\.?)(?![a-z])"
_TAIL = re.compile(r"[\s-]?(?P<unit>°?\s?[^\W\d_]+(?:[ /^](?:[^\W\d_]+|[23](?!\d)))*|[%€$£¥₹¢²³])")


class Reading(NamedTuple):
    """One way to read a value: numbers of a kind, which are comparable with others of this kind only.

    ``step`` is half a unit of the last digit, by which a converted value may differ.
    """

    kind: str
    numbers: tuple[Any, ...]
    step: float = 0.0


class Value(NamedTuple):
    """A value that a text states at ``start:end`` of ``in_digits(text)``, with all ways to read it."""

    start: int
    end: int
    readings: tuple[Reading, ...]

    def comparable(self, other: "Value") -> bool:
        """Return whether both are of one kind, so that one excludes the other unless they are equal."""
        return any(_one_kind(one.kind, two.kind) for one in self.readings for two in other.readings)

    def entails(self, other: "Value") -> bool:
        """Return whether this value is the other one, or a date within it: a day entails its month and year."""
        return any(_entails(one, two) for one in self.readings for two in other.readings)

    def agrees(self, other: "Value") -> bool:
        """Return whether this is a date that may be the other one, which is more precise: a year, and a day in it."""
        return any(
            one.kind == two.kind == "date" and _entails(two, one) for one in self.readings for two in other.readings
        )

    @property
    def has_unit(self) -> bool:
        """Whether the value has a unit, which a number may leave out but not add."""
        return self.readings[-1].kind == "amount"


def _one_kind(one: str, two: str) -> bool:
    return one == two != "amount" or {one, two} == {"number", "amount"}  # 85 may be 85 kg


def _entails(one: Reading, two: Reading) -> bool:
    if not _one_kind(one.kind, two.kind):
        return False
    if one.kind == "date":
        low, high, month, day = one.numbers
        lowest, highest, months, days = two.numbers
        return bool(lowest <= low <= high <= highest and months in (0, month) and days in (0, day))
    # values in the same unit have the same step, and must be equal
    step = 0.0 if one.step == two.step else max(one.step, two.step)
    return len(one.numbers) == len(two.numbers) and all(
        x == y if isinstance(x, str) else abs(x - y) <= max(1e-9 * abs(y), min(step, 0.01 * abs(y)))
        for x, y in zip(one.numbers, two.numbers, strict=True)
    )


@functools.lru_cache(maxsize=65536)
def in_digits(text: str) -> str:
    """Return a text, as ``plain`` returns it, with number words and Roman numerals in digits.

    >>> in_digits("In nineteen eighty-nine, half a million of the twenty-first century"), in_digits("World War II")
    ('In 1989, 500000 of the 21st century', 'World War 2')
    """
    text = _CITED_YEAR.sub(r"\1", _LOST_SPACE.sub(r"\g<0> ", plain(text)))
    if not _WORDS.isdisjoint(re.findall("[a-z]+", text.casefold())):  # the pattern of runs is slow
        text = _NUMBER_WORDS.sub(_in_digits, text)
    digits = _ROMAN.sub(_arabic, text)
    return _POINT.sub(r"\1.\2", digits.replace(" and a half", " point 5"))


# web text often lacks the spaces around a date and the brackets of the citation after it: in19891.
_LOST_SPACE = re.compile(
    rf"\b(in|on|of|to|from|was|is|since|by|has|until)(?=\d|{_MONTH.replace('?P<month>', '?:')})"
    r"|\b(\d{4})(?=(?!st\b|nd\b|rd\b|th\b)[A-Za-z]{2})",
    re.IGNORECASE,
)
_CITED_YEAR = re.compile(r"(?<=\b(?:in|\d,) )((?:1[1-9]|20)\d\d)[1-9]\d?(?=\s*\.(?:\s|$))")
_POINT = re.compile(r"\b(\d+) point (\d+)\b")
_ROMAN = re.compile(r"(?<=[A-Za-z] )(?=[IVX])(X{0,3})(IX|IV|V?I{0,3})(?![\w'-]|\.\w)")
# Charles I was king, but "then I was", "How I Met"
_BEHIND_PRONOUN = re.compile(r" (?!(?:of|and|or|in|by|from|to)\b)[A-Za-z]")
_NAME_BEFORE = re.compile(r"\b[A-Z][a-z]{4,} $")
_ONES = {"": 0, "I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8, "IX": 9}


def _arabic(found: re.Match[str]) -> str:
    before, behind = found.string[: found.start()], found.string[found.end() :]
    if found[0] == "I" and _BEHIND_PRONOUN.match(behind) and not _NAME_BEFORE.search(before):
        return "I"
    return str(10 * len(found[1]) + _ONES[found[2]])


_WORDS = frozenset([*_CARDINALS, *_SCALES, *_ORDINALS, "dozen", "oh"])
_WORD = "|".join(sorted(sorted(_WORDS), key=len, reverse=True))
_NUMBER_WORDS = re.compile(
    rf"\b(?:(?:half\s+)?an?\s+(?=hundred|thousand|million|billion|trillion|dozen))?(?:{_WORD})\b"
    rf"(?:(?:,|\s+and)?[\s-]+(?:{_WORD})\b)*",
    re.IGNORECASE,
)
_NO_NUMBER = re.compile(r"(?:\b(?:the|no|any|some|every|this|that|which|each|only)\s+$)", re.IGNORECASE)


def _in_digits(found: re.Match[str]) -> str:
    """Return a run of number words in digits; words that are no numbers in this place are unchanged."""
    run, before, after = found[0].lower(), found.string[: found.start()], found.string[found.end() :]
    pronoun = run == "one" and (_NO_NUMBER.search(before) or after.startswith((" of ", "'s")))
    behind_digits = (run in _SCALES or run == "second") and re.search(r"\d\s*$", before)  # 1.5 million, 1 second
    if run == "oh" or pronoun or behind_digits:
        return found[0]
    numbers: list[float] = []
    total = current = 0.0
    ordinal = zero = False
    for word in re.findall("[a-z]+", run.removeprefix("half ")):
        if word in ("a", "an", "and", "oh"):
            zero = word == "oh"
            continue
        number = float(_ORDINALS.get(word) or {**_CARDINALS, **_SCALES, "dozen": 12}[word])
        ordinal = word in _ORDINALS
        if word == "dozen" or number == 100:
            current = (current or 1) * number
        elif number >= 1000:
            total, current = total + (current or 1) * number, 0.0
        elif 10 <= current <= 20 and (number >= 10 or zero):
            current = 100 * current + number  # nineteen eighty-nine, nineteen oh five
        elif (current % 100 == 0 and (current or not total or number < 1000)) or (
            current % 10 == 0 and current % 100 >= 20 and 0 < number < 10
        ):
            current += number
        else:
            numbers.append(total + current)
            total, current = 0.0, number
    numbers.append((total + current) / (2 if run.startswith("half ") else 1))
    spelled = [f"{each:.12g}" if each < 1e12 else f"{each:.0f}" for each in numbers]
    return " ".join(spelled) + (_ending(int(numbers[-1])) if ordinal else "")


def _ending(number: int) -> str:
    return "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


@functools.lru_cache(maxsize=65536)
def values_in(text: str) -> tuple[Value, ...]:
    """Return the values in a text, in order.

    >>> [value.readings[0][:2] for value in values_in("On 14 March 1702 they paid $45k for 78 per cent.")]
    [('date', (1702, 1702, 3, 14)), ('USD', (45000.0,)), ('percent', (78.0,))]
    """
    digits = in_digits(text)
    if not _MAY_STATE.search(digits):
        return ()
    found: list[Value] = []
    taken = [False] * len(digits)
    for pattern, read in _READERS:
        for match in pattern.finditer(digits):
            value = None if any(taken[match.start() : match.end()]) else read(match)
            if value is not None:
                taken[value.start : value.end] = [True] * (value.end - value.start)
                found.append(value)
    return tuple(_joined(sorted(found), digits))


def _joined(values: list[Value], digits: str) -> list[Value]:
    """Join quantities that are one: 2 hours 15 minutes, 5 feet and 7 inches."""
    joined: list[Value] = []
    for value in values:
        last = joined[-1] if joined else value
        one, two = last.readings[0], value.readings[0]
        near = joined and re.fullmatch(r",?\s*(?:and\s+)?", digits[last.end : value.start])
        if near and one.kind == two.kind and one.kind.startswith("[") and one.step > two.step:
            both = Reading(one.kind, (one.numbers[0] + two.numbers[0],), two.step)
            joined[-1] = Value(last.start, value.end, (both, Reading("amount", both.numbers)))
        else:
            joined.append(value)
    return joined


_MAY_STATE = re.compile(r"\d|half|halves|quarter", re.IGNORECASE)
# words of capitals and digits: SW1A 1AA, S07E20, U-235
_CODE = re.compile(r"(?=.*\d)(?=.*[A-Z])[A-Z\d]+(?:[- ][A-Z\d]+)?")


_FILLER = re.compile(r"\b(?:an?|the|from|between)\b|[\s.,;:!?\"']", re.IGNORECASE)


@functools.lru_cache(maxsize=65536)
def whole_value(text: str) -> Value | None:
    """Return the value that a text consists of, apart from articles and punctuation; ``None`` for other texts.

    >>> [value and value.readings[0].kind for value in map(whole_value, ["The 14th century.", "85 books", "98-95"])]
    ['date', None, 'pair']
    """
    values, digits = values_in(text), in_digits(text)
    if len(values) == 1 and not _FILLER.sub("", digits[: values[0].start] + digits[values[0].end :]):
        return values[0]
    if _CODE.fullmatch(bare := digits.strip(" .,;:!?\"'")):
        return Value(0, len(digits), (Reading("code", (re.sub(r"\W", "", bare).casefold(),)),))
    return None


def _group(match: re.Match[str], name: str) -> str:
    return (match.groupdict().get(name) or "").strip().lower()


def _value(match: re.Match[str], *readings: Reading) -> Value:
    return Value(match.start(), match.end(), readings)


def _date(match: re.Match[str]) -> Value | None:
    month, day, year = int(_group(match, "month_number") or 0), int(_group(match, "day") or 0), _group(match, "year")
    if name := _group(match, "month"):
        month = next(at for at, each in enumerate(_MONTHS, 1) if name.startswith(each))
    if month > 12 and day <= 12:
        day, month = month, day  # American order: 03/14/1702
    if not 1 <= month <= 12 or day > 31:
        return None
    if _group(match, "day") and not day:
        day = 32  # no day of a month, so it is another date
    low, high = (int(year), int(year)) if year else (-math.inf, math.inf)
    return _value(match, Reading("date", (low, high, month, day)))


def _years(match: re.Match[str]) -> Value:
    """Read a decade, a century or a year with its era."""
    sign = -1 if _group(match, "era").startswith("b") else 1
    if century := _group(match, "century"):
        low = 100 * (int(century) - 1) if sign > 0 else -100 * int(century)
        return _value(match, Reading("date", (low, low + 100, 0, 0)))
    year = int(match["year"]) * sign
    last = year + (9 if year % 100 else 99) if "decade" in match.groupdict() else year
    return _value(match, Reading("date", (year, last, 0, 0)))


def _time(match: re.Match[str]) -> Value | None:
    hour, minute, half = int(match["hour"]), int(_group(match, "minute") or 0), _group(match, "half")
    if part := _group(match, "part"):
        minute = 30 if part == "half" else 15
        hour, minute = (hour, minute) if match["side"].lower() == "past" else (hour - 1, 60 - minute)
    if hour > 24 or minute > 59 or (half and hour > 12):
        return None
    if half:
        return _value(match, Reading("time", ((hour % 12 + 12 * (half not in ("a", "morning"))) * 60 + minute,)))
    at = hour % 24 * 60 + minute
    # 07:30 is in the morning, 7:30 may be in the evening
    times = (at, (at + 720) % 1440) if hour <= 12 and match[0][0] != "0" else (at,)
    score = [Reading("pair", (float(hour), float(minute)))] if match[0].count(":") == 1 else []
    return _value(match, *(Reading("time", (each,)) for each in times), *score)


def _ordinal(match: re.Match[str]) -> Value:
    return _value(match, Reading("ordinal", (int(match["number"]),)))


def _part(match: re.Match[str]) -> Value:
    part = _group(match, "part")
    under = int(match["under"] or next(number for name, number in _PARTS.items() if part.startswith(name)))
    over = _group(match, "over")
    return _value(match, Reading("number", ((int(over) if over.isdigit() else 1) / under,), 1e-3))


def _feet(match: re.Match[str]) -> Value:
    """Read feet and inches: 6'2"."""
    length = _converted(float(match["feet"]) + float(match["inches"]) / 12, 1 / 24, *_units("feet")[0])
    return _value(match, length, Reading("amount", length.numbers))


def _code(match: re.Match[str]) -> Value:
    return _value(match, Reading("code", (re.sub(r"\W", "", match[0]).casefold(),)))


def _amount(match: re.Match[str]) -> Value:
    """Read a number, with a currency before it or a unit behind it."""
    scale = _ABBREVIATED.get(_group(match, "letter") or _group(match, "word"), 1.0)
    if power := _group(match, "power"):
        scale = 10.0 ** int(power)
    written = match["number"] or "1"  # 10^6
    number, step = _parsed(written), scale * _step(written)
    number *= -scale if _group(match, "sign") else scale
    if sign := _group(match, "money"):
        return _value(match, Reading(_MONEY[sign], (number,)), Reading("amount", (number,)))
    units, end = _unit_behind(match)
    if units:
        readings = [_converted(number, step, kind, unit) for kind, unit in units]
        if units[0][0] == "percent":
            readings.append(Reading("number", (number / 100,), step / 100))
        elif match.string[match.end() : end] == "m":
            readings.append(Reading("number", (number * 1e6,)))  # 2.5m people
        return Value(match.start(), end, (*readings, Reading("amount", (number,))))
    readings = [Reading("number", (number,), 1e-3 if "/" in written else 0.0)]
    if re.fullmatch(r"[12]\d{3}", match[0]):
        readings.append(Reading("date", (int(number), int(number), 0, 0)))
    return _value(match, *readings)


def _pair(match: re.Match[str]) -> Value:
    """Read two joined numbers, a score or a range, with the unit of the second."""
    one, two = _parsed(match["number"]), _parsed(match["high"])
    units, end = _unit_behind(match)
    if units and match["first"] and _units(match["first"].strip()) not in ((), units):
        units, end = (), match.end()
    if units:
        low, high = (_converted(_parsed(match[each]), _step(match[each]), *units[0]) for each in ("number", "high"))
        both = Reading(f"pair {low.kind}", (*low.numbers, *high.numbers), max(low.step, high.step))
        return Value(match.start(), end, (both,))
    years = re.fullmatch(r"[12]\d{3}", match["number"]) and re.fullmatch(r"\d{2}", match["high"])
    ends = (one, 100 * (one // 100) + two) if years else (one, two)
    return _value(match, Reading("pair", ends))


def _parsed(written: str) -> float:
    ones, slash, under = written.rpartition("/")
    if slash:
        whole, _, over = ones.rpartition(" ")
        return float(whole or 0) + float(over) / (float(under) or math.nan)
    if re.fullmatch(r"\d+,\d{1,2}", written):
        return float(written.replace(",", "."))  # European decimal comma: 42,5
    return float(re.sub("[, ]", "", written))


def _step(written: str) -> float:
    """Return half a unit of the last digit of a number; of a fraction, the precision of its usual decimal form."""
    return 1e-3 if "/" in written else 0.5 * 10.0 ** -len(written.partition(".")[2])


Unit = tuple[str, Any]  # kind, and the unit's size or pint's unit


def _unit_behind(match: re.Match[str]) -> tuple[tuple[Unit, ...], int]:
    """Return the ways to read the longest unit behind a number, and its end; ``()`` if there is none."""
    found = _TAIL.match(match.string, match.end())
    words = re.findall(r"[^ ]+", found["unit"])[:4] if found else []
    for size in range(len(words), 0, -1):
        name = " ".join(words[:size])
        end = match.string.index(name, match.end()) + len(name)
        if name == "in" and re.match(r"\s+\w", match.string[end:]):
            continue  # 12 in all
        if units := _units(name):
            return units, end
    return (), match.end()


@functools.lru_cache(maxsize=4096)
def _units(name: str) -> tuple[Unit, ...]:
    """Return the ways to read a unit: kind and size, or kind and pint's unit."""
    lower = name.lower().strip()
    if lower in ("%", "pct", "percent", "per cent", "percentage points"):
        return (("percent", 1.0),)
    money: list[Unit] = [(_MONEY[lower], 1.0)] if lower in _MONEY else []
    money += [(code, 0.01) for code in (_HUNDREDTHS.get(lower),) if code]
    if lower in _NO_UNITS:
        return tuple(money)
    registry = _registry()
    try:
        unit = registry.parse_units(_SPELLED.get(lower, re.sub(r"\b(?:an|a) ", "per ", name)))
    except Exception:  # pint raises errors of many kinds for words that are no units
        return tuple(money)
    kind = str(unit.dimensionality)
    return (*money, (kind, unit)) if kind.startswith("[") else tuple(money)


@functools.cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=":auto:")


def _converted(number: float, step: float, kind: str, unit: Any) -> Reading:
    if isinstance(unit, float):
        return Reading(kind, (number * unit,))
    base = _registry().Quantity(number, unit).to_base_units().magnitude
    size = abs(_registry().Quantity(number + step, unit).to_base_units().magnitude - base)
    return Reading(kind, (base,), round(size, 12))


_BEFORE = "|".join(
    re.escape(sign) for sign in sorted(_MONEY, key=len, reverse=True) if not sign.isalpha() or len(sign) == 3
)
_HALF = r"(?:\s+(?:in\s+the\s+)?(?P<half>morning|afternoon|evening))?"
_READERS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], Value | None]]] = [
    (re.compile(pattern, re.IGNORECASE), read)
    for pattern, read in (
        (r"(?<![\w/.-])(?P<year>\d{4})-(?P<month_number>\d{2})-(?P<day>\d{2})(?!\d)", _date),
        (r"(?<![\w/.-])(?P<day>\d{1,2})[/.](?P<month_number>\d{1,2})[/.](?P<year>\d{4})(?!\d)", _date),
        (rf"(?<!\w){_WEEKDAY}{_DAY}(?:\s+day)?(?:\s+of)?[\s-]+{_MONTH},?(?:\s+of)?[\s-]+{_YEAR}", _date),
        (rf"\b{_WEEKDAY}{_MONTH}\s+(?:the\s+)?{_DAY}\b(?:,?\s+(?:(?:in|of)\s+)?{_YEAR})?", _date),
        (rf"(?<!\w){_DAY}(?:\s+day)?(?:\s+of)?[\s-]+{_MONTH}(?!\s+\d)", _date),
        (rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}", _date),
        (r"(?<![\w.,/])(?P<decade>)(?P<year>\d{3}0)'?s\b", _years),
        (rf"(?<![\w.,/])(?P<century>\d{{1,2}})(?:st|nd|rd|th)[\s-]+(?:century\b|c\.)(?:\s*{_ERA})?", _years),
        (rf"(?<![\w.,/])(?P<year>\d{{1,4}})\s*{_ERA}", _years),
        (rf"\b{_ERA}\s+(?P<year>\d{{1,4}})\b", _years),
        (r"(?<![\w:.])(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?\s*(?P<half>[ap])\.?\s?m\b\.?", _time),
        (rf"(?<![\w:.])(?P<hour>\d{{1,2}})(?::(?P<minute>\d{{2}})(?!\d|:\d)|\s+o'clock\b){_HALF}", _time),
        (r"\b(?P<part>half|quarter)\s+(?P<side>past|to)\s+(?P<hour>\d{1,2})\b", _time),
        (r"(?<![\w.,/])\d+(?:[-.:]\d+){2,}(?!\w)", _code),
        (rf"(?<![a-z])(?P<money>{_BEFORE})\s?(?P<number>{_NUMBER})(?!\d){_MONEY_SCALE}", _amount),
        (
            rf"(?<![\w.,/:-])(?P<number>{_NUMBER})(?P<first>\s?[a-z%°]+)?(?:\s*-\s*|:|\s+to\s+)(?P<high>{_NUMBER})(?![\w/:-]|[.,]\d)",
            _pair,
        ),
        (
            rf"(?<=between )(?P<number>{_NUMBER})(?P<first>\s?[a-z%°]+)?\s+and\s+(?P<high>{_NUMBER})"
            r"(?![\w/:-]|[.,]\d)",
            _pair,
        ),
        (
            r"(?<![\w.,/])(?P<over>\d+|an?|one)[\s-](?:(?P<part>half|halves|thirds?|quarters?|fourths?|fifths?|sixths?"
            r"|eighths?|tenths?)|(?P<under>3|4|5|6|8|10)(?:rd|th))(?!\s+(?:to|past)\b)(?=\s+of\b|\W*$)",
            _part,
        ),
        (r"(?<![\w.,/])(?P<number>\d+)(?:st|nd|rd|th)\b", _ordinal),
        (r"(?<![\w.])(?P<feet>\d+)\s?(?:'|ft|feet|foot)\s?(?P<inches>\d{1,2})\s?(?:\"|''|in\b|inch(?:es)?\b)", _feet),
        (rf"(?<![\w.,/:^])(?:(?P<number>{_NUMBER})(?:\s*[x*]\s*10\^|e)|10\^)(?P<power>-?\d+)\b", _amount),
        (rf"{_AMOUNT}{_SCALE}", _amount),
    )
]
