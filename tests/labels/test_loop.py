"""The loop over questions: measured side by side they have the beliefs that they have alone."""

from dataclasses import replace

import pytest

from seper_reward.labels.labelers import (
    DeltaSePerLabeler,
    ERAGLabeler,
    ERAGOptions,
    GoldLabeler,
    ItemLabeler,
    LikelihoodLabeler,
)
from seper_reward.labels.loop import label_batches, labeler_batch_size
from seper_reward.scorer import SePerScorer
from seper_reward.types import Passage, Query, UnscorableError, attempt
from tests.helpers import as_query

RECORD = {
    "question": "Who built the mill?",
    "answers": ["Peter Voss", "Voss"],
    "passages": ["Peter Voss did.", "It burned."],
}


def test_label_batch_fails_a_query_without_delta_belief_alone(tiny_scorer, monkeypatch):
    queries = [Query(name, f"Who built {name}?", (name,), (Passage("Ann did."),)) for name in ("Ann", "Bob")]
    labeler = DeltaSePerLabeler(tiny_scorer, "delta_belief")
    monkeypatch.setattr(
        SePerScorer, "known_answers", lambda _, query: [name for name in query.answers if name != "Bob"]
    )
    first, second = labeler.label_batch(queries)
    assert first.labels
    assert "delta_belief needs the likelihood of the answer, which the reader did not return; use" in str(second)


@pytest.mark.parametrize(
    "labeler",
    [LikelihoodLabeler, ERAGLabeler, lambda scorer: ERAGLabeler(scorer, "token_f1", ERAGOptions.preset("paper"))],
    ids=["likelihood", "erag", "erag as published"],
)
def test_label_batch_has_the_labels_made_one_by_one(labeler, tiny_scorer):
    labeler = labeler(tiny_scorer)
    queries = [as_query({**RECORD, "id": str(number), "question": f"Who built mill {number}?"}) for number in range(3)]
    queries.insert(1, replace(queries[1], id="long", question="why " * 600))
    for at, (query, labeled) in enumerate(zip(queries, labeler.label_batch(queries), strict=True)):
        alone = attempt(lambda query=query: labeler.label(query))
        assert isinstance(labeled, UnscorableError) == isinstance(alone, UnscorableError) == (at == 1)
        assert str(labeled) == str(alone) or labeled.labels == pytest.approx(alone.labels, abs=1e-3)


def test_label_batches_yield_errors_in_the_place_of_labels():
    broken = as_query({**RECORD, "passages": [{"text": "a", "relevant": "yes"}]})
    marked = as_query({**RECORD, "passages": [{"text": "a", "relevant": False}, {"text": "b", "relevant": True}]})
    (_, error), (query, labeled) = label_batches(GoldLabeler(), [[broken, marked]])
    assert "expected 'relevant': true, false or a grade (0, 1, 2, ...), got 'yes'" in str(error)
    assert query is marked
    assert labeled.labels == (0.0, 1.0)


def test_batch_size_is_the_scorers_or_the_wanted_one(tiny_scorer, monkeypatch):
    assert labeler_batch_size(GoldLabeler(), 4) == 1
    assert labeler_batch_size(DeltaSePerLabeler(tiny_scorer)) == 1
    monkeypatch.setattr(SePerScorer, "batch_size", 32)
    assert labeler_batch_size(DeltaSePerLabeler(tiny_scorer)) == 32
    assert {
        labeler_batch_size(kind(tiny_scorer), 4) for kind in (DeltaSePerLabeler, ERAGLabeler, LikelihoodLabeler)
    } == {4}
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        labeler_batch_size(DeltaSePerLabeler(tiny_scorer), 0)
    # servers make their own batches, except of queries that are not announced: judgments, whose rounds depend on each
    # other, and likelihoods
    monkeypatch.setattr(type(tiny_scorer.sampler), "prompts_ahead", 8)
    labelers = DeltaSePerLabeler, ItemLabeler, LikelihoodLabeler
    assert [labeler_batch_size(labeler(tiny_scorer), 4) for labeler in labelers] == [1, 4, 4]
