"""How alike answers are, by hand."""

import numpy as np
import pytest
import torch

from seper_reward.baselines.similarity import AnswerSimilarity
from seper_reward.baselines.voting import SIMILARITIES
from seper_reward.evaluate.similarity import bertscore_f1


def test_bertscore_by_hand():
    one = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 5.0]])
    other = torch.tensor([[2.0, 0.0], [0.8, 0.6]])
    # cosines: 1, .8 | .6, .96 | 0, .6
    precision, recall = (1 + 0.96 + 0.6) / 3, (1 + 0.96) / 2
    assert bertscore_f1(one, other) == pytest.approx(2 * precision * recall / (precision + recall))
    assert bertscore_f1(other, one) == pytest.approx(bertscore_f1(one, other))
    assert bertscore_f1(one, other[:0]) == 0.0
    assert bertscore_f1(one[:1], -one[:1]) == 0.0


class Judge:
    def entailment(self, question, pairs):
        assert all(one != other for one, other in pairs)
        return {(one, other): (len(one) - len(other) + 20) / 40 + bool(question) / 8 for one, other in pairs}


class Encoder:
    """Vectors of a text's letters between those of two tokens that begin and end it."""

    def encode(self, texts, output_value, show_progress_bar):
        assert output_value == "token_embeddings"
        ends = torch.full((1, 128), 9.0)
        letters = [torch.eye(128)[[ord(letter) for letter in text]] for text in texts]
        return [torch.cat([ends, rows, ends]) for rows in letters]


def test_similarities_by_hand():
    found = AnswerSimilarity(Judge(), Encoder()).compare("Who?", ["The mill", "mill", " ", "old mill", "The  mill"])
    by_name = dict(zip(SIMILARITIES, found, strict=True))
    assert found.shape == (5, 5, 5)
    assert np.array_equal(found, found.transpose(0, 2, 1))
    assert by_name["exact_match"].astype(int).tolist() == [
        [1, 1, 0, 0, 1],
        [1, 1, 0, 0, 1],
        [0, 0, 0, 0, 0],  # a blank is like none, not even itself
        [0, 0, 0, 1, 0],
        [1, 1, 0, 0, 1],
    ]
    assert by_name["containment"][1].tolist() == [1, 1, 0, 1, 1]
    assert by_name["containment"][0].tolist() == [1, 1, 0, 1, 1]
    # of "old mill" the letters l, m, i, l, l are in "mill": 5 of 8, and all of "mill" are in "old mill"
    assert by_name["bertscore"][3, 1] == pytest.approx(2 * (5 / 8) / (5 / 8 + 1))
    assert by_name["entailment"][1, 3] == 0.5  # the mean of both directions
    assert by_name["entailment_with_question"][1, 3] == 0.625
    assert not found[:, 2].any()
    assert np.array_equal(found[:, 0], found[:, 4])


def test_with_the_embedded_models(tiny_scorer):
    from seper_reward.retrieval import load_encoder

    found = AnswerSimilarity(tiny_scorer.judge, load_encoder("minilm")).compare("Who?", ["Ann Lee", "Bob", "ann lee."])
    exact, _, bertscore, entailment, with_question = found
    assert exact[0].tolist() == [1, 0, 1]
    assert bertscore[0, 2] > bertscore[0, 1] > 0
    assert ((found >= 0) & (found <= 1)).all()
    assert entailment[0, 1] != with_question[0, 1]
    assert not AnswerSimilarity(tiny_scorer.judge, load_encoder("minilm")).compare("Who?", ["", " "]).any()
