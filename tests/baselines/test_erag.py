"""Metrics of lists against the reader's score on them: by hand with scripted labels, and the whole command."""

from dataclasses import asdict
from types import SimpleNamespace

import pytest
from scipy import stats

from seper_reward.baselines.erag import erag, retrieved
from seper_reward.baselines.labelled import costs_per, label_all
from seper_reward.labels.labelers import ERAGLabeler, GoldLabeler
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.runtime.profiling import count
from seper_reward.types import LabeledQuery, Passage, Query, UnscorableError
from tests.helpers import OneByOne, launch

# labels of each question's passages by rank, and the reader's score with one, and with two of them
LABELS = {"a": (0.9, 0.1), "b": (0.2, 0.7), "c": (-0.3, 0.0), "d": (0.5, -0.2), "e": (0.4,)}
BASELINES = {"a": 0.5, "b": 0.0, "c": 0.1, "d": 0.1, "e": 0.9}
SCORES = {"a": (0.8, 0.7), "b": (0.1, 0.9), "c": (0.0, 0.2), "d": (0.6, 0.1), "e": (0.3, 0.3)}
QUERIES = [
    Query(name, f"Who is {name}?", ("Ann",), tuple(Passage(f"{name}{at}", id=f"{name}{at}") for at in range(len(row))))
    for name, row in LABELS.items()
]


class Given:
    """Retrieves each question's own passages."""

    def retrieve(self, questions, top_k):
        return [next(query.passages[:top_k] for query in QUERIES if query.question == each) for each in questions]


class Scripted(PassageLabeler):
    name = "scripted"

    def __init__(self, failing=()):
        self.failing = failing

    def label(self, query):
        if query.id in self.failing:
            raise UnscorableError(f"no {query.id}")
        return LabeledQuery(query, LABELS[query.id], (0.0,) * len(query.passages))


class Answering:
    name = "erag_token_f1"
    scorer = OneByOne()

    def read(self, requests, batch_size):
        rows = [(BASELINES[request.question[7]], *SCORES[request.question[7]]) for request in requests]
        assert [list(map(len, request.contexts)) for request in requests][-1] == [0, 1, 1]  # the list of "e" is short
        return [
            UnscorableError("too long")
            if row[1] == 0.6
            else [SimpleNamespace(mean=SimpleNamespace(value=v)) for v in row]
            for row in rows
        ]


def test_erag_correlations_by_hand(no_intervals):
    labelers = {"all": Scripted(), "some": Scripted(["b"])}
    result = asdict(erag(QUERIES, {"given": Given()}, labelers, Answering(), depths=(1, 2), margin=0.3))
    assert (result["metric"], result["questions"]) == ("token_f1", 5)
    found = result["retrievers"]["given"]
    assert found["end_to_end"]["2"]["value"] == pytest.approx((0.7 + 0.9 + 0.2 + 0.3) / 4)
    # a, b, c and e: the reader cannot be asked about d
    expected = {
        ("p", 1): ([0.9, 0.2, -0.3, 0.4], [0.8, 0.1, 0.0, 0.3]),
        ("p", 2): ([0.5, 0.45, -0.15, 0.2], [0.7, 0.9, 0.2, 0.3]),
        ("hit", 2): ([0.9, 0.7, 0.0, 0.4], [0.7, 0.9, 0.2, 0.3]),
        ("recall", 1): ([0.9, 0.2 / 0.9, 0.0, 1.0], [0.8, 0.1, 0.0, 0.3]),
        ("map", 2): ([1.0, 0.5, 0.0, 1.0], [0.7, 0.9, 0.2, 0.3]),
        ("mrr", 1): ([1.0, 0.0, 0.0, 1.0], [0.8, 0.1, 0.0, 0.3]),
    }
    for (metric, depth), columns in expected.items():
        row = found["correlation"]["score"]["all"][str(depth)][metric]
        assert row["kendall"]["value"] == pytest.approx(stats.kendalltau(*columns).statistic, abs=1e-4), metric
        assert row["spearman"]["value"] == pytest.approx(stats.spearmanr(*columns).statistic, abs=1e-4), metric
    gains = [0.8 - 0.5, 0.1, 0.0 - 0.1, 0.3 - 0.9]
    row = found["correlation"]["gain"]["all"]["1"]["p"]["kendall"]["value"]
    assert row == pytest.approx(stats.kendalltau([0.9, 0.2, -0.3, 0.4], gains).statistic, abs=1e-4)
    assert found["end_to_end"]["0"]["value"] == pytest.approx((0.5 + 0.1 + 0.9) / 4)
    assert found["labels"]["some"]["left_out"] == ["no b"]
    assert found["labels"]["some"]["questions"] == 4
    assert found["labels"]["some"]["label"] == pytest.approx((0.9 + 0.1 - 0.3 + 0.5 - 0.2 + 0.4) / 7, abs=1e-4)
    kept = found["correlation"]["score"]["some"]["1"]["p"]["kendall"]["value"]
    assert kept == pytest.approx(stats.kendalltau([0.9, -0.3, 0.4], [0.8, 0.0, 0.3]).statistic)


def test_retrieved_copies_marks():
    own = Passage("x", id="a0", metadata={"relevant": True})
    query = Query("q", QUERIES[0].question, ("Ann",), (own, Passage("z", id="z")))
    (found,) = retrieved([query], Given(), 2)
    assert [passage.id for passage in found.passages] == ["a0", "a1"]
    assert GoldLabeler().label(found).labels == (1.0, 0.0)
    assert found.passages[0].text != own.text  # of the retriever, which may have another part of the document


def test_label_all_counts_costs(tiny_scorer):
    query = Query("q", "Who?", ("Ann",), (Passage("Ann did."), Passage("Bob did.")))
    found = label_all(ERAGLabeler(tiny_scorer), [query, query])
    prompts = [tiny_scorer.reader.prompts.build("Who?", context) for context in query.contexts]
    assert found.costs["calls"] == 6
    assert found.costs["prompt_tokens"] == 2 * sum(
        len(tiny_scorer.sampler.tokenizer(each).input_ids) for each in prompts
    )
    (sampled,) = tiny_scorer.responses([query])
    assert found.costs["response_tokens"] == 2 * sum(len(row) for each in sampled for row in each.token_ids)
    assert costs_per(found.costs, 4)["calls"] == 1.5
    assert costs_per(found.costs, 0)["calls"] is None
    assert label_all(GoldLabeler(), [query]).costs["calls"] == 0.0


class Counting(Scripted):
    def label(self, query):
        count(lambda: {"calls": 1})
        return super().label(query)


def test_label_all_sums_the_costs_of_processes(tmp_path):
    printed, _ = launch(lambda: print(label_all(Counting(), QUERIES).costs["calls"]), tmp_path)
    assert printed.split() == [str(float(len(QUERIES)))] * 2
