"""Profiling: seconds and tokens by stage, measured only inside a ``profiling`` block."""

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

_MOST_EVENTS = 1024  # stages on an accelerator whose events are kept before finished ones are added up


class Profile:
    """Seconds and tokens by stage; time in a nested stage counts only for the nested stage.

    ``seconds`` are those of the host's clock, summed over threads, which waits for an accelerator only to read a
    result. ``tokens`` are those of prompts and given texts (prefill), of responses (decode), drawn from logits (draw),
    and of judged pairs with padding (entailment). ``counts`` are ``calls``, ``prompt_tokens`` and ``response_tokens``
    of the reader, without cached prompts.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tokens: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._events: list[tuple[str, Any, Any]] = []  # stages on an accelerator, with their start and their end
        self._device_seconds: defaultdict[str, float] = defaultdict(float)
        self._start = time.perf_counter()
        self._lock, self.running = threading.Lock(), _Running()

    @property
    def total_seconds(self) -> float:
        """Seconds on the wall clock since the profile was made."""
        return time.perf_counter() - self._start

    @property
    def device_seconds(self) -> dict[str, float]:
        """Seconds of each stage on the accelerator, with those of stages in it; waits for it; empty on a CPU."""
        with self._lock:
            for _, _, end in self._events[-1:]:
                end.synchronize()
            self._fold()
            return dict(self._device_seconds)

    def add(self, stage: str, seconds: float, tokens: int = 0, events: tuple[object, object] | None = None) -> None:
        """Add seconds and tokens to a stage, and the events of its start and end on an accelerator."""
        with self._lock:
            self.seconds[stage] += seconds
            self.tokens[stage] += tokens
            if events is not None:
                self._events.append((stage, *events))
                if len(self._events) > _MOST_EVENTS:
                    self._fold()

    def _fold(self) -> None:
        """Add the seconds of stages that the accelerator has finished, and drop their events."""
        left = []
        for stage, start, end in self._events:
            if end.query():
                self._device_seconds[stage] += start.elapsed_time(end) / 1000
            else:
                left.append((stage, start, end))
        self._events = left

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


def timed(stage: str, tokens: int = 0) -> AbstractContextManager[None]:
    """Measure a block as a stage that passes ``tokens`` through a model; does nothing outside of ``profiling``."""
    return _measured(_profiles, stage, tokens) if _profiles else _OFF


def count(numbers: Callable[[], Mapping[str, int]]) -> None:
    """Add the result of a function to the profiles' ``counts``; it is called only inside of ``profiling``."""
    if profiles := _profiles:
        counts = numbers()
        for profile in profiles:
            profile.count(counts)


@contextmanager
def _measured(profiles: Sequence[Profile], stage: str, tokens: int) -> Iterator[None]:
    begun = _event()
    for profile in profiles:
        profile.running.stack.append(0.0)
    start = time.perf_counter()
    try:
        yield
    finally:
        spent, ended = time.perf_counter() - start, _event()
        events = None if begun is None or ended is None else (begun, ended)
        for profile in profiles:
            stack = profile.running.stack
            profile.add(stage, spent - stack.pop(), tokens, events)
            if stack:
                stack[-1] += spent


def _event() -> object:
    """Return an event behind all work that the accelerator has queued; ``None`` without one."""
    torch = sys.modules.get("torch")  # clients run without torch
    if torch is None or not torch.accelerator.is_available():
        return None
    event = torch.Event(torch.accelerator.current_accelerator(), enable_timing=True)
    event.record()
    return event
