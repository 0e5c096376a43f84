"""Measures of rankings by hand, and dense retrieval against a slow loop."""

import math

import numpy as np
import pytest

from seper_reward.data.queries import pool_passages
from seper_reward.evaluation.rankings import downstream, gold_relevance, graded_relevance, rank_metrics
from seper_reward.retrieval import DenseRetriever
from seper_reward.types import LabeledQuery, Passage, Query

A, B, C, D = (Passage(f"text {name}", id=name) for name in "abcd")


def test_measures_by_hand():
    found = rank_metrics(
        [(B, A, C), (D, C, B), (A, B, C)],
        [{"a": 3, "c": 1}, {"a": 1, "b": 0}, {"a": 0}],  # the third has no relevant passage and does not count
    )
    ndcg = (3 / math.log2(3) + 1 / math.log2(4)) / (3 / math.log2(2) + 1 / math.log2(3))
    assert found["ndcg@5"] == pytest.approx(ndcg / 2, abs=1e-4)  # the second found nothing
    assert found["mrr"] == pytest.approx(0.5 / 2)
    assert found["recall@1"] == 0
    assert found["recall@5"] == pytest.approx((1 + 0) / 2)


def test_no_relevant_passage_at_all():
    assert set(rank_metrics([(A,)], [{"a": 0}]).values()) == {None}


def test_relevance():
    query = Query("q", "Who?", ("x",), (Passage("t", id="a", metadata={"relevant": True}), B))
    assert gold_relevance(query) == {"a": 1, "b": 0}
    labeled = LabeledQuery(Query("q", "Who?", ("x",), (A, B, C)), (0.9, -0.8, 0.2), (0.0, 0.0, 0.0))
    assert graded_relevance(labeled) == {"a": 3, "b": 0, "c": 1}


def test_downstream_sees_the_top(tiny_scorer):
    queries = [Query("q1", "Who?", ("Ann",)), Query("q2", "When?", ("1900",))]
    rows = downstream(tiny_scorer, queries, [(A, B), (C, D)], top_k=2)
    (belief,) = tiny_scorer.beliefs("When?", ("1900",), [(C, D)])
    assert [row["id"] for row in rows] == ["q1", "q2"]
    assert rows[1]["passages"] == ["c", "d"]
    assert rows[1]["seper"] == pytest.approx(belief.seper, abs=1e-6)
    assert rows[1]["exact_match"] == 0
    too_long = Query("q3", "Who? " * 600, ("Ann",))
    (row,) = downstream(tiny_scorer, [too_long], [(A,)])
    assert (row["seper"], row["exact_match"]) == (None, None)  # a failure is not a zero


def test_dense_retrieval_is_exact_search(tiny_encoder):
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    texts = ["the mill by the river", "sheep on a hill", "a ferry in the fog", "the ferry sank", "bread and salt"]
    corpus = {str(at): Passage(text, id=str(at)) for at, text in enumerate(texts)}
    questions = ["who owns the mill", "when did the ferry sink"]
    found = DenseRetriever(encoder, corpus).retrieve(questions, 3)
    vectors = encoder.encode([passage.full_text for passage in corpus.values()], normalize_embeddings=True)
    for question, passages in zip(questions, found, strict=True):
        scores = vectors @ encoder.encode(question, normalize_embeddings=True)
        assert [passage.id for passage in passages] == [str(at) for at in np.argsort(-scores)[:3]]
    assert len(DenseRetriever(encoder, corpus).retrieve(questions, 99)[0]) == 5
    assert DenseRetriever(encoder, corpus).retrieve([], 2) == []
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        DenseRetriever(encoder, corpus).retrieve(questions, 0)


def test_pooling_passages_of_files_without_a_corpus():
    marked = Passage("same text", "T", "0", {"relevant": True})
    queries = [
        Query("q1", "Who?", ("x",), (marked, Passage("other", id="1"))),
        Query("q2", "When?", ("y",), (Passage("same text", "T", "0", {"relevant": False}), Passage("third", id="1"))),
    ]
    corpus, renamed = pool_passages(queries)
    assert len(corpus) == 3
    assert all(passage.id == name and not passage.metadata for name, passage in corpus.items())
    first, second = (query.passages[0] for query in renamed)
    assert first.id == second.id
    assert [first.metadata, second.metadata] == [{"relevant": True}, {"relevant": False}]
