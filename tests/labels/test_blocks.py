"""Blocks: questions measured side by side have the beliefs they have alone."""

from dataclasses import replace

import pytest

from seper_reward import SePerScorer
from seper_reward.data.queries import as_query
from seper_reward.labels.blocks import (
    beliefs_of,
    block_size,
    default_block,
    label_blocks,
    query_cost,
)
from seper_reward.labels.labelers import (
    DeltaSePerLabeler,
    ERAGLabeler,
    ERAGOptions,
    GoldLabeler,
    ItemLabeler,
    LikelihoodLabeler,
)
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import AdaptiveSampling
from seper_reward.runtime.profiling import profiling
from seper_reward.types import Asked, LabeledQuery, Passage, Query, UnscorableError
from tests.helpers import rebuilt

RECORD = {
    "question": "Who built the mill?",
    "answers": ["Peter Voss", "Voss"],
    "passages": ["Peter Voss did.", "It burned."],
}


def refilled(scorer):
    """Return the scorer with a sampler that refills its batch, so that it has blocks by itself."""
    sampler = rebuilt(scorer.sampler, refill=True)
    return SePerScorer(sampler, scorer.entailment, prompt="brief", estimator=scorer.estimator)


def test_a_query_without_delta_belief_leaves_the_others_of_its_block_theirs(tiny_scorer):
    plain = Query("0", "Who built the mill?", ("Ann",), (Passage("Ann did."),))
    listed = Query("1", "Who built it?", (("Ann",), ("Bob",)), (Passage("Ann and Bob did."),))
    first, second = DeltaSePerLabeler(tiny_scorer, "delta_belief").label_block([plain, listed])
    assert first.labels
    assert isinstance(second, UnscorableError)


def test_beliefs_come_in_the_order_of_their_queries_with_errors_in_their_places(tiny_scorer):
    asked = [
        Asked("Who built the mill?" if n != 2 else "why " * 600, ("Voss",), ((Passage(f"Voss built {n}."),),))
        for n in range(5)
    ]
    one_by_one = beliefs_of(tiny_scorer, asked, "reading")
    in_blocks = beliefs_of(refilled(tiny_scorer), asked, "reading")
    assert [isinstance(each, UnscorableError) for each in in_blocks] == [False, False, True, False, False]
    for alone, together in zip(one_by_one, in_blocks, strict=True):
        if isinstance(alone, list):
            assert [belief.seper for belief in together] == pytest.approx([belief.seper for belief in alone], abs=1e-3)


@pytest.mark.parametrize(
    "labeler",
    [LikelihoodLabeler, ERAGLabeler, lambda scorer: ERAGLabeler(scorer, "token_f1", ERAGOptions.preset("paper"))],
    ids=["likelihood", "erag", "erag as published"],
)
@pytest.mark.parametrize("too_long", [False, True])
def test_labels_of_a_block_are_those_made_one_by_one(labeler, too_long, tiny_scorer, monkeypatch):
    labeler = labeler(tiny_scorer)
    queries = [as_query({**RECORD, "id": str(number), "question": f"Who built mill {number}?"}) for number in range(3)]
    if too_long:
        queries[1] = replace(queries[1], question="why " * 600)
    batches = []
    monkeypatch.setattr(PromptedReader, "_asked", lambda self, prompts, lengths: batches.append(set(prompts)) or {})
    with profiling():
        together = labeler.label_block(queries)
    if not too_long:
        assert list(map(len, batches)) == [6 if labeler.name == "erag_token_f1" else 9]  # that one has no baseline
    for query, found in zip(queries, together, strict=True):
        alone = labeler.attempt(query)
        assert type(found) is type(alone)
        if isinstance(alone, LabeledQuery):
            assert found.labels == pytest.approx(alone.labels, abs=1e-3)
        else:
            assert str(found) == str(alone)


def test_an_error_stands_in_the_place_of_labels(tiny_scorer):
    broken = as_query({**RECORD, "passages": [{"text": "a", "relevant": "yes"}, {"text": "b", "relevant": True}]})
    marked = as_query({**RECORD, "passages": [{"text": "a", "relevant": False}, {"text": "b", "relevant": True}]})
    (_, error), (query, labeled) = label_blocks(GoldLabeler(), [[broken, marked]])
    assert "expected 'relevant': true or false, got 'yes'" in str(error)
    assert query is marked
    assert labeled.labels == (0.0, 1.0)


def test_longer_and_more_passages_cost_more():
    short = Query("q", "Who?", ("Ann",), (Passage("Ann did."),))
    long = Query("q", "Who?", ("Ann",), (Passage("Ann did. " * 50),))
    many = Query("q", "Who?", ("Ann",), (Passage("Ann did."),) * 9)
    assert query_cost(short) < query_cost(long)
    assert query_cost(short) < query_cost(many)


def test_a_labeler_has_the_blocks_of_its_scorer(tiny_scorer):
    assert default_block(GoldLabeler()) == 1
    assert default_block(DeltaSePerLabeler(tiny_scorer)) == 1
    assert default_block(DeltaSePerLabeler(refilled(tiny_scorer))) == 32


def test_servers_make_their_own_batches(tiny_scorer, monkeypatch):
    """Not of what they are not told before: judgments, whose rounds depend on each other, and likelihoods."""
    served = refilled(tiny_scorer)
    monkeypatch.setattr(type(served.sampler), "prompts_ahead", 8)
    assert served.block == 1
    labelers = DeltaSePerLabeler, ItemLabeler, LikelihoodLabeler
    assert [block_size(labeler(served), 4) for labeler in labelers] == [1, 4, 4]


def test_a_run_that_decides_query_by_query_has_no_blocks(tiny_scorer):
    adaptive = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", adaptive=AdaptiveSampling(0.1))
    with pytest.raises(ValueError, match="and 1 with enough_std_error, got 2"):
        block_size(DeltaSePerLabeler(adaptive), 2)
    assert block_size(DeltaSePerLabeler(adaptive), 1) == 1
