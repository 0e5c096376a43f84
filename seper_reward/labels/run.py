"""One label run in one folder: resumable after SIGKILL, with byte-identical output after any interruption.

At the end the finished questions are written to ``labels.jsonl`` in input order, and the SHA-256 of the files to
``summary.json``.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from seper_reward.batching import query_cost
from seper_reward.data.queries import Rejected
from seper_reward.labels.folder import PLACEBO, REJECTED, LabelFolder
from seper_reward.labels.forecast import Forecast, forecast
from seper_reward.labels.integrity import SUMMARY
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.sets import SetLabeler
from seper_reward.labels.loop import batch_size, label_batches, reads_ahead
from seper_reward.labels.provenance import provenance, query_key
from seper_reward.labels.rows import LABELS, label_row, passage_lengths
from seper_reward.options import MARGIN
from seper_reward.runtime.distributed import SharedQueue, process_state, shard, together, wait_for_all
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import read_lines, without_nan, write_json, write_lines
from seper_reward.runtime.memory import in_batches
from seper_reward.runtime.profiling import timed
from seper_reward.types import Passage, Query, UnscorableError, unwrap

_PLACEBO_QUESTIONS = 20


@dataclass(frozen=True)
class _Work:
    """Blocks of queries for one labeler, with the key of each query's entry in ``progress/``."""

    title: str
    labeler: PassageLabeler
    blocks: Sequence[Sequence[Query]]
    keys: Mapping[str, str]

    @property
    def queries(self) -> list[Query]:
        return [query for block in self.blocks for query in block]

    def left(self, done: Set[str]) -> list[Sequence[Query]]:
        """Return the blocks without the keys of all their queries in ``done``."""
        return [block for block in self.blocks if not {self.keys[query.id] for query in block} <= done]


