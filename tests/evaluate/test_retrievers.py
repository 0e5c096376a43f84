"""Measures of retrievers by hand, with a scripted scorer, and the whole command."""

import json
import math

import pytest
from scipy import stats

from seper_reward.cli import main
from seper_reward.evaluate.measuring import measured
from seper_reward.evaluate.retrievers import RetrieverRow, Retrievers, compare_retrievers
from seper_reward.statistics import Statistic
from seper_reward.types import Passage, Query, UnscorableError
from tests.evaluate.stubs import StubScorer
from tests.helpers import cells
from tests.helpers import evaluation_arguments as arguments

A, B, C, D = (Passage(f"text {name}", id=name) for name in "abcd")


def marked(*names):
    return tuple(Passage(f"text {name}", id=name, metadata={"relevant": True}) for name in names)


QUERIES = [
    Query("q1", "One?", ("Ann",), marked("a")),
    Query("q2", "Two?", ("Ann",), marked("a", "b")),
    Query("q3", "Three?", ("Ann",)),  # nobody marked a passage
    Query("q4", "Four?", ("Ann",), marked("d")),
    Query("q5", "Long?", ("Ann",), marked("a")),
]
FOUND = {
    "good": [(A, B), (A, B), (C,), (A, D), (A,)],
    "poor": [(B, A), (C, D), (), (D, C), (A,)],
}
WORTH = {"a": 0.4, "b": 0.1, "c": -0.2, "d": -0.3}


def seper(question, ids):
    return None if question == "Long?" else 0.4 + sum(WORTH[name] for name in ids)


@pytest.fixture
def scorer(tiny_sampler):
    return StubScorer(tiny_sampler.tokenizer, seper, lambda question, ids: "Ann" if "a" in ids else "Bob", 0.05)


