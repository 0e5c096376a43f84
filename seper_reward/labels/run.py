"""One label run in one folder: resumable after SIGKILL, with byte-identical output after any interruption.

The questions are divided into blocks by the input alone. Each process takes a block that no other has, labels it, and
writes it to the folder; the main process joins the blocks.
"""

import copy
import heapq
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from seper_reward.data.queries import Rejected
from seper_reward.labels.folder import PROGRESS, LabelFolder, Names
from seper_reward.labels.forecast import Forecast, forecast
from seper_reward.labels.integrity import PROVENANCE, SUMMARY, changed_files, written_hashes
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.sets import SetLabeler
from seper_reward.labels.loop import batch_size, label_batches, row_of
from seper_reward.labels.provenance import provenance, queries_hash, query_key
from seper_reward.labels.rows import label_of
from seper_reward.options import MARGIN
from seper_reward.runtime.distributed import process_state, together, wait_for_all
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import read_json, without_nan
from seper_reward.runtime.memory import in_batches
from seper_reward.runtime.messages import plural, say_once
from seper_reward.runtime.profiling import timed
from seper_reward.types import LabeledQuery, Passage, Query, UnscorableError, unwrap

INPUT_KEY = "input_key"  # in the settings of provenance.json
_PLACEBO_QUESTIONS = 20
_BLOCKS = 1000  # a killed process loses one; each is a file
_PATIENCE = 120  # seconds in which a network disk shows the blocks of other machines
_LARGEST_BLOCK = 256  # questions, unless they are measured in larger batches; a block is in memory


