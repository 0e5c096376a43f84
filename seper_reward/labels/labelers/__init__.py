"""Methods that measure how much a passage helps to answer a question, behind one protocol."""

from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.contains import ContainsLabeler
from seper_reward.labels.labelers.cross_encoder import CrossEncoderLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.labelers.erag import ERAGLabeler, ERAGOptions
from seper_reward.labels.labelers.gold import GoldLabeler
from seper_reward.labels.labelers.item import ItemLabeler
from seper_reward.labels.labelers.likelihood import LikelihoodLabeler
from seper_reward.labels.labelers.registry import (
    LABELERS,
    load_labeler,
    needs_answers,
    parse_labeler,
)

__all__ = [
    "LABELERS",
    "ContainsLabeler",
    "CrossEncoderLabeler",
    "DeltaSePerLabeler",
    "ERAGLabeler",
    "ERAGOptions",
    "GoldLabeler",
    "ItemLabeler",
    "LikelihoodLabeler",
    "PassageLabeler",
    "load_labeler",
    "needs_answers",
    "parse_labeler",
]
