"""An ensemble's candidates: answers, masses and clusters, from a scripted reader; how alike answers are, by hand."""

import math

import numpy as np
import pytest
import torch

from seper_reward import Estimator
from seper_reward.baselines import candidates
from seper_reward.baselines.candidates import Elected, Ensemble, answer_similarities, verdicts
from seper_reward.baselines.voting import SIMILARITIES, VoteOptions, VoteWeights
from seper_reward.types import Passage, Query, Responses, UnscorableError

SAID = {  # by passage, what 10 samples say; the first is the likeliest
    "": {"unknown": 6, "Bob": 4},
    "mill": {"Ann Lee": 5, "Lee": 3, "Bob": 2},
    "ferry": {"Bob": 6, "Ann Lee": 4},
}
SHOWN = [(), (Passage("mill"),), (Passage("ferry"),)]


class Reader:
    """Says what the script says of the passage, each response with the count of its draws."""

    def __init__(self, greedy=False):
        self.greedy, self.expected = greedy, []

    def responses(self, asked):
        return [
            UnscorableError("too long")
            if each.question == "long"
            else [self.of(SAID["".join(passage.text for passage in shown)]) for shown in each.contexts]
            for each in asked
        ]

    def of(self, said):
        texts = list(said)[:1] if self.greedy else [text for text, count in said.items() for _ in range(count)]
        return Responses(tuple(texts), (torch.zeros(1),) * len(texts))

    def expect(self, asked):
        self.expected += [each.question for each in asked]


class Judge:
    """Ann Lee and Lee mean the same; no pair entails by itself."""

    def clusters(self, question, texts):
        names = [text.removeprefix("Ann ") for text in texts]
        return [list(dict.fromkeys(names)).index(name) for name in names]

    def entailment(self, question, pairs):
        return dict.fromkeys(pairs, 0.0)


class Scorer:
    def __init__(self, reader):
        self.reader, self.judge, self.estimator = reader, Judge(), Estimator(weighting="uniform")

    def with_sampling(self, **changes):
        assert changes["temperature"] == 0
        return Scorer(Reader(greedy=True))


class Encoder:
    def encode(self, texts, **options):
        return [torch.eye(4)[[0, at % 4, 0]] for at, _ in enumerate(texts)]


@pytest.fixture
def asking():
    return Ensemble(Scorer(Reader()), Encoder())


def test_candidates_by_hand(asking):
    found = asking.candidates("Who?", SHOWN)
    assert found.texts == ("unknown", "Ann Lee", "Bob")
    assert found.silent.tolist() == [True, False, False]
    assert found.similarity.shape == (len(SIMILARITIES), 3, 3)
    assert found.sampled == ("Bob", "Ann Lee", "Lee")  # those that say something
    assert found.masses == pytest.approx(np.array([[0.4, 0.2, 0.6], [0.0, 0.5, 0.4], [0.0, 0.3, 0.0]]))
    assert found.cluster_ids == (0, 1, 1)
    # for Bob .4 + .2 + .6, for Lee, who is Ann Lee, .5 + .4 + .3; without the first .8 and 1.2
    assert found.belief_vote() == Elected("Bob", 2, pytest.approx([0.4, 0.2, 0.6]))
    assert found.belief_vote([0, 1, 1]) == Elected("Ann Lee", 1, pytest.approx([0.0, 0.8, 0.4]))
    assert found.belief_vote([1, 0, 0.0]).text == "Bob"
    assert found.belief_vote([0, 0, 0.0]) == Elected("unknown", 0, [0.0] * 3)  # nobody counts
    options = VoteOptions(("exact_match",))
    assert found.vote(VoteWeights((1.0,), (1.0, 1.0, 1.0)), options) == Elected(
        "Ann Lee", 1, pytest.approx([math.nan, 0.0, 0.0], nan_ok=True)
    )  # the first of those that say something


def test_where_nobody_says_anything(asking, monkeypatch):
    monkeypatch.setitem(SAID, "mill", {"": 7, "n/a": 3})
    found = asking.candidates("Who?", [SHOWN[1]])
    assert (found.sampled, found.masses.shape, found.cluster_ids) == ((), (0, 1), ())
    assert found.belief_vote() == Elected("", 0, [0.0])


