"""Answers as strings: normalisation and metrics, by hand."""

import math

import pytest

from seper_reward.data.answers import (
    answer_metric,
    bleu,
    contains_answer,
    exact_match,
    normalize_answer,
    rouge_l,
    token_f1,
)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("The U.S.A.", "u s a", True),
        ("Córdoba", "cordoba", False),
        ("-5", "5", False),
        ("50%", "50", False),
        ("C++", "C", False),
        ("القاهرة!", "القاهرة", True),
        ("🙂", "🙃", False),
        ("The", "A", False),
        ("10 May", "May 10", False),
        ("1/2", "1.2", False),
        ("3.5", "3 5", False),
        ("<5", ">5", False),
        ("Vitamin A", "vitamin", False),
    ],
)
def test_normalize_answer(one, other, equal):
    assert (normalize_answer(one) == normalize_answer(other)) is equal


def test_answer_metrics_by_hand():
    answers = ["Ann Lee", "the Ann B. Lee"]
    assert exact_match("ann b lee.", answers) == 1
    assert exact_match("Ann Lee built it", answers) == 0
    assert contains_answer("Ann Lee built it", answers) == 1
    assert token_f1("Ann Lee built it", answers) == pytest.approx(2 * 2 / (4 + 2))
    assert token_f1("the cat cat", ["dog", "cat"]) == pytest.approx(2 * 1 / (2 + 1))
    assert rouge_l()("Ann Lee built", answers) == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))
    # 2 of 3 words, 1 of 2 pairs, and half a triple for none of 1; the better reference counts for each
    assert bleu()("Ann Lee built", ["ann lee", "Bob"]) == pytest.approx((2 / 3 * 1 / 2 * 1 / 2) ** (1 / 3))
    # as long as 2 of the 3 words of the reference: the penalty for being short
    assert bleu()("ann lee", ["Ann Lee built"]) == pytest.approx(math.exp(1 - 3 / 2))
    assert (bleu()("ANN LEE", answers), bleu()("Bob", answers), bleu()("", answers)) == (1, 0, 0)
    assert answer_metric("token_f1") is token_f1
    with pytest.raises(ValueError, match="metric must be one of exact_match"):
        answer_metric("bleu")
