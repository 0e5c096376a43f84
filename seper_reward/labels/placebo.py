"""The placebo: the change of labels by a passage without the answer, measured on a sample of a run's questions."""

import copy
from collections.abc import Sequence
from dataclasses import replace

from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.sets import SetLabeler
from seper_reward.runtime.hashing import content_key
from seper_reward.types import Passage, Query

PLACEBO_ID = "placebo"
_QUESTIONS = 20


def placebo_queries(labeler: PassageLabeler, queries: Sequence[Query]) -> list[Query]:
    """Return up to 20 of the queries with the placebo as their only passage; none for labelers without a reader.

    The sample is random but depends on content only: it is the same for any order of the queries.
    """
    if labeler.scorer is None:
        return []
    placebo = Passage(labeler.scorer.reader.prompts.style.placebo, id=PLACEBO_ID)
    chosen = sorted(queries, key=lambda query: content_key(query.id, query.question, query.answers))[:_QUESTIONS]
    return [replace(query, passages=(placebo,)) for query in chosen]


def closed_book(labeler: PassageLabeler) -> PassageLabeler:
    """Return the labeler that compares single passages with no passage, whatever its own baseline is."""
    other = copy.copy(labeler.singles if isinstance(labeler, SetLabeler) else labeler)
    if labeler.scorer is not None:
        other.scorer = labeler.scorer.with_baseline("none")
    return other
