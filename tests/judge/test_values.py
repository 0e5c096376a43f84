"""Values of texts: other spellings of one value are equal, near values are not, and what is no value is left alone."""

import random

import pytest
from num2words import num2words

from seper_reward.judge import values
from seper_reward.judge.values import in_digits, values_in
from tests.helpers import texts_of

TEXTS = texts_of(__file__)


def only(text):
    (value,) = values_in(text)
    return value


@pytest.mark.parametrize("spellings", TEXTS["same"], ids=lambda spellings: spellings[0])
def test_spellings_of_a_value_entail_each_other(spellings):
    values = list(map(only, spellings))
    assert all(one.entails(other) for one in values for other in values)


@pytest.mark.parametrize(("narrow", "wide"), TEXTS["narrower"])
def test_a_precise_value_entails_a_less_precise_one_and_not_the_reverse(narrow, wide):
    assert only(narrow).entails(only(wide))
    assert not only(wide).entails(only(narrow))


@pytest.mark.parametrize(("one", "other"), TEXTS["different"])
def test_different_values_exclude_each_other(one, other):
    assert not only(one).entails(only(other))
    assert not only(other).entails(only(one))


@pytest.mark.parametrize("text", ["H2O", "She may march", "MIX", "Then I went", "A", "Fair won", "10.13.4"])
def test_other_words_are_no_values(text):
    assert values_in(text) == ()


def test_numbers_in_words_are_read_back():
    rng = random.Random(0)
    for number in [*range(1, 130), *(rng.randint(130, 10**7) for _ in range(300))]:
        assert in_digits(num2words(number)) == str(number)
        assert only(f"They counted {num2words(number)} in all.").readings[0].numbers == (number,)
    for year in range(1100, 2000):
        assert in_digits(num2words(year, to="year")) == str(year)
    for number in range(1, 130):
        assert in_digits(num2words(number, to="ordinal")) == num2words(number, to="ordinal_num")


def test_roman_numerals_are_read_wherever_they_stand():
    for text, expected in TEXTS["numerals"].items():
        assert in_digits(text) == expected


def test_a_citation_glued_to_a_year_and_lost_spaces_are_no_part_of_it():
    for text in ("The tour began in 2016.", "It began inApril, in20161.", "It began on April 1, 20161 ."):
        assert values_in(text)[-1].entails(only("2016")), text


def test_other_numbers_stay():
    for text in ("It has a population of 15300.", "It rose to 18250.", "It was 120000."):
        assert in_digits(text) == text


def test_values_keep_their_places_in_the_text():
    text = "It took twelve men from 1702 to 14 March 1711 to build 412 metres for $45k."
    found = [in_digits(text)[value.start : value.end] for value in values_in(text)]
    assert found == ["12", "1702", "14 March 1711", "412 metres", "$45k"]


def test_a_long_text_is_read_in_time_that_grows_with_its_length():
    text = "In nineteen eighty-nine 1,200 of them, six at 7:30, paid $45k - " * 400
    assert len(values_in(text)) > 1500


def test_a_range_is_entailed_by_an_equal_range_only():
    assert only("between 5 km and 6 km").entails(only("5-6 km"))
    assert not only("5 to 6 km").entails(only("1 to 10 km"))
    assert not only("1940").entails(only("1939-1945"))
    assert only("1500-2000").entails(only("1,500 to 2,000"))


@pytest.mark.parametrize(
    "text",
    [
        "1/" + "9" * 5000, "hundred " * 3000, "dozen " * 5000, "111 " * 4000, "5 metre\u017f", "the \u017fixties",
        "10^500", "10⁵⁰⁰", "6 x 10^400", "1e400", "1" * 5000, "1" * 5000 + "th", "1" * 5000 + "-2", "10^" + "9" * 5000,
    ],
)  # fmt: skip
def test_odd_texts_are_read_without_an_error(text):
    values_in(text)


def test_a_library_of_units_that_fails_is_not_silent(monkeypatch):
    def fail():
        raise TypeError("cannot inherit")  # pint 0.24 with flexparser 0.4

    monkeypatch.setattr(values, "unit_registry", fail)
    with pytest.raises(TypeError, match="cannot inherit"):
        values_in("It is 412 leagues long.")
