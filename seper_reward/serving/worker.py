"""The worker of a server: the one thread that owns the models, and batches the questions of all clients."""

import logging
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from seper_reward.scorer import SePerScorer
from seper_reward.types import Answers, Asked, Belief, Measured, Passage, UnscorableError

_log = logging.getLogger(__name__)
_OF_BELIEF, _OF_RESPONSE, _OF_NUMBER = 2000, 800, 32  # bytes; most of a response's bytes are its tensor
Key = tuple[Any, ...]  # question, answers, and the passages' texts


class FullError(Exception):
    """The queue is full; retry later."""


class ClosedError(Exception):
    """The worker is stopping: it answers accepted questions, but accepts no new ones."""


@dataclass
class Counts:
    """Counts of a worker's work so far; see ``Numbers`` for their meaning."""

    blocks: int = 0
    measured: int = 0
    reused: int = 0
    unscorable: int = 0
    errors: int = 0


@dataclass
class _Job:
    asked: Asked
    answer: "Future[Measured]" = field(default_factory=Future)

    @property
    def keys(self) -> list[Key]:
        """Question, answers and passage texts of each context, without ids, which differ between clients."""
        asked = self.asked
        return [
            (asked.question, asked.answers, tuple(passage.full_text for passage in context))
            for context in asked.contexts
        ]


class Worker:
    """Measures submitted questions block by block in its own thread, the only one that loads and uses the scorer.

    A block contains waiting questions of any client, up to ``block`` contexts, but at least one question (default: the
    number of prompts that an engine prefetches, 256 on an accelerator, and 16 on a CPU). A context of several requests
    is measured once. For example, a question's baseline is shared by all clients, in the same block and later, while
    it is in memory. Beliefs take at most ``memory`` bytes; the least recently used one is evicted first. A request
    beyond ``queue`` waiting contexts is refused, unless the queue is empty. ``about`` is ``SePerScorer.fingerprint``,
    and ``window`` the maximum length of the reader's prompt in tokens. Errors of ``load`` are raised by the
    constructor.
    """

    def __init__(
        self,
        load: Callable[[], SePerScorer],
        *,
        block: int | None = None,
        queue: int = 8192,
        memory: int = 2**28,
    ) -> None:
        self.counts = Counts()
        self._block, self._queue = block, queue
        self._jobs: deque[_Job] = deque()
        self.waiting = 0  # contexts and texts of all jobs
        self.closed = False  # whether it has stopped accepting questions
        self._changed = threading.Condition()
        self._beliefs = BeliefMemory(memory)
        loaded: Future[tuple[dict[str, Any], int]] = Future()
        self._thread = threading.Thread(target=self._run, args=(load, loaded), name="scorer", daemon=True)
        self._thread.start()
        self.about, self.window = loaded.result()

    @property
    def alive(self) -> bool:
        """Whether the worker's thread runs."""
        return self._thread.is_alive()

    def submit(self, asked: Sequence[Asked]) -> "list[Future[Measured]]":
        """Accept the questions of one request, either all or none; return one future per question.

        A question that cannot be scored gets an ``UnscorableError``. One whose future is cancelled before its block
        starts is not measured. Raises ``FullError`` if the queue is full, ``ClosedError`` if the worker is stopping.
        """
        jobs = list(map(_Job, asked))
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
            found = scorer.fingerprint, scorer.sampler.max_prompt_tokens
        except BaseException as error:  # raised again in the thread of the constructor
            loaded.set_exception(error)
            return
        by_device = 16 if scorer.entailment.device.type == "cpu" else 256
        block = self._block or scorer.sampler.prompts_ahead or by_device
        loaded.set_result(found)
        while jobs := self._next_block(block):
            self._answer(scorer, [job for job in jobs if job.answer.set_running_or_notify_cancel()])

    def _next_block(self, block: int) -> list[_Job]:
        """Wait for jobs and return the next block; an empty list if the worker is closed and no job is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self.closed)
            jobs: list[_Job] = []
            size = 0
            while self._jobs and (not jobs or size + _size(self._jobs[0]) <= block):
                jobs.append(self._jobs.popleft())
                size += _size(jobs[-1])
            self.waiting -= size
            return jobs

    def _answer(self, scorer: SePerScorer, jobs: Sequence[_Job]) -> None:
        """Measure the beliefs of a block in one batch, then measure missing ones question by question."""
        try:
            self._measure_block(scorer, jobs)
        except ConnectionError as error:  # the engine is unavailable, so no question can be measured
            for job in jobs:
                job.answer.set_exception(error)
            return
        except Exception:
            _log.exception("a block of %d questions failed; they are measured one by one", len(jobs))
        for job in jobs:
            try:
                job.answer.set_result(self._measured(scorer, job))
            except Exception as error:
                self._count(error)
                job.answer.set_exception(error)
        self._beliefs.forget()

    def _measure_block(self, scorer: SePerScorer, jobs: Sequence[_Job]) -> None:
        """Measure each missing belief of a block once and store it in memory; unscorable ones are left out."""
        merged: dict[tuple[str, Answers], dict[Key, tuple[Passage, ...]]] = {}
        for job in jobs:
            contexts = merged.setdefault((job.asked.question, job.asked.answers), {})
            contexts |= self._missing(job)
        new = {question: contexts for question, contexts in merged.items() if contexts}
        self.counts.reused += sum(len(job.keys) for job in jobs) - sum(map(len, new.values()))
        self.counts.blocks += bool(new)
        if len(jobs) < 2 or not new:
            return  # one question is measured alone, as without a server
        asked = [Asked(*question, tuple(contexts.values())) for question, contexts in new.items()]
        for contexts, found in zip(new.values(), scorer.measure(asked, len(asked)), strict=True):
            if not isinstance(found, UnscorableError):
                self._remember(contexts, found.beliefs)

    def _measured(self, scorer: SePerScorer, job: _Job) -> Measured:
        """Return the measurements of a job; only beliefs that are not in memory are measured."""
        asked = job.asked
        if missing := self._missing(job):
            self._remember(missing, scorer.beliefs(asked.question, asked.answers, list(missing.values())))
        supports = scorer.judge.mutual_supports([(asked.question, text, asked.answers) for text in asked.texts])
        return Measured(tuple(self._beliefs[key] for key in job.keys), tuple(supports))

    def _missing(self, job: _Job) -> dict[Key, tuple[Passage, ...]]:
        """Return the job's contexts whose beliefs are not in memory."""
        return {
            key: context for key, context in zip(job.keys, job.asked.contexts, strict=True) if key not in self._beliefs
        }

    def _remember(self, keys: Iterable[Key], beliefs: Sequence[Belief]) -> None:
        for key, belief in zip(keys, beliefs, strict=True):
            self._beliefs[key] = belief
        self.counts.measured += len(beliefs)

    def _count(self, error: Exception) -> None:
        if isinstance(error, UnscorableError):
            self.counts.unscorable += 1
        else:
            self.counts.errors += 1
            _log.error("a question could not be measured", exc_info=error)


