"""One label run in one folder: resumable after SIGKILL, with byte-identical output after any interruption.

The questions are divided into blocks by the input alone. Each process takes a block that no other has, labels it, and
writes it to ``progress/``. At the end the main process copies the rows of all blocks to ``labels.jsonl``, or to
several such files if there are many. It alone reads the folder: network disks show others' files late.
"""

import itertools
import json
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tqdm.auto import tqdm

from seper_reward.data.queries import Rejected
from seper_reward.labels.blocks import Block, all_rows, divide
from seper_reward.labels.forecast import Forecast, measure
from seper_reward.labels.integrity import (
    LABELS,
    PLACEBO,
    PROVENANCE,
    REJECTED,
    SUMMARY,
    changed_files,
    folder_hashes,
    label_files,
    written_hashes,
)
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.loop import label_batches, labeler_batch_size, row_of
from seper_reward.labels.placebo import closed_book, placebo_queries
from seper_reward.labels.provenance import provenance, queries_hash
from seper_reward.labels.summary import Sums, folder_summary, read_summary, sum_rows
from seper_reward.runtime.distributed import process_state, together, wait_for_all
from seper_reward.runtime.json_files import read_json, without_nan, write_chunks, write_json, write_lines
from seper_reward.runtime.memory import in_batches
from seper_reward.runtime.messages import plural, say, say_once
from seper_reward.runtime.profiling import timed
from seper_reward.runtime.run_folder import claim_settings, lock_folder
from seper_reward.types import LabeledQuery, Query, UnscorableError, unwrap

_PROGRESS = "progress"
_PATIENCE = 120  # seconds in which a network disk shows the blocks of other machines
_ROWS_PER_FILE = 100_000


@dataclass(frozen=True)
class _Work:
    """Queries for one labeler in blocks."""

    title: str
    labeler: PassageLabeler
    queries: Sequence[Query]
    blocks: Sequence[Block]


