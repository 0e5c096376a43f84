"""The folder of a label run: killed runs can resume, and changed files are detected.

A block of questions is a file in ``progress/``, written whole: its checksum, a line with rejected questions and the
sums of the summary, then its label rows. A process takes a block by creating its unfinished file. At the end, the rows
of all blocks are copied to ``labels.jsonl``, or to several such files if there are many.
"""

import hashlib
import itertools
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import IO, Any, NamedTuple

from seper_reward.labels.integrity import (
    LABELS,
    PROVENANCE,
    SUMMARY,
    changed_files,
    folder_hashes,
    label_files,
    written_hashes,
)
from seper_reward.labels.rows import labeled_query
from seper_reward.labels.summary import Sums, placebo_effect, sum_labels, summary_of
from seper_reward.runtime.json_files import (
    json_line,
    read_json,
    read_lines,
    unfinished,
    write_chunks,
    write_json,
    write_lines,
)
from seper_reward.runtime.messages import say
from seper_reward.runtime.profiling import timed
from seper_reward.runtime.run_folder import check_settings, claim_settings, lock_folder

_OTHER_LABELS = "labels made otherwise"
REJECTED, PLACEBO, PROGRESS = "rejected.jsonl", "placebo.jsonl", "progress"
_ROWS_PER_FILE = 100_000


class Names(NamedTuple):
    """Names of a run's blocks, in the order of the input: hashes of their questions."""

    labels: Sequence[str]
    placebo: Sequence[str]  # none for labelers without a reader

    @property
    def all(self) -> set[str]:
        """The names of all blocks."""
        return {*self.labels, *self.placebo}


