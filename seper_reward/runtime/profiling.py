"""Where the time goes: seconds and tokens by stage, measured only inside a ``profiling`` block.

Example:
    with profiling() as profile:
        scorer.utilities(queries)
    print(profile_table(profile))  # from reports.tables
"""

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType

MODEL_STAGES = ("prefill", "decode", "entailment")


class Profile:
    """Seconds and tokens by stage; the time of a nested stage counts for that stage alone.

    Attributes:
        seconds: Seconds by stage; those of threads that work side by side add up.
        tokens: Tokens by stage: of prompts (prefill), of responses (decode), drawn from logits (draw), and of judged
            pairs with padding (entailment).
        counts: What a reader was asked, without what a cache knew already: ``calls`` (prompts), ``prompt_tokens``, and
            ``response_tokens`` of all responses.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tokens: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._start = time.perf_counter()
        self._lock, self._running = threading.Lock(), threading.local()

    @property
    def total_seconds(self) -> float:
        """Seconds on the wall clock since the profile was made."""
        return time.perf_counter() - self._start

    @property
    def model_share(self) -> float:
        """Share of the wall clock spent in model calls; above 1 if several threads wait for servers."""
        return sum(self.seconds.get(stage, 0.0) for stage in MODEL_STAGES) / self.total_seconds

    def numbers(self) -> dict[str, float]:
        """Return all numbers as metrics named ``profile/<stage>_seconds``, ``profile/model_share`` and so on."""
        metrics: dict[str, float] = {f"profile/{stage}_seconds": spent for stage, spent in self.seconds.items()}
        metrics |= {f"profile/{stage}_tokens": count for stage, count in self.tokens.items() if count}
        return {**metrics, "profile/total_seconds": self.total_seconds, "profile/model_share": self.model_share}

    def add(self, stage: str, seconds: float, tokens: int = 0) -> None:
        """Add seconds and tokens to a stage."""
        with self._lock:
            self.seconds[stage] += seconds
            self.tokens[stage] += tokens

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to ``counts``."""
        with self._lock:
            self.counts.update(numbers)

    def stack(self) -> list[float]:
        """Return, for each running stage of this thread, the seconds that the stages nested in it took."""
        if not hasattr(self._running, "stack"):
            self._running.stack = []
        stack: list[float] = self._running.stack
        return stack


_profile: Profile | None = None
_OFF: AbstractContextManager[None] = nullcontext()


@contextmanager
def profiling() -> Iterator[Profile]:
    """Measure all stages of this process until the block ends; an outer ``profiling`` block counts them, too."""
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
            before.count(inner.counts)
            for enclosing in before.stack()[-1:]:
                before.stack()[-1] = enclosing + sum(inner.seconds.values())


def timed(stage: str, tokens: int = 0) -> AbstractContextManager[None]:
    """Count a block as a stage; costs nothing outside of ``profiling``.

    Args:
        stage: Name of the stage.
        tokens: How many tokens the block puts through a model.
    """
    return _OFF if _profile is None else _Stage(_profile, stage, tokens)


def count(numbers: Callable[[], Mapping[str, int]]) -> None:
    """Add what a function returns to the profile's ``counts``; it is called inside of ``profiling`` only."""
    if _profile is not None:
        _profile.count(numbers())


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
    """Wait for the accelerator, so that work queued in one stage does not count for the next."""
    torch = sys.modules.get("torch")  # a client has none, and nothing to wait for
    if torch is not None and torch.accelerator.is_available():
        torch.accelerator.synchronize()
