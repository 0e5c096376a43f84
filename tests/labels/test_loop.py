"""The loop over questions: measured side by side they have the beliefs that they have alone."""

from dataclasses import replace

import pytest

from seper_reward.batching import query_cost
from seper_reward.labels.labelers import (
    DeltaSePerLabeler,
    ERAGLabeler,
    ERAGOptions,
    GoldLabeler,
    ItemLabeler,
    LikelihoodLabeler,
)
from seper_reward.labels.loop import batch_size, label_batches
from seper_reward.reader.in_process import response_sampler
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Passage, Query, attempt
from tests.helpers import as_query

RECORD = {
    "question": "Who built the mill?",
    "answers": ["Peter Voss", "Voss"],
    "passages": ["Peter Voss did.", "It burned."],
}


def test_a_query_without_delta_belief_leaves_the_others_of_its_batch_theirs(tiny_scorer, monkeypatch):
    queries = [Query(name, f"Who built {name}?", (name,), (Passage("Ann did."),)) for name in ("Ann", "Bob")]
    labeler = DeltaSePerLabeler(tiny_scorer, "delta_belief")
    monkeypatch.setattr(
        SePerScorer, "known_answers", lambda _, asked: [each for each in asked.answers if each != "Bob"]
    )
    first, second = labeler.label_batch(queries)
    assert first.labels
    assert "delta_belief needs the likelihood of the answer, which the reader did not return; use" in str(second)


@pytest.mark.parametrize(
    "labeler",
    [LikelihoodLabeler, ERAGLabeler, lambda scorer: ERAGLabeler(scorer, "token_f1", ERAGOptions.preset("paper"))],
    ids=["likelihood", "erag", "erag as published"],
)
@pytest.mark.parametrize("too_long", [False, True])
def test_labels_of_a_batch_are_those_made_one_by_one(labeler, too_long, tiny_scorer, monkeypatch):
    labeler = labeler(tiny_scorer)
    queries = [as_query({**RECORD, "id": str(number), "question": f"Who built mill {number}?"}) for number in range(3)]
    if too_long:
        queries[1] = replace(queries[1], question="why " * 600)
    batches = []
    with monkeypatch.context() as patch:
        patch.setattr(response_sampler, "count_work", lambda calls, *_: batches.append(calls))
        together = labeler.label_batch(queries)
    if not too_long:
        # prompts without a passage are a batch of their own; the published eRAG has none
        sizes = {"likelihood": [9 * 2], "erag_exact_match": [3, 6], "erag_token_f1": [6]}
        assert list(filter(None, batches)) == sizes[labeler.name]
    for query, found in zip(queries, together, strict=True):
        alone = attempt(lambda query=query: labeler.label(query))
        assert type(found) is type(alone)
        if isinstance(alone, LabeledQuery):
            assert found.labels == pytest.approx(alone.labels, abs=1e-3)
        else:
            assert str(found) == str(alone)


def test_an_error_stands_in_the_place_of_labels(tiny_scorer):
    broken = as_query({**RECORD, "passages": [{"text": "a", "relevant": "yes"}, {"text": "b", "relevant": True}]})
    marked = as_query({**RECORD, "passages": [{"text": "a", "relevant": False}, {"text": "b", "relevant": True}]})
    (_, error), (query, labeled) = label_batches(GoldLabeler(), [[broken, marked]])
    assert "expected 'relevant': true, false or a grade (0, 1, 2, ...), got 'yes'" in str(error)
    assert query is marked
    assert labeled.labels == (0.0, 1.0)


def test_longer_and_more_passages_cost_more():
    short = Query("q", "Who?", ("Ann",), (Passage("Ann did."),))
    long = Query("q", "Who?", ("Ann",), (Passage("Ann did. " * 50),))
    many = Query("q", "Who?", ("Ann",), (Passage("Ann did."),) * 9)
    assert query_cost(short) < query_cost(long)
    assert query_cost(short) < query_cost(many)


def test_a_labeler_has_the_batches_of_its_scorer(tiny_scorer, monkeypatch):
    assert batch_size(GoldLabeler()) == 1
    assert batch_size(DeltaSePerLabeler(tiny_scorer)) == 1
    monkeypatch.setattr(SePerScorer, "batch_size", 32)
    assert batch_size(DeltaSePerLabeler(tiny_scorer)) == 32
    assert {batch_size(kind(tiny_scorer), 4) for kind in (DeltaSePerLabeler, ERAGLabeler, LikelihoodLabeler)} == {4}
    assert batch_size(GoldLabeler(), 4) == 1
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        batch_size(DeltaSePerLabeler(tiny_scorer), 0)


def test_servers_make_their_own_batches(tiny_scorer, monkeypatch):
    """Except of queries that are not announced: judgments, whose rounds depend on each other, and likelihoods."""
    monkeypatch.setattr(type(tiny_scorer.sampler), "prompts_ahead", 8)
    labelers = DeltaSePerLabeler, ItemLabeler, LikelihoodLabeler
    assert [batch_size(labeler(tiny_scorer), 4) for labeler in labelers] == [1, 4, 4]
