"""Provenance: the settings, models and data that determine the labels of a folder."""

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version

import numpy as np
import torch

from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.hashing import content_key
from seper_reward.types import Query


def provenance(labeler: PassageLabeler, queries: str, batch: int, settings: Mapping[str, object]) -> dict[str, object]:
    """Return the content of ``provenance.json``; ``decides`` is everything that affects a label."""
    on_cpu = f"{labeler.device.type} {torch.backends.cpu.get_cpu_capability()}"
    decides = {
        **labeler.fingerprint,
        "batch_size": batch,
        "queries": queries,
        "device": torch.cuda.get_device_name(labeler.device) if labeler.device.type == "cuda" else on_cpu,
        "threads_per_process": torch.get_num_threads(),
        **{name: version(name) for name in ("seper-reward", "torch", "transformers")},
    }
    others = {name: version(name) for name in ("accelerate", "datasets", "peft", "tokenizers", "trl")}
    return {
        "labels_hash": content_key(decides),
        "decides": decides,
        "settings": dict(settings),
        "versions": {"python": platform.python_version(), **others},
        "platform": platform.platform(),
        "processes": process_state().num_processes,
    }


def query_key(query: Query) -> str:
    """Return a hash over all fields of a query that are written to its label row."""
    record: list[object] = [query.id, query.question, query.answers, dict(query.metadata)]
    record += [[passage.id, passage.title, passage.text, dict(passage.metadata)] for passage in query.passages]
    return content_key(record)


def queries_hash(keys: bytes, *, ordered: bool) -> str:
    """Return ``content_key`` of the list of hashes, 32 bytes each, in their order or sorted."""
    if not ordered:
        keys = np.sort(np.frombuffer(keys, "S32")).tobytes()
    digest = hashlib.sha256(b"[[")
    for start in range(0, len(keys), 32):
        digest.update(b',"%b"'[not start :] % keys[start : start + 32].hex().encode())
    digest.update(b"]]")
    return digest.hexdigest()
