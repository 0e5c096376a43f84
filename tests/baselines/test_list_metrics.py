"""Metrics of ranked lists: by hand, against trec_eval, and (slow) against the package erag."""

import importlib
import math
import subprocess
import sys

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seper_reward.baselines.list_metrics import LIST_METRICS, list_metric

FRACTIONAL = [0.2, 0.0, 0.6]


def test_list_metric_by_hand():
    assert list_metric("p", [FRACTIONAL]) == pytest.approx([0.8 / 3])
    assert list_metric("p", [FRACTIONAL], 2) == pytest.approx([0.1])
    assert list_metric("hit", [FRACTIONAL], 2) == [0.2]
    assert list_metric("recall", [FRACTIONAL], 2) == pytest.approx([0.25])
    gain = 0.2 + 0.6 / 2
    assert list_metric("ndcg", [FRACTIONAL]) == pytest.approx([gain / (0.6 + 0.2 / math.log2(3))])
    assert list_metric("ndcg", [FRACTIONAL], 1) == pytest.approx([0.2 / 0.6])

    labels = [0, 1, 0, 1]
    assert list_metric("map", [labels], 2) == [0.25]  # of both relevant ones
    assert (list_metric("mrr", [labels]), list_metric("mrr", [labels], 1)) == ([0.5], [0.0])


def test_list_metric_of_labels_below_0():
    assert list_metric("p", [[-0.4, 0.2]]) == pytest.approx([-0.1])
    assert list_metric("hit", [[-0.4, -0.2]]) == [-0.2]
    assert list_metric("hit", [[-0.4]], 2) == [0.0]  # the rank that is missing


def test_list_metric_of_short_and_empty_lists():
    assert list_metric("p", [[1.0], [], [1.0]], 4) == [0.25, 0.0, 0.25]
    for name in LIST_METRICS:
        assert list_metric(name, [[]]) == list_metric(name, [[0, 0]]) == [0.0]
    assert list_metric("p", []) == []
    with pytest.raises(ValueError, match="metric must be one of p, hit, recall, map, mrr, ndcg, got 'f1'"):
        list_metric("f1", [])
    with pytest.raises(ValueError, match="k must be at least 1, or None for all, got 0"):
        list_metric("p", [], 0)


@pytest.mark.parametrize(
    ("name", "label", "said"),
    [
        ("p", math.nan, "question 1, rank 2: labels must be finite numbers"),
        ("hit", math.inf, "must be finite"),
        ("map", 0.4, "must be 0 or 1 for map; set the label from which a passage is relevant"),
        ("mrr", -1.0, "must be 0 or 1 for mrr"),
        ("ndcg", -0.1, "must be at least 0 for ndcg"),
        ("recall", -0.1, "must be at least 0 for recall"),
    ],
)
def test_list_metric_refuses_other_labels(name, label, said):
    with pytest.raises(ValueError, match=said):
        list_metric(name, [[], [1.0, label]])


THEIRS = {"p": "P", "recall": "R", "map": "AP", "ndcg": "nDCG", "hit": "Success"}


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=7), min_size=1, max_size=4),
    st.integers(1, 8),
    st.sampled_from(sorted(THEIRS)),
)
def test_list_metric_is_trec_evals(lists, k, name):
    measure = ir_measures.parse_measure(f"{THEIRS[name]}@{k}")
    qrels = [
        ir_measures.Qrel(str(number), str(place), label)
        for number, labels in enumerate(lists)
        for place, label in enumerate(labels)
    ]
    run = [ir_measures.ScoredDoc(each.query_id, each.doc_id, -float(each.doc_id)) for each in qrels]
    found = {row.query_id: row.value for row in ir_measures.iter_calc([measure], qrels, run)}
    assert list_metric(name, lists, k) == pytest.approx([found.get(str(at), 0.0) for at in range(len(lists))])


@pytest.fixture(scope="module")
def erag(tmp_path_factory):
    """The published package, installed into a folder of its own: it pins a pytrec_eval that no longer builds."""
    folder = tmp_path_factory.mktemp("erag")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), "erag==0.0.1"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"erag cannot be installed: {done.stderr[-300:]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("erag")


BINARY = {"recall_2": ("recall", 2), "map": ("map", None), "map_cut_3": ("map", 3), "recip_rank": ("mrr", None)}
BINARY |= {"P_5": ("p", 5), "ndcg": ("ndcg", None), "ndcg_cut_3": ("ndcg", 3), "success_1": ("hit", 1)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lists", "kind", "names"),
    [
        ([[0, 1, 1, 0, 1], [1, 0, 0], [0, 0, 0, 0]], int, BINARY),
        ([[0.25, 0.5, 0.1], [0.75, 0.0, 0.3]], float, {"P": ("p", None), "P_2": ("p", 2), "success_2": ("hit", 2)}),
    ],
)
def test_list_metric_is_the_published_packages(erag, lists, kind, names):
    labels = {str(number): row for number, row in enumerate(lists)}
    found = erag.eval(
        {question: list(map(str, row)) for question, row in labels.items()},
        {question: ["-"] for question in labels},
        lambda asked: {question: shown[0] for question, shown in asked.items()},
        lambda said, gold: {question: kind(text) for question, text in said.items()},
        set(names),
    )
    for theirs, (name, k) in names.items():
        per_question = [found["per_input"][question][theirs] for question in labels]
        assert list_metric(name, lists, k) == pytest.approx(per_question), theirs
