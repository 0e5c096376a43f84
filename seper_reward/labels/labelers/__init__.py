"""Ways to measure how much a passage helps to answer a question, behind one protocol."""

from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.cross_encoder import CrossEncoderLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.labelers.erag import ERAGLabeler
from seper_reward.labels.labelers.gold import GoldLabeler
from seper_reward.labels.labelers.likelihood import LikelihoodLabeler
from seper_reward.labels.labelers.registry import LABELERS, check_labeler, load_labeler
from seper_reward.labels.labelers.repaired_gold import RepairedGoldLabeler

__all__ = [
    "LABELERS",
    "CrossEncoderLabeler",
    "DeltaSePerLabeler",
    "ERAGLabeler",
    "GoldLabeler",
    "LikelihoodLabeler",
    "PassageLabeler",
    "RepairedGoldLabeler",
    "check_labeler",
    "load_labeler",
]
