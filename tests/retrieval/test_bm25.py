"""BM25 finds passages that share words with the question, and no others."""

import pytest

from seper_reward.retrieval import BM25Retriever
from seper_reward.types import Passage

TEXTS = ["Ida Voss runs the mill.", "Sheep graze on hills.", "The mill has 5 wheels, and this mill is old."]
CORPUS = {str(at): Passage(text, id=str(at)) for at, text in enumerate(TEXTS)}


@pytest.mark.parametrize(
    ("question", "top_k", "ids"),
    [
        ("Where are mills?", 1, ["2"]),
        ("Where are mills?", 3, ["2", "0"]),
        ("Who has 5?", 99, ["2"]),
        ("Ferry?", 1, []),
        ("Who is the?", 2, []),  # stop words only
        ("", 2, []),
    ],
)
def test_retrieve_returns_only_passages_that_match(question, top_k, ids):
    (beside, found) = BM25Retriever(CORPUS).retrieve(["the sheep", question], top_k)
    assert [passage.id for passage in found] == ids
    assert [passage.id for passage in beside] == ["1"]


def test_scores_rank_as_retrieve_does():
    retriever = BM25Retriever(CORPUS)
    first, second, third = retriever.scores("Where are mills?")
    assert third > first > second == 0
    assert retriever.scores("Ferry?") == retriever.scores("the") == [0.0, 0.0, 0.0]
    assert retriever.scores("Ferry, sheep?")[1] > 0


@pytest.mark.parametrize(
    ("texts", "question"),
    [
        (["磨坊由沃斯经营。", "羊在山上吃草。"], "谁经营磨坊?"),
        (["この水車小屋は古い。", "羊が草を食べる。"], "水車小屋はどこ?"),
    ],
)
def test_retrieve_reads_scripts_without_spaces(texts, question):
    ((first, *_),) = BM25Retriever({text: Passage(text, id=text) for text in texts}).retrieve([question], 2)
    assert first.text == texts[0]


def test_bm25_without_questions_or_words():
    assert BM25Retriever(CORPUS).retrieve([], 2) == []
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        BM25Retriever(CORPUS).retrieve(["mill"], 0)
    with pytest.raises(ValueError, match="got none in 1 passages"):
        BM25Retriever({"a": Passage("The!")})