class LabelRun:
    """Labels queries, and writes the labels to a folder.

    Args:
        output_dir: Folder of the labels, made if absent.
        labeler: The labeler.
        queries: The queries, in output order, with unique ids.
        rejected: Rows of the input that are unusable.
        settings: The command's settings, recorded in ``provenance.json`` only.
        block: Number of neighbouring questions that are measured in one batch, >= 1; ``None`` for the scorer's
            default. An interruption loses at most one block. Low digits of labels depend on the questions of a block.
            Servers build their own batches.
        margin: Least distance of a label's 95 % interval from 0 to count as help or harm in the summary.
        dry_run: Whether the folder is only read; then ``forecast`` is available, but not ``run``.

    Raises:
        OSError: The folder cannot be made or written.
        ValueError: Another run works in the folder, it has labels of other settings or queries, or its files were
            changed after the run; or ``block`` is below 1.

    Attributes:
        complete: Whether all questions are labelled, by an earlier run or by this one.
        finished: Number of questions that an interrupted run finished.
        provenance: Content of ``provenance.json``.
    """

    def __init__(
        self,
        output_dir: str | Path,
        labeler: PassageLabeler,
        queries: Sequence[Query],
        rejected: Sequence[Rejected] = (),
        settings: Mapping[str, Any] | None = None,
        block: int | None = None,
        margin: float = MARGIN,
        dry_run: bool = False,
    ) -> None:
        block = batch_size(labeler, block)
        self.folder = Path(output_dir)
        self._labeler, self._queries, self._rejected, self._margin = labeler, queries, rejected, margin
        repeated = [name for name, count in Counter(query.id for query in queries).items() if count > 1]
        if repeated:
            raise ValueError(f"queries must have unique ids, got {repeated[0]!r} more than once")
        self._keys = {query.id: query_key(query) for query in queries}
        placebos = placebo_queries(labeler, queries)
        placebo_keys = {query.id: content_key(PLACEBO, query_key(query)) for query in placebos}
        # including labelled questions: labels depend on the block, and resuming must not change it
        self._labelling = _Work("labelling", labeler, in_batches(queries, block), self._keys)
        self._placebo = _Work("placebo", closed_book(labeler), in_batches(placebos, block), placebo_keys)
        # labelers without a reader have no placebo run
        self._files = LabelFolder(self.folder, (LABELS, REJECTED, PLACEBO) if placebos else (LABELS, REJECTED))
        self.provenance = provenance(labeler, list(self._keys.values()), block, settings or {})
        try:
            self.complete, done, self.provenance = together(
                lambda: self._files.claim(self.provenance, self._all_keys(), dry_run=dry_run)
            )
        except BaseException:
            self._files.free()
            raise
        self.finished = len(done & set(self._keys.values()))

    def run(
        self, *, strict: bool = False, on_label: Callable[[Mapping[str, Any]], None] = lambda row: None
    ) -> dict[str, Any]:
        """Label the remaining questions and write all files.

        Args:
            strict: Whether a question that cannot be scored raises an error instead of being rejected.
            on_label: Function that is called with each row that this process labels, right after it is labelled.

        Returns:
            The result of ``summarize``; ``placebo``, the result of ``placebo_effect``, if the labeler has a reader;
            and ``sha256``, the hashes of the row files. Also written to ``summary.json``.

        Raises:
            UnscorableError: A question cannot be scored and ``strict`` is set; finished questions stay on disk.
        """
        # only the main process reads and writes the folder: network disks may show old files to the other processes
        together(self._files.lock_again)
        try:
            if self.complete:
                # again: rows of ΔSePer have soft and hard labels, and the earlier run may have summarised others
                return together(lambda: self._files.summary(self._labeler.name, self._margin))
            done = together(lambda: {each["key"] for each in self._files.done() if "label" in each or not strict})
            self._label(self._labelling, done, strict, on_label)
            self._label(self._placebo, done, strict, lambda row: None)
            wait_for_all()
            with timed("io"):
                summary = together(self._publish)
            self.complete = True
            return summary
        finally:
            self._files.free()

    def forecast(self, sample: int = 3) -> Forecast:
        """Measure a few of the remaining questions, and estimate the run; nothing is written.

        ``sample`` is rounded up to whole blocks. All processes must call this together. The labeler should have no
        cache: cached responses make the estimate too small.
        """
        done = together(lambda: self._all_keys() if self.complete else set(self._files.finished(self._all_keys())))
        finished = len(self._queries) if self.complete else self.finished
        others = [query for block in self._placebo.left(done) for query in block]
        left = self._labelling.left(done)
        return forecast(self._labeler, self._queries, left, others, finished=finished, sample=sample)

    def labels(self) -> list[dict[str, Any]]:
        """Read ``labels.jsonl``."""
        return list(read_lines(self.folder / LABELS))

    def _label(self, work: _Work, done: Set[str], strict: bool, on_label: Callable[[Mapping[str, Any]], None]) -> None:
        """Label this process's share of the blocks that are left."""
        state = process_state()
        blocks, total = work.left(done), len(work.keys)
        if not blocks:
            return
        bar = tqdm(
            total=total,
            initial=total - sum(map(len, blocks)),
            mininterval=1,
            desc=work.title,
            unit="question",
            disable=not state.is_main_process,
        )
        with bar:
            for query, labeled in label_batches(work.labeler, self._mine(blocks)):
                entry: dict[str, Any] = {"key": work.keys[query.id]}
                try:
                    found = unwrap(labeled)
                    entry["label"] = label_row(found, work.labeler.name, passage_lengths(work.labeler.scorer, query))
                except UnscorableError as error:
                    if strict:
                        raise UnscorableError(f"question id={query.id!r}: {error}") from error
                    entry["reason"] = str(error)
                self._files.append(entry)
                # assumes that all processes label at the same rate
                bar.update(min(state.num_processes, total - bar.n))
                if "label" in entry:
                    on_label(entry["label"])

    def _mine(self, blocks: Sequence[Sequence[Query]]) -> Iterable[Sequence[Query]]:
        """Return this process's share of the blocks."""
        costs = [sum(map(query_cost, block)) for block in blocks]
        if reads_ahead(self._labeler):  # engine labelers prefetch and would drain a shared queue
            return shard(blocks, costs)
        return SharedQueue(blocks, costs)

    def _all_keys(self) -> set[str]:
        return {*self._labelling.keys.values(), *self._placebo.keys.values()}

    def _publish(self) -> dict[str, Any]:
        """Write the files of a finished run, ``summary.json`` last, remove ``progress/``, and return the summary."""
        done = self._files.finished(self._all_keys())
        missing = [
            query.id
            for work in (self._labelling, self._placebo)
            for query in work.queries
            if work.keys[query.id] not in done
        ]
        if missing:
            raise ValueError(
                f"{self.folder}: {len(missing)} questions were not labelled, the first is id={missing[0]!r}; maybe a "
                "process of an earlier run still works there; end it, and run the same command again"
            )
        entries = [(query, done[self._keys[query.id]]) for query in self._queries]
        labels = [entry["label"] for _, entry in entries if "label" in entry]
        rejected = [{"where": row.where, "reason": row.reason, "row": without_nan(row.row)} for row in self._rejected]
        rejected += [
            {
                "where": f"id {query.id}",
                "reason": entry["reason"],
                "row": {"id": query.id, "question": query.question},
            }
            for query, entry in entries
            if "reason" in entry
        ]
        write_lines(self.folder / REJECTED, rejected, allow_nan=False)
        write_lines(self.folder / LABELS, labels, allow_nan=False)
        if PLACEBO in self._files.files:
            found = [done[self._placebo.keys[query.id]] for query in self._placebo.queries]
            write_lines(self.folder / PLACEBO, [row["label"] for row in found if "label" in row], allow_nan=False)
        summary = self._files.summary(self._labeler.name, self._margin)
        write_json(self.folder / SUMMARY, summary)
        self._files.clear()
        return summary


def placebo_queries(labeler: PassageLabeler, queries: Sequence[Query]) -> list[Query]:
    """Return up to 20 of the queries with the placebo as their only passage; none for labelers without a reader.

    The sample is random but depends on content only: it is the same for any order of the queries.
    """
    if labeler.scorer is None:
        return []
    placebo = Passage(labeler.scorer.reader.prompts.style.placebo, id="placebo")
    chosen = sorted(queries, key=lambda query: content_key(query.id, query.question, query.answers))
    return [replace(query, passages=(placebo,)) for query in chosen[:_PLACEBO_QUESTIONS]]


def closed_book(labeler: PassageLabeler) -> PassageLabeler:
    """Return the labeler that compares single passages with no passage, whatever its own baseline is."""
    other = copy.copy(labeler.singles if isinstance(labeler, SetLabeler) else labeler)
    if labeler.scorer is not None:
        other.scorer = labeler.scorer.with_baseline("none")
    return other
