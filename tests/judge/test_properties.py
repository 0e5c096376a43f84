"""Rules of the judge on random answers: a model that says yes to every pair, which only a rule can refuse."""

import datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from num2words import num2words

from seper_reward.judge.judge import Judge
from seper_reward.types import Pair
from tests.helpers import ScriptedModel, texts_of

JUDGE = Judge(ScriptedModel(lambda pair: 0.99))
MONTHS = [datetime.date(2000, at, 1).strftime("%B") for at in range(1, 13)]
NUMERALS = ["IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII"]  # from 4 on
UNITS = ["km", "metres", "miles", "feet", "kg", "pounds", "°C", "minutes", "days", "litres", "acres", "mph", "%"]
often = settings(max_examples=150, deadline=None, derandomize=True)
seldom = settings(max_examples=30, deadline=None, derandomize=True)


def support(premise, hypothesis, judge=JUDGE):
    pair = Pair("What was it?", premise, hypothesis)
    return judge.probs([pair])[pair]


def formatted(form, **parts):
    """Return a strategy of texts: a form with parts from strategies."""
    return st.fixed_dictionaries(parts).map(lambda drawn: form.format(**drawn))


def number(low=1, high=9999):
    return st.integers(low, high)


day, month, year = number(1, 28), st.sampled_from(MONTHS), number(1000, 2050)
hour, minute = number(1, 12), number(0, 59)
digit, letter, sign = number(0, 9), st.sampled_from("ABCDEFGHKLMNPRSTW"), st.sampled_from("$£€¥₹")
GOLDS = {
    "whole numbers": formatted("{n}", n=number(1, 10**9)) | formatted("{n:,}", n=number(1000, 10**9)),
    "decimals": formatted("{n}.{d}", n=number(0), d=number(0, 999)),
    "negative numbers": formatted("-{n}", n=number()),
    "fractions": formatted("{a}/{b}", a=number(1, 99), b=number(1, 99)),
    "powers": formatted("10^{n}", n=number(2, 30)),
    "dates": formatted("{d} {m} {y}", d=day, m=month, y=year)
    | formatted("{m} {d}, {y}", d=day, m=month, y=year)
    | formatted("{y}-{m:02}-{d:02}", d=day, m=hour, y=year)
    | formatted("{m:02}/{d:02}/{y}", d=day, m=hour, y=year)
    | formatted("{d} {m}", d=day, m=month)
    | formatted("{m} {y}", m=month, y=year),
    "years": formatted("{y}", y=year)
    | formatted("{n} BC", n=number(1, 999))
    | formatted("{c}th century", c=number(4, 19)),
    "times": formatted("{h:02}:{m:02}", h=number(0, 23), m=minute)
    | formatted("{h}:{m:02} {half}", h=hour, m=minute, half=st.sampled_from(["am", "pm", "a.m.", "p.m."])),
    "money": formatted("{s}{n:,}", s=sign, n=number(1, 10**6))
    | formatted("{s}{n}.{d:02}", s=sign, n=number(1, 999), d=number(0, 99))
    | formatted("{s}{n}{scale}", s=sign, n=number(1, 999), scale=st.sampled_from(["k", "m", "bn", " million"])),
    "quantities": formatted("{n} {unit}", n=number(), unit=st.sampled_from(UNITS)),
    "ranges": formatted("{a}-{b} km", a=number(1, 99), b=number(100, 999)),
    "scores": formatted("{a}-{b}", a=number(0, 130), b=number(0, 130)),
    "intervals": formatted("{open}{a}, {b}{close}", open=st.sampled_from("[("), a=number(0, 99), b=number(0, 99),
                           close=st.sampled_from("])")),
    "inequalities": formatted("x {s} {n}", s=st.sampled_from("<>≤≥=≠"), n=number(0, 99)),
    "identifiers": formatted("555-{a}-{b}", a=number(100, 999), b=number(1000))
    | formatted("+{a} {b} {c}", a=number(1, 99), b=number(100, 999), c=number(1000))
    | formatted("978-{a}-{b}-{c}-{d}", a=digit, b=number(100, 999), c=number(10000, 99999), d=digit)
    | formatted("{a}{n} {m}{b}{c}", a=letter, n=digit, m=digit, b=letter, c=letter)
    | formatted("{name} {n}", name=st.sampled_from(["Boeing", "Apollo", "Route", "U"]), n=number(1, 999)),
}  # fmt: skip
everywhere = pytest.mark.parametrize("form", ["{}", "It was {}.", "The answer is {}"])


