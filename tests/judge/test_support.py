"""Mutual support by hand: both directions, the best alias, and rules before the model."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seper_reward.judge.judge import Judge
from seper_reward.judge.support import Stated, mutual_supports
from seper_reward.types import Pair
from tests.helpers import ScriptedModel

QUESTION = "Who runs the mill?"


def judge_of(probs):
    """Return a judge whose model has a table of ``(premise, hypothesis)``; all other pairs have 0.01."""
    return Judge(ScriptedModel(lambda pair: probs.get(pair[1:], 0.01)))


def paid(probs, text, *answers, question=QUESTION):
    (found,) = mutual_supports(judge_of(probs), [Stated(question, text, answers)])
    return found


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [(0.99, 0.975, 0.6), (0.95, 0.99, 0.2), (0.9375, 0.99, 0.0), (0.99, 0.5, 0.0), (1.0, 1.0, 1.0)],
)
def test_the_weaker_direction_counts_above_fifteen_sixteenths(forward, backward, expected):
    probs = {("Bob", "Ida"): forward, ("Ida", "Bob"): backward}
    assert paid(probs, "Bob", "Ida") == pytest.approx(expected, abs=1e-6)


def test_the_best_alias_counts():
    probs = {("Bob", "Ida Voss"): 0.99, ("Ida Voss", "Bob"): 0.97, ("Bob", "Ida"): 1.0, ("Ida", "Bob"): 0.9}
    assert paid(probs, "Bob", "Ida Voss", "Ida") == pytest.approx(16 * 0.97 - 15)
    assert paid(probs, "Bob", "Ida") == 0  # the model is sure of one direction, but no rule equates the two


def test_no_word_of_the_text_is_deleted():
    """Without the question's words, each of these would be the answer alone."""
    for question, text in (
        ("Who beat Karl Moss?", "Karl Moss beat Ida Voss"),
        ("Who was the mother of Karl Moss?", "the mother of Ida Voss"),
    ):
        assert paid({}, text, "Ida Voss", question=question) == 0
        probs = {(text, "Ida Voss"): 0.99, ("Ida Voss", text): 0.975}
        assert paid(probs, text, "Ida Voss", question=question) == pytest.approx(0.6)


_NAMES = st.sampled_from(["Ida Voss", "Karl Moss", "5 kg", "300 m", "1912", "the mill", "B", "(B)", "not"])
_TEXTS = st.lists(
    _NAMES | st.sampled_from(["the mother of", "beat", "in diameter", "✓", "or", "was"]), min_size=1, max_size=4
)


@settings(max_examples=200, deadline=None)
@given(_TEXTS.map(" ".join), _NAMES, st.integers(0, 9))
def test_whatever_rewards_pay_labels_support(text, alias, seed):
    """The model is any function of a pair."""
    judge = Judge(ScriptedModel(lambda pair: random.Random(f"{pair} {seed}").choice([0.1, 0.6, 0.9, 0.99])))
    question = "Who beat Karl Moss?"
    (reward,) = mutual_supports(judge, [Stated(question, text, (alias,))])
    pair = Pair(question, text, alias)
    assert reward <= 0.5 or judge.probs([pair])[pair] > 0.5


def test_a_repeated_question_states_nothing():
    probs = {(QUESTION, "Ida"): 0.99, ("Ida", QUESTION): 0.99, ("?", "Ida"): 0.99, ("Ida", "?"): 0.99}
    assert paid(probs, QUESTION, "Ida") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which is longer, the Nile or the Osk?", 0.0),
        ("is longer the NILE", 0.0),
        ("the Nile or the Osk", 0.0),
        ("the Nile", 1.0),
        ("the Nile is longer", 0.84),
        ("The answer is the Nile", 0.84),
    ],
)
def test_a_copy_of_a_question_that_names_the_answer_states_nothing(text, expected):
    stated = [Stated("Which is longer, the Nile or the Osk?", text, ["Nile"])]
    (found,) = mutual_supports(Judge(ScriptedModel(lambda pair: 0.99)), stated)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "  ", "...", "?!"])
def test_a_text_without_a_word_states_nothing(text):
    (found,) = mutual_supports(Judge(ScriptedModel(lambda pair: 0.99)), [Stated(QUESTION, text, ["Ida"])])
    assert found == 0


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("**ida voss.**", "Ida Voss", 1.0),
        ("the year nineteen eighty-nine", "1989", 0.84),  # the model is asked, with equal digits
        ("nineteen eighty-nine", "1989", 1.0),
        ("9 November 1989", "1989", 1.0),  # needs no second direction, which a rule refuses
        ("1989", "9 November 1989", 0.84),  # enough if the year was asked: the model is asked
        ("87", "85", 0.0),
    ],
)
def test_rules_decide_before_the_model(text, answer, expected):
    (found,) = mutual_supports(Judge(ScriptedModel(lambda pair: 0.99)), [Stated("When?", text, [answer])])
    assert found == pytest.approx(expected)


def test_all_texts_share_a_batch_and_keep_their_order():
    model = ScriptedModel(lambda pair: {"Bob": 0.975, "Eve": 0.9875, "Ida": 0.99, "Ann": 0.99}[pair.premise])
    stated = [Stated("Who?", "Bob", ["Ida"]), Stated("Who?", "Eve", ["Ann", "Ida"]), Stated("Who?", "Bob", ["Ida"])]
    stated.append(Stated("Which?", "", ["Ida"]))
    assert mutual_supports(Judge(model), stated) == pytest.approx([0.6, 0.8, 0.6, 0.0])
    both_ways = [("Bob", "Ida"), ("Ida", "Bob"), ("Eve", "Ann"), ("Ann", "Eve"), ("Eve", "Ida"), ("Ida", "Eve")]
    assert model.asked == [[Pair("Who?", *pair) for pair in both_ways]]
    assert mutual_supports(Judge(model), []) == []
