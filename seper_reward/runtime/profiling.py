"""Where the time goes: seconds and tokens by stage, measured only while somebody asks.

with profiling() as profile:
    scorer.utilities(queries)
print(profile_table(profile))  # of reports.tables
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType

import torch

MODEL_STAGES = ("prefill", "decode", "entailment")


class Profile:
    """Seconds and tokens by stage; a stage inside another counts for itself alone.

    Attributes:
        seconds: by stage; of threads that work side by side, the sum.
        tokens: by stage: read of prompts (prefill), of responses (decode), drawn (draw), judged with padding
            (entailment).
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tokens: Counter[str] = Counter()
        self._start = time.perf_counter()
        self._lock, self._running = threading.Lock(), threading.local()

    @property
    def total_seconds(self) -> float:
        """Wall clock since the beginning."""
        return time.perf_counter() - self._start

    @property
    def model_share(self) -> float:
        """Share of the wall clock in model calls, the floor of these batches; above 1 if threads wait for servers."""
        return sum(self.seconds.get(stage, 0.0) for stage in MODEL_STAGES) / self.total_seconds

    def numbers(self) -> dict[str, float]:
        """Return all as ``profile/<stage>_seconds`` and ``_tokens``, with ``total_seconds`` and ``model_share``."""
        found: dict[str, float] = {f"profile/{stage}_seconds": spent for stage, spent in self.seconds.items()}
        found |= {f"profile/{stage}_tokens": count for stage, count in self.tokens.items() if count}
        return {**found, "profile/total_seconds": self.total_seconds, "profile/model_share": self.model_share}

    def add(self, stage: str, seconds: float, tokens: int = 0) -> None:
        """Count for a stage."""
        with self._lock:
            self.seconds[stage] += seconds
            self.tokens[stage] += tokens

    def stack(self) -> list[float]:
        """Return, for this thread, how long the stages inside each running one took."""
        if not hasattr(self._running, "stack"):
            self._running.stack = []
        stack: list[float] = self._running.stack
        return stack


_profile: Profile | None = None
_OFF: AbstractContextManager[None] = nullcontext()


@contextmanager
def profiling() -> Iterator[Profile]:
    """Measure all stages of this process until the block ends; an outer measurement has them, too."""
    global _profile
    before, inner = _profile, Profile()
    _profile = inner
    try:
        yield inner
    finally:
        _profile = before
        if before is not None:
            for stage, seconds in inner.seconds.items():
                before.add(stage, seconds, inner.tokens[stage])
            for enclosing in before.stack()[-1:]:
                before.stack()[-1] = enclosing + sum(inner.seconds.values())


def timed(stage: str, tokens: int = 0) -> AbstractContextManager[None]:
    """Count a block as a stage; costs nothing where nobody profiles.

    Args:
        stage: its name.
        tokens: that it puts through a model.
    """
    return _OFF if _profile is None else _Stage(_profile, stage, tokens)


class _Stage(AbstractContextManager[None]):
    def __init__(self, profile: Profile, stage: str, tokens: int) -> None:
        self._profile, self._stage, self._tokens = profile, stage, tokens

    def __enter__(self) -> None:
        _synchronize()
        self._profile.stack().append(0.0)
        self._start = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _synchronize()
        spent, stack = time.perf_counter() - self._start, self._profile.stack()
        self._profile.add(self._stage, spent - stack.pop(), self._tokens)
        if stack:
            stack[-1] += spent


def _synchronize() -> None:
    """Wait for the accelerator: what it was given in one stage must not count in the next."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
