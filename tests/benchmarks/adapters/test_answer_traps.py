"""Generated texts that state nothing: right labels, all lengths, and nothing of the test set."""

import random

import pytest

from seper_reward.data.rows import read_valid_rows
from tests.benchmarks.adapters.answer_forms import Fact, any_of
from tests.benchmarks.adapters.answer_traps import (
    LONGEST,
    asked_kindly,
    denied_forms,
    echo_forms,
    gibberish_forms,
    prose_forms,
    shotgun_forms,
)
from tests.benchmarks.judge import EQUIVALENCE

FACTS = [
    Fact("Who built the mill?", ("Ida Voss",), ("Ben Hale", "Ann Reed", "Max Holt", "Eve Lund", "Tom Beck")),
    Fact("What colour is the boat?", ("grey", "gray"), ("red", "blue", "green", "white", "black", "pink")),
]
PASSAGES = [
    "Rain fell on the harbour for three days. The ferry stayed in, and nobody minded.",
    "Ida Voss sold her grey horse.",
    "The library has two floors. Its oldest book is a herbal from 1530, with coloured plates.",
]


def aliases_of(question):
    return next(fact.answers for fact in FACTS if fact.question == question)


def states(form):
    return bool(any_of(aliases_of(form.question)).search(form.response))


@pytest.mark.parametrize("make", [prose_forms, gibberish_forms])
def test_long_texts(make):
    forms = list(make(FACTS, PASSAGES, 600, random.Random(0)))
    assert len(forms) > 500
    lengths = [max(len(form.response.split()), len(form.answer.split())) for form in forms]
    assert min(lengths) < 6
    assert max(lengths) in range(LONGEST - 8, LONGEST + 8)
    forward = [form for form in forms if form.answer in aliases_of(form.question)]
    assert len(forward) > 0.8 * len(forms)
    assert all(form.entailed == states(form) for form in forward)


def test_only_prose_with_the_answer_in_it_states_it():
    forms = list(prose_forms(FACTS, PASSAGES, 600, random.Random(0)))
    stated = [form for form in forms if form.entailed]
    assert 0.2 * len(forms) < len(stated) < 0.4 * len(forms)
    assert sum(len(form.response.split()) > 40 for form in stated) > 0.3 * len(stated)  # length decides nothing


def test_echoes():
    forms = list(echo_forms(FACTS, 600, random.Random(0)))
    assert all(form.entailed == (states(form) and form.answer in aliases_of(form.question)) for form in forms)
    echoes = [form for form in forms if set(form.response.lower().split()) <= {"the", "mill?", "mill", "built", "who"}]
    assert len(echoes) > 100


def test_lists_and_denials_hold_the_answer():
    lists = list(shotgun_forms(FACTS, 300, random.Random(0)))
    assert not any(form.entailed for form in lists)
    assert sum(map(states, lists)) > 0.6 * len(lists)
    denials = list(denied_forms(FACTS, 300, random.Random(0)))
    assert {form.entailed for form in denials} == {True, False}
    assert sum(not form.entailed and states(form) for form in denials) > 0.3 * len(denials)


def test_politeness_keeps_the_question():
    rng = random.Random(0)
    asked = {asked_kindly("Who built the mill?", rng) for _ in range(300)}
    assert len(asked) > 20
    assert all("who built the mill?" in question for question in asked)


@pytest.mark.slow
def test_no_trap_of_the_test_set_is_trained_on(shared_data):
    from tests.benchmarks.adapters.entailment_data import trap_pairs

    rows = [row for _, row in read_valid_rows(EQUIVALENCE)]
    questions = {row["question"].lower().rstrip("? ") for row in rows}
    responses = {row["response"].lower() for row in rows if row["kind"] in ("unrelated", "gibberish")}
    pairs = list(trap_pairs(shared_data, 32_000, random.Random(0)))
    assert len(pairs) > 30_000
    assert questions.isdisjoint(pair.question.lower().rstrip("? ") for pair in pairs)
    assert responses.isdisjoint(pair.premise.lower() for pair in pairs)
