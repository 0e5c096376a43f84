"""The worker of a server: the one thread that owns the models, and batches the questions of all clients."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from seper_reward.reward.beliefs import BeliefMemory
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Measured, UnscorableError

_log = logging.getLogger(__name__)


class FullError(Exception):
    """The queue is full; retry later."""


class ClosedError(Exception):
    """The worker is stopping: it answers accepted questions, but accepts no new ones."""


@dataclass
class _Job:
    request: Asked
    answer: "Future[Measured]" = field(default_factory=Future)


class Worker:
    """Measures submitted questions batch by batch in its own thread, the only one that loads and uses the scorer.

    A batch contains waiting questions of any client, up to ``batch_size`` contexts (default: the number of prompts
    that an engine prefetches, 256 on an accelerator, 16 on a CPU). A context of several requests is measured once
    while it is in the ``BeliefMemory`` of ``memory`` bytes. A request beyond ``queue`` waiting contexts is refused,
    unless the queue is empty. Errors of ``load`` are raised by the constructor.
    """

    def __init__(
        self,
        load: Callable[[], SePerScorer],
        *,
        batch_size: int | None = None,
        queue: int = 8192,
        memory: int = 2**28,
    ) -> None:
        self._batch_size, self._queue = batch_size, queue
        self._jobs: deque[_Job] = deque()
        self.waiting = 0  # contexts and texts of all jobs
        self.closed = False  # whether it has stopped accepting questions
        self._changed = threading.Condition()
        self._beliefs = BeliefMemory(memory)
        loaded: Future[tuple[dict[str, object], int]] = Future()
        self._thread = threading.Thread(target=self._run, args=(load, loaded), name="scorer", daemon=True)
        self._thread.start()
        self.about, self.window = loaded.result()

    @property
    def alive(self) -> bool:
        """Whether the worker's thread runs."""
        return self._thread.is_alive()

    def submit(self, requests: Sequence[Asked]) -> "list[Future[Measured]]":
        """Accept all questions of a request, with a future each; else raise ``FullError`` or ``ClosedError``."""
        jobs = list(map(_Job, requests))
        size = sum(map(_size, jobs))
        with self._changed:
            if self.closed:
                raise ClosedError
            if self.waiting and self.waiting + size > self._queue:
                raise FullError
            self._jobs.extend(jobs)
            self.waiting += size
            self._changed.notify()
        return [job.answer for job in jobs]

    def close(self) -> None:
        """Stop accepting questions."""
        with self._changed:
            self.closed = True
            self._changed.notify()

    def join(self) -> None:
        """Wait until all accepted questions are answered; call ``close`` first."""
        self._thread.join()

    def _run(self, load: Callable[[], SePerScorer], loaded: "Future[tuple[dict[str, Any], int]]") -> None:
        try:
            scorer = load()
            properties = scorer.fingerprint, scorer.sampler.max_prompt_tokens
        except BaseException as error:  # raised again in the thread of the constructor
            loaded.set_exception(error)
            return
        by_device = 16 if scorer.entailment.device.type == "cpu" else 256
        size = self._batch_size or scorer.sampler.prompts_ahead or by_device
        loaded.set_result(properties)
        while jobs := self._next_batch(size):
            self._answer(scorer, [job for job in jobs if job.answer.set_running_or_notify_cancel()])

    def _next_batch(self, most: int) -> list[_Job]:
        """Wait for jobs and return the next batch; an empty list if the worker is closed and no job is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self.closed)
            jobs: list[_Job] = []
            size = 0
            while self._jobs and (not jobs or size + _size(self._jobs[0]) <= most):
                jobs.append(self._jobs.popleft())
                size += _size(jobs[-1])
            self.waiting -= size
            return jobs

    def _answer(self, scorer: SePerScorer, jobs: Sequence[_Job]) -> None:
        """Measure the questions of jobs in one batch, and again one by one if the batch fails."""
        outcomes = self._measure(scorer, jobs)
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, ConnectionError):  # the engine is unavailable, so no question can be measured
                job.answer.set_exception(outcome)
                continue
            if isinstance(outcome, Exception) and not isinstance(outcome, UnscorableError) and len(jobs) > 1:
                (outcome,) = self._measure(scorer, [job])
            if isinstance(outcome, Exception):
                if not isinstance(outcome, UnscorableError):
                    _log.error("a question could not be measured", exc_info=outcome)
                job.answer.set_exception(outcome)
            else:
                job.answer.set_result(outcome)

    def _measure(self, scorer: SePerScorer, jobs: Sequence[_Job]) -> Sequence[Measured | Exception]:
        """Return the measurements of jobs; only beliefs that are not in memory are measured."""
        wanted = [job.request for job in jobs]
        try:
            findings = self._beliefs.recall(wanted)
            while findings.missing:
                findings.add(scorer.measure(findings.missing, len(findings.missing)))
            self._beliefs.remember(findings)
            return list(map(findings.of, wanted))
        except Exception as error:
            if len(jobs) > 1 and not isinstance(error, ConnectionError):
                _log.exception("a batch of %d questions failed; they are measured one by one", len(jobs))
            return [error] * len(jobs)


def _size(job: _Job) -> int:
    return len(job.request.contexts) + len(job.request.texts)
