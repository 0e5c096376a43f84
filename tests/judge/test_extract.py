"""The stated answer: wrappers of instruct models around answers of several kinds, and texts that must keep words."""

import itertools
import time

import pytest

from seper_reward.judge.extract import extract_answer
from seper_reward.options import compile_answer_pattern
from tests.helpers import texts_of

ANSWERS = ["Ida Voss", "2,340 metres", "1912", "Ann Lee, Bob Tew and Cal Orr", "yes", "Osk, Veland", "$45,000", "-5"]
TEXTS = texts_of(__file__)


def test_the_answer_in_a_wrapper():
    missed = []
    for wrapper, answer in itertools.product(TEXTS["wrappers"], ANSWERS):
        written = answer.replace("$", r"\$") if "\\" in wrapper or "$" in wrapper else answer  # in LaTeX
        if extract_answer(wrapper.replace("X", written)).rstrip(".").strip('"') != answer:
            missed.append((wrapper, answer, extract_answer(wrapper.replace("X", written))))
    assert not missed


def test_extract_answer_keeps_words_of_answers():
    pairs = [*TEXTS["stated"], *([text, text] for text in TEXTS["unchanged"])]
    assert [[text, extract_answer(text)] for text, _ in pairs] == pairs


@pytest.mark.parametrize(("text", "answer"), TEXTS["by a pattern"])
def test_a_pattern_of_ones_own(text, answer):
    assert extract_answer(text, compile_answer_pattern(r"FINAL = ([^;]*);")) == answer


def test_a_pattern_may_have_no_group_or_name_control_tokens():
    assert extract_answer("Ida 1912, 1913", compile_answer_pattern(r"\d{4}")) == "1913"
    harmony = compile_answer_pattern(r"<\|channel\|>final<\|message\|>(.*)")
    assert (
        extract_answer("<|channel|>analysis<|message|>Bob<|channel|>final<|message|>Ida<|return|>", harmony) == "Ida"
    )
    assert extract_answer("b", compile_answer_pattern("(a)|b")) == ""


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r"answer_pattern must be a regular expression, got '\(': missing \), unterminated subpattern"),
        ("", "a non-empty text, got ''"),
        (3, "a non-empty text, got 3"),
    ],
)
def test_a_pattern_that_cannot_be_used(pattern, message):
    with pytest.raises(ValueError, match=message):
        compile_answer_pattern(pattern)


@pytest.mark.parametrize("piece", TEXTS["pieces"])
def test_long_texts_take_no_longer_than_their_length(piece):
    text = piece * (100_000 // len(piece))
    for whole in (text, "The answer is " + text, r"\boxed{" + text, text + "\nIda", f"Ida{text}Ida"):
        start = time.process_time()
        extract_answer(whole)
        assert time.process_time() - start < 1  # quadratic time would take minutes
