"""The folder of a label run, with a lock and checksums: killed runs can resume, and changed files are detected.

Finished questions are appended to ``progress/`` as they come, one file per process, each line with a checksum.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import IO, Any

from seper_reward.labels.integrity import PROVENANCE, SUMMARY, changed_files, folder_hashes
from seper_reward.labels.rows import LABELS
from seper_reward.labels.summary import placebo_effect, summarize
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import (
    checked_line,
    naming,
    read_checked_lines,
    read_json,
    read_lines,
    write_checked_lines,
)
from seper_reward.runtime.messages import say
from seper_reward.runtime.profiling import timed
from seper_reward.runtime.run_folder import check_settings, claim_settings, lock_folder

_OTHER_LABELS = "labels made otherwise"
REJECTED, PLACEBO, PROGRESS = "rejected.jsonl", "placebo.jsonl", "progress"


class LabelFolder:
    """The files of one run in a folder, made if absent; ``files`` are the row files that the run publishes."""

    def __init__(self, path: Path, files: Sequence[str]) -> None:
        self.path, self.files = path, files
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

    def claim(
        self, provenance: dict[str, Any], keys: Set[str], *, dry_run: bool
    ) -> tuple[bool, Set[str], dict[str, Any]]:
        """Lock the folder, compare provenance, and collect the entries that earlier processes finished.

        Args:
            provenance: Provenance of the run.
            keys: Keys of all its entries.
            dry_run: Whether nothing is locked or written.

        Returns:
            Whether all the work is done, the keys that an interrupted run finished, and the folder's provenance.

        Raises:
            OSError: The folder cannot be made or written.
            ValueError: Another run works in it, or its files are not those of this run.
        """
        if not dry_run:
            self._lock = lock_folder(self.path)
        path = self.path / PROVENANCE
        if not path.is_file():
            self._refuse_unknown()
        complete = (self.path / SUMMARY).is_file() and (self.path / LABELS).is_file()
        if dry_run:
            if path.is_file():
                check_settings(path, provenance, ["decides"], holds=_OTHER_LABELS)
            return complete, set(self.finished(keys)), provenance
        claim_settings(path, provenance, ["decides"], holds=_OTHER_LABELS)
        self._progress.mkdir(exist_ok=True)
        if complete and self._verify(keys):
            self.clear()
            return True, set(), read_json(path)
        finished = self.finished(keys)
        write_checked_lines(self._progress / "done.jsonl", finished.values())
        for file in self._progress.glob("process-*.jsonl"):
            file.unlink()
        for index in range(process_state().num_processes):
            # in this process: a network disk may show it the new files of other processes late
            self._file_of(index).touch()
        return False, set(finished), read_json(path)

    def done(self) -> Iterator[dict[str, Any]]:
        """Yield the entries that were finished when the run began, from a file that no process writes to now."""
        return _entries(self._progress / "done.jsonl")

    def finished(self, keys: Set[str]) -> dict[str, dict[str, Any]]:
        """Return the entries in ``progress/`` with these keys, by key."""
        entries = (entry for file in sorted(self._progress.glob("*.jsonl")) for entry in _entries(file))
        return {entry["key"]: entry for entry in entries if entry["key"] in keys}

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write an entry to disk."""
        path = self._file_of(process_state().process_index)
        with timed("io"), naming(path), path.open("a", encoding="utf-8") as file:
            file.write(checked_line(entry))
            file.flush()
            os.fsync(file.fileno())

    def summary(self, column: str, margin: float) -> dict[str, Any]:
        """Return the summary of the published files: ``summarize``, ``placebo_effect``, and their SHA-256."""
        rejected = sum(1 for _ in read_lines(self.path / REJECTED))
        summary = summarize(list(read_lines(self.path / LABELS)), column, rejected=rejected, margin=margin)
        if PLACEBO in self.files:
            summary["placebo"] = placebo_effect(list(read_lines(self.path / PLACEBO)), column)
        return {**summary, "sha256": folder_hashes(self.path, self.files)}

    def clear(self) -> None:
        """Remove ``progress/``."""
        shutil.rmtree(self._progress)

    def _file_of(self, process: int) -> Path:
        return self._progress / f"process-{process}.jsonl"

    def _refuse_unknown(self) -> None:
        """Raise if the folder has files of a run but no provenance, which names the settings that made them."""
        found = [name for name in (LABELS, REJECTED, PLACEBO, SUMMARY, PROGRESS) if (self.path / name).exists()]
        if found:
            raise ValueError(
                f"{self.path} has {', '.join(found)} of unknown origin (no {PROVENANCE}); restore {PROVENANCE},  "
                "delete them, or name another folder"
            )

    def _verify(self, keys: Set[str]) -> bool:
        """Return whether a finished folder's files are unchanged.

        If not, but ``progress/`` still has all entries, the run can write them again; else this is a ``ValueError``.
        """
        changed = " and ".join(changed_files(self.path, self.files))
        if not changed:
            return True
        if not keys <= set(self.finished(keys)):
            raise ValueError(
                f"{self.path}: {changed} changed after the run ended (the SHA-256 is not the one in {SUMMARY}); "
                f"restore the file, or delete {LABELS} and {SUMMARY} to label again"
            )
        say(f"{self.path}: {changed} changed after the run ended; writing it again from {PROGRESS}/")
        (self.path / SUMMARY).unlink()
        return False


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the intact entries of a file in ``progress/``; a damaged entry is logged and skipped."""
    return read_checked_lines(
        file, lambda where: say(f"{where}: damaged, does not match its checksum; that question is labelled again")
    )
