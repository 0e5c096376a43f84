"""Errors of a judge: how they are counted, the texts they are counted on, and what the embedded judge does."""

import datetime
import itertools
import json

import pytest

from seper_reward.data.answers import normalize_answer
from seper_reward.data.demo import QUESTIONS
from seper_reward.data.rows import read_valid_rows
from seper_reward.evaluate.judge import read_verdicts
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.judge.judge import Judge
from seper_reward.options import LoadOptions
from tests.benchmarks.adapters.entailment_data import common_facts
from tests.benchmarks.judge import EQUIVALENCE, WORDINGS, texts
from tests.benchmarks.judge.cases import Case, fact_cases
from tests.benchmarks.judge.near_values import KINDS, near_values
from tests.benchmarks.judge.texts import Judged, judged, rates, traps
from tests.helpers import ScriptedModel


class NoRules(Judge):
    """A judge whose model decides all pairs."""

    def probs(self, pairs, *, verbatim=False):
        return super().probs(pairs, verbatim=True)


#: Supports every response by 0.75, half as much after a long question, and pays only what a rule equates.
CREDULOUS = NoRules(ScriptedModel(lambda pair: 0.75 if len(pair.question) < 60 else 0.375))
#: Supports an alias by its length in tenths.
BY_ALIAS = NoRules(ScriptedModel(lambda pair: len(pair.hypothesis) / 10))


def case(text, right, group=("kinds", "a")):
    return Case(group, "who?", text, ("Ann", "A. Lee"), right)


def test_rates_by_hand():
    rows = [
        Judged(case("x", False), 0.6, 0.04),
        Judged(case("y", False), 0.5, 0.9),
        Judged(case("z", False), 0.1, 0.02),
        Judged(case("Ann", True), 0.4, 0.6),
    ]
    assert rates(rows) == {
        "wrong": 3, "false_support": 0.3333, "false_pay": 0.3333, "right": 1, "false_refusal": 1.0, "unpaid": 0.0,
    }  # fmt: skip
    assert rates(rows[:3]).keys() == {"wrong", "false_support", "false_pay"}


def test_labels_judge_the_text_and_rewards_what_it_states():
    long, boxed = judged(CREDULOUS, [case("Thus:\nAnn", True), case(r"\boxed{Ann} it is", True)])
    assert (long.support, long.reward, boxed.reward) == (0.75, 1.0, 1.0)
    assert judged(BY_ALIAS, [case("x", False)])[0].support == pytest.approx(0.6)  # the better alias


def test_traps_by_hand():
    rows = [row for _, row in read_valid_rows(EQUIVALENCE)]
    result = traps(CREDULOUS)
    assert result.unrelated.keys() == {"20", "100", "260"}
    assert result.question_mark_shift == 0
    lengths = [
        (len(row["question"]) < 60, len(row["plain_question"]) < 60) for row in rows if row["kind"] == "politeness"
    ]
    moved = sum(one != other for one, other in lengths) / len(lengths)
    assert result.politeness_shift == pytest.approx(0.375 * moved, abs=1e-4)
    assert result.politeness_shift > 0.2
    echo = [0.75 if len(row["question"]) < 60 else 0.375 for row in rows if row["kind"] == "echo"]
    assert result.echo == pytest.approx(sum(echo) / len(echo), abs=1e-4)


@pytest.mark.parametrize(("kind", "distances"), [("years", (1, 2, 5, 10, 50)), ("three digits", (1, 2, 10, 100))])
def test_near_values_are_off_by_what_they_say(kind, distances):
    values = [value for value in near_values(0, 40) if value.kind == kind]
    for distance in distances:
        offs = {int(value.text) - int(value.gold) for value in values if value.distance == str(distance)}
        assert offs == {-distance, distance}


@pytest.mark.parametrize("kind", KINDS)
def test_no_wrong_value_is_another_spelling_of_the_gold_answer(kind):
    values = [value for seed in range(20) for value in near_values(seed, 10) if value.kind == kind]
    assert all(value.text != value.gold for value in values)
    spellings = {(value.gold, value.text) for value in values if value.distance == "0"}
    assert spellings.isdisjoint((value.gold, value.text) for value in values if value.distance != "0")


