"""Profiling: seconds by stage, measured only inside a ``profiling`` block."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext


class Profile:
    """Seconds by stage; time in a nested stage counts only for the nested stage.

    ``seconds`` are those of the host's clock, summed over threads, which waits for an accelerator only to read a
    result. ``counts`` are ``calls``, ``prompt_tokens`` and ``response_tokens`` of the reader, without cached prompts.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()
        self._start = time.perf_counter()
        self._lock, self.running = threading.Lock(), _Running()

    @property
    def total_seconds(self) -> float:
        """Seconds on the wall clock since the profile was made."""
        return time.perf_counter() - self._start

    def add(self, stage: str, seconds: float) -> None:
        """Add seconds to a stage."""
        with self._lock:
            self.seconds[stage] += seconds

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to ``counts``."""
        with self._lock:
            self.counts.update(numbers)


class _Running(threading.local):
    def __init__(self) -> None:
        self.stack: list[float] = []  # for each running stage of this thread, the seconds in stages nested in it


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
            _profiles = tuple(other for other in _profiles if other is not profile)


def timed(stage: str) -> AbstractContextManager[None]:
    """Measure a block as a stage; does nothing outside of ``profiling``."""
    return _measured(_profiles, stage) if _profiles else _OFF


def count(numbers: Callable[[], Mapping[str, int]]) -> None:
    """Add the result of a function to the profiles' ``counts``; it is called only inside of ``profiling``."""
    if profiles := _profiles:
        counts = numbers()
        for profile in profiles:
            profile.count(counts)


@contextmanager
def _measured(profiles: Sequence[Profile], stage: str) -> Iterator[None]:
    for profile in profiles:
        profile.running.stack.append(0.0)
    start = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - start
        for profile in profiles:
            stack = profile.running.stack
            profile.add(stage, spent - stack.pop())
            if stack:
                stack[-1] += spent
