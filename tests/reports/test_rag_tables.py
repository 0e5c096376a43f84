"""Tables of the parts of a RAG system, cell by cell."""

from seper_reward.reports.rag_tables import retrievers_tables
from tests.helpers import cells, of


def test_retrievers():
    tau = {"value": 0.5, "interval": [0.1, 0.9]}
    row = {"retriever": "bm25", "k": 1, "measures": {"ndcg": of(None), "accuracy": of(0.6, [0.5, 0.7])}}
    row |= {"kendall": {"ndcg": tau}}
    result = {"questions": 3, "left_out": 0, "retrievers": [row], "order": {"1": {"ndcg": {**tau, "value": None}}}}
    table = retrievers_tables(result)
    assert table.startswith("3 questions\n\n")
    assert cells(table, ["bm25", "1"]) == ["–", "0.600 [0.500, 0.700]"]
    by_question = table.partition("over questions")[2]
    assert cells(by_question, ["bm25", "1"]) == ["0.500 [0.100, 0.900]"]
    assert cells(by_question, ["order of all retrievers", "1"]) == ["–"]