def test_compare_retrievers_by_hand(scorer, no_intervals):
    result = compare_retrievers(scorer, QUERIES, FOUND, depths=(1, 2))
    # equal contexts are measured once
    assert scorer.contexts[0] == ("One?", [(), ("a",), ("b",), ("a", "b"), ("b", "a")])
    assert (result.questions, result.left_out) == (4, 1)
    rows = {(row.retriever, row.k): row for row in result.retrievers}
    assert list(rows) == [("good", 1), ("good", 2), ("poor", 1), ("poor", 2)]
    means = {key: {name: each.value for name, each in row.measures.items()} for key, row in rows.items()}
    second = 1 / math.log2(3)
    # q1, q2 and q4 have relevant passages
    assert means["good", 2]["ndcg"] == pytest.approx((1 + 1 + second) / 3, abs=1e-4)
    assert means["good", 2]["recall"] == pytest.approx((1 + 1 + 1) / 3)
    assert means["good", 1]["recall"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert means["poor", 2]["ndcg"] == pytest.approx((second + 0 + 1) / 3, abs=1e-4)
    # by passage, where a missing one counts 0
    assert means["good", 2]["delta_seper"] == pytest.approx((0.25 + 0.25 - 0.1 + 0.05) / 4)
    assert means["poor", 2]["delta_seper"] == pytest.approx((0.25 - 0.25 + 0 - 0.25) / 4)
    assert means["good", 2]["delta_seper_list"] == pytest.approx((0.5 + 0.5 - 0.2 + 0.1) / 4)
    assert means["poor", 2]["delta_seper_list"] == pytest.approx((0.5 - 0.5 + 0 - 0.5) / 4)
    # the interval of a difference is √2 * .1 to either side: -.3 is harm, and -.2 is
    assert means["good", 2]["harm_rate"] == pytest.approx((0 + 0 + 1 / 2 + 1 / 2) / 4)
    assert means["poor", 2]["harm_rate"] == pytest.approx((0 + 1 + 0 + 1) / 4)
    assert means["good", 2]["seper"] == pytest.approx((0.9 + 0.9 + 0.2 + 0.5) / 4)
    assert result.no_passage["seper"].value == pytest.approx(0.4)
    assert result.no_passage["accuracy"].value == 0
    assert means["good", 2]["accuracy"] == pytest.approx(3 / 4)
    assert means["poor", 2]["accuracy"] == pytest.approx(1 / 4)
    scorer.half = 0.4  # harm needs the whole interval
    rows = compare_retrievers(scorer, QUERIES, FOUND, depths=(2,)).retrievers
    assert [row.measures["harm_rate"].value for row in rows] == [0.0, 0.0]


def test_compare_retrievers_from_a_grade_on(scorer):
    grades = {"a": 1, "b": 2, "c": 0}
    passages = tuple(Passage(f"text {name}", id=name, metadata={"relevant": grade}) for name, grade in grades.items())
    query = Query("q1", "One?", ("Ann",), passages)
    for least, recall in ((1, 1 / 2), (2, 0.0)):
        result = compare_retrievers(scorer, [query], {"one": [(A, B)]}, depths=(1,), relevant_from=least)
        (row,) = result.retrievers
        assert row.measures["ndcg"].value == pytest.approx(1 / 2)
        assert row.measures["recall"].value == pytest.approx(recall)


def test_compare_retrievers_by_kendalls_tau(scorer, no_intervals):
    result = compare_retrievers(scorer, QUERIES, FOUND, depths=(2,))
    good, poor = result.retrievers
    accuracy = [1, 1, 0, 1]
    columns = {"delta_seper": [0.25, 0.25, -0.1, 0.05], "harm_rate": [0, 0, 0.5, 0.5]}
    for name, values in columns.items():
        expected = stats.kendalltau(values, accuracy).statistic
        assert good.kendall[name].value == pytest.approx(expected, abs=1e-4)
    assert good.kendall["ndcg"].value is None  # all marked questions are answered right
    expected = stats.kendalltau([1 / math.log2(3), 0, 1], [1, 0, 0]).statistic
    assert poor.kendall["ndcg"].value == pytest.approx(expected, abs=1e-4)
    order = result.order["2"]
    assert (order["ndcg"].value, order["delta_seper"].value, order["harm_rate"].value) == (1, 1, -1)


def test_measured_leaves_out_failed_questions(scorer, capsys):
    found = measured(scorer, QUERIES[3:], [[(), (A,), ()], [()]])
    assert found[1] is None
    assert {context: belief.seper for context, belief in found[0].items()} == {(): 0.4, (A,): 0.8}
    assert "question id='q5' is left out: too long" in capsys.readouterr().err
    with pytest.raises(ValueError, match="expected questions that can be measured, got none of 1"):
        compare_retrievers(scorer, QUERIES[4:], {"one": [(A,)]}, depths=(1,))
    for found, depths in (({}, (1,)), (FOUND, ()), (FOUND, (0,))):
        with pytest.raises(ValueError, match="expected retrievers and depths of at least 1, got"):
            compare_retrievers(scorer, QUERIES, found, depths=depths)


def test_compare_retrievers_leaves_out_unanswered_questions(tiny_sampler, capsys, no_intervals):
    """As where an engine sends half of an answer: measured before, cut off now."""

    def says(question, ids):
        if question == "Four?":
            raise UnscorableError("the server sent no text")
        return "Ann" if "a" in ids else "Bob"

    scorer = StubScorer(tiny_sampler.tokenizer, seper, says)
    result = compare_retrievers(scorer, QUERIES, FOUND, depths=(1,))
    assert (result.questions, result.left_out) == (3, 2)
    assert result.retrievers[0].measures["accuracy"].value == pytest.approx(2 / 3, abs=1e-4)
    assert "question id='q4' is left out: the server sent no text" in capsys.readouterr().err


def test_retrievers_command(tiny_reader, tiny_entailment, tiny_encoder, lane_questions, tmp_path, capsys):
    words = arguments(tiny_reader, tiny_entailment, lane_questions, tmp_path / "out.json")
    words += ["--limit", "3", "--retrievers", "bm25", str(tiny_encoder), f"bm25+{tiny_encoder}"]
    words += ["--depths", "1", "2"]
    (tmp_path / "other").symlink_to(tiny_reader)
    words += ["--readers", str(tiny_reader), str(tmp_path / "other")]
    assert main(["evaluate", "retrievers", *words]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Reader {tiny_reader}: 3 questions\n\n| retriever ")
    assert "| order of all retrievers " in out
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["readers"][str(tiny_reader)] == result["readers"][str(tmp_path / "other")]
    first = result["readers"][str(tiny_reader)]["retrievers"][0]
    assert (first["retriever"], first["k"]) == ("bm25", 1)
    assert first["measures"]["recall"]["value"] > 0
    assert main(["evaluate", "retrievers", *words, "--retrievers", "bm26"]) == 2
    assert "retriever='bm26' could not be loaded: expected bm25, minilm" in capsys.readouterr().err


def test_retrievers_table():
    measures = {"ndcg": Statistic(None), "accuracy": Statistic(0.6, [0.5, 0.7])}
    row = RetrieverRow("bm25", 1, measures, {"ndcg": Statistic(0.5, [0.1, 0.9])})
    none = {"accuracy": Statistic(0.2, [0.1, 0.3])}
    table = Retrievers(3, 0, none, [row], {"1": {"ndcg": Statistic(None)}}).table()
    assert cells(table, ["no passage", "0"]) == ["", "0.200 [0.100, 0.300]"]
    assert cells(table, ["bm25", "1"]) == ["–", "0.600 [0.500, 0.700]"]
    assert "are empty: no question has a passage that is marked 'relevant'" in table
    by_question = table.partition("over questions")[2]
    assert cells(by_question, ["bm25", "1"]) == ["0.500 [0.100, 0.900]"]
    assert cells(by_question, ["order of all retrievers", "1"]) == ["–"]
