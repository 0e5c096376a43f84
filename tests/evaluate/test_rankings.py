"""Measures of rankings by hand, and dense retrieval against a slow loop."""

import math

import pytest

from seper_reward.evaluate.rankings import gold_relevance, rank_values
from seper_reward.types import Passage, Query
from trainers.ranking.evaluation import downstream, rank_metrics

A, B, C, D = (Passage(f"text {name}", id=name) for name in "abcd")


def test_rank_metrics_by_hand():
    found = rank_metrics(
        [(B, A, C), (D, C, B), (A, B, C)],
        [{"a": 3, "c": 1}, {"a": 1, "b": 0}, {"a": 0}],  # the third has no relevant passage and does not count
    )
    ndcg = (3 / math.log2(3) + 1 / math.log2(4)) / (3 / math.log2(2) + 1 / math.log2(3))
    assert found["ndcg@5"] == pytest.approx(ndcg / 2, abs=1e-4)  # the second found nothing
    assert found["mrr"] == pytest.approx(0.5 / 2)
    assert found["recall@1"] == 0
    assert found["recall@2"] == pytest.approx((1 / 2 + 0) / 2)  # one of two
    assert found["recall@5"] == pytest.approx((1 + 0) / 2)
    assert set(rank_metrics([(A,)], [{"a": 0}]).values()) == {None}


def test_rank_values_of_grades_as_in_trec_eval():
    marks = {"a": True, "b": 3, "c": -1}
    passages = tuple(Passage(name, id=name, metadata={"relevant": mark}) for name, mark in marks.items())
    query = Query("q", "Who?", ("x",), passages)
    gains = gold_relevance(query)
    assert gains == {"a": 1, "b": 3, "c": 0}
    names = {"ndcg": "nDCG@5", "first": "RR", "one": "R@1"}
    # (1 + 3 / log2 3) / (3 + 1 / log2 3) = 2.8928 / 3.6309
    (found,) = rank_values([query.passages], [gains], names)
    assert found == pytest.approx({"ndcg": 0.797, "first": 1.0, "one": 0.5}, abs=1e-3)
    (found,) = rank_values([query.passages], [gains], names, relevant_from=2)  # only b is relevant
    assert found == pytest.approx({"ndcg": 0.797, "first": 0.5, "one": 0.0}, abs=1e-3)
    assert rank_values([query.passages], [gains], names, relevant_from=4) == [None]


def test_downstream_reads_the_top(tiny_scorer):
    queries = [Query("q1", "Who?", ("Ann",)), Query("q2", "When?", ("1900",))]
    measures = downstream(tiny_scorer, queries, [(A, B), (C, D)], top_k=2)
    (belief,) = tiny_scorer.beliefs("When?", ("1900",), [(C, D)])
    assert measures["seper"][1] == pytest.approx(belief.seper, abs=1e-6)
    assert measures["exact_match"][1] == 0
    failed = [Query("long", "Who? " * 600, ("Ann",)), Query("bare", "Who?", (), (A,))]  # no answer
    failures = downstream(tiny_scorer, failed, [(A,), (A,)])
    assert failures == {"seper": [None, None], "exact_match": [None, None]}  # a failure is not a zero


def test_gold_relevance_counts_missing_documents():
    """trec_eval: of two relevant documents, one of which the corpus lacks, the first place has half."""
    passage = Passage("Ida runs it.", id="a", metadata={"relevant": 1})
    query = Query("q", "Who?", ("Ida",), (passage,), judged={"a": 1, "gone": 2, "junk": -2})
    assert gold_relevance(query) == {"a": 1, "gone": 2, "junk": 0}
    found = rank_metrics([[passage]], [gold_relevance(query)])
    assert (found["recall@1"], found["recall@5"], found["mrr"]) == (0.5, 0.5, 1.0)
    best = 2 + 1 / math.log2(3)
    assert found["ndcg@5"] == pytest.approx(1 / best, abs=1e-4)
