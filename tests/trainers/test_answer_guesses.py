"""Guesses near the answer: several candidates, near misses, other words, word salads; and a reader's responses."""

import random
import re
from collections import Counter

import pytest

from seper_reward.data.demo import EQUIVALENCE
from seper_reward.data.rows import read_valid_rows
from seper_reward.runtime.json_files import write_lines
from trainers.adapters import entailment_data as data
from trainers.adapters.answer_guesses import guess_forms
from trainers.adapters.answer_statements import statement
from trainers.adapters.guess_words import NO_WORDS, YES_WORDS
from trainers.adapters.reader_responses import verdict
from trainers.adapters.substitution import words_of

FACTS = list(data.typed_facts())
PASSAGES = ["The old ferry crossed the river no more than twice a day; yes, Paris was far."]
FORMS = list(guess_forms(FACTS, PASSAGES, 20_000, random.Random(0)))


def test_two_fifths_of_the_guesses_state_the_answer():
    assert len(FORMS) == 20_000
    assert 0.35 < sum(form.entailed for form in FORMS) / len(FORMS) < 0.5


def test_two_candidates_state_neither():
    cities = "Paris|London|Rome|Berlin|Madrid|Vienna|Lisbon|Oslo|Cairo|Tokyo"
    pair = re.compile(rf"({cities})(, | | and |/| or )({cities})")
    two = [form for form in FORMS if pair.fullmatch(form.response) and re.fullmatch(cities, form.answer)]
    assert len(two) > 3
    assert not any(form.entailed for form in two)
    placed = [form for form in FORMS if re.fullmatch(r"(Paris, France|Tarrow, New Zealand)", form.response)]
    assert all(form.entailed == (form.answer in form.response) for form in placed)


def test_near_misses_name_the_answer_and_do_not_state_it():
    near = [form for form in FORMS if re.match(r"(after|near|almost|a fan of|instead of) ", form.response.lower())]
    assert len(near) > 50
    assert not any(form.entailed for form in near)
    same = [form for form in FORMS if re.match(r"(the famous|none other than|only) ", form.response.lower())]
    assert sum(form.entailed for form in same) > len(same) / 2


def test_word_salads_have_no_word_of_the_answer():
    salads = [form for form in FORMS if set(re.findall(r"\w+", form.response.lower())) & {"entailment", "hypothesis"}]
    assert len(salads) > 40
    assert not any(form.entailed for form in salads)
    closed = [form for form in salads if form.answer in ("yes", "no")]
    assert closed
    assert all(words_of(form.response).isdisjoint({"yes": YES_WORDS, "no": NO_WORDS}[form.answer]) for form in closed)


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        ("When did the Berlin Wall fall?", "1989", "The Berlin Wall fell in 1989"),
        ("when was the canal opened", "14 May 1912", "The canal was opened on 14 May 1912"),
        ("Where is the head office?", "Oslo", "The head office is in Oslo"),
        ("What is the capital of Norway?", "Oslo", "The capital of Norway is Oslo"),
        ("How many floors does the house have?", "nine", "The house has nine floors"),
        ("who wrote hamlet", "Shakespeare", "Shakespeare wrote hamlet"),
        ("What do squirrels collect?", "acorns", None),
    ],
)
def test_a_statement_is_built_of_the_question(question, answer, said):
    assert statement(question, answer) == said


def test_no_guess_is_in_the_test_set():
    rows = [row for _, row in read_valid_rows(EQUIVALENCE)]
    seen = {(row["question"], row["response"]) for row in rows}
    assert seen.isdisjoint((form.question, form.response) for form in FORMS)


def test_responses_are_labelled_by_rule_and_left_out_if_it_is_not_sure():
    asked = "who wrote the salt road"
    right = {"Ida Voss", "ida voss.", "It was Ida Voss.", "Ida Voss wrote The Salt Road."}
    wrong = {"Ben Hale", "unknown", "The Salt Road"}
    unsure = {"Ida Voss or Ben Hale", "not Ida Voss", "Ida Voss, Ben Hale", "Ida Hale", "IV", "Ida Voss's son"}
    for label, texts in ((True, right), (False, wrong), (None, unsure)):
        assert {verdict(asked, text, ["Ida Voss", "I. Voss"])[1] for text in texts} == {label}, texts
    assert verdict("is it so", "No, it is not.", ["yes"]) == ("yes", False)
    assert verdict("how many sons had she", "4", ["four"]) == ("four", None)
    assert verdict("What is Ida's occupation?", "senator", ["politician"]) == ("politician", None)


def test_written_pairs_are_split_by_question(tmp_path):
    rows = [
        {"question": f"q{number}", "response": said, "answer": "Oslo", "entailed": said == "in Oslo"}
        for number in range(200)
        for said in ("in Oslo", "a long response that names neither that town nor another")
    ]
    write_lines(tmp_path / "responses.jsonl", rows)
    pairs = {split: list(data.written_pairs(tmp_path / "responses.jsonl", split, "r")) for split in ("train", "dev")}
    assert {pair.question for pair in pairs["train"]}.isdisjoint(pair.question for pair in pairs["dev"])
    assert len(pairs["dev"]) > 20
    counts = Counter((pair.premise, pair.label) for pair in pairs["dev"] if pair.hypothesis == "Oslo")
    assert set(counts) == {("in Oslo", 0), (rows[1]["response"], data.NOT_ENTAILMENT)}
    assert not any(pair.hypothesis == rows[1]["response"] for pair in pairs["dev"])  # it is too long to be entailed
