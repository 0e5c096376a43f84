"""People's marks of relevance as labels."""

from seper_reward.data.marks import is_relevant
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.types import LabeledQuery, Query


class GoldLabeler(PassageLabeler):
    """Labels a passage 1 if people marked it relevant, else 0; standard errors are 0."""

    name = "gold"
    needs_answers = False

    def label(self, query: Query) -> LabeledQuery:
        """Return the mark of each passage; one without a mark is not relevant.

        Raises:
            BadRowError: A mark is neither true nor false.
        """
        labels = tuple(float(is_relevant(passage)) for passage in query.passages)
        return LabeledQuery(query, labels, (0.0,) * len(labels))
