"""Questions measured side by side have the beliefs and supports that they have alone."""

import pytest
import torch

from seper_reward import SePerScorer
from seper_reward.data.queries import as_query
from seper_reward.types import Asked, Measured, Passage, Query, UnscorableError

RECORD = {
    "question": "Who built the mill?",
    "answers": ["Peter Voss", "Voss"],
    "passages": ["Peter Voss did.", "It burned."],
}


def asked_of(query):
    return Asked(query.question, query.answers, tuple(query.contexts))


MILL = (Passage("Peter Voss built the mill."),)


def test_a_batch_gives_each_query_its_beliefs(tiny_scorer):
    queries = [as_query(RECORD), as_query({**RECORD, "question": "Who burned it?", "passages": ["Ann did it."]})]
    long = as_query({**RECORD, "question": "why " * 600})
    first, error, second = tiny_scorer.measure(list(map(asked_of, [queries[0], long, queries[1]])), batch_size=3)
    assert isinstance(error, UnscorableError)
    for one, query in ((first, queries[0]), (second, queries[1])):
        alone = tiny_scorer.beliefs(query.question, query.answers, query.contexts)
        for belief, expected in zip(one.beliefs, alone, strict=True):
            assert belief.responses == expected.responses
            assert belief.seper == pytest.approx(expected.seper, abs=1e-5)


def test_queries_with_one_prompt_and_other_answers_know_their_own_only(tiny_scorer):
    passages = (Passage("Ann built the mill."),)
    queries = [
        Query(str(n), "Who built the mill?", answers, passages)
        for n, answers in enumerate([("Ann",), ("Bob " * 40, "Al")])
    ]
    measured = tiny_scorer.measure(list(map(asked_of, queries)), batch_size=2)
    for query, found in zip(queries, measured, strict=True):
        alone = tiny_scorer.beliefs(query.question, query.answers, query.contexts)
        for one, other in zip(found.beliefs, alone, strict=True):
            assert len(one.sampled.known_leaves) == len(query.answers)
            assert one.answer_log_prob == pytest.approx(other.answer_log_prob, abs=1e-5)
            assert one.seper == pytest.approx(other.seper, abs=1e-5)


def with_device(monkeypatch, scorer, device):
    """Return the scorer as if its reader were on another device, or, with ``None``, on servers."""
    monkeypatch.setattr(type(scorer.sampler), "device", device and torch.device(device), raising=False)
    return scorer


def test_a_large_device_measures_questions_side_by_side(tiny_scorer, monkeypatch):
    for device, size in (("cpu", 1), ("cuda", 16), (None, 16)):
        assert with_device(monkeypatch, tiny_scorer, device).batch_size == size


def test_what_is_measured_side_by_side_is_what_is_measured_alone(tiny_scorer, monkeypatch):
    """Baselines, passages, texts without contexts, and a question that cannot be measured."""
    asked = [
        Asked("Who built the mill?", ("Peter Voss", "Voss"), ((), MILL), ("Voss", "Ann")),
        Asked("why " * 600, ("Voss",), (MILL,), ("Voss",)),
        Asked("Who burned it?", ("Ann",), (MILL,)),
        Asked("Who wrote it?", ("Ann",), (), ("Ann", " ", "Bob")),
        Asked("Who sold it?", (("Ann",), ("Bob",)), ((),), ("Ann and Bob",)),
    ]
    alone = tiny_scorer.measure(asked)
    batches, responses = [], SePerScorer.responses
    monkeypatch.setattr(SePerScorer, "batch_size", 4)
    monkeypatch.setattr(SePerScorer, "responses", lambda *args: batches.append(args[1]) or responses(*args))
    together = tiny_scorer.measure([*asked, asked[0]])
    assert batches == [asked[:4], [asked[4], asked[0]]]
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
