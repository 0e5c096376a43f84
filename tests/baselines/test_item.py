"""Judgments of what is useful by marks and answers: by hand with scripted judges, and the whole command."""

import math

import numpy as np
import pytest

from seper_reward import SePerScorer
from seper_reward.baselines.item import judgments
from seper_reward.data.rows import BadRowError
from seper_reward.labels.labelers import GoldLabeler
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.types import LabeledQuery, Passage, Query, UnscorableError
from tests.helpers import ScriptedSampler

MARKS = {"a": (1, 0, 0), "b": (0, 1, 1), "c": (1, 0, 0, 0), "d": (0, 0)}
LABELS = {"a": (0.9, 0.3, 0.0), "b": (0.2, 0.0, 0.7), "c": (-0.4, 0.1, 0.1, 0.0)}
RANKS = {"a": (2, 3, 1), "b": (1, 2, 3), "c": (1, 2, 3, 4)}


def passage(name, at, mark):
    return Passage(f"{'gold' if mark else 'corn'} {name}{at}", id=f"{name}{at}", metadata={"relevant": bool(mark)})


QUERIES = [
    Query(name, f"Who is {name}?", ("gold",), tuple(passage(name, at, mark) for at, mark in enumerate(row)))
    for name, row in MARKS.items()
]


class Scripted(PassageLabeler):
    name = "scripted"

    def __init__(self, failing=(), ranked=False):
        self.failing, self.ranked = failing, ranked

    def label(self, query):
        if query.id in self.failing:
            raise UnscorableError(f"no {query.id}")
        details = tuple({"judged_rank": rank} for rank in RANKS[query.id]) if self.ranked else ()
        labels = LABELS[query.id]
        return LabeledQuery(query, labels, (0.0,) * len(labels), details=details)


@pytest.fixture
def scorer(tiny_sampler, tiny_judge):
    """A reader that knows the answer if a passage shows it, half of it if nothing is shown, and else is misled."""

    def reply(prompt):
        if "corn" not in prompt and "gold" not in prompt:
            return "gold bar"
        return "gold" if "gold" in prompt else "corn"

    return SePerScorer(ScriptedSampler(tiny_sampler.tokenizer, reply), tiny_judge, prompt="brief")


def test_judgments_by_hand(scorer):
    result = judgments(scorer, QUERIES, {"j": Scripted()}, reference=Scripted(["b"]), margin=0.25).as_dict()
    assert (result["questions"], result["without_relevant"]) == (3, 1)
    found = result["judges"]["j"]
    # of a the first two are chosen, of b the last, of c none
    assert found["chosen"]["value"] == 1.0
    assert (found["precision"], found["recall"]) == pytest.approx((2 / 3, 2 / 4), abs=1e-4)
    assert found["f1"] == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5), abs=1e-4)
    precision, recall = (0.5 + 1 + 0) / 3, (1 + 0.5 + 0) / 3
    assert found["mean_precision"]["value"] == pytest.approx(precision)
    assert found["mean_recall"]["value"] == pytest.approx(recall)
    assert found["f1_of_means"] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-4)
    # by labels: a has its relevant one first; b has them first and third; c has it last
    b = (1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3))
    assert found["ndcg@3"]["value"] == pytest.approx((1 + b + 0) / 3, abs=1e-4)
    assert found["ndcg@20"]["value"] == pytest.approx((1 + b + 1 / math.log2(5)) / 3, abs=1e-4)
    # the reader is right with the chosen ones of a and b, and half right without any
    assert found["answers"]["exact_match"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["answers"]["token_f1"]["value"] == pytest.approx((2 + 2 / 3) / 3, abs=1e-4)
    assert result["answers"]["no passage"]["token_f1"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    assert result["answers"]["relevant passages"]["exact_match"]["value"] == 1.0
    labels = [label for row in LABELS.values() for label in row]
    marks = [mark for name in LABELS for mark in MARKS[name]]
    assert found["agreement"]["marks"]["value"] == pytest.approx(np.corrcoef(labels, marks)[0, 1], abs=1e-4)
    assert found["agreement"]["reference"]["value"] == 1.0
    assert found["per_question"]["calls"] == 0.0


class Graded(PassageLabeler):
    """A judge of one question with two orders: by utility c, b, a, and by relevance b, a, c."""

    name = "graded"

    def label(self, query):
        ranks = [{"judged_rank": 3, "relevance_rank": 2}, {"judged_rank": 2, "relevance_rank": 1}]
        return LabeledQuery(
            query, (0.0, 1.0, 1.0), (0.0,) * 3, details=(*ranks, {"judged_rank": 1, "relevance_rank": 3})
        )


def test_judgments_of_grades_by_hand(scorer):
    grades = {"a": 1, "b": 3, "c": 0}
    passages = tuple(Passage(f"gold {name}", id=name, metadata={"relevant": grade}) for name, grade in grades.items())
    queries = [Query("q", "Who?", ("gold",), passages), *QUERIES[3:]]
    result = judgments(scorer, queries, {"j": Graded(), "gold": GoldLabeler()}, relevant_from=2)
    found = result.as_dict()
    best = 3 + 1 / math.log2(3)
    # the given order is a, b, c: (1 + 3 / log2 3) / (3 + 1 / log2 3), as trec_eval has it
    assert found["given_order"]["ndcg@5"]["value"] == pytest.approx(0.797, abs=1e-3)
    assert found["given_order"]["ndcg@1"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    by_utility = (3 / math.log2(3) + 1 / math.log2(4)) / best
    assert found["judges"]["j"]["ndcg@5"]["value"] == pytest.approx(by_utility, abs=1e-4)
    assert found["judges"]["j"]["relevance_ndcg@5"]["value"] == 1.0
    # of b and c, which are chosen, only b has grade 2 or more; from grade 1 on a would be missed
    assert [found["judges"]["j"][each] for each in ("precision", "recall")] == [0.5, 1.0]
    one = judgments(scorer, queries, {"j": Graded()}).as_dict()["judges"]["j"]
    assert [one[each] for each in ("precision", "recall")] == [0.5, 0.5]
    gold = found["judges"]["gold"]
    assert [gold[each] for each in ("precision", "recall", "ndcg@5")] == [1.0, 1.0, {"value": 1.0, "interval": None}]
    assert gold["agreement"]["marks"]["value"] == 1.0
    rows = result.table().splitlines()
    assert rows[2].split() == ["given", "order", "1", *"––––", "0.333", *["0.797"] * 4]
    assert rows[4].split()[:4] == ["j,", "by", "relevance", "1"]
    assert rows[4].split()[-1] == "1.000"
    with pytest.raises(ValueError, match="marked relevant with grade 4 or more, got none of 2"):
        judgments(scorer, queries, {}, relevant_from=4)


def test_judgments_without_numbers(scorer):
    found = judgments(scorer, QUERIES, {"j": Scripted("abc")}, reference=GoldLabeler()).as_dict()["judges"]["j"]
    assert (found["questions"], len(found["left_out"])) == (0, 3)
    assert found["precision"] is found["f1_of_means"] is None
    none = {"value": None, "interval": None}
    assert found["answers"]["exact_match"] == found["ndcg@1"] == found["agreement"]["marks"] == none
    with pytest.raises(ValueError, match="expected questions with a passage that is marked relevant, got none of 1"):
        judgments(scorer, QUERIES[3:], {})
    with pytest.raises(BadRowError, match="expected 'relevant': true, false or a grade in its passages"):
        judgments(scorer, [Query("q", "Who?", ("Ann",), (Passage("x"),))], {})