@pytest.mark.parametrize("kind", GOLDS)
@everywhere
def test_another_digit_is_another_answer(kind, form):
    @often
    @given(GOLDS[kind], st.data())
    def check(gold, data):
        at = data.draw(st.sampled_from([at for at, character in enumerate(gold) if character.isdecimal()]))
        other = data.draw(st.sampled_from("0123456789".replace(gold[at], "")))
        assert support(form.format(gold), gold) >= 0.99
        assert support(form.format(gold[:at] + other + gold[at + 1 :]), gold) == 0

    check()


#: By kind of answer, the signs that are changed, each into the others of its group; "" for none.
SIGNS = {
    "negative numbers": [["-", "", "+"]],
    "fractions": [["/", ""]],
    "powers": [["^", ""]],
    "money": [["$", "£", "€", "₹"]],
    "intervals": [["[", "("], ["]", ")"]],
    "inequalities": [["<", ">", "≤", "≥", "=", "≠"]],
}


@pytest.mark.parametrize("kind", SIGNS)
@everywhere
def test_another_sign_is_another_answer(kind, form):
    @often
    @given(GOLDS[kind], st.data())
    def check(gold, data):
        groups = [(sign, group) for group in SIGNS[kind] for sign in group if sign and sign in gold]
        assume(groups)
        sign, group = data.draw(st.sampled_from(groups))
        other = data.draw(st.sampled_from([each for each in group if each != sign]))
        assert support(form.format(gold.replace(sign, other, 1)), gold) == 0

    check()


@everywhere
@given(number(), st.sampled_from(UNITS), st.sampled_from(UNITS))
@often
def test_another_unit_is_another_answer(form, count, unit, other):
    assume(unit != other)
    assert support(form.format(f"{count} {other}"), f"{count} {unit}") == 0


@everywhere
@given(hour, minute, month, year)
@often
def test_another_half_of_the_day_or_month_is_another_answer(form, hours, minutes, name, years):
    assert support(form.format(f"{hours}:{minutes:02} pm"), f"{hours}:{minutes:02} am") == 0
    other = MONTHS[MONTHS.index(name) - 5]
    assert support(form.format(f"{hours} {other} {years}"), f"{hours} {name} {years}") == 0
    assert support(form.format(f"{years} BC"), f"{years} AD") == 0


