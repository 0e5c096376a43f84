"""An ensemble's candidates, from a scripted reader; how alike answers are, by hand."""

import math

import numpy as np
import pytest
import torch

from seper_reward.baselines.pool import Elected, Ensemble, answer_similarities, verdicts
from seper_reward.baselines.voting import SIMILARITIES, VoteOptions, VoteWeights
from seper_reward.judge.judge import Judge
from seper_reward.types import Passage, Query, Responses, UnscorableError
from tests.helpers import ScriptedModel

SAID = {"": "unknown", "mill": "Ann Lee", "ferry": "Bob"}  # by passage, the likeliest response
SHOWN = [(), (Passage("mill"),), (Passage("ferry"),)]


class Reader:
    """Says what the script says of the passage."""

    def responses(self, asked):
        return [
            UnscorableError("too long")
            if each.question == "long"
            else [
                Responses((SAID["".join(passage.text for passage in shown)],), (torch.zeros(1),))
                for shown in each.contexts
            ]
            for each in asked
        ]


class Scorer:
    """Samples nothing: only its greedy reader answers."""

    def __init__(self, reader=None):
        self.reader, self.judge = reader, Judge(ScriptedModel(lambda pair: 0.0))

    def with_sampling(self, **changes):
        assert changes["temperature"] == 0
        return Scorer(Reader())


class Encoder:
    def encode(self, texts, **options):
        return [torch.eye(4)[[0, at % 4, 0]] for at, _ in enumerate(texts)]


@pytest.fixture
def asking():
    return Ensemble(Scorer(), Encoder())


def test_candidates_and_vote_by_hand(asking):
    found = asking.candidates("Who?", SHOWN)
    assert found.texts == ("unknown", "Ann Lee", "Bob")
    assert found.silent.tolist() == [True, False, False]
    assert found.similarity.shape == (len(SIMILARITIES), 3, 3)
    options = VoteOptions(("exact_match",))
    assert found.vote(VoteWeights((1.0,), (1.0, 1.0, 1.0)), options) == Elected(
        "Ann Lee", 1, pytest.approx([math.nan, 0.0, 0.0], nan_ok=True)
    )  # the first of those that say something


def test_ensemble_loads_the_embedded_encoder(monkeypatch):
    monkeypatch.setattr("seper_reward.baselines.pool.load_encoder", lambda name: {"minilm": Encoder()}[name])
    asking = Ensemble(Scorer())
    assert asking.candidates("Who?", SHOWN[1:]).texts == ("Ann Lee", "Bob")
    with pytest.raises(UnscorableError, match="too long"):
        asking.candidates("long", SHOWN)


def test_verdicts_by_hand():
    sure = {("Ann L.", "Ann Lee"): 0.81, ("Lee", "Ann Lee"): 0.79, ("unknown", "Ann Lee"): 0.9}
    judge = Judge(ScriptedModel(lambda pair: sure.get(pair[1:], 0.0) if pair.question == "Who?" else 1.0))
    query = Query("q", "Who?", ("Ms Lee", "Ann Lee"))
    texts = ["Ann L.", "Lee", "ann lee", "Ann Lee", "", "unknown"]
    assert [verdicts(query, texts)[text] for text in texts] == [False, False, True, True, False, False]
    assert [verdicts(query, texts, judge)[text] for text in texts] == [True, False, True, True, False, False]


def by_length(pair):
    assert pair.premise != pair.hypothesis
    return (len(pair.premise) - len(pair.hypothesis) + 20) / 40 + bool(pair.question) / 8


class LetterEncoder:
    """Vectors of a text's letters between those of two tokens that begin and end it."""

    def encode(self, texts, output_value, show_progress_bar):
        assert output_value == "token_embeddings"
        ends = torch.full((1, 128), 9.0)
        letters = [torch.eye(128)[[ord(letter) for letter in text]] for text in texts]
        return [torch.cat([ends, rows, ends]) for rows in letters]


def test_answer_similarities_by_hand():
    found = answer_similarities(
        Judge(ScriptedModel(by_length)), LetterEncoder(), "Who?", ["The mill", "mill", " ", "old mill", "The  mill"]
    )
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
    assert by_name["entailment"][1, 3] == pytest.approx(0.5)  # the mean of both directions
    assert by_name["entailment_with_question"][1, 3] == pytest.approx(0.625)
    assert not found[:, 2].any()
    assert np.array_equal(found[:, 0], found[:, 4])
