"""Whether a passage holds the answer, the labels that eRAG is compared with (arXiv:2404.13781)."""

from seper_reward.data.answers import share_held
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.types import LabeledQuery, Query


class ContainsLabeler(PassageLabeler):
    """Labels a passage 1 if its title or text holds an alias of the answer as words, else 0; standard errors are 0.

    Where the answer is a list, it is the share of its items that the passage holds.
    """

    name = "contains"

    def label(self, query: Query) -> LabeledQuery:
        """Return for each passage whether it holds the answer."""
        labels = tuple(share_held(passage.full_text, query.answers) for passage in query.passages)
        return LabeledQuery(query, labels, (0.0,) * len(labels))
