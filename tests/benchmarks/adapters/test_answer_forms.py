"""Generated forms of answers: what is called entailed states the answer, what is not does not."""

import datetime
import random

import pytest

from tests.benchmarks.adapters import answer_forms as forms
from tests.benchmarks.adapters.entailment_data import form_pairs

FACT = forms.Fact("Who?", ("Ann",), ("Bob", "Cy", "Dee", "Eve", "Flo"))


def test_denials_and_hedges_do_not_state_the_answer():
    rows = list(forms.stated_forms([FACT], 400, random.Random(0)))
    assert 0.4 < sum(row.entailed for row in rows) / len(rows) < 0.6
    assert all("Ann" in row.response for row in rows if row.entailed)
    assert all(row.answer == "Ann" for row in rows)


def test_templates_are_on_the_right_side():
    """With right and wrong answer exchanged, a form that names both never stays stated."""
    exchanged = {form.replace("{a}", "{x}").replace("{b}", "{a}").replace("{x}", "{b}") for form in forms._STATED}
    assert exchanged.isdisjoint(forms._STATED)
    assert {form for form in exchanged if "{b}" in form and "{a}" in form} & set(forms._NOT_STATED)
    assert set(forms._STATED).isdisjoint(forms._NOT_STATED)
    assert all("{a}" in form for form in forms._STATED)
    assert not any(" or " in form or "Either" in form for form in forms._STATED)


def test_a_list_is_entailed_when_its_items_are_all_there():
    for row in forms.list_forms([FACT], 200, random.Random(0)):
        said = {name for name in FACT.others if name in row.response}
        wanted = {name for name in FACT.others if name in row.answer}
        assert row.entailed == (said == wanted)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(12, "a dozen"), (1500, "fifteen hundred"), (2_500_000, "2.5 million"), (40_000, "40 thousand"), (7201, "7,201")],
)
def test_a_number_has_many_spellings(number, expected):
    rng = random.Random(0)
    assert expected in {forms._spelled(number, rng) for _ in range(100)}


def test_a_changed_number_is_another_number():
    rng = random.Random(0)
    for _ in range(500):
        number = forms._some_number(rng)
        assert forms._other_number(number, rng) != number
    for row in forms.number_forms(5000, random.Random(1)):
        assert row.entailed or row.answer != row.response  # as "39 million" for 39,000,007 would be


def test_units_convert():
    """Entailed pairs in digits, kilometres beside metres: the same length."""
    compared = 0
    for row in forms.number_forms(20_000, random.Random(0)):
        if row.entailed and row.response.endswith(" metres") and row.answer.endswith((" km", " kilometres")):
            said, gold = (text.split()[-2].replace(",", "") for text in (row.response, row.answer))
            if said.isdigit() and gold.isdigit():
                compared += 1
                assert int(said) == 1000 * int(gold)
    assert compared > 5


def test_a_date_is_read_back_from_its_spellings():
    day = datetime.date(1889, 3, 31)
    written = forms._written(day, with_year=True)
    assert {"31 March 1889", "March 31, 1889", "the 31st of March 1889", "1889-03-31"} <= set(written)
    assert "the thirty-first of March" in forms._written(day, with_year=False)


def test_dates_that_are_called_equal_are_equal():
    """ISO dates can be compared: an entailed pair of them is one day, another pair is not."""
    rows = [row for row in forms.date_forms(4000, random.Random(0)) if row.answer[:4].isdigit() and "-" in row.answer]
    compared = 0
    for row in rows:
        said = row.response.split()[-1]
        if said.count("-") == 2:
            compared += 1
            assert row.entailed == (said == row.answer)
    assert compared > 5


def test_a_contradiction_means_no_and_neutral_means_neither():
    statements = [("P", "It rains", label) for label in ("entailment", "neutral", "contradiction")] * 200
    rows = [row for row in forms.yes_no_forms(statements, 600, random.Random(0)) if row.response == "P"]
    assert {(row.answer, row.entailed) for row in rows} == {("yes", True), ("yes", False), ("no", True), ("no", False)}
    only = list(forms.yes_no_forms([("P", "It rains", "contradiction")] * 300, 300, random.Random(0)))
    assert all(row.entailed == (row.answer == "no") for row in only if row.response == "P")


def test_a_paragraph_with_another_answer_in_it_does_not_state_the_old_one():
    text = "It began early. Ann Lee built the mill. Ann Lee died. It was sold later."
    rows = list(forms.paragraph_forms([("Who?", text, ["Ann Lee"], "Bob Ray")] * 200, 200, random.Random(0)))
    assert all(row.entailed == ("Ann Lee" in row.response) for row in rows)
    assert any("Bob Ray" in row.response for row in rows)
    assert any("Ann" not in row.response and "Bob" not in row.response for row in rows)


@pytest.mark.slow
def test_forms_are_a_mix_of_both_verdicts(shared_data):
    pairs = list(form_pairs(shared_data, random.Random(0)))
    assert len(pairs) > 25_000
    assert 0.4 < sum(pair.label == 0 for pair in pairs) / len(pairs) < 0.6
