"""Win ratios and errors by hand, their identity, and the whole command."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seper_reward import SePerScorer
from seper_reward.baselines.pool import retrieve_sources
from seper_reward.cli import main
from seper_reward.data.queries import read_queries
from seper_reward.evaluate.neighbours.consistency import consistency
from seper_reward.evaluate.win_ratios import Errors, decompose_errors, mean_win_and_lose_ratios, relative_win_ratios
from seper_reward.types import Passage, Query
from tests.helpers import ScriptedSampler
from tests.helpers import evaluation_arguments as arguments

RIGHT = [
    [1, 1, 0, 0, 1],
    [1, 0, 0, 1, 0],
    [1, 1, 1, 1, 1],
]


def test_win_ratios_by_hand():
    ratios = relative_win_ratios(RIGHT)
    # the first is wrong twice, of which the second has one right; the second is wrong three times
    assert ratios[1, 0] == 1 / 2
    assert ratios[0, 1] == 2 / 3
    assert ratios[2, 0] == ratios[2, 1] == 1.0
    assert math.isnan(ratios[0, 2])  # the third is never wrong
    assert all(math.isnan(ratios[at, at]) for at in range(3))
    wins, loses = mean_win_and_lose_ratios(RIGHT)
    assert wins.tolist() == pytest.approx([2 / 3, 1 / 2, 1.0])  # over those that are wrong at all
    assert loses[:2].tolist() == pytest.approx([(1 / 2 + 1) / 2, (2 / 3 + 1) / 2])
    assert math.isnan(loses[2])
    assert math.isnan(mean_win_and_lose_ratios([[1, 0]])[0][0])  # there is no other source


def test_errors_by_hand():
    right = [True, True, False, False, False, True, False, False]
    held = [True, True, True, True, True, False, False, False]
    grounded = [True, False, True, True, False, False, True, False]
    found = decompose_errors(right, held, grounded)
    assert found == Errors(
        wrong=5 / 8, retriever=3 / 8, hallucination=1 / 5, extraction=2 / 5, ungrounded=2 / 3, lucky=1 / 2
    )


def identity(errors):
    with_answer = (1 - errors.retriever) * (errors.hallucination + errors.extraction)
    return with_answer + errors.retriever * (1 - errors.lucky * errors.ungrounded)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_errors_add_up(rows):
    possible = [row for row in rows if not (row[0] and row[2] and not row[1])]
    if possible:
        errors = decompose_errors(*zip(*possible, strict=True))
        assert identity(errors) == pytest.approx(errors.wrong)


def test_errors_are_checked():
    with pytest.raises(ValueError, match="expected at least one question"):
        decompose_errors([], [], [])
    with pytest.raises(ValueError, match="judge both alike"):
        decompose_errors([True], [False], [True])


QUERIES = [
    Query("a", "Who built it?", ("Ann Lee",)),
    Query("b", "Who owns it?", ("Bob",)),
    Query("c", "Who lists it?", (("Ann",), ("Bob",))),
]
SOURCES = {
    "none": [(), (), ()],
    "one": [(Passage("Ann Lee did."),), (Passage("Corn."),), (Passage("Ann and Bob do."),)],
}
SAYS = {  # by question, without a passage and with one
    "built": ("Carl", "Lee"),  # wrong; a part of the answer that the passage holds
    "owns": ("Bob", "Unknown."),  # a lucky guess; an abstention
    "lists": ("Ann", "Bob and Ann"),
}


@pytest.fixture
def scorer(tiny_sampler, tiny_judge):
    def reply(prompt):
        said = next(said for word, said in SAYS.items() if f"Who {word} it" in prompt)
        return said["Passage" in prompt]

    return SePerScorer(ScriptedSampler(tiny_sampler.tokenizer, reply), tiny_judge, prompt="brief")


def test_consistency_by_hand(scorer):
    result = consistency(scorer, [*QUERIES, Query("long", "why " * 5000, ("x",))], {
        name: [*rows, ()] for name, rows in SOURCES.items()
    })  # fmt: skip
    assert (result["questions"], result["left_out"]) == (3, 1)
    none, one = result["sources"]["none"], result["sources"]["one"]
    # a list counts if all of it is stated: without a passage only b is right, with one only c
    assert none["accuracy"]["mean"] == one["accuracy"]["mean"] == pytest.approx(1 / 3, abs=1e-4)
    assert result["win_ratio"] == {"none": {"none": None, "one": 0.5}, "one": {"none": 0.5, "one": None}}
    assert none["mrwr"]["mean"] == none["mrlr"]["mean"] == 0.5
    assert result["upper_bound"]["mean"] == pytest.approx(2 / 3, abs=1e-4)
    third = pytest.approx(1 / 3, abs=1e-4)
    assert none["errors"] == {
        "wrong": pytest.approx(2 / 3, abs=1e-4), "retriever": 1.0, "hallucination": 0.0, "extraction": 0.0,
        "ungrounded": 1.0, "lucky": third,
    }  # fmt: skip
    assert one["errors"] == {
        "wrong": pytest.approx(2 / 3, abs=1e-4), "retriever": third, "hallucination": 0.0, "extraction": 0.5,
        "ungrounded": 1.0, "lucky": 0.0,
    }  # fmt: skip
    assert (none["abstained"], one["abstained"]) == (0.0, third)


def test_sources_are_needed(scorer):
    with pytest.raises(ValueError, match="expected sources and questions, got 0 and 0"):
        consistency(scorer, [], {})


def test_sources_by_name(lane_questions):
    queries = read_queries(lane_questions).queries
    corpus = {f"{query.id} {each.id}": each for query in queries for each in query.passages}
    questions = [query.question for query in queries[:3]]
    found = retrieve_sources(["bm25@2", "none", "bm25@1"], corpus, questions)
    assert list(found) == ["bm25@2", "none", "bm25@1"]
    assert found["none"] == [(), (), ()]
    assert [len(row) for row in found["bm25@2"]] == [2, 2, 2]
    assert [row[:1] for row in found["bm25@2"]] == found["bm25@1"]
    for name in ("bm25", "bm25@0", "@3", "bm25@two"):
        with pytest.raises(ValueError, match=r"must be none, background or RETRIEVER@NUMBER such as bm25@5, .* got"):
            retrieve_sources([name], corpus, questions)


def test_the_command(tiny_reader, tiny_entailment, lane_questions, tmp_path, capsys):
    words = arguments(tiny_reader, tiny_entailment, lane_questions, tmp_path / "out.json")
    words += ["--limit", "4", "--sources", "none", "bm25@1", "--plot", str(tmp_path / "ratios.svg")]
    assert main(["evaluate", "consistency", *words]) == 0
    out = capsys.readouterr().out
    assert "right by at least one: 0.000" in out  # a random reader
    result = json.loads((tmp_path / "out.json").read_text())
    errors = result["sources"]["bm25@1"]["errors"]
    assert (errors["retriever"], errors["wrong"]) == (0.0, 1.0)
    assert identity(Errors(**errors)) == pytest.approx(1.0, abs=1e-3)
    assert result["win_ratio"]["none"]["bm25@1"] == 0.0
    assert (tmp_path / "ratios.svg").read_text().startswith("<?xml")


def test_intervals_are_over_questions(scorer):
    result = consistency(scorer, QUERIES * 4, {name: rows * 4 for name, rows in SOURCES.items()})
    low, high = result["sources"]["one"]["mrwr"]["interval"]
    assert 0 <= low < 0.5 < high <= 1
    assert np.isclose(result["sources"]["one"]["mrwr"]["mean"], 0.5)
