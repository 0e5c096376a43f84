"""Similarities of texts: BERTScore by hand and by plain calls of the encoder."""

import pytest
import torch

from seper_reward.evaluate.similarity import Encoder, bert_score, bertscore_f1, load_similarity
from seper_reward.runtime.pretrained import embedded_encoder_folder


@pytest.fixture(scope="module")
def encoder():
    return Encoder()


def test_bertscore_f1_by_hand():
    one = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 5.0]])
    other = torch.tensor([[2.0, 0.0], [0.8, 0.6]])
    # cosines: 1, .8 | .6, .96 | 0, .6
    precision, recall = (1 + 0.96 + 0.6) / 3, (1 + 0.96) / 2
    assert bertscore_f1(one, other) == pytest.approx(2 * precision * recall / (precision + recall))
    assert bertscore_f1(other, one) == pytest.approx(bertscore_f1(one, other))
    assert bertscore_f1(one, other[:0]) == 0.0
    assert bertscore_f1(one[:1], -one[:1]) == 0.0


def test_bert_scores_of_plain_calls(encoder):
    from transformers import AutoModel, AutoTokenizer

    folder = embedded_encoder_folder()
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

    def tokens(text):
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        return torch.nn.functional.normalize(hidden[1:-1], dim=-1)

    pairs = [("the old city of Paris", "Paris"), ("Paris", "Paris"), ("", "Paris")]
    found = encoder.bert_scores(pairs)
    assert found == pytest.approx([bertscore_f1(tokens(one), tokens(other)) for one, other in pairs], abs=1e-4)
    assert found[1:] == pytest.approx([1.0, 0.0], abs=1e-5)
    assert encoder.bert_scores([]) == []


def test_bert_score_of_the_best_alias(encoder):
    (near, far) = encoder.bert_scores([("Anne Lee", "Ann Lee"), ("Anne Lee", "Paris")])
    metric = bert_score(encoder, ["Anne Lee"], ["Paris", "Ann Lee"])
    assert metric("Anne Lee", ["Paris", "Ann Lee"]) == pytest.approx(near)
    assert far < near


def test_cosines_of_embeddings(encoder):
    (same, other) = encoder.cosines([("Paris", "Paris"), ("Paris", "a kind of cheese")])
    assert same == pytest.approx(1, abs=1e-5)
    assert other < 0.6
    assert load_similarity("cosine")([("Paris", "Paris")]) == pytest.approx([1], abs=1e-5)