def spellings():
    """Return strategies of lists of spellings of a value, by kind."""

    def of(act, *parts):
        return st.tuples(*parts).map(lambda drawn: act(*drawn))

    def words(count, **options):
        return num2words(count, **options)

    def dates(at, name, on):
        ordinal = words(at, to="ordinal_num")
        month_number = MONTHS.index(name) + 1
        slashes = [f"{at:02}/{month_number:02}/{on}", f"{month_number:02}/{at:02}/{on}"] if at > 12 else []
        return [f"{at} {name} {on}", f"{name} {at}, {on}", f"{on}-{month_number:02}-{at:02}", f"{at} {name[:3]} {on}",
                f"the {ordinal} of {name}, {on}", f"{name} {ordinal}, {on}", *slashes]  # fmt: skip

    return {
        "numbers": of(lambda n: [f"{n}", f"{n:,}", words(n), words(n).replace(" and ", " ")], number(1, 10**9)),
        "ordinals": of(lambda n: [words(n, to="ordinal"), words(n, to="ordinal_num")], number(1, 130)),
        "negative": of(lambda n: [f"-{n}", f"−{n}", f"minus {n}", f"minus {words(n)}"], number(1, 999)),
        "dates": of(dates, day, month, number(1300, 2050)),
        "percent": of(
            lambda n: [f"{n}%", f"{n} %", f"{n} percent", f"{n} per cent", f"{words(n)} percent"], number(1, 100)
        ),
        "pounds": of(
            lambda n, d: [f"£{n}.{d:02}", f"{n}.{d:02} pounds", f"GBP {n}.{d:02}"], number(1, 999), number(0, 99)
        ),
        "dollars": of(lambda n: [f"${n},000", f"${n}k", f"US${n},000", f"{n} thousand dollars"], number(1, 999)),
        "euros": of(lambda n: [f"€{n}m", f"€{n} million", f"{n} million euros", f"€{n},000,000"], number(1, 999)),
        "lengths": of(
            lambda n: [f"{n} km", f"{n}km", f"{n}000 m", f"{n},000 metres", f"{n} kilometres"], number(1, 999)
        ),
        "weights": of(lambda n: [f"{n} kg", f"{n}000 g", f"{n} kilograms", f"{words(n)} kilos"], number(1, 99)),
        "durations": of(lambda n: [f"{n} hours", f"{60 * n} minutes", f"{words(n)} hours"], number(2, 99)),
        "temperatures": of(lambda n: [f"{n} °C", f"{n}°C", f"{n} C", f"{n} degrees Celsius"], number(-40, 60)),
        "mornings": of(lambda h, m: [f"{h}:{m:02} am", f"{h}:{m:02}am", f"{h}.{m:02} a.m."], hour, minute),
        "evenings": of(lambda h, m: [f"{h}:{m:02} pm", f"{h + 12}:{m:02}"], number(1, 11), minute),
        "scores": of(
            lambda a, b: [f"{a}-{b}", f"{a}–{b}", f"{a} - {b}", f"{a} to {b}"], number(0, 130), number(0, 130)
        ),
        "centuries": of(lambda n: [f"{n}th century", f"the {words(n, to='ordinal')} century"], number(4, 19)),
        "numerals": of(lambda n: [f"Louis {NUMERALS[n - 4]}", f"Louis {n}"], number(4, 13)),
    }


@everywhere
@pytest.mark.parametrize("kind", spellings())
def test_another_spelling_is_the_same_answer(kind, form):
    @seldom
    @given(spellings()[kind])
    def check(same):
        judged = JUDGE.probs(pairs := [Pair("", form.format(one), other) for one in same for other in same])
        assert {pair[1:] for pair in pairs if judged[pair] < 0.5} == set()

    check()


@given(number(0, 99), number(0, 99), st.sampled_from("[("), st.sampled_from("])"))
@seldom
def test_spaces_and_latex_change_no_interval(low, high, opened, closed):
    same = [f"{opened}{low}, {high}{closed}", f"${opened}{low},{high}{closed}$", f"{opened} {low}, {high} {closed}"]
    assert {support(one, other) for one in same for other in same} == {1.0}


SCRIPTS = texts_of(__file__)


@pytest.fixture
def english(tiny_judge):
    """Return a judge that says yes to all pairs that a model with an English vocabulary can read."""
    return Judge(ScriptedModel(lambda pair: 0.99, tiny_judge.unread))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_text_of_a_script_without_a_vocabulary_supports_its_equal_only(script, english):
    texts = st.text(SCRIPTS[script], min_size=1, max_size=8)

    @often
    @given(texts, texts)
    def check(one, other):
        assert support(f"“{one}”.", one, english) == 1
        assume(one != other)
        assert support(one, other, english) == support(f"It is {one}.", other, english) == 0

    check()
    assert support("It is Ida Voss.", "Ida Voss", english) == pytest.approx(0.99)