def _size(job: _Job) -> int:
    return len(job.asked.contexts) + len(job.asked.texts)


def size_in_bytes(key: Key, belief: Belief) -> int:
    """Return an estimate of the bytes of a belief and its key."""
    numbers = sum(map(len, belief.sampled.token_ids)) + sum(map(len, belief.support))
    texts = sum(map(sys.getsizeof, (*_texts(key), *belief.responses)))
    return _OF_BELIEF + _OF_RESPONSE * len(belief.responses) + _OF_NUMBER * numbers + texts


def _texts(key: Key) -> Iterator[str]:
    for part in key:
        if isinstance(part, str):
            yield part
        else:
            yield from _texts(part)


class BeliefMemory:
    """Beliefs by question, answers and passages, of at most ``most_bytes`` (``size_in_bytes``) after ``forget``.

    The least recently used belief is evicted first.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._entries: OrderedDict[Key, tuple[Belief, int]] = OrderedDict()

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __getitem__(self, key: Key) -> Belief:
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def __setitem__(self, key: Key, belief: Belief) -> None:
        known = self._entries.pop(key, None)
        size = size_in_bytes(key, belief)
        self._entries[key] = (belief, size)
        self._bytes += size - (known[1] if known else 0)

    def forget(self) -> None:
        """Evict the least recently used beliefs until the remaining ones fit into ``most_bytes``."""
        while self._bytes > self._most_bytes:
            self._bytes -= self._entries.popitem(last=False)[1][1]