@dataclass(frozen=True)
class _Work:
    """Queries for one labeler in blocks; ``keys`` has the 32 bytes of each query's hash."""

    title: str
    labeler: PassageLabeler
    queries: Sequence[Query]
    batch: int
    blocks: Sequence[range]
    names: Sequence[str]
    keys: bytes
    passages: int  # of all queries

    @classmethod
    def of(cls, title: str, labeler: PassageLabeler, queries: Sequence[Query], batch: int) -> "_Work":
        """Divide queries into blocks of whole batches, and check that their ids are unique."""
        batches = min(-(-len(queries) // (batch * _BLOCKS)), -(-_LARGEST_BLOCK // batch))
        size = batch * max(1, batches)
        blocks = [range(start, min(start + size, len(queries))) for start in range(0, len(queries), size)]
        names, keys, ids, passages = [], bytearray(), set[str](), 0
        for block in blocks:
            own = queries[block.start : block.stop]
            for query in own:
                if query.id in ids:
                    raise ValueError(f"queries must have unique ids, got {query.id!r} more than once")
                ids.add(query.id)
            hashes = [query_key(query) for query in own]
            names.append(content_key(title, hashes)[:32])
            keys += bytes.fromhex("".join(hashes))
            passages += sum(len(query.passages) for query in own)
        return cls(title, labeler, queries, batch, blocks, names, bytes(keys), passages)

    def batches(self, at: int) -> list[Sequence[Query]]:
        """Read the queries of a block."""
        block = self.blocks[at]
        return in_batches(self.queries[block.start : block.stop], self.batch)


class LabelRun:
    """Labels queries with unique ids, and writes the labels to a folder, made if absent.

    ``rejected`` are unusable rows of the input, and ``settings`` those recorded in ``provenance.json``. ``block`` is
    the number of neighbouring questions in one batch (default: the scorer's), on which low digits of labels depend;
    servers build their own. ``margin`` is the least distance of a label's 95 % interval from 0 to count as help or
    harm in the summary. With ``dry_run`` the folder is only read, for ``forecast``. Raises ``OSError`` if the folder
    cannot be written, ``ValueError`` if another run works there, it has labels of other settings or queries, or its
    files were changed.
    """

    def __init__(
        self,
        output_dir: str | Path,
        labeler: PassageLabeler,
        queries: Sequence[Query],
        rejected: Sequence[Rejected] = (),
        settings: Mapping[str, object] | None = None,
        block: int | None = None,
        margin: float = MARGIN,
        dry_run: bool = False,
    ) -> None:
        block = batch_size(labeler, block)
        self.folder = Path(output_dir)
        self._rejected = rejected
        # including labelled questions: labels depend on the block, and resuming must not change it
        self._labelling = _Work.of("labelling", labeler, queries, block)
        # labelers without a reader have no placebo run
        self._placebo = _Work.of("placebo", closed_book(labeler), placebo_queries(labeler, queries), block)
        names = Names(self._labelling.names, self._placebo.names)
        self._files = LabelFolder(self.folder, names, labeler.name, margin)
        self.passages = self._labelling.passages
        hashed = queries_hash(self._labelling.keys, ordered=block > 1)
        self.provenance = provenance(labeler, hashed, block, settings or {})
        try:
            self.complete, self._done, self.provenance = together(
                lambda: self._files.claim(self.provenance, dry_run=dry_run)
            )
        except BaseException:
            self._files.free()
            raise
        blocks = zip(self._labelling.names, self._labelling.blocks, strict=True)
        self.finished = sum(len(block) for name, block in blocks if name in self._done)

    def run(
        self, *, strict: bool = False, on_label: Callable[[LabeledQuery], None] = lambda labeled: None
    ) -> dict[str, Any]:
        """Label the remaining questions, write all files, and return the content of ``summary.json``.

        With ``strict``, a question that cannot be scored raises its error. ``on_label`` gets this process's labels.
        """
        together(self._files.lock_again)
        try:
            if self.complete:
                return together(self._files.summary)
            self._done = together(lambda: self._files.begin(self._done, strict=strict))
            self._tell_idle()
            self._label(self._labelling, strict, on_label)
            self._label(self._placebo, strict, lambda labeled: None)
            wait_for_all()
            with timed("io"):
                summary = together(self._publish)
            self.complete = True
            return summary
        finally:
            self._files.free()

    def forecast(self, sample: int = 3) -> Forecast:
        """Measure a few of the remaining questions to estimate the run, without a cache; all processes call it."""
        work = self._labelling
        finished = len(work.queries) if self.complete else self.finished
        left = [] if self.complete else [start for at in self._left(work) for start in work.blocks[at][:: work.batch]]
        others = [query for at in self._left(self._placebo) for batch in self._placebo.batches(at) for query in batch]
        contexts = len(work.queries) + work.passages
        return forecast(
            work.labeler, work.queries, contexts, left, work.batch, others, finished=finished, sample=sample
        )

    def _tell_idle(self) -> None:
        """Say if there are fewer blocks than processes."""
        blocks, batch = len(self._labelling.blocks), self._labelling.batch
        idle = process_state().num_processes - blocks
        if idle > 0 and batch > 1:
            say_once(
                f"{plural(blocks, 'block')} of {batch} questions for {blocks + idle} processes, so {idle} have no "
                "work; a smaller --block with another --output_dir gives them some"
            )

    def _left(self, work: _Work) -> list[int]:
        """Return the blocks that are not finished."""
        return [at for at, name in enumerate(work.names) if name not in self._done]

    def _label(self, work: _Work, strict: bool, on_label: Callable[[LabeledQuery], None]) -> None:
        """Label the blocks that are left and that no other process takes."""
        left, total, state = self._left(work), len(work.queries), process_state()
        if not left:
            return
        taken: deque[int] = deque()
        rows: list[Mapping[str, object]] = []
        rejected: list[Mapping[str, object]] = []

        def batches() -> Iterator[Sequence[Query]]:
            for at in left:
                if self._files.take(work.names[at]):
                    taken.append(at)
                    yield from work.batches(at)

        bar = tqdm(
            total=total,
            initial=total - sum(len(work.blocks[at]) for at in left),
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
                    where, row = f"id {query.id}", {"id": query.id, "question": query.question}
                    rejected.append({"where": where, "reason": str(error), "row": row})
                if len(rows) + len(rejected) == len(work.blocks[taken[0]]):
                    self._files.write(work.names[taken.popleft()], rows, rejected)
                    rows, rejected = [], []
                # assumes that all processes label at the same rate
                bar.update(min(state.num_processes, total - bar.n))

    def _publish(self) -> dict[str, object]:
        lost = self._files.missing(_PATIENCE if process_state().num_processes > 1 else 0)
        works = (self._labelling, self._placebo)
        missing = [(work, work.blocks[at]) for work in works for at, name in enumerate(work.names) if name in lost]
        if missing:
            work, block = missing[0]
            count, first = sum(len(block) for _, block in missing), work.queries[block.start].id
            raise ValueError(
                f"{self.folder}: not labelled: {plural(count, 'question')}, the first is id={first!r}; maybe a "
                "process of an earlier run still works there; end it, and run the same command again"
            )
        return self._files.publish(
            {"where": row.where, "reason": row.reason, "row": without_nan(row.row)} for row in self._rejected
        )


def finished_summary(
    output_dir: str | Path, labeler: PassageLabeler, input_key: str | None, block: int | None = None
) -> dict[str, Any] | None:
    """Return the summary of an unchanged, finished run of this labeler on the input with this key, else ``None``."""
    folder = Path(output_dir)
    if not was_labelled(folder, input_key) or (folder / PROGRESS).exists():
        return None
    before = read_json(folder / PROVENANCE)["decides"]
    decides = provenance(labeler, before["queries"], batch_size(labeler, block), {})["decides"]
    hashes = written_hashes(folder)
    if json.loads(json.dumps(decides, default=str)) != before or not hashes or changed_files(folder, hashes):
        return None
    return LabelFolder(folder, Names((), ()), labeler.name, MARGIN).summary()


def was_labelled(folder: Path, input_key: str | None) -> bool:
    """Return whether a folder has finished labels of the input with this key."""
    if input_key is None or not ((folder / PROVENANCE).is_file() and (folder / SUMMARY).is_file()):
        return False
    return bool(read_json(folder / PROVENANCE).get("settings", {}).get(INPUT_KEY) == input_key)


def placebo_queries(labeler: PassageLabeler, queries: Sequence[Query]) -> list[Query]:
    """Return up to 20 of the queries, chosen by content, with the placebo as only passage; none without a reader.

    Queries without a gold answer are left out if their label is another one.
    """
    if labeler.scorer is None:
        return []
    placebo = Passage(labeler.scorer.reader.prompts.style.placebo, id="placebo")
    chosen = heapq.nsmallest(
        _PLACEBO_QUESTIONS,
        (query for query in queries if label_of(query.answers, labeler.name) == labeler.name),
        key=lambda query: content_key(query.id, query.question, query.answers),
    )
    return [replace(query, passages=(placebo,)) for query in chosen]


def closed_book(labeler: PassageLabeler) -> PassageLabeler:
    """Return the labeler that compares single passages with no passage, whatever its own baseline is."""
    other = copy.copy(labeler.singles if isinstance(labeler, SetLabeler) else labeler)
    if labeler.scorer is not None:
        other.scorer = labeler.scorer.with_baseline("none")
    return other
