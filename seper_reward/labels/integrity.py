"""Integrity of finished labels: compares the row files with the SHA-256 hashes in ``summary.json``."""

from collections.abc import Iterable
from pathlib import Path

from seper_reward.runtime.hashing import file_hash
from seper_reward.runtime.json_files import read_json

LABELS, PROVENANCE, SUMMARY = "labels.jsonl", "provenance.json", "summary.json"
REJECTED, PLACEBO = "rejected.jsonl", "placebo.jsonl"
_SHARDS = "labels-*-of-*.jsonl"


def label_files(folder: Path) -> list[Path]:
    """Return the files of label rows in a folder, in order: ``labels.jsonl``, or the shards of many rows."""
    return [folder / LABELS] if (folder / LABELS).is_file() else sorted(folder.glob(_SHARDS))


def folder_hashes(folder: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Return the SHA-256 of files in a label folder, by name; ``None`` for absent files."""
    return {name: file_hash(folder / name) for name in names}


def changed_files(folder: Path, names: Iterable[str]) -> list[str]:
    """Return the files that differ from those of the finished run: changed, absent, or without a hash."""
    written = written_hashes(folder)
    return [name for name, digest in folder_hashes(folder, names).items() if written.get(name, "") != digest]


def check_labels(folder: Path) -> None:
    """Raise ``ValueError`` if a row file of a label folder changed after the run ended.

    Folders without hashes pass: folders of trainers, whose labels grow, and of unfinished runs. Absent files pass.
    """
    names = [name for name in written_hashes(folder) if (folder / name).is_file()]
    if changed := changed_files(folder, names):
        raise ValueError(
            f"{folder}: {' and '.join(changed)} changed after the run ended (its SHA-256 is not in {SUMMARY}); "
            f"restore the file, label again, or delete {SUMMARY} to use the labels as they are"
        )


def check_finished(folder: Path) -> None:
    """Raise ``OSError`` if a labelling run began in a folder and has not written its labels."""
    if (folder / PROVENANCE).is_file() and not (label_files(folder) or (folder / SUMMARY).is_file()):
        raise OSError(f"{folder}: the run has not finished; run its command again, which resumes")


def written_hashes(folder: Path) -> dict[str, str | None]:
    """Return the hashes of files in ``summary.json``, by name; none without the file."""
    path = folder / SUMMARY
    written = read_json(path).get("sha256") if path.is_file() else None
    return written if isinstance(written, dict) else {}
