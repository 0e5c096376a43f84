"""Generated training texts of the entailment adapter: right labels by hand, and nothing of the test sets."""

import itertools
import random
import re

import pytest

from seper_reward.data.rows import read_valid_rows
from seper_reward.data.splits import split_of
from tests.benchmarks.adapters import answer_forms as forms
from tests.benchmarks.adapters import answer_lexicon, answer_second, near_names
from tests.benchmarks.adapters import entailment_data as data
from tests.benchmarks.adapters.answer_spans import Read, span_forms
from tests.benchmarks.adapters.answer_traps import echo_forms, prose_forms
from tests.benchmarks.judge import EQUIVALENCE, WORDINGS

FACT = forms.Fact("Who?", ("Ann",), ("Bob", "Cy", "Dee", "Eve", "Flo"))


def test_templates_are_on_the_right_side():
    """With right and wrong answer exchanged, a form that names both never stays stated."""
    exchanged = {form.replace("{a}", "{x}").replace("{b}", "{a}").replace("{x}", "{b}") for form in forms.words.stated}
    assert exchanged.isdisjoint(forms.words.stated)
    assert {form for form in exchanged if "{b}" in form and "{a}" in form} & set(forms.words.not_stated)
    assert set(forms.words.stated).isdisjoint(forms.words.not_stated)
    assert all("{a}" in form for form in forms.words.stated)
    assert not any(" or " in form or "Either" in form for form in forms.words.stated)


def test_a_list_is_entailed_when_its_items_are_all_there():
    for row in forms.list_forms([FACT], 200, random.Random(0)):
        said = {name for name in FACT.others if name in row.response}
        wanted = {name for name in FACT.others if name in row.answer}
        assert row.entailed == (said == wanted)


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


def test_span_forms_state_the_answer_or_share_no_word_with_it():
    passage = "Ann Lee met Bob Ray of Hallow Mill on 3 May 1912. The river was wide, and a boat came."
    read = Read("Who built the mill?", ["Ann Lee", "Miss Lee"], ["Cy Moss", "Dee Fox"], passage)
    rows = list(span_forms([read], 400, random.Random(0)))
    assert len(rows) == 400
    for row in rows:
        answer, text = (row.response, row.answer) if row.response in read.answers else (row.answer, row.response)
        assert answer in read.answers
        assert row.entailed == bool(re.search(r"\b(ann|lee)\b", text.lower()))
    assert {"Bob Ray of Hallow Mill", "Cy Moss", "3 May 1912"} <= {row.response for row in rows}


def drawn(make, count=400):
    return [make(random.Random(seed)) for seed in range(count)]


def test_no_text_with_a_second_candidate_states_the_answer():
    asked = answer_second.Asked("place", "Where is it?", "Malmö", ("Cork", "Graz", "Fez", "Hue"))
    guesses = drawn(lambda rng: answer_second.guess(asked, rng))
    one = [said for said in guesses if said.gold == "Malmö"]
    assert len({said.text for said in one}) > 150
    assert all("Malmö" in said.text and any(other in said.text for other in asked.others) for said in one)
    assert not any(said.entailed for said in one)
    lists = [said for said in guesses if said.gold != "Malmö"]
    assert {said.entailed for said in lists} == {True, False}
    names = [[set(re.findall(r"\w{3,}", text)) - {"and"} for text in said[:2]] for said in lists]
    assert [text == gold for text, gold in names] == [said.entailed for said in lists]


def test_a_qualifier_counts_only_if_the_answer_has_it():
    asked = answer_second.Asked("date", "When?", "1846", ("1777", "1903"))
    changed = drawn(lambda rng: answer_second.qualifier(asked, rng))
    assert {"after 1846", "near 1846", "~~1846~~"} <= {said.text for said in changed}
    assert not any(said.entailed for said in changed)
    kept = drawn(lambda rng: answer_second.qualified_gold(asked, rng))
    assert all(said.entailed == (said.gold in said.text) for said in kept)


def test_initials_are_those_of_the_name():
    for _, said in drawn(near_names.acronym):
        letters = "".join(re.findall(r"[A-Z]", said.text))
        own = [short for name, short in near_names.words.acronyms if name == said.gold]
        initials = own[0] if own else "".join(re.findall(r"[A-Z]", said.gold))
        assert said.entailed == (initials in letters)


