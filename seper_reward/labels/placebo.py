"""The placebo: a passage about something else, whose label is the part of labels that is not due to content."""

import copy
import heapq
from collections.abc import Sequence
from dataclasses import replace

from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.sets import SetLabeler
from seper_reward.labels.rows import label_of
from seper_reward.runtime.hashing import content_key
from seper_reward.types import Passage, Query

_QUESTIONS = 20


def placebo_queries(labeler: PassageLabeler, queries: Sequence[Query]) -> list[Query]:
    """Return up to 20 of the queries, chosen by content, with the placebo as only passage; none without a reader.

    Queries without a gold answer are left out if their label is another one.
    """
    if labeler.scorer is None:
        return []
    placebo = Passage(labeler.scorer.reader.prompts.style.placebo, id="placebo")
    chosen = heapq.nsmallest(
        _QUESTIONS,
        (query for query in queries if label_of(query.answers, labeler.name) == labeler.name),
        key=lambda query: content_key(query.id, query.question, query.answers),
    )
    return [replace(query, passages=(placebo,)) for query in chosen]


def closed_book(labeler: PassageLabeler) -> PassageLabeler:
    """Return the labeler that compares single passages with no passage, whatever its own baseline is."""
    other = copy.copy(labeler.singles if isinstance(labeler, SetLabeler) else labeler)
    if labeler.scorer is not None:
        other.scorer = labeler.scorer.with_baseline("none")
    return other
