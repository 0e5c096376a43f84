"""What all recipes' runs have in common: the machine, checkpoints, seconds, and model cards."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.pretrained import no_accelerator

_CARDS = Path(__file__).parent / "cards"


class ThisMachine:
    """Mixin in front of a trainer's arguments: the CPU where there is no accelerator."""

    use_cpu: bool

    def __post_init__(self) -> None:
        process_state()  # before the trainer's own, whose processes may drift apart by half an hour only
        self.use_cpu = self.use_cpu or no_accelerator()
        super().__post_init__()  # type: ignore[misc]


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest whole checkpoint in a folder, if there is one: its state is written last."""
    whole = [path.parent for path in folder.glob("checkpoint-*/trainer_state.json")]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None


@contextmanager
def stopwatch(record: dict[str, float], name: str) -> Iterator[None]:
    """Write the seconds of a block into a record."""
    start = time.perf_counter()
    yield
    record[name] = round(time.perf_counter() - start, 1)


def model_card(name: str, /, **fields: Any) -> str:
    """Fill a template of ``trainers/cards``, whose fields stand in braces."""
    return (_CARDS / f"{name}.md").read_text(encoding="utf-8").format(**fields)
