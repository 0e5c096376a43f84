"""Depth, reranking and compression by hand, with a scripted scorer, and the whole command."""

from dataclasses import asdict, replace

import pytest

from seper_reward.baselines.compression import (
    measure_variants,
)
from seper_reward.types import Passage, Query
from tests.evaluate.stubs import Given, StubScorer

A, B, C = (Passage(f"text of {name}", id=name) for name in "abc")
QUERIES = [Query("q1", "One?", ("Ann",)), Query("q2", "Two?", ("Ann",)), Query("q3", "Three?", ("Ann",))]
FOUND = Given({"One?": (A, B, C), "Two?": (B, C), "Three?": (A,)})
WORTH = {"a": 0.1, "b": -0.3, "c": 0.5, "b'": 0.2, "c'": 0.4, "a'": 0.0}
BASELINES = {"One?": 0.4, "Two?": 0.3, "Three?": None}  # the third is too long


def seper(question, ids):
    return None if BASELINES[question] is None else BASELINES[question] + sum(WORTH[name] for name in ids)


class Backwards:
    def rerank(self, question, passages):
        return tuple(reversed(passages))


class First:
    """Keeps the first passage, in other words."""

    def compress(self, question, passages):
        return tuple(replace(passage, text="text", id=f"{passage.id}'") for passage in passages[:1])


@pytest.fixture
def scorer(tiny_sampler, monkeypatch):
    monkeypatch.setattr("seper_reward.baselines.compressors.COMPRESSORS", {"first": lambda reader, keep: First()})
    return StubScorer(tiny_sampler.tokenizer, seper, lambda question, ids: "Ann" if "c" in ids else "Bob", 0.01)


def test_measure_variants_by_hand(scorer, no_intervals):
    result = asdict(
        measure_variants({"stub": scorer}, QUERIES, FOUND, {"back": Backwards()}, ["first"], depths=(1, 2))
    )
    found = result["readers"]["stub"]
    assert (result["questions"], found["questions"], found["left_out"]) == (3, 2, 1)
    assert found["baseline_seper"] == pytest.approx(0.35)
    rows = {(row["reranker"], row["compression"], row["k"]): row for row in found["variants"]}
    deltas = {  # of the first two questions
        ("none", "none", 1): (0.1, -0.3), ("none", "none", 2): (-0.2, 0.2),
        ("none", "first", 1): (0.0, 0.2), ("none", "first", 2): (0.0, 0.2),
        ("back", "none", 1): (0.5, 0.5), ("back", "none", 2): (0.2, 0.2),
        ("back", "first", 1): (0.4, 0.4), ("back", "first", 2): (0.4, 0.4),
    }  # fmt: skip
    assert rows.keys() == deltas.keys()
    for key, (one, two) in deltas.items():
        row, (reranker, compression, k) = rows[key], key
        without = deltas["none" if compression == "none" else reranker, "none", k]
        assert row["delta_seper"]["value"] == pytest.approx((one + two) / 2), key
        if key[:2] == ("none", "none"):
            assert row["lead"] is None
        else:
            assert row["lead"]["value"] == pytest.approx((one + two - sum(without)) / 2), key
        assert row["harm_rate"]["value"] == ((one < -0.1) + (two < -0.1)) / 2, key
    assert rows["none", "none", 2]["exact_match"]["value"] == 0.5  # c is among the two passages of the second question
    assert rows["back", "none", 1]["exact_match"]["value"] == 1.0
    tokens = len(scorer.sampler.tokenizer("text of a", add_special_tokens=False).input_ids)
    assert (rows["none", "none", 2]["tokens"], rows["none", "none", 2]["passages"]) == (2 * tokens, 2.0)
    assert rows["none", "first", 2]["tokens"] == 1.0
    # equal contexts are measured once
    assert all(len(set(contexts)) == len(contexts) for _, contexts in scorer.contexts)

    scorer.half = 0.4  # harm needs the whole interval
    result = measure_variants({"stub": scorer}, QUERIES, FOUND, {}, [], depths=(1,))
    assert result.readers["stub"].variants[0].harm_rate.value == 0.0


def test_measure_variants_refuses_bad_settings(scorer):
    with pytest.raises(ValueError, match="compressions must be none or of first, got 'zip'"):
        measure_variants({"stub": scorer}, QUERIES, FOUND, {}, ["zip"], depths=(1,))
    with pytest.raises(ValueError, match="expected questions that reader 'stub' can measure, got none of 1"):
        measure_variants({"stub": scorer}, QUERIES[2:], FOUND, {}, [], depths=(1,))