class LabelRun:
    """Labels queries with unique ids, and writes the labels to a folder, made if absent.

    ``rejected`` are unusable rows of the input, and ``settings`` those recorded in ``provenance.json``. ``batch_size``
    is the number of neighbouring questions in one batch (default: the scorer's), on which low digits of labels depend;
    servers build their own. With ``dry_run`` the folder is only read, for ``forecast``. Raises ``OSError`` if the
    folder cannot be written, ``ValueError`` if another run works there, it has labels of other settings or queries, or
    its files were changed.
    """

    def __init__(
        self,
        output_dir: str | Path,
        labeler: PassageLabeler,
        queries: Sequence[Query],
        rejected: Sequence[Rejected] = (),
        settings: Mapping[str, object] | None = None,
        batch_size: int | None = None,
        dry_run: bool = False,
    ) -> None:
        # including labelled questions: labels depend on the batch, and resuming must not change it
        self._batch = labeler_batch_size(labeler, batch_size)
        self.folder, self._progress = Path(output_dir), Path(output_dir, _PROGRESS)
        self._rejected = rejected
        self._labelling = self._work("labelling", labeler, queries)
        self._label = labeler.name
        # labelers without a reader have no placebo run
        self._placebo = self._work("placebo", closed_book(labeler), placebo_queries(labeler, queries))
        self.passages = sum(block.passages for block in self._labelling.blocks)
        keys = b"".join(block.keys for block in self._labelling.blocks)
        hashed = queries_hash(keys, ordered=self._batch > 1)
        self.provenance = provenance(labeler, hashed, self._batch, settings or {})
        self._lock: IO[str] | None = None
        self._done = set[Path]()  # files of finished blocks
        try:
            self.complete, self._done, self.provenance = together(lambda: self._claim(dry_run))
        except BaseException:
            self._free()
            raise
        self.finished = sum(len(block) for block in self._labelling.blocks if block.file in self._done)

    def run(
        self, *, strict: bool = False, on_label: Callable[[LabeledQuery], None] = lambda labeled: None
    ) -> dict[str, Any]:
        """Label the remaining questions, write all files, and return the content of ``summary.json``.

        With ``strict``, a question that cannot be scored raises its error. ``on_label`` gets this process's labels.
        """
        together(self._lock_again)
        try:
            if self.complete:
                return together(lambda: read_summary(self.folder, self._label))
            self._done = together(lambda: self._begin(strict))
            self._say_idle()
            self._label_blocks(self._labelling, strict, on_label)
            self._label_blocks(self._placebo, strict, lambda labeled: None)
            wait_for_all()
            with timed("io"):
                summary = together(self._publish)
            self.complete = True
            return summary
        finally:
            self._free()

    def forecast(self, sample: int = 3) -> Forecast:
        """Measure a few of the remaining questions to estimate the run, without a cache; all processes call it."""
        questions = len(self._labelling.queries)
        work, size = self._labelling, self._batch
        left = [slice(at, at + size) for block in self._left(work) for at in block.places[::size]]
        placebo = [query for block in self._left(self._placebo) for query in block.of(self._placebo.queries)]
        measured = measure(work.labeler, work.queries, left, placebo, sample)
        return Forecast(questions, questions + self.passages, self.finished, **measured)

    @property
    def _blocks(self) -> list[Block]:
        return [*self._labelling.blocks, *self._placebo.blocks]

    def _work(self, title: str, labeler: PassageLabeler, queries: Sequence[Query]) -> _Work:
        return _Work(title, labeler, queries, divide(self._progress, title, queries, self._batch))

    def _claim(self, dry_run: bool) -> tuple[bool, set[Path], dict[str, Any]]:
        """Lock the folder, and compare provenance; a dry run writes nothing.

        Returns whether all the work is done, the files of finished blocks, and the folder's provenance.
        """
        if not dry_run:
            self._lock = lock_folder(self.folder)
        path = self.folder / PROVENANCE
        if not path.is_file():
            self._refuse_unknown()
        claim_settings(path, self.provenance, ["decides"], holds="labels made otherwise", write=not dry_run)
        complete = (self.folder / SUMMARY).is_file() and bool(label_files(self.folder))
        if complete and not dry_run and (complete := self._is_unchanged()):
            shutil.rmtree(self._progress, ignore_errors=True)
        before = read_json(path) if path.is_file() else self.provenance
        return complete, {block.file for block in self._blocks} if complete else self._written(), before

    def _lock_again(self) -> None:
        """Lock the folder again if its lock was released."""
        if self._lock is not None and self._lock.closed:
            self._lock = lock_folder(self.folder)

    def _free(self) -> None:
        """Release the folder for other runs, even if an error's traceback keeps this object alive."""
        if self._lock is not None:
            self._lock.close()

    def _refuse_unknown(self) -> None:
        """Raise if the folder has files of a run but no provenance, which names the settings that made them."""
        others = [name for name in (REJECTED, PLACEBO, SUMMARY, _PROGRESS) if (self.folder / name).exists()]
        if names := [file.name for file in label_files(self.folder)] + others:
            raise ValueError(
                f"{self.folder} has {', '.join(names)} of unknown origin (no {PROVENANCE}); restore {PROVENANCE}, "
                "delete them, or name another folder"
            )

    def _is_unchanged(self) -> bool:
        """Return whether a finished folder's files are unchanged, or raise if they cannot be written again."""
        names = {*written_hashes(self.folder), REJECTED, *(file.name for file in label_files(self.folder))}
        changed = " and ".join(changed_files(self.folder, sorted(names)))
        if not changed:
            return True
        if len(self._written()) < len(self._blocks):
            raise ValueError(
                f"{self.folder}: {changed} changed after the run ended (the SHA-256 is not the one in {SUMMARY}); "
                f"restore the file, or delete {LABELS} and {SUMMARY} to label again"
            )
        say(f"{self.folder}: {changed} changed after the run ended; writing it again from {_PROGRESS}/")
        (self.folder / SUMMARY).unlink()
        return False

    def _written(self) -> set[Path]:
        """Return the files of finished blocks; those that were before are not read again."""
        left = (block for block in self._blocks if block.file not in self._done)
        return self._done | {block.file for block in left if block.rows() is not None}

    def _begin(self, strict: bool) -> set[Path]:
        """Return the files of finished blocks (with ``strict``, none with a rejected question); remove all others."""
        self._progress.mkdir(exist_ok=True)
        done = self._written()
        if strict:
            done = {block.file for block in self._blocks if block.file in done and not block.head()["rejected"]}
        for file in set(self._progress.iterdir()) - done:
            file.unlink()
        return done

    def _say_idle(self) -> None:
        """Say if there are fewer blocks than processes."""
        blocks = len(self._labelling.blocks)
        idle = process_state().num_processes - blocks
        if idle > 0 and self._batch > 1:
            say_once(
                f"{plural(blocks, 'block')} of {self._batch} questions for {blocks + idle} processes, so {idle} have "
                "no work; a smaller --batch_size with another --output_dir gives them some"
            )

    def _left(self, work: _Work) -> list[Block]:
        """Return the blocks that are not finished."""
        return [block for block in work.blocks if block.file not in self._done]

    def _label_blocks(self, work: _Work, strict: bool, on_label: Callable[[LabeledQuery], None]) -> None:
        """Label the blocks that are left and that no other process takes."""
        left, total, state = self._left(work), len(work.queries), process_state()
        if not left:
            return
        taken: deque[Block] = deque()
        rows: list[Mapping[str, Any]] = []
        rejected: list[Mapping[str, object]] = []

        def batches() -> Iterator[Sequence[Query]]:
            for block in left:
                if block.take():
                    taken.append(block)
                    yield from in_batches(block.of(work.queries), self._batch)

        bar = tqdm(
            total=total,
            initial=total - sum(map(len, left)),
            mininterval=1,
            desc=work.title,
            unit="question",
            disable=not state.is_main_process,
        )
        with bar:
            for query, labeled in label_batches(work.labeler, batches()):
                try:
                    rows.append(row_of(work.labeler, query, labeled))
                    on_label(unwrap(labeled))
                except UnscorableError as error:
                    if strict:
                        raise UnscorableError(f"question id={query.id!r}: {error}") from error
                    where, question = f"id {query.id}", {"id": query.id, "question": query.question}
                    rejected.append({"where": where, "reason": str(error), "row": question})
                if len(rows) + len(rejected) == len(taken[0]):
                    self._write(taken.popleft(), rows, rejected)
                    rows, rejected = [], []
                # assumes that all processes label at the same rate
                bar.update(min(state.num_processes, total - bar.n))

    def _write(
        self, block: Block, rows: Sequence[Mapping[str, Any]], rejected: Sequence[Mapping[str, object]]
    ) -> None:
        sums = sum_rows(rows, self._label)
        head = {"rejected": rejected, "label": self._label, "sums": [[*key, sums[key]] for key in sums]}
        with timed("io"):
            block.write(head, rows)

    def _missing(self, patience: float) -> list[tuple[_Work, Block]]:
        """Return the blocks that are not there after ``patience`` seconds."""
        deadline = time.monotonic() + patience
        blocks = [(work, block) for work in (self._labelling, self._placebo) for block in work.blocks]
        while missing := [(work, block) for work, block in blocks if not block.file.is_file()]:
            if time.monotonic() >= deadline:
                break
            time.sleep(1)
        return missing

    def _publish(self) -> dict[str, Any]:
        """Copy the rows of all blocks to the files of a finished run, ``summary.json`` last; return the summary."""
        if missing := self._missing(_PATIENCE if process_state().num_processes > 1 else 0):
            work, block = missing[0]
            count, first = sum(len(block) for _, block in missing), work.queries[block.places.start].id
            raise ValueError(
                f"{self.folder}: not labelled: {plural(count, 'question')}, the first is id={first!r}; maybe a "
                "process of an earlier run still works there; end it, and run the same command again"
            )
        blocks, sums = self._labelling.blocks, Sums()
        for block in blocks:
            head = block.head()
            if head["label"] == self._label:
                sums.update({tuple(key): value for *key, value in head["sums"]})
            else:  # of an earlier run with another label of the same rows
                sums.update(sum_rows(map(json.loads, all_rows([block])), self._label))
        rejected = ({"where": one.where, "reason": one.reason, "row": without_nan(one.row)} for one in self._rejected)
        unscorable = (entry for block in blocks for entry in block.head()["rejected"])
        write_lines(self.folder / REJECTED, itertools.chain(rejected, unscorable), allow_nan=False)
        rows, count = all_rows(blocks), -(-sums["questions",] // _ROWS_PER_FILE)
        # named as datasets names shards
        files = [f"labels-{at:05d}-of-{count:05d}.jsonl" for at in range(count)] if count > 1 else [LABELS]
        for name in files:
            write_chunks(self.folder / name, itertools.islice(rows, _ROWS_PER_FILE))
        for old in {file.name for file in label_files(self.folder)} - set(files):
            (self.folder / old).unlink()
        files.append(REJECTED)
        if self._placebo.blocks:
            write_chunks(self.folder / PLACEBO, all_rows(self._placebo.blocks))
            files.append(PLACEBO)
        summary = folder_summary(self.folder, sums, self._label, folder_hashes(self.folder, files))
        write_json(self.folder / SUMMARY, summary)
        shutil.rmtree(self._progress)
        return summary
