"""Questions measured side by side have the beliefs and supports that they have alone."""

import pytest
import torch

from seper_reward import SePerScorer
from seper_reward.reader.prompted import PromptedReader
from seper_reward.types import Asked, Passage, UnscorableError

MILL = (Passage("Peter Voss built the mill."),)


def with_device(monkeypatch, scorer, device):
    """Return the scorer as if its reader were on another device, or, with ``None``, on servers."""
    monkeypatch.setattr(type(scorer.sampler), "device", device and torch.device(device), raising=False)
    return scorer


def test_a_large_device_measures_questions_side_by_side(tiny_scorer, monkeypatch):
    for device, size in (("cpu", 1), ("cuda", 128), (None, 128)):
        assert with_device(monkeypatch, tiny_scorer, device).batch_size == size


def test_what_is_measured_side_by_side_is_what_is_measured_alone(tiny_scorer, monkeypatch):
    """Baselines, passages, texts without contexts, and a question that cannot be measured."""
    asked = [
        Asked("Who built the mill?", ("Peter Voss", "Voss"), ((), MILL), ("Voss", "Ann")),
        Asked("why " * 600, ("Voss",), (MILL,), ("Voss",)),
        Asked("Who burned it?", ("Ann",), (MILL,)),
        Asked("Who wrote it?", ("Ann",), (), ("Ann", " ", "Bob")),
        Asked("Who sold it?", ("Ann", "Bob"), ((),), ("Ann and Bob",)),
    ]
    batches, responses = [], PromptedReader.responses
    monkeypatch.setattr(SePerScorer, "batch_size", 4)
    monkeypatch.setattr(PromptedReader, "responses", lambda *args: batches.append(args[1]) or responses(*args))
    alone, together = tiny_scorer.measure(asked, batch_size=1), tiny_scorer.measure([*asked, asked[0]])
    assert batches == [*([each] for each in asked), asked[:4], [asked[4], asked[0]]]
    assert isinstance(alone[1], UnscorableError)
    assert isinstance(together[1], UnscorableError)
    del together[1], alone[1], asked[1]
    for one, other in zip([*alone, alone[0]], together, strict=True):
        assert [belief.responses for belief in one.beliefs] == [belief.responses for belief in other.beliefs]
        assert [belief.seper for belief in one.beliefs] == pytest.approx(
            [belief.seper for belief in other.beliefs], abs=1e-5
        )
        assert one.supports == pytest.approx(other.supports, abs=1e-5)
    assert [len(result.supports) for result in alone] == [2, 0, 3, 1]
