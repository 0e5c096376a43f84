"""Values of texts: other spellings of one value are equal, near values are not, and what is no value is left alone."""

import random

import pytest
from num2words import num2words

from seper_reward.judge import values
from seper_reward.judge.values import in_digits, values_in

SAME = [
    ("a dozen", "12"),
    ("2.34 km", "2340-metre"),
    ("3,200", "3200", "three thousand two hundred", "thirty-two hundred"),
    ("1.5 million", "1,500,000"),
    ("1989", "nineteen eighty-nine", "in 1989", "about 1989", "1989 AD"),
    ("1905", "nineteen oh five"),
    ("44 BC", "44 B.C.E."),
    ("79 AD", "79 CE", "AD 79", "A.D. 79"),
    ("9/11/2001", "September 11, 2001"),  # or 9 November
    ("2016–17", "2016-2017"),
    ("1,345,596", "1.345.596", "1345596"),
    ("587,000", "587.000"),
    ("12th", "12.", "the twelfth"),
    ("14 March 1702", "March 14, 1702", "1702-03-14", "14/03/1702", "03/14/1702", "the 14th of March, 1702"),
    ("7:30 am", "7.30 a.m.", "07:30"),
    ("19:00", "7 pm", "seven o'clock"),
    ("$45,000", "45000 USD", "$45k", "45 thousand dollars", "US$45,000"),
    ("£1.5bn", "1.5 billion pounds"),
    ("£937m", "937 million pounds", "£0.937b"),
    ("$1.25m", "$1,250,000"),
    ("6 ft 2 in", "6'2\"", "1.88 m"),
    ("90 minutes", "1.5 hours"),
    ("5 miles", "8 km"),
    ("98.6 °F", "37 °C"),
    ("1 year", "365 days"),
    ("225 days", "224.7 days"),
    ("0.62 years", "0.615198 yr"),
    ("580,367 km2", "580,367 km²", "580,367 square kilometres"),
    ("343 meters per second", "343 m/s"),
    ("1/3", "0.333"),
    ("1/2", "2/4", "0.5"),
    ("3", "three (3)"),
    ("1914-18", "1914 to 1918", "between 1914 and 1918"),
    ("two thirds", "2/3"),
    ("a quarter", "one quarter", "1/4"),
    ("3 quarters", "three quarters", "3/4"),
    ("a third", "1/3", "one third"),
    ("42.5 %", "42,5 %"),
    ("-41 °C", "minus 41 °C", "minus forty-one degrees Celsius"),
    ("300 m", "300 m in diameter", "300 m or so", "300 metres at its widest"),
    ("5 kg", "5 kg at birth", "5 kg in total", "5 kg as a calf"),
    ("12 hours", "12 hours in a row", "12 hours at a time", "12 hours a day"),
    ("80 km/h", "80 km an hour", "80 kilometres per hour"),
    ("3:30 pm", "15:30", "half past three in the afternoon", "half past three"),
    ("9:45", "a quarter to ten", "fifteen minutes to ten"),
    ("noon", "12 noon", "midday", "12:00"),
    ("90 minutes", "an hour and a half", "1.5 hours"),
    ("two weeks", "a fortnight", "14 days"),
]  # fmt: skip
# the first entails the second, not the reverse
NARROWER = [
    ("9 November 1989", "1989"),
    ("9 November 1989", "November 1989"),
    ("1987", "the 1980s"),
    ("14 March 1702", "14 March"),
    ("1850", "the 19th century"),
]
DIFFERENT = [
    ("$45,000", "$45 million"),
    ("24 hours", "23 hours 56 minutes"),
    ("2 hours", "119 minutes"),
    ("365 days", "366 days"),
    ("37 °C", "37.4 °C"),
    ("42 km", "42.195 km"),
    ("1.5 kg", "1.51 kg"),
    ("1/365", "1/366"),
    ("99/100", "100/101"),
    ("9/12/2001", "September 11, 2001"),
    ("Super Bowl XLVIII", "Super Bowl XLIX"),
    ("14 March 1702", "3 April 1702"),
]


def only(text):
    (value,) = values_in(text)
    return value


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_spellings_of_a_value_entail_each_other(spellings):
    values = list(map(only, spellings))
    assert all(one.entails(other) for one in values for other in values)


@pytest.mark.parametrize(("narrow", "wide"), NARROWER)
def test_a_precise_value_entails_a_less_precise_one_and_not_the_reverse(narrow, wide):
    assert only(narrow).entails(only(wide))
    assert not only(wide).entails(only(narrow))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
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
    for text, expected in {
        "Chapter IV": "Chapter 4",
        "Super Bowl XLIX, Psalm LXIII": "Super Bowl 49, Psalm 63",
        "size XL, Samuel L Jackson": "size XL, Samuel L Jackson",
        "It was World War II.": "It was World War 2.",
        "World War II was long. I went": "World War 2 was long. I went",
        "Elizabeth I of England, Louis XIV of France": "Elizabeth I of England, Louis 14 of France",
        "John F.V.I. Smith, Vitamin X-ray, Mr V's": "John F.V.I. Smith, Vitamin X-ray, Mr V's",
    }.items():
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
