"""Whether a passage contains the answer: a baseline of eRAG (arXiv:2404.13781)."""

from seper_reward.data.answers import holds_answer
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.types import LabeledQuery, Query


class ContainsLabeler(PassageLabeler):
    """Labels a passage 1 if its title or text contains an alias of the answer as words, else 0, without errors."""

    name = "contains"

    def label(self, query: Query) -> LabeledQuery:
        """Return for each passage whether it contains the answer."""
        labels = tuple(float(holds_answer(passage.full_text, query.answers)) for passage in query.passages)
        return LabeledQuery(query, labels, (0.0,) * len(labels))
