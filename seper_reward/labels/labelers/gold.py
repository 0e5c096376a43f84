"""Human relevance labels as labels."""

from seper_reward.data.marks import grade_of
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.types import LabeledQuery, Query


class GoldLabeler(PassageLabeler):
    """Labels a passage with the grade that people gave it, 1 for ``true``; standard errors are 0."""

    name = "gold"
    needs_answers = False

    def label(self, query: Query) -> LabeledQuery:
        """Return the grade of each passage, 0 for one without a mark."""
        labels = tuple(float(grade_of(passage)) for passage in query.passages)
        return LabeledQuery(query, labels, (0.0,) * len(labels), graded=True)