def test_texts_state_an_answer_only_if_they_hold_it():
    fact = forms.Fact(
        "Who built the mill?", ("Ida Voss",), ("Ben Hale", "Ann Reed", "Max Holt", "Eve Lund", "Tom Beck")
    )
    passages = ["Rain fell on the harbour for three days. Nobody minded.", "Ida Voss sold her grey horse."]
    rows = list(prose_forms([fact], passages, 600, random.Random(0)))
    assert all(row.entailed == ("Ida Voss" in row.response) for row in rows if row.answer == "Ida Voss")
    assert 0.2 * len(rows) < sum(row.entailed for row in rows) < 0.4 * len(rows)
    echoes = list(echo_forms([fact], 600, random.Random(0)))
    assert all(row.entailed == ("Ida Voss" in row.response and row.answer == "Ida Voss") for row in echoes)


@pytest.fixture(scope="module")
def pairs(shared_data):
    """Generated pairs of all kinds."""
    rng, facts = random.Random(0), data.training_facts(shared_data)
    return [
        *data.labeled(data.trap_forms(facts, shared_data, 32_000, rng), "answer_traps"),
        *data.labeled(answer_second.second_forms(facts, 8000, rng), "answer_second"),
        *data.labeled(data.modified_forms(6000, rng), "answer_modifiers"),
        *data.labeled(data.form_pairs(facts, shared_data, rng), "answer_forms"),
    ]


@pytest.mark.slow
def test_no_question_or_answer_of_the_test_sets_is_trained_on(pairs):
    rows = [row for path in (EQUIVALENCE, WORDINGS) for _, row in read_valid_rows(path)]
    questions = {row["question"].lower().rstrip("? ") for row in rows}
    assert questions.isdisjoint(pair.question.lower().rstrip("? ") for pair in pairs)
    responses = {row["response"].lower() for row in rows if row.get("kind") in ("unrelated", "gibberish")}
    assert responses
    assert responses.isdisjoint(pair.premise.lower() for pair in pairs)
    modified = {answer.lower() for row in rows if row.get("kind") == "modified" for answer in row["answers"]}
    assert modified.isdisjoint(pair.hypothesis.lower() for pair in pairs if pair.source == "answer_modifiers")


@pytest.mark.slow
def test_no_question_of_a_held_out_split_is_trained_on(pairs, shared_data):
    """Neither EVOUNA's dev and test questions, by which the adapter is judged, nor NQ's."""
    nq = data.read_rows(shared_data / "qa" / "nq_oracle_bm25neg.jsonl.gz")
    held_out = {row["question"].lower() for row in nq if split_of(row["id"]) != "train"}
    held_out |= {row["question"].lower() for split in ("dev", "test") for row in data.evouna_rows(shared_data, split)}
    asked = data.evouna_rows(shared_data, "train")
    used = {row["question"].lower() for row in asked} | {pair.question.lower() for pair in pairs}
    assert len(used) > 1000
    assert used.isdisjoint(held_out)
    assert not any(row["improper"] for row in asked)


def test_lexicon_texts_are_on_the_right_side():
    groups = [set(names) for kind in answer_lexicon.words.same for names in kind["groups"]]
    sides = [set(side) for _, *others in answer_lexicon.words.opposites for side in others]
    for kind in answer_lexicon.words.same:
        names = [name for group in kind["groups"] for name in group]
        assert len(names) == len(set(names)), "one name of two things"
    rng = random.Random(0)
    for maker, same in ((answer_lexicon.named, groups), (answer_lexicon.opposite, sides)):
        for row in (maker(rng) for _ in range(500)):
            assert row.entailed == any({row.response, row.answer} <= group for group in same)


def test_lexicon_has_no_two_names_of_a_measured_wording():
    groups = [names for kind in answer_lexicon.words.same for names in kind["groups"]]
    for _, row in read_valid_rows(WORDINGS):
        right = {text.casefold() for text in [*row["answers"], *itertools.chain(*row["right"].values())]}
        assert not any(len(right & {name.casefold() for name in names}) > 1 for names in groups)
