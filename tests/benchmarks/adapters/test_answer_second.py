"""Second guesses, qualifiers, near names and other wordings: which state the answer, and apart from the test sets."""

import itertools
import random
import re

import pytest

from seper_reward.data.rows import read_valid_rows
from seper_reward.data.splits import split_of
from tests.benchmarks.adapters import answer_second, near_names, second_words
from tests.benchmarks.adapters import entailment_data as data
from tests.benchmarks.judge import EQUIVALENCE, WORDINGS

FACTS = [*data.known_facts([], data.common_facts()), *data.typed_facts()]
FORMS = list(answer_second.second_forms(FACTS, 8000, random.Random(0)))


def stated(text, answer):
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE) is not None


def test_nearly_half_of_the_forms_state_the_answer():
    assert 0.38 < sum(form.entailed for form in FORMS) / len(FORMS) < 0.5
    assert len({form[1:3] for form in FORMS}) > 7000
    assert not any(form.response.lower() == form.answer.lower() for form in FORMS)


def drawn(make, count=400):
    return [make(random.Random(seed)) for seed in range(count)]


def test_no_text_with_a_second_candidate_states_the_answer():
    asked = answer_second._Asked("place", "Where is it?", "Malmö", ("Cork", "Graz", "Fez", "Hue"))
    guesses = drawn(lambda rng: answer_second._guess(asked, rng))
    one = [said for said in guesses if said.gold == "Malmö"]
    assert len({said.text for said in one}) > 150
    assert all("Malmö" in said.text and any(other in said.text for other in asked.others) for said in one)
    assert not any(said.entailed for said in one)
    lists = [said for said in guesses if said.gold != "Malmö"]
    assert {said.entailed for said in lists} == {True, False}
    names = [[set(re.findall(r"\w{3,}", text)) - {"and"} for text in said[:2]] for said in lists]
    assert [text == gold for text, gold in names] == [said.entailed for said in lists]


def test_the_land_of_a_city_is_no_second_candidate():
    asked = answer_second._Asked("place", "Where is it?", "Malmö", ("Cork", "Graz"))
    said = drawn(lambda rng: answer_second._apposition(asked, rng))
    assert {each.text for each in said if each.entailed} >= {"Malmö, Sweden", "Malmö (Sweden)", "the city of Malmö"}
    assert all("Malmö" in each.text for each in said if each.entailed)
    assert not any("Malmö" in each.text for each in said if not each.entailed)


def test_a_qualifier_counts_only_if_the_answer_has_it():
    asked = answer_second._Asked("date", "When?", "1846", ("1777", "1903"))
    changed = drawn(lambda rng: answer_second._qualifier(asked, rng))
    assert {"after 1846", "near 1846", "~~1846~~"} <= {said.text for said in changed}
    assert not any(said.entailed for said in changed)
    kept = drawn(lambda rng: answer_second._qualified_gold(asked, rng))
    assert all(said.entailed == (said.gold in said.text) for said in kept)


def test_other_forms_of_a_name_keep_its_first_letter_and_last_name():
    persons = [said for _, said in drawn(near_names._near_person)]
    assert {said.entailed for said in persons} == {True, False}
    for said in (said for said in persons if said.entailed and " " in said.gold):
        first, last = said.gold.split()
        assert said.text == last or (last in said.text and re.search(rf"\b{first[0]}", said.text))
    assert not any(said.entailed for said in persons if re.search(r"\b(Jr|Sr|II|III|the Elder)\b", said.text))


@pytest.mark.parametrize(
    ("question", "said", "gold", "entailed"),
    [
        ("Is Cork larger than Fez?", "Cork is larger", "yes", True),
        ("Is Cork larger than Fez?", "Fez is larger", "yes", False),
        ("Is Cork larger than Fez?", "Fez is larger", "no", True),
        ("Are Cork and Fez both capitals?", "only one of them is", "no", True),
        ("Are Cork and Fez both capitals?", "they are not", "yes", False),
        ("Did Cork join Fez?", "it did not", "no", True),
    ],
)
def test_statements_answer_yes_or_no(question, said, gold, entailed, monkeypatch):
    names = itertools.cycle(["Cork", "Fez"])
    monkeypatch.setattr(second_words, "place", lambda rng: next(names))
    found = {(asked, each.text, each.gold): each.entailed for asked, each in drawn(near_names._closed, 9000)}
    assert found[question, said, gold] is entailed


def test_a_relative_is_neither_the_person_nor_another_relative():
    kin = re.compile(r"the (?P<kin>\w+) of (?P<name>.+)|(?P<other_name>.+)'s (?P<other_kin>\w+)")

    def parts(text):
        found = kin.fullmatch(text.removeprefix("it was "))
        return found and {found["kin"] or found["other_kin"], found["name"] or found["other_name"]}

    said = [each for _, each in drawn(near_names._relative)]
    assert 0.3 < sum(each.entailed for each in said) / len(said) < 0.55
    assert all(each.entailed == (parts(each.text) == parts(each.gold)) for each in said)


def test_initials_are_those_of_the_name():
    for _, said in drawn(near_names._acronym):
        letters = "".join(re.findall(r"[A-Z]", said.text))
        own = [short for name, short in second_words.ACRONYMS if name == said.gold]
        initials = own[0] if own else "".join(re.findall(r"[A-Z]", said.gold))
        assert said.entailed == (initials in letters)


def test_a_typing_error_changes_one_place_of_one_word():
    found = drawn(lambda rng: answer_second._respelled("Kalstad Wik", rng))
    assert all(name.endswith(" Wik") and abs(len(name) - 11) <= 2 for name in found)
    assert len(set(found)) > 20
    assert answer_second._respelled("Wik", random.Random(0)) == "Wik"


def test_no_question_or_answer_of_the_test_sets_is_trained_on():
    rows = [row for path in (EQUIVALENCE, WORDINGS) for _, row in read_valid_rows(path)]
    assert {row["question"].lower() for row in rows}.isdisjoint(form.question.lower() for form in FORMS)
    people = {row["answers"][0] for row in rows if row.get("kind") == "person"}
    assert people
    assert not any(stated(form.response, name) for form in FORMS for name in people)


@pytest.mark.slow
def test_facts_come_from_training_questions_alone(shared_data):
    pairs = list(data.second_pairs(shared_data, 3000, random.Random(0)))
    held_out = {row["question"].lower() for split in ("dev", "test") for row in data.evouna_rows(shared_data, split)}
    assert held_out.isdisjoint(pair.question.lower() for pair in pairs)
    asked = {row["question"] for row in data.evouna_rows(shared_data, "train")}
    assert {split_of(pair.question) for pair in pairs if pair.question in asked} == {"train"}
