"""Ways to judge how much a passage helps to answer a question, with one kind of result."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from seper_reward.labels.labelers.cross_encoder import CrossEncoderLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.labelers.erag import ERAGLabeler
from seper_reward.labels.labelers.gold import GoldLabeler
from seper_reward.labels.labelers.likelihood import LikelihoodLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query

__all__ = [
    "LABELERS",
    "CrossEncoderLabeler",
    "DeltaSePerLabeler",
    "ERAGLabeler",
    "GoldLabeler",
    "LikelihoodLabeler",
    "PassageLabeler",
    "check_labeler",
    "labeler",
]


class PassageLabeler(Protocol):
    """Judges each passage of a query by itself.

    One that samples may also have ``ahead(queries)``, which yields them while it begins with the next.
    """

    name: str

    def label(self, query: Query) -> LabeledQuery:
        """Return one label and one standard error per passage.

        Raises:
            UnscorableError: this query cannot be judged, others can.
        """


LABELERS: dict[str, Callable[[SePerScorer], PassageLabeler]] = {
    "delta_seper": DeltaSePerLabeler,
    "delta_seper_hard": lambda scorer: DeltaSePerLabeler(scorer, hard=True),
    "erag": ERAGLabeler,
    "erag_token_f1": lambda scorer: ERAGLabeler(scorer, "token_f1"),
    "erag_rouge_l": lambda scorer: ERAGLabeler(scorer, "rouge_l"),
    "likelihood": LikelihoodLabeler,
    "gold": lambda scorer: GoldLabeler(),
}


def labeler(name: str, scorer: SePerScorer) -> PassageLabeler:
    """Return a labeler by its name in ``LABELERS``, or the cross-encoder in a folder.

    Args:
        name: of the labeler.
        scorer: whose reader is asked; labelers share it.

    Raises:
        ValueError: there is no such labeler.
    """
    check_labeler(name)
    return LABELERS[name](scorer) if name in LABELERS else CrossEncoderLabeler.from_pretrained(name)


def check_labeler(name: str) -> None:
    """Raise ``ValueError`` if there is neither a labeler of this name nor such a folder."""
    if name not in LABELERS and not Path(name).is_dir():
        raise ValueError(f"labeler must be one of {', '.join(LABELERS)} or a reranker's folder, got {name!r}")
