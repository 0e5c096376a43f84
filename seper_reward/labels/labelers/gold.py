"""Relevance marks of people, where there are some."""

from seper_reward.data.queries import BadRowError
from seper_reward.types import LabeledQuery, Passage, Query


class GoldLabeler:
    """Labels a passage 1 if it is marked relevant, else 0; what training on people's marks would reach.

    A mark is ``relevant: true`` or ``role: "supporting"`` in a passage's metadata; a passage without any counts as
    not relevant, as in TREC.
    """

    name = "gold"

    def label(self, query: Query) -> LabeledQuery:
        """Return the marks.

        Raises:
            BadRowError: a mark ``relevant`` is neither true nor false.
        """
        labels = tuple(float(is_relevant(passage)) for passage in query.passages)
        return LabeledQuery(query, labels, (0.0,) * len(labels))


def is_relevant(passage: Passage) -> bool:
    """Return a passage's mark.

    Raises:
        BadRowError: the mark ``relevant`` is neither true nor false.
    """
    mark = passage.metadata.get("relevant", passage.metadata.get("role") == "supporting")
    if not isinstance(mark, bool):
        raise BadRowError(f"passage id={passage.id!r}: expected 'relevant': true or false, got {mark!r}; repair it")
    return mark