class LabelFolder:
    """The files of one run in a folder, made if absent; labels are in the field ``column``.

    Only the main process calls methods other than ``take`` and ``write``: network disks show others' files late.
    """

    def __init__(self, path: Path, names: Names, column: str, margin: float) -> None:
        self.path, self._names, self._column, self._margin = path, names, column, margin
        self._progress = path / PROGRESS
        self._lock: IO[str] | None = None

    def lock_again(self) -> None:
        """Lock the folder again if its lock was released."""
        if self._lock is not None and self._lock.closed:
            self._lock = lock_folder(self.path)

    def free(self) -> None:
        """Release the folder for other runs, even if an error's traceback keeps this object alive."""
        if self._lock is not None:
            self._lock.close()

    def claim(self, provenance: dict[str, object], *, dry_run: bool) -> tuple[bool, set[str], dict[str, Any]]:
        """Lock the folder (not for a ``dry_run``), and compare provenance.

        Returns whether all the work is done, else the finished blocks, and the folder's provenance. Raises
        ``ValueError`` if another run works there, or its files are of another one.
        """
        if not dry_run:
            self._lock = lock_folder(self.path)
        path = self.path / PROVENANCE
        if not path.is_file():
            self._refuse_unknown()
        complete = (self.path / SUMMARY).is_file() and bool(label_files(self.path))
        if dry_run:
            if path.is_file():
                check_settings(path, provenance, ["decides"], holds=_OTHER_LABELS)
            return complete, set() if complete else self.finished(), provenance
        claim_settings(path, provenance, ["decides"], holds=_OTHER_LABELS)
        if complete and self._is_unchanged():
            shutil.rmtree(self._progress, ignore_errors=True)
            return True, set(), read_json(path)
        return False, self.finished(), read_json(path)

    def finished(self, known: Set[str] = frozenset()) -> set[str]:
        """Return the names of the finished blocks; ``known`` ones are not read again."""
        return {*known, *(name for name in self._names.all - known if self._read(name) is not None)}

    def begin(self, known: Set[str], *, strict: bool) -> set[str]:
        """Return the finished blocks (with ``strict``, none with a rejected question), and remove all other files."""
        self._progress.mkdir(exist_ok=True)
        done = {name for name in self.finished(known) if not (strict and self._head(name)["rejected"])}
        for file in self._progress.iterdir():
            if file.suffix != ".jsonl" or file.stem not in done:
                file.unlink()
        return done

    def take(self, name: str) -> bool:
        """Claim a block for this process; return whether no other has claimed or written it."""
        self._progress.mkdir(exist_ok=True)
        claim = unfinished(self._file(name))
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            return False
        if self._file(name).is_file():
            claim.unlink()
            return False
        return True

    def write(self, name: str, rows: Sequence[Mapping[str, object]], rejected: Sequence[Mapping[str, object]]) -> None:
        """Write a block, whole or not at all; rows must be strict JSON, without NaN."""
        sums = self._sums(rows)
        head = {
            "rejected": rejected,
            "summed": [self._column, self._margin],
            "sums": [[*key, sums[key]] for key in sums],
        }
        text = "".join(json_line(row, default=str, allow_nan=False) for row in (head, *rows)).encode()
        with timed("io"):
            write_chunks(self._file(name), [_checksum(text), text])

    def missing(self, patience: float) -> set[str]:
        """Return the names of the blocks that are not there after ``patience`` seconds."""
        deadline = time.monotonic() + patience
        while lost := {name for name in self._names.all if not self._file(name).is_file()}:
            if time.monotonic() >= deadline:
                break
            time.sleep(1)
        return lost

    def publish(self, rejected: Iterable[Mapping[str, object]]) -> dict[str, Any]:
        """Copy the rows of all blocks to the files of a finished run, ``summary.json`` last; return the summary."""
        sums: Sums = Counter()
        for name in self._names.labels:
            head = self._head(name)
            if head["summed"] == [self._column, self._margin]:
                sums.update({tuple(key): value for *key, value in head["sums"]})
            else:
                sums.update(self._sums(map(json.loads, self._rows([name]))))
        unscorable = (each for name in self._names.labels for each in self._head(name)["rejected"])
        write_lines(self.path / REJECTED, itertools.chain(rejected, unscorable), allow_nan=False)
        rows, count = self._rows(self._names.labels), -(-sums["questions",] // _ROWS_PER_FILE)
        # named as datasets names shards
        files = [f"labels-{at:05d}-of-{count:05d}.jsonl" for at in range(count)] if count > 1 else [LABELS]
        for file in files:
            write_chunks(self.path / file, itertools.islice(rows, _ROWS_PER_FILE))
        for old in {file.name for file in label_files(self.path)} - set(files):
            (self.path / old).unlink()
        others = [REJECTED]
        if self._names.placebo:
            write_chunks(self.path / PLACEBO, self._rows(self._names.placebo))
            others.append(PLACEBO)
        summary = self._summary(sums, folder_hashes(self.path, [*files, *others]))
        write_json(self.path / SUMMARY, summary)
        shutil.rmtree(self._progress)
        return summary

    def summary(self) -> dict[str, Any]:
        """Return the summary of a finished run, of other labels of its rows than before if they are asked for."""
        before = read_json(self.path / SUMMARY)
        if [before.get("label"), before.get("margin")] == [self._column, self._margin]:
            return before
        rows = (row for file in label_files(self.path) for row in read_lines(file))
        return self._summary(self._sums(rows), written_hashes(self.path))

    def _summary(self, sums: Sums, hashes: Mapping[str, object]) -> dict[str, object]:
        rejected = sum(1 for _ in read_lines(self.path / REJECTED))
        summary = {"label": self._column, "margin": self._margin, **summary_of(sums, self._column, rejected)}
        if (self.path / PLACEBO).is_file():
            rows = read_lines(self.path / PLACEBO)
            summary["placebo"] = placebo_effect([row["passages"][0][self._column] for row in rows], self._column)
        return {**summary, "sha256": dict(hashes)}

    def _refuse_unknown(self) -> None:
        """Raise if the folder has files of a run but no provenance, which names the settings that made them."""
        others = [name for name in (REJECTED, PLACEBO, SUMMARY, PROGRESS) if (self.path / name).exists()]
        if found := [file.name for file in label_files(self.path)] + others:
            raise ValueError(
                f"{self.path} has {', '.join(found)} of unknown origin (no {PROVENANCE}); restore {PROVENANCE},  "
                "delete them, or name another folder"
            )

    def _is_unchanged(self) -> bool:
        """Return whether a finished folder's files are unchanged, or raise if they cannot be written again."""
        names = {*written_hashes(self.path), REJECTED, *(file.name for file in label_files(self.path))}
        changed = " and ".join(changed_files(self.path, sorted(names)))
        if not changed:
            return True
        if self.finished() < self._names.all:
            raise ValueError(
                f"{self.path}: {changed} changed after the run ended (the SHA-256 is not the one in {SUMMARY}); "
                f"restore the file, or delete {LABELS} and {SUMMARY} to label again"
            )
        say(f"{self.path}: {changed} changed after the run ended; writing it again from {PROGRESS}/")
        (self.path / SUMMARY).unlink()
        return False

    def _file(self, name: str) -> Path:
        return self._progress / f"{name}.jsonl"

    def _read(self, name: str) -> tuple[dict[str, object], list[bytes]] | None:
        """Return the head and the rows of a block; ``None`` if it is absent or damaged."""
        path = self._file(name)
        if not path.is_file():
            return None
        checksum, text = path.read_bytes().partition(b"\n")[::2]
        if checksum + b"\n" != _checksum(text):
            say(f"{path}: damaged, does not match its checksum; its questions are labelled again")
            return None
        head, *rows = text.splitlines(keepends=True)
        return json.loads(head), rows

    def _rows(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield the label rows of blocks."""
        for name in names:
            block = self._read(name)
            if block is None:
                raise ValueError(f"{self._progress}: block {name} is lost; run the same command again")
            yield from block[1]

    def _head(self, name: str) -> dict[str, Any]:
        with self._file(name).open("rb") as file:
            file.readline()
            head: dict[str, object] = json.loads(file.readline())
        return head

    def _sums(self, rows: Iterable[Mapping[str, object]]) -> Sums:
        return sum_labels((labeled_query(row, self._column) for row in rows), self._column, self._margin)


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode() + b"\n"
