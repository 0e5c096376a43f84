"""Profiling: seconds and tokens by stage, measured only inside a ``profiling`` block.

Example:
    with profiling() as profile:
        scorer.utilities(queries)
    print(profile.seconds, profile.tokens)
"""

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType


class Profile:
    """Seconds and tokens by stage; time in a nested stage counts only for the nested stage.

    ``seconds`` are summed over threads. ``tokens`` are those of prompts and given texts (prefill), of responses
    (decode), drawn from logits (draw), and of judged pairs with padding (entailment). ``counts`` are the reader's work
    without cached prompts: ``calls``, ``prompt_tokens``, and ``response_tokens`` of all responses.
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
        """Return, for each running stage of this thread, the seconds spent in stages nested in it."""
        if not hasattr(self._running, "stack"):
            self._running.stack = []
        stack: list[float] = self._running.stack
        return stack


_profiles: tuple[Profile, ...] = ()  # of the active blocks in all threads
_entering = threading.Lock()
_OFF: AbstractContextManager[None] = nullcontext()


@contextmanager
def profiling() -> Iterator[Profile]:
    """Measure all stages of this process until the block ends, including other threads and inner blocks."""
    global _profiles
    profile = Profile()
    with _entering:
        _profiles = (*_profiles, profile)
    try:
        yield profile
    finally:
        with _entering:
            _profiles = tuple(each for each in _profiles if each is not profile)


def timed(stage: str, tokens: int = 0) -> AbstractContextManager[None]:
    """Measure a block as a stage that passes ``tokens`` through a model; does nothing outside of ``profiling``."""
    return _Stage(_profiles, stage, tokens) if _profiles else _OFF


def count(numbers: Callable[[], Mapping[str, int]]) -> None:
    """Add the result of a function to the profiles' ``counts``; it is called only inside of ``profiling``."""
    if profiles := _profiles:
        found = numbers()
        for profile in profiles:
            profile.count(found)


class _Stage(AbstractContextManager[None]):
    def __init__(self, profiles: Sequence[Profile], stage: str, tokens: int) -> None:
        self._profiles, self._stage, self._tokens = profiles, stage, tokens

    def __enter__(self) -> None:
        _synchronize()
        for profile in self._profiles:
            profile.stack().append(0.0)
        self._start = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _synchronize()
        spent = time.perf_counter() - self._start
        for profile in self._profiles:
            stack = profile.stack()
            profile.add(self._stage, spent - stack.pop(), self._tokens)
            if stack:
                stack[-1] += spent


def _synchronize() -> None:
    """Wait for the accelerator; otherwise work queued in one stage would count for the next."""
    torch = sys.modules.get("torch")  # clients run without torch
    if torch is not None and torch.accelerator.is_available():
        torch.accelerator.synchronize()
