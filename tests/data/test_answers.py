"""Answers as strings: normalisation and metrics, by hand."""

import math

import pytest

from seper_reward.data.answers import (
    answer_metric,
    best_alias_mean,
    bleu,
    contains_answer,
    exact_match,
    normalize_answer,
    rouge_l,
    stated_parts,
    token_f1,
)

LIST = [["Ann Lee", "Lee"], ["Trinidad and Tobago"], ["1,200"]]


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
def test_normalization(one, other, equal):
    assert (normalize_answer(one) == normalize_answer(other)) is equal


def test_token_f1_by_hand():
    assert token_f1("Ann Lee", ["x", "Ann B. Lee"]) == pytest.approx(2 * 2 / (2 + 3))
    assert token_f1("the cat cat", ["cat"]) == pytest.approx(2 * 1 / (2 + 1))
    assert token_f1("dog", ["cat"]) == 0.0


def test_answer_metrics_by_hand():
    answers = ["Ann Lee", "the Ann B. Lee"]
    assert exact_match("ann b lee.", answers) == 1
    assert exact_match("Ann Lee built it", answers) == 0
    assert contains_answer("Ann Lee built it", answers) == 1
    assert token_f1("Ann Lee built it", answers) == pytest.approx(2 * 2 / (4 + 2))
    assert rouge_l()("Ann Lee built", answers) == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))
    # 2 of 3 words, 1 of 2 pairs, and half a triple for none of 1; the better reference counts for each
    assert bleu()("Ann Lee built", ["ann lee", "Bob"]) == pytest.approx((2 / 3 * 1 / 2 * 1 / 2) ** (1 / 3))
    # as long as 2 of the 3 words of the reference: the penalty for being short
    assert bleu()("ann lee", ["Ann Lee built"]) == pytest.approx(math.exp(1 - 3 / 2))
    assert (bleu()("ANN LEE", answers), bleu()("Bob", answers), bleu()("", answers)) == (1, 0, 0)
    assert answer_metric("token_f1") is token_f1
    with pytest.raises(ValueError, match="metric must be one of exact_match"):
        answer_metric("bleu")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Lee, Bob and Cy", ["Lee", "Bob", "Cy"]),
        ("Lee; Bob, and Cy.", ["Lee", "Bob", "Cy."]),
        ("Lee or Bob\nCy", ["Lee", "Bob", "Cy"]),
        ("Lee & Bob, R&D", ["Lee", "Bob", "R&D"]),
        ("trinidad AND Tobago and 1,200", ["trinidad AND Tobago", "1,200"]),
        ("1,300, 4", ["1,300", "4"]),
        ("Andorra, Orland", ["Andorra", "Orland"]),
        ("Lee", ["Lee"]),
        (", and", [", and"]),
        ("", [""]),
    ],
)
def test_the_parts_of_a_list(text, parts):
    assert stated_parts(text, LIST) == parts
    assert stated_parts(text, ["Lee", "Bob"]) == stated_parts(text, [["Lee", "Bob"]]) == [text]


def test_metrics_of_lists_by_hand():
    said = "Trinidad and Tobago, Bob and Ann B. Lee"
    assert exact_match(said, LIST) == pytest.approx(1 / 3)
    assert contains_answer(said, LIST) == pytest.approx(2 / 3)  # Lee
    # Ann Lee in Ann B. Lee: 2 · 2 / (2 + 3); Trinidad and Tobago: 1; 1,200: 0
    assert token_f1(said, LIST) == pytest.approx((0.8 + 1) / 3)
    assert rouge_l()(said, LIST) == pytest.approx((0.8 + 1) / 3)
    assert bleu()("Bob and Ann Lee", LIST) == pytest.approx(1 / 3)
    for metric in (exact_match, contains_answer, token_f1, rouge_l(), bleu()):
        assert metric(said, [aliases[::-1] for aliases in LIST[::-1]]) == pytest.approx(metric(said, LIST))
        assert metric("Ann B. Lee and Bob", [["Lee", "Bob"]]) == metric("Ann B. Lee and Bob", ["Lee", "Bob"])
        assert metric("", LIST) == 0


def test_the_mean_of_the_best_aliases_by_hand():
    assert best_alias_mean([-3.0, -1.0, -5.0, -6.0], LIST) == pytest.approx((-1 - 5 - 6) / 3)
    assert best_alias_mean([-3.0, -1.0], ["Ann", "Lee"]) == -1
