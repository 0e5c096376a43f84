"""One label run in one folder: locked, resumable after SIGKILL, byte for byte the same however it is cut up.

Finished questions are appended to ``progress/`` as they come, one file per process; at the end they are written
to ``labels.jsonl`` in input order.
"""

import fcntl
import os
import platform
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import torch
from tqdm.auto import tqdm

from seper_reward.data.queries import Rejected, query_key
from seper_reward.labels.dataset import label_row, query_cost
from seper_reward.reports.figures import summarize
from seper_reward.reports.tracking import Tracker
from seper_reward.runtime.cache import content_key
from seper_reward.runtime.distributed import process_state, shard, together
from seper_reward.runtime.json_files import json_line, read_json, read_lines, write_json, write_lines
from seper_reward.runtime.profiling import timed
from seper_reward.runtime.shared_queue import SharedQueue
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query, UnscorableError

LABELS, REJECTED, PROVENANCE, SUMMARY = "labels.jsonl", "rejected.jsonl", "provenance.json", "summary.json"


class LabelRun:
    """Labels queries into a folder.

    Args:
        output_dir: made if absent; refused if another process works in it or its labels were made otherwise.
        scorer: measures the beliefs.
        queries: in the order the labels shall have.
        rejected: rows that were unusable from the start.
        settings: the command's settings, for provenance only.
        block: questions measured side by side, from the first on; more fill a large device. A kill loses as many, and
            labels depend, in low digits, on who stands in a block. An engine makes its batches itself.

    Raises:
        OSError: the folder cannot be made or written.
        ValueError: the folder is in use, or holds labels of other settings or queries; or ``block`` cannot be.
    """

    def __init__(
        self,
        output_dir: str | Path,
        scorer: SePerScorer,
        queries: Sequence[Query],
        rejected: Sequence[Rejected] = (),
        settings: Mapping[str, Any] | None = None,
        block: int = 1,
    ) -> None:
        block = scorer.block_size(block)
        self.folder = Path(output_dir)
        self._scorer, self._queries, self._rejected = scorer, queries, rejected
        self._keys = {query.id: query_key(query) for query in queries}
        # the same ones whatever is left of the work, so that labels are
        self._blocks = [queries[start : start + block] for start in range(0, len(queries), block)]
        self._progress = self.folder / "progress"
        self._done = self._progress / "done.jsonl"
        self._lock: IO[str] | None = None
        self.provenance = _provenance(scorer, list(self._keys.values()), block, settings or {})
        together(self._claim)

    @property
    def complete(self) -> bool:
        """Whether an earlier run finished all the work."""
        return (self.folder / SUMMARY).is_file() and (self.folder / LABELS).is_file()

    def run(self, *, strict: bool = False, tracker: Tracker | None = None) -> dict[str, Any]:
        """Label what is not yet labelled and write all files.

        Args:
            strict: raise at a question that cannot be scored, instead of rejecting it.
            tracker: is told of progress.

        Returns:
            The content of ``summary.json``.

        Raises:
            UnscorableError: ``strict``, and a question cannot be scored; what is finished stays on disk.
        """
        if not self.complete:
            # not from the files being written: processes must agree on what is left to share it
            done = {entry["key"] for entry in read_lines(self._done) if "label" in entry or not strict}
            left = [block for block in self._blocks if not {self._keys[query.id] for query in block} <= done]
            self._label(left, strict, tracker)
            process_state().wait_for_everyone()
            with timed("io"):
                together(self._publish)
        summary: dict[str, Any] = read_json(self.folder / SUMMARY)
        return summary

    def labels(self) -> list[dict[str, Any]]:
        """Read ``labels.jsonl``."""
        return list(read_lines(self.folder / LABELS))

    def _label(self, blocks: Sequence[Sequence[Query]], strict: bool, tracker: Tracker | None) -> None:
        state = process_state()
        bar = tqdm(
            total=len(self._queries),
            initial=len(self._queries) - sum(map(len, blocks)),
            mininterval=1,
            desc="labelling",
            unit="question",
            disable=not state.is_main_process,
        )
        with (
            bar,
            (self._progress / f"process-{state.process_index}.jsonl").open("a", encoding="utf-8") as file,
        ):
            for query, judged in self._scorer.measured(self._mine(blocks)):
                entry: dict[str, Any] = {"key": self._keys[query.id]}
                if isinstance(judged, UnscorableError):
                    if strict:
                        raise UnscorableError(f"question id={query.id!r}: {judged}") from judged
                    entry["reason"] = str(judged)
                else:
                    entry["label"] = label_row(query, judged)
                with timed("io"):
                    file.write(json_line(entry, default=str))
                    file.flush()
                    os.fsync(file.fileno())
                bar.update(min(state.num_processes, len(self._queries) - bar.n))  # the others keep pace
                if tracker is not None and "label" in entry:
                    tracker.progress(entry["label"], self._scorer.cache)

    def _mine(self, blocks: Sequence[Sequence[Query]]) -> Iterable[Sequence[Query]]:
        """Return this process's part of the work."""
        costs = [sum(map(query_cost, block)) for block in blocks]
        if self._scorer.sampler.prompts_ahead:  # it holds many questions at once
            return shard(blocks, costs)
        # a name of its own: processes that outlived a killed run must not take from this one
        counter = self._progress / together(lambda: f"taken-{uuid.uuid4().hex}")
        together(lambda: SharedQueue.reset(counter))
        return SharedQueue(blocks, costs, counter)

    def _claim(self) -> None:
        """Lock the folder, compare provenance, and gather what earlier processes finished."""
        try:
            self._progress.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / ".lock").open("w", encoding="utf-8")
        except OSError as error:
            raise OSError(
                f"output_dir={str(self.folder)!r} cannot be written: {error}; name another folder"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system frees it, even after SIGKILL
        except BlockingIOError as error:
            raise ValueError(
                f"output_dir={str(self.folder)!r} is in use by another process; wait for it or name another folder"
            ) from error
        self._check_provenance()
        if self.complete:
            shutil.rmtree(self._progress)
            return
        for counter in self._progress.glob("taken-*"):
            counter.unlink()
        write_lines(self._done, self._finished().values())
        for file in self._progress.glob("process-*.jsonl"):
            file.unlink()

    def _check_provenance(self) -> None:
        path = self.folder / PROVENANCE
        if not path.is_file():
            if (self.folder / LABELS).exists():
                raise ValueError(
                    f"{self.folder} holds {LABELS} of unknown origin (no {PROVENANCE}); name another folder"
                )
            write_json(path, self.provenance, default=str)
            return
        before = read_json(path)
        if before.get("labels_hash") != self.provenance["labels_hash"]:
            changed = _differences(before.get("decides"), self.provenance["decides"])
            raise ValueError(
                f"output_dir={str(self.folder)!r} holds labels made otherwise; changed: {'; '.join(changed)}. "
                "Name another folder, or go back to the former settings to resume"
            )

    def _finished(self) -> dict[str, dict[str, Any]]:
        wanted = set(self._keys.values())
        entries = (entry for file in sorted(self._progress.glob("*.jsonl")) for entry in read_lines(file))
        return {entry["key"]: entry for entry in entries if entry["key"] in wanted}

    def _publish(self) -> None:
        done = self._finished()
        missing = [query.id for query in self._queries if self._keys[query.id] not in done]
        if missing:
            raise ValueError(
                f"{self.folder}: {len(missing)} questions were not labelled, the first is id={missing[0]!r}; does a "
                "process of an earlier run still work there? End it, and run the same command again"
            )
        entries = [(query, done[self._keys[query.id]]) for query in self._queries]
        labels = [entry["label"] for _, entry in entries if "label" in entry]
        rejected = [{"where": row.where, "reason": row.reason, "row": row.row} for row in self._rejected]
        rejected += [
            {
                "where": f"id {query.id}",
                "reason": entry["reason"],
                "row": {"id": query.id, "question": query.question},
            }
            for query, entry in entries
            if "reason" in entry
        ]
        write_lines(self.folder / REJECTED, rejected, default=str)
        write_lines(self.folder / LABELS, labels)
        write_json(self.folder / SUMMARY, summarize(labels, rejected=len(rejected)))
        shutil.rmtree(self._progress)


def backend_of(output_dir: str | Path) -> str | None:
    """Return where the reader of a folder's labels ran; ``None`` if the folder has none."""
    path = Path(output_dir) / PROVENANCE
    backend: str | None = read_json(path).get("decides", {}).get("backend") if path.is_file() else None
    return backend


def _provenance(
    scorer: SePerScorer, query_keys: Sequence[str], block: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    decides = {
        **scorer.fingerprint,
        "block": block,
        "queries": content_key(query_keys if block > 1 else sorted(query_keys)),
        "device": _device_kind(scorer.sampler.device or scorer.entailment.device),
        "threads_per_process": torch.get_num_threads(),
        **{name: version(name) for name in ("seper-reward", "torch", "transformers")},
    }
    return {
        "labels_hash": content_key(decides),
        "decides": decides,
        "settings": dict(settings),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("accelerate", "datasets", "peft", "tokenizers", "trl")},
        },
        "platform": platform.platform(),
        "processes": process_state().num_processes,
    }


def _device_kind(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {torch.backends.cpu.get_cpu_capability()}"


def _differences(before: Any, after: Any, name: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in sorted({*before, *after})
            for line in _differences(before.get(key), after.get(key), f"{name}.{key}" if name else key)
        ]
    return [] if before == after else [f"{name} was {before!r}, is {after!r}"]
