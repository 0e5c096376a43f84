"""The labelers by the names that settings give them."""

from collections.abc import Callable
from pathlib import Path

from seper_reward.labels.labelers.base import PassageLabeler, ReaderLabeler
from seper_reward.labels.labelers.cross_encoder import CrossEncoderLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.labelers.erag import ERAGLabeler
from seper_reward.labels.labelers.gold import GoldLabeler
from seper_reward.labels.labelers.likelihood import LikelihoodLabeler
from seper_reward.labels.labelers.repaired_gold import RepairedGoldLabeler
from seper_reward.labels.plans import SetOptions
from seper_reward.labels.sets import SetLabeler
from seper_reward.scorer import SePerScorer

LoadScorer = Callable[[], SePerScorer]

LABELERS: dict[str, Callable[[LoadScorer], PassageLabeler]] = {
    "delta_seper": lambda load: DeltaSePerLabeler(load()),
    "delta_seper_hard": lambda load: DeltaSePerLabeler(load(), "delta_seper_hard"),
    "delta_belief": lambda load: DeltaSePerLabeler(load(), "delta_belief"),
    "erag": lambda load: ERAGLabeler(load()),
    "erag_token_f1": lambda load: ERAGLabeler(load(), "token_f1"),
    "erag_rouge_l": lambda load: ERAGLabeler(load(), "rouge_l"),
    "likelihood": lambda load: LikelihoodLabeler(load()),
    "gold": lambda load: GoldLabeler(),
    "repaired_gold": lambda load: RepairedGoldLabeler(load()),
}


def load_labeler(name: str, load_scorer: LoadScorer, sets: SetOptions | None = None) -> PassageLabeler:
    """Return a labeler by its name in ``LABELERS``, or the cross-encoder in a folder.

    Args:
        name: Name of the labeler, or a reranker's folder.
        load_scorer: Function that loads the scorer; called only for a labeler that needs one.
        sets: Which sets of passages it labels, too; ``None`` for none.

    Raises:
        ValueError: There is no such labeler, or it labels single passages only.
        OSError: A model cannot be loaded.
    """
    check_labeler(name)
    labeler = LABELERS[name](load_scorer) if name in LABELERS else CrossEncoderLabeler.from_pretrained(name)
    if sets is None:
        return labeler
    if not isinstance(labeler, ReaderLabeler):
        raise ValueError(f"labeler {name!r} asks no reader, so that it cannot label sets; take sets=none")
    return SetLabeler(labeler, sets)


def check_labeler(name: str) -> None:
    """Raise ``ValueError`` if there is neither a labeler of this name nor such a folder."""
    if name not in LABELERS and not Path(name).is_dir():
        raise ValueError(f"labeler must be one of {', '.join(LABELERS)} or a reranker's folder, got {name!r}")
