"""Questions measured side by side have the beliefs and supports that they have alone."""

import pytest
import torch

from seper_reward import SePerScorer
from seper_reward.data.queries import as_query
from seper_reward.reader.sampler import AdaptiveSampling
from seper_reward.types import Asked, Measured, Passage, Query, UnscorableError
from tests.helpers import rebuilt

RECORD = {
    "question": "Who built the mill?",
    "answers": ["Peter Voss", "Voss"],
    "passages": ["Peter Voss did.", "It burned."],
}
MILL = (Passage("Peter Voss built the mill."),)


def test_a_block_gives_each_query_its_beliefs(tiny_scorer):
    queries = [as_query(RECORD), as_query({**RECORD, "question": "Who burned it?", "passages": ["Ann did it."]})]
    long = as_query({**RECORD, "question": "why " * 600})
    first, error, second = tiny_scorer.block_beliefs([queries[0], long, queries[1]])
    assert isinstance(error, UnscorableError)
    for one, query in ((first, queries[0]), (second, queries[1])):
        alone = tiny_scorer.beliefs(query.question, query.answers, query.contexts)
        for belief, expected in zip(one, alone, strict=True):
            assert belief.responses == expected.responses
            assert belief.seper == pytest.approx(expected.seper, abs=1e-5)


def test_queries_with_one_prompt_and_other_answers_know_their_own_only(tiny_scorer):
    passages = (Passage("Ann built the mill."),)
    queries = [
        Query(str(n), "Who built the mill?", answers, passages)
        for n, answers in enumerate([("Ann",), ("Bob " * 40, "Al")])
    ]
    for query, found in zip(queries, tiny_scorer.block_beliefs(queries), strict=True):
        for one, other in zip(found, tiny_scorer.beliefs(query.question, query.answers, query.contexts), strict=True):
            assert len(one.sampled.known_leaves) == len(query.answers)
            assert one.answer_log_prob == pytest.approx(other.answer_log_prob, abs=1e-5)
            assert one.seper == pytest.approx(other.seper, abs=1e-5)


def with_device(monkeypatch, scorer, device):
    """Return the scorer as if its reader were on another device, or, with ``None``, on servers."""
    monkeypatch.setattr(type(scorer.sampler), "device", device and torch.device(device), raising=False)
    return scorer


def test_a_large_device_has_blocks(tiny_scorer, monkeypatch):
    adaptive = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", adaptive=AdaptiveSampling(0.1))
    for device, block in (("cpu", 1), ("cuda", 16), (None, 16)):
        assert with_device(monkeypatch, tiny_scorer, device).block == block
        assert adaptive.block == 1
    refilled = SePerScorer(rebuilt(tiny_scorer.sampler, refill=True), tiny_scorer.entailment, prompt="brief")
    for device in ("cpu", "cuda"):
        assert with_device(monkeypatch, refilled, device).block == 32


def test_a_block_cannot_decide_query_by_query(tiny_scorer):
    adaptive = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", adaptive=AdaptiveSampling(0.1))
    with pytest.raises(ValueError, match="does not go with blocks"):
        adaptive.block_beliefs([as_query(RECORD)])


def test_what_is_measured_side_by_side_is_what_is_measured_alone(tiny_scorer, monkeypatch):
    """Baselines, passages, several draws, texts without contexts, and a question that cannot be measured."""
    asked = [
        Asked("Who built the mill?", ("Peter Voss", "Voss"), ((), MILL), ("Voss", "Ann")),
        Asked("why " * 600, ("Voss",), (MILL,), ("Voss",)),
        Asked("Who burned it?", ("Ann",), (MILL,), (), draws=2),
        Asked("Who wrote it?", ("Ann",), (), ("Ann", " ", "Bob")),
        Asked("Who sold it?", (("Ann",), ("Bob",)), ((),), ("Ann and Bob",)),
    ]
    alone = tiny_scorer.measure(asked)
    blocks = []
    block_beliefs = SePerScorer.block_beliefs
    monkeypatch.setattr(SePerScorer, "block", 4)
    monkeypatch.setattr(SePerScorer, "block_beliefs", lambda *args: blocks.append(args[1]) or block_beliefs(*args))
    together = tiny_scorer.measure([*asked, asked[0]])
    assert blocks == [asked[:2], [asked[4], asked[0]]]
    assert isinstance(alone[1], UnscorableError)
    assert isinstance(together[1], UnscorableError)
    for one, other in zip([*alone, alone[0]], together, strict=True):
        if isinstance(one, UnscorableError):
            continue
        assert [belief.responses for belief in one.beliefs] == [belief.responses for belief in other.beliefs]
        assert [belief.seper for belief in one.beliefs] == pytest.approx(
            [belief.seper for belief in other.beliefs], abs=1e-5
        )
        assert one.supports == pytest.approx(other.supports, abs=1e-5)
    assert [len(each.supports) for each in alone if isinstance(each, Measured)] == [2, 0, 3, 1]
