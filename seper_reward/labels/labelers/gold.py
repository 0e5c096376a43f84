"""Relevance marks of people, where there are some."""

from seper_reward.data.marks import is_relevant
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.types import LabeledQuery, Query


class GoldLabeler(PassageLabeler):
    """Labels a passage 1 if people marked it relevant, else 0: what training on people's marks would reach."""

    name = "gold"

    def label(self, query: Query) -> LabeledQuery:
        """Return the marks.

        Raises:
            BadRowError: A mark is neither true nor false.
        """
        labels = tuple(float(is_relevant(passage)) for passage in query.passages)
        return LabeledQuery(query, labels, (0.0,) * len(labels))
