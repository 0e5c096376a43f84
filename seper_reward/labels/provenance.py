"""Provenance: the settings, models and data that determine the labels of a folder."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import torch

from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.hashing import content_key
from seper_reward.types import Query


def provenance(
    labeler: PassageLabeler, query_keys: Sequence[str], block: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of ``provenance.json``; ``decides`` is everything that affects a label.

    Args:
        labeler: The labeler of the run.
        query_keys: Hash of each query (``query_key``), in the order of the input.
        block: Number of questions that are measured in one batch; above 1 their order affects low digits.
        settings: The command's settings, for reference; the labeler's fingerprint has all that affects labels.
    """
    decides = {
        **labeler.fingerprint,
        "block": block,
        "queries": content_key(query_keys if block > 1 else sorted(query_keys)),
        "device": _device_kind(labeler.device),
        "threads_per_process": torch.get_num_threads(),
        **{name: version(name) for name in ("seper-reward", "torch", "transformers")},
    }
    return {
        "labels_hash": content_key(decides),
        "decides": decides,
        "settings": dict(settings),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("accelerate", "datasets", "peft", "tokenizers", "trl")},
        },
        "platform": platform.platform(),
        "processes": process_state().num_processes,
    }


def query_key(query: Query) -> str:
    """Return a hash over all fields of a query that are written to its label row."""
    record: list[Any] = [query.id, query.question, query.answers, dict(query.metadata)]
    record += [[passage.id, passage.title, passage.text, dict(passage.metadata)] for passage in query.passages]
    return content_key(record)


def _device_kind(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {torch.backends.cpu.get_cpu_capability()}"
