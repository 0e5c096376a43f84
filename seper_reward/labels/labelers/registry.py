"""The registry of labelers, by the names in settings."""

from collections.abc import Callable
from pathlib import Path

from seper_reward.labels.judgment_prompts import JudgmentPrompts
from seper_reward.labels.judgments import JudgmentOptions, parse_judge
from seper_reward.labels.labelers.base import PassageLabeler, ReaderLabeler
from seper_reward.labels.labelers.contains import ContainsLabeler
from seper_reward.labels.labelers.cross_encoder import CrossEncoderLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.labelers.erag import ERAGLabeler, ERAGOptions
from seper_reward.labels.labelers.gold import GoldLabeler
from seper_reward.labels.labelers.item import ItemLabeler
from seper_reward.labels.labelers.likelihood import LikelihoodLabeler
from seper_reward.labels.labelers.sets import SetLabeler
from seper_reward.labels.rows import DELTA_SEPER
from seper_reward.options import LabelerOptions, SetOptions
from seper_reward.scorer import SePerScorer

LoadScorer = Callable[[], SePerScorer]
_DEFAULTS = LabelerOptions()


LABELERS: dict[str, type[PassageLabeler]] = {
    "delta_seper": DeltaSePerLabeler,
    "erag": ERAGLabeler,
    "likelihood": LikelihoodLabeler,
    "item": ItemLabeler,
    "contains": ContainsLabeler,
    "gold": GoldLabeler,
}


def load_labeler(
    name: str,
    load_scorer: LoadScorer,
    sets: SetOptions | None = None,
    options: LabelerOptions = _DEFAULTS,
) -> PassageLabeler:
    """Return a labeler by its name in ``LABELERS``, or the cross-encoder in a folder.

    Args:
        name: Name of the labeler, or a reranker's folder.
        load_scorer: Function that loads the scorer; called only for a labeler that needs one.
        sets: Sets of passages to label as well; ``None`` for none.
        options: Options of labelers; each labeler ignores those of the other ones.

    Raises:
        ValueError: There is no such labeler, one of its options is not allowed, or it labels single passages only.
        OSError: A model cannot be loaded.
    """
    check_labeler(name)
    judgment_options(options)
    labeler: PassageLabeler
    match name:
        case "delta_seper":
            labeler = DeltaSePerLabeler(load_scorer(), options.label or DELTA_SEPER)
        case "erag":
            labeler = ERAGLabeler(load_scorer(), options.erag_metric, ERAGOptions.preset(options.labeler_preset))
        case "likelihood":
            labeler = LikelihoodLabeler(load_scorer())
        case "item":
            labeler = item_labeler(load_scorer(), options)
        case _:
            labeler = LABELERS[name]() if name in LABELERS else CrossEncoderLabeler.from_pretrained(name)
    if sets is None:
        return labeler
    if not isinstance(labeler, ReaderLabeler):
        raise ValueError(f"labeler {name!r} does not use a reader, which labels of sets need; use sets=none")
    return SetLabeler(labeler, sets)


def judgment_options(options: LabelerOptions, judge: str | None = None) -> JudgmentOptions:
    """Return the options of ITEM for a judge such as ``"a_s:rounds=1"``; ``None`` for ``item_method``.

    Raises ``ValueError`` if there is no such method or option.
    """
    method, changes = parse_judge(judge or options.item_method)
    return JudgmentOptions.preset(options.labeler_preset, method, **changes)


def item_labeler(scorer: SePerScorer, options: LabelerOptions, judge: str | None = None) -> ItemLabeler:
    """Return ITEM's labeler; a judge replaces ``item_method`` and names the labels."""
    return ItemLabeler(
        scorer,
        judgment_options(options, judge),
        JudgmentPrompts.load(options.item_prompts),
        name=judge or "item",
    )


def needs_answers(name: str) -> bool:
    """Return whether the labeler of this name needs gold answers; a reranker in a folder needs none."""
    return LABELERS.get(name, CrossEncoderLabeler).needs_answers


def check_labeler(name: str) -> None:
    """Raise ``ValueError`` if there is neither a labeler of this name nor such a folder."""
    if name not in LABELERS and not Path(name).is_dir():
        raise ValueError(f"labeler must be one of {', '.join(LABELERS)} or a reranker's folder, got {name!r}")
