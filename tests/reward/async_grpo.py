"""TRL's rollout worker of AsyncGRPOTrainer, wherever this release keeps it."""

import importlib
import sys
from types import ModuleType
from typing import Any


def trainer_class() -> Any:
    """Return AsyncGRPOTrainer: of ``trl`` since 1.18, of ``trl.experimental`` before."""
    for home in ("trl", "trl.experimental.async_grpo"):
        try:
            return importlib.import_module(home).AsyncGRPOTrainer
        except (ImportError, AttributeError):
            continue
    raise ImportError("this release of TRL has no AsyncGRPOTrainer")


def worker_module() -> ModuleType | None:
    """Return the module of the AsyncRolloutWorker that the trainer imports; ``None`` if it imports none."""
    worker = getattr(sys.modules[trainer_class().__module__], "AsyncRolloutWorker", None)
    return None if not hasattr(worker, "_loop_cls") else sys.modules[worker.__module__]
