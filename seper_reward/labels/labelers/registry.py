"""The labelers by the names that settings give them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seper_reward.labels.labelers.base import PassageLabeler, ReaderLabeler
from seper_reward.labels.labelers.contains import ContainsLabeler
from seper_reward.labels.labelers.cross_encoder import CrossEncoderLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.labelers.erag import ERAGLabeler, ERAGOptions, ERAGPreset
from seper_reward.labels.labelers.gold import GoldLabeler
from seper_reward.labels.labelers.likelihood import LikelihoodLabeler
from seper_reward.labels.plans import SetOptions
from seper_reward.labels.sets import SetLabeler
from seper_reward.scorer import SePerScorer

LoadScorer = Callable[[], SePerScorer]


@dataclass(frozen=True)
class LabelerOptions:
    """Options of those labelers that have some; the others ignore them.

    Attributes:
        erag_preset: How eRAG's labels follow from answers, see ``ERAGOptions.preset``.
        erag_metric: Metric of the labeler ``erag``, see ``answer_metric``.
    """

    erag_preset: ERAGPreset = "default"
    erag_metric: str = "exact_match"

    def erag(self, scorer: SePerScorer, metric: str | None = None) -> ERAGLabeler:
        """Return eRAG's labeler with its options; ``metric`` takes the place of theirs."""
        return ERAGLabeler(scorer, metric or self.erag_metric, ERAGOptions.preset(self.erag_preset))


LABELERS: dict[str, Callable[[LoadScorer, LabelerOptions], PassageLabeler]] = {
    "delta_seper": lambda load, options: DeltaSePerLabeler(load()),
    "delta_seper_hard": lambda load, options: DeltaSePerLabeler(load(), "delta_seper_hard"),
    "delta_belief": lambda load, options: DeltaSePerLabeler(load(), "delta_belief"),
    "erag": lambda load, options: options.erag(load()),
    "erag_token_f1": lambda load, options: options.erag(load(), "token_f1"),
    "erag_rouge_l": lambda load, options: options.erag(load(), "rouge_l"),
    "likelihood": lambda load, options: LikelihoodLabeler(load()),
    "contains": lambda load, options: ContainsLabeler(),
    "gold": lambda load, options: GoldLabeler(),
}


def load_labeler(
    name: str,
    load_scorer: LoadScorer,
    sets: SetOptions | None = None,
    options: LabelerOptions = LabelerOptions(),
) -> PassageLabeler:
    """Return a labeler by its name in ``LABELERS``, or the cross-encoder in a folder.

    Args:
        name: Name of the labeler, or a reranker's folder.
        load_scorer: Function that loads the scorer; called only for a labeler that needs one.
        sets: Which sets of passages it labels, too; ``None`` for none.
        options: Options of the labelers that have some.

    Raises:
        ValueError: There is no such labeler, one of its options is not allowed, or it labels single passages only.
        OSError: A model cannot be loaded.
    """
    check_labeler(name)
    labeler = LABELERS[name](load_scorer, options) if name in LABELERS else CrossEncoderLabeler.from_pretrained(name)
    if sets is None:
        return labeler
    if not isinstance(labeler, ReaderLabeler):
        raise ValueError(f"labeler {name!r} has no measure of a reader that sets could be labelled by; take sets=none")
    return SetLabeler(labeler, sets)


def check_labeler(name: str) -> None:
    """Raise ``ValueError`` if there is neither a labeler of this name nor such a folder."""
    if name not in LABELERS and not Path(name).is_dir():
        raise ValueError(f"labeler must be one of {', '.join(LABELERS)} or a reranker's folder, got {name!r}")
