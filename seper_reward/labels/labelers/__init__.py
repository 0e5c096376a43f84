"""Methods that measure how much a passage helps to answer a question, behind one protocol, by names in settings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from seper_reward.labels.judgment_prompts import JudgmentPrompts
from seper_reward.labels.judgments import METHODS, JudgmentOptions, Method
from seper_reward.labels.labelers.base import PassageLabeler, ReaderLabeler
from seper_reward.labels.labelers.contains import ContainsLabeler
from seper_reward.labels.labelers.cross_encoder import CrossEncoderLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler, best_label
from seper_reward.labels.labelers.erag import ERAGLabeler, ERAGOptions
from seper_reward.labels.labelers.gold import GoldLabeler
from seper_reward.labels.labelers.item import ItemLabeler
from seper_reward.labels.labelers.likelihood import LikelihoodLabeler
from seper_reward.labels.labelers.sets import SetLabeler
from seper_reward.labels.rows import DELTA_SEPER
from seper_reward.options import SetOptions, check_choice, split_options
from seper_reward.scorer import SePerScorer

__all__ = [
    "LABELERS", "ContainsLabeler", "CrossEncoderLabeler", "DeltaSePerLabeler", "ERAGLabeler", "ERAGOptions",
    "GoldLabeler", "ItemLabeler", "LikelihoodLabeler", "PassageLabeler", "load_labeler", "needs_answers",
    "parse_labeler",
]  # fmt: skip

LoadScorer = Callable[[], SePerScorer]
#: Options that the names of labelers may contain; those of ``item`` other than both are of ``JudgmentOptions``.
OPTIONS: dict[str, dict[str, Callable[[str], Any]]] = {
    "erag": {"preset": str},
    "item": {
        "preset": str, "prompts": str, "rounds": int, "top_k": int, "samples": int, "same_answer": float,
        "pseudo_answer": str, "form": str,
    },
}  # fmt: skip
_KINDS = {"erag": "exact_match", "item": "a_s"}  # by default


class Named(NamedTuple):
    """Parts of the name of a labeler: ``erag:token_f1:preset=paper`` is ``erag`` of the kind ``token_f1``."""

    labeler: str
    kind: str = ""  # the metric of erag, or the method of item
    options: Mapping[str, Any] = {}


LABELERS: dict[str, type[PassageLabeler]] = {
    "delta_seper": DeltaSePerLabeler,
    "erag": ERAGLabeler,
    "likelihood": LikelihoodLabeler,
    "item": ItemLabeler,
    "contains": ContainsLabeler,
    "gold": GoldLabeler,
}


def parse_labeler(name: str) -> Named:
    """Return the parts of a labeler's name; the method of item is a labeler as well, as ``a_s`` for ``item:a_s``.

    Raises ``ValueError`` if there is neither a labeler of this name nor such a folder, or an option is unknown.

    >>> parse_labeler("item:ar_r:top_k=3")
    Named(labeler='item', kind='ar_r', options={'preset': 'default', 'top_k': 3})
    """
    labeler, _, rest = name.partition(":")
    if labeler in METHODS:
        return parse_labeler(f"item:{name}")
    if labeler not in OPTIONS:
        if name not in LABELERS and not Path(name).is_dir():
            raise ValueError(f"labeler must be one of {', '.join(LABELERS)} or a reranker's folder, got {name!r}")
        return Named(name)
    kind, options = split_options(rest, OPTIONS[labeler])
    parts = Named(labeler, kind or _KINDS[labeler], {"preset": "default", **options})
    if labeler == "erag":
        ERAGOptions.preset(parts.options["preset"])
    else:
        check_choice("method of item", parts.kind, METHODS)
        judgment_options(parts)
    return parts


def load_labeler(
    name: str, load_scorer: LoadScorer, sets: SetOptions | None = None, label: str | None = None
) -> PassageLabeler:
    """Return a labeler by its name in ``LABELERS``, with its options, or the cross-encoder in a folder.

    ``load_scorer`` is called only for a labeler that needs a scorer; ``sets`` are sets of passages to label as well;
    ``label`` is that of ``delta_seper`` (default: ΔSePer, of sets ``best_label``). A method of item such as
    ``a_s:rounds=1`` names its labels as well. Raises ``ValueError`` if there is no such labeler or option, or it
    labels single passages only; ``OSError`` if a model cannot be loaded.
    """
    parts = parse_labeler(name)
    labeler: PassageLabeler
    match parts.labeler:
        case "delta_seper":
            scorer = load_scorer()
            labeler = DeltaSePerLabeler(scorer, label or (DELTA_SEPER if sets is None else best_label(scorer)))
        case "erag":
            labeler = ERAGLabeler(load_scorer(), parts.kind, ERAGOptions.preset(parts.options["preset"]))
        case "likelihood":
            labeler = LikelihoodLabeler(load_scorer())
        case "item":
            prompts = JudgmentPrompts.load(parts.options.get("prompts"))
            own_name = "item" if name.partition(":")[0] == "item" else name
            labeler = ItemLabeler(load_scorer(), judgment_options(parts), prompts, name=own_name)
        case _:
            labeler = LABELERS[name]() if name in LABELERS else CrossEncoderLabeler.from_pretrained(name)
    if sets is None:
        return labeler
    if not isinstance(labeler, ReaderLabeler):
        raise ValueError(f"labeler {name!r} does not use a reader, which labels of sets need; use sets=none")
    return SetLabeler(labeler, sets)


def judgment_options(named: Named) -> JudgmentOptions:
    """Return the options of ITEM in a labeler's name; raise ``ValueError`` if one is not allowed."""
    changes = {name: value for name, value in named.options.items() if name not in ("preset", "prompts")}
    return JudgmentOptions.preset(named.options["preset"], cast(Method, named.kind), **changes)


def needs_answers(name: str, *, by_question: bool = False) -> bool:
    """Return whether the labeler of this name needs gold answers; a reranker in a folder needs none.

    With ``by_question``, ΔSePer needs none, since the question's likelihood labels the other questions. No server
    returns it, and there are no such labels of sets.
    """
    labeler = LABELERS.get(parse_labeler(name).labeler, CrossEncoderLabeler)
    return labeler.needs_answers and not (by_question and labeler is DeltaSePerLabeler)