def test_the_embedded_encoder_is_the_default(monkeypatch):
    monkeypatch.setattr(candidates, "load_encoder", lambda name: {"minilm": Encoder()}[name])
    asking = Ensemble(Scorer(Reader()))
    assert asking.candidates("Who?", SHOWN[1:]).texts == ("Ann Lee", "Bob")
    with pytest.raises(UnscorableError, match="too long"):
        asking.candidates("long", SHOWN)


def test_a_real_reader(tiny_scorer):
    found = Ensemble(tiny_scorer, Encoder()).candidates("Who owns the mill?", [(), (Passage("Ann owns the mill."),)])
    assert len(found.texts) == 2
    assert found.masses.shape == (len(found.sampled), 2)
    assert found.masses.sum(axis=0) == pytest.approx([1.0, 1.0])  # a random reader never says that it does not know
    assert found.belief_vote().text in found.sampled


def test_without_beliefs_nothing_is_sampled(asking):
    reader = Reader()
    greedy = Ensemble(Scorer(reader), Encoder(), beliefs=False)
    greedy.expect("Who?", SHOWN)
    found = greedy.candidates("Who?", SHOWN)
    assert (found.texts, found.sampled, reader.expected) == (("unknown", "Ann Lee", "Bob"), (), [])
    assert np.array_equal(found.similarity, asking.candidates("Who?", SHOWN).similarity)


def test_verdicts_by_hand():
    class Says:
        def entailment(self, question, pairs):
            assert question == "Who?"
            sure = {("Ann L.", "Ann Lee"): 0.8, ("Lee", "Ann Lee"): 0.79, ("Robert", "Bob"): 0.9}
            return {pair: sure.get(pair, float(pair[0] == pair[1])) for pair in pairs}

    query = Query("q", "Who?", ("Ms Lee", "Ann Lee"))
    texts = ["Ann L.", "Lee", "ann lee", "Ann Lee", "", "unknown"]
    assert [verdicts(query, texts)[text] for text in texts] == [False, False, True, True, False, False]
    assert [verdicts(query, texts, Says())[text] for text in texts] == [True, False, False, True, False, False]
    both = Query("q", "Who?", (("Ann Lee",), ("Bob",)))
    assert verdicts(both, ["Robert and Ann L.", "Robert"], Says()) == {"Robert and Ann L.": True, "Robert": False}


class LengthJudge:
    def entailment(self, question, pairs):
        assert all(one != other for one, other in pairs)
        return {(one, other): (len(one) - len(other) + 20) / 40 + bool(question) / 8 for one, other in pairs}


class LetterEncoder:
    """Vectors of a text's letters between those of two tokens that begin and end it."""

    def encode(self, texts, output_value, show_progress_bar):
        assert output_value == "token_embeddings"
        ends = torch.full((1, 128), 9.0)
        letters = [torch.eye(128)[[ord(letter) for letter in text]] for text in texts]
        return [torch.cat([ends, rows, ends]) for rows in letters]


def test_similarities_by_hand():
    found = answer_similarities(
        LengthJudge(), LetterEncoder(), "Who?", ["The mill", "mill", " ", "old mill", "The  mill"]
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
    assert by_name["entailment"][1, 3] == 0.5  # the mean of both directions
    assert by_name["entailment_with_question"][1, 3] == 0.625
    assert not found[:, 2].any()
    assert np.array_equal(found[:, 0], found[:, 4])


def test_with_the_embedded_models(tiny_scorer):
    from seper_reward.retrieval import load_encoder

    found = answer_similarities(tiny_scorer.judge, load_encoder("minilm"), "Who?", ["Ann Lee", "Bob", "ann lee."])
    exact, _, bertscore, entailment, with_question = found
    assert exact[0].tolist() == [1, 0, 1]
    assert bertscore[0, 2] > bertscore[0, 1] > 0
    assert ((found >= 0) & (found <= 1)).all()
    assert entailment[0, 1] != with_question[0, 1]
    assert not answer_similarities(tiny_scorer.judge, load_encoder("minilm"), "Who?", ["", " "]).any()
