"""Answers that say more than was asked: what states the answer, what only looks so, and apart from the test set."""

import random
import re

from seper_reward.data.rows import read_valid_rows
from tests.benchmarks.adapters.answer_modifiers import modified_forms
from tests.benchmarks.judge import EQUIVALENCE

FORMS = list(modified_forms(6000, random.Random(0)))


def test_half_of_the_forms_state_the_answer():
    assert 0.45 < sum(form.entailed for form in FORMS) / len(FORMS) < 0.55
    assert len({(form.response, form.answer) for form in FORMS}) > 5000


def test_what_is_taken_back_names_the_answer_and_does_not_state_it():
    taken_back = re.compile(
        r"would-be|'s (wife|assistant|apprentice)|\bson of|daughter of|friend of|admirer of|^Fort "
    )
    named = [form for form in FORMS if re.search(rf"\b{re.escape(form.answer)}\b", form.response)]
    assert sum(bool(taken_back.search(form.response)) for form in named) > 100
    assert not any(form.entailed for form in named if taken_back.search(form.response))
    nationality = re.compile(r"(American|French|Bosnian) (?!born|British)")
    modified = [form for form in named if nationality.match(form.response) and not taken_back.search(form.response)]
    assert len(modified) > 10
    assert all(form.entailed for form in modified if nationality.sub("", form.response) == form.answer)


def test_a_plain_noun_does_not_state_a_narrower_one():
    narrower = [form for form in FORMS if form.answer.endswith(" " + form.response.lower())]
    assert narrower
    assert not any(form.entailed for form in narrower)


def test_no_answer_of_the_test_set_is_trained_on():
    rows = [row for _, row in read_valid_rows(EQUIVALENCE) if row["kind"] == "modified"]
    assert len(rows) >= 40
    answers = {answer.lower() for row in rows for answer in row["answers"]}
    assert answers.isdisjoint(form.answer.lower() for form in FORMS)
    assert {row["question"] for row in rows}.isdisjoint(form.question for form in FORMS)