def test_near_values_by_hand():
    money, date, length, time = (KINDS[name] for name in ("money", "dates", "lengths", "times"))
    assert money.spell(45_000) == ["$45,000", "45,000 dollars", "45000 USD", "$45000", "$45k"]
    assert [money.moves["1"](value, 1) for value in (45, 45_000, 50_000_000)] == [46, 46_000, 51_000_000]
    assert [money.moves["factor 1000"](value, 1) for value in (45, 45_000_000)] == [45_000, 45_000]
    assert length.moves["factor 1000"]((12, "metres"), 1) == (12, "kilometres")
    assert time.spell(7 * 60 + 30) == ["7:30 am", "07:30", "7:30 a.m."]
    assert [time.spell(minutes)[0] for minutes in (5, 12 * 60, 23 * 60)] == ["12:05 am", "12:00 pm", "11:00 pm"]
    spelled = date.spell(datetime.date(1702, 3, 14))
    assert spelled == ["14 March 1702", "March 14, 1702", "1702-03-14", "14/03/1702"]
    assert len(date.spell(datetime.date(1702, 3, 4))) == 3


def test_wordings_are_right_and_apart_from_wrong_answers():
    facts = [fact for _, fact in read_valid_rows(WORDINGS)]
    for fact in facts:
        texts = [text for texts in fact["right"].values() for text in texts]
        assert len(set(texts)) == len(texts)
        assert fact["answers"][0] not in texts
        assert set(fact["others"]).isdisjoint([*fact["answers"], *texts])
    rows = list(fact_cases())
    assert len({(row.question, row.text, row.right) for row in rows}) > 0.99 * len(rows)


def test_our_texts_are_apart_from_what_is_trained_on(shared_data):
    own = [fact["question"] for _, fact in read_valid_rows(WORDINGS)]
    own += [row.question for row in read_verdicts(EQUIVALENCE)]
    trained = [row.question for row in read_verdicts(shared_data / "evouna" / "NQ.json.gz")]
    trained += [row["question"] for _, row in read_valid_rows(QUESTIONS)]
    trained += [fact["question"] for fact in common_facts()]
    assert set(map(normalize_answer, own)).isdisjoint(map(normalize_answer, trained))


@pytest.mark.slow
def test_the_embedded_judge_sees_through_traps():
    scorer = EntailmentScorer.from_pretrained(options=LoadOptions(device="cpu"))
    result = traps(Judge(scorer))
    assert max(result.unrelated[tokens] for tokens in ("100", "260")) <= 0.055
    assert result.unrelated["20"] <= 0.09
    assert result.echo <= 0.16  # words of the question, the weakest trap (docs/results.md)
    assert result.gibberish <= 0.03
    assert result.shotgun <= 0.1
    assert result.not_gold <= 0.25
    assert result.politeness_shift <= 0.02
    assert result.question_mark_shift <= 0.01
    assert result.stated >= 0.95


def test_the_command(tiny_entailment, tmp_path, capsys, monkeypatch):
    near_cases, facts = texts.near_cases, list(itertools.islice(fact_cases(), 100))
    monkeypatch.setattr(texts, "near_cases", lambda seed, golds: near_cases(seed, 2))  # fewer, for time
    monkeypatch.setattr(texts, "fact_cases", lambda: facts)
    words = ["--judge", tiny_entailment, "--seed", "3"]
    words += ["--dtype", "float32", "--device", "cpu"]
    words += ["--json", tmp_path / "out.json"]
    texts.command(list(map(str, words)))
    result = json.loads((tmp_path / "out.json").read_text())
    assert {"kinds", "near", "guesses", "qualifiers", "wordings", "traps"} < result.keys()
    assert result["settings"]["seed"] == 3
    out = capsys.readouterr().out
    assert "| not gold" in out
    assert "years, off by 50" in out
