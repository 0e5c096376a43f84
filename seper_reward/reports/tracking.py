"""Weights & Biases: numbers, tables, histograms and files of a run, also offline (``WANDB_MODE=offline``).

wandb's own environment variables, such as ``WANDB_PROJECT`` and ``WANDB_NAME``, win over what is said here.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seper_reward.reports.tables import clusters_text
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.imports import need
from seper_reward.types import answer_items

_EXAMPLES = 50  # questions in the table of examples
_RUN_ID = "wandb_run_id.txt"


class Run:
    """A run in W&B that ends with its ``with`` block; without W&B all its methods do nothing.

    Args:
        report_to: Trackers by name; ``"wandb"``, or a list that holds it, starts a run on the main process.
        job_type: Kind of the run in W&B, such as ``"label"``.
        config: The run's settings.
        folder: Folder that keeps the run's id, so that a resumed run goes on in W&B, too; ``None`` for a new run.

    Raises:
        OSError: wandb is not installed, or cannot start a run.
    """

    def __init__(
        self, report_to: str | Sequence[str], job_type: str, config: Mapping[str, Any], folder: Path | None = None
    ) -> None:
        trackers = [report_to] if isinstance(report_to, str) else report_to
        self._wandb: Any = None
        self._run: Any = None
        if "wandb" in trackers and process_state().is_main_process:
            self._wandb = need("wandb", "wandb")
            self._run = self._init(job_type, config, folder)

    def _init(self, job_type: str, config: Mapping[str, Any], folder: Path | None) -> Any:
        project = os.environ.get("WANDB_PROJECT", "seper-reward")
        known: dict[str, str] = {}
        if folder is not None:
            known["resume"] = os.environ.get("WANDB_RESUME", "allow")
            if "WANDB_RUN_ID" not in os.environ and (folder / _RUN_ID).is_file():
                known["id"] = (folder / _RUN_ID).read_text(encoding="utf-8").strip()
        try:
            run = self._wandb.init(project=project, job_type=job_type, config=dict(config), **known)
        except self._wandb.Error as error:
            raise OSError(
                f"W&B cannot start a run: {error}; run `wandb login`, set WANDB_MODE=offline, or leave out "
                "--report_to wandb"
            ) from error
        if folder is not None:
            (folder / _RUN_ID).write_text(f"{run.id}\n", encoding="utf-8")
        return run

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if kind is None else 1)

    def log(self, row: Mapping[str, Any]) -> None:
        """Log numbers."""
        if self._run is not None:
            self._run.log(dict(row))

    def histogram(self, name: str, values: Sequence[float]) -> None:
        """Log the distribution of some values."""
        if self._run is not None:
            self._run.log({f"histogram/{name}": self._wandb.Histogram(list(values))})

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log rows, which have the same keys, as a table; values other than numbers and texts are turned into text."""
        if self._run is not None and rows:
            columns = list(rows[0])
            data = [[_cell(row[column]) for column in columns] for row in rows]
            self._run.log({name: self._wandb.Table(columns=columns, data=data)})

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set the run's summary."""
        if self._run is not None:
            self._run.summary.update(dict(values))

    def artifact(self, name: str, kind: str, paths: Sequence[Path], about: Mapping[str, Any] | None = None) -> None:
        """Log files and folders as one artifact, ``kind`` being its type and ``about`` its metadata."""
        if self._run is not None:
            artifact = self._wandb.Artifact(name, type=kind, metadata=dict(about or {}))
            for path in paths:
                if path.is_dir():
                    artifact.add_dir(str(path))
                else:
                    artifact.add_file(str(path))
            self._run.log_artifact(artifact)


class LabelTracker:
    """Logs one label run in W&B: progress, the distribution of labels, and examples.

    Args:
        run: The run in W&B.
        column: Field of the labels in the rows.
        cache: Cache whose hits and misses are logged; ``None`` if there is none.
        finished: Number of questions that an interrupted run finished.
    """

    def __init__(self, run: Run, column: str, cache: Cache | None = None, finished: int = 0) -> None:
        self._run, self._column, self._cache = run, column, cache
        self._questions = finished

    def progress(self, row: Mapping[str, Any]) -> None:
        """Log the label row of one question."""
        self._questions += 1
        labels = [passage[self._column] for passage in row["passages"]]
        record = {
            "questions": self._questions,
            f"{self._column}/best": max(labels),
            f"{self._column}/mean": sum(labels) / len(labels),
        }
        if "seper" in row.get("baseline", {}):
            record["baseline_seper"] = row["baseline"]["seper"]
        if self._cache is not None:
            record |= {"cache/hits": self._cache.hits, "cache/misses": self._cache.misses}
        self._run.log(record)

    def finish(self, rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], folder: Path) -> None:
        """Log histograms, a table of examples with clusters, the summary and the label files.

        Args:
            rows: All label rows.
            summary: Content of ``summary.json``.
            folder: Folder of the labels.
        """
        baselines = [row["baseline"]["seper"] for row in rows if "seper" in row.get("baseline", {})]
        if baselines:
            self._run.histogram("baseline_seper", baselines)
        self._run.histogram(self._column, [passage[self._column] for row in rows for passage in row["passages"]])
        self._run.table("examples", [_example(row, passage, self._column) for row, passage in _first_passages(rows)])
        self._run.summary(summary)
        names = ["labels.jsonl", "provenance.json", "rejected.jsonl", "summary.json"]
        names += ["placebo.jsonl"] if "placebo" in summary else []
        self._run.artifact("labels", "dataset", [folder / name for name in names], summary)


def _first_passages(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return ((row, passage) for row in rows[:_EXAMPLES] for passage in row["passages"])


def _example(row: Mapping[str, Any], passage: Mapping[str, Any], column: str) -> dict[str, Any]:
    example = {
        "id": row["id"],
        "question": row["question"],
        "answers": ", ".join(" | ".join(aliases) for aliases in answer_items(row["answers"])),
        "passage": passage["passage_id"],
        column: passage[column],
        "std_error": passage["std_error"],
    }
    if "seper" in passage:
        example |= {"baseline": row["baseline"]["seper"], "seper": passage["seper"]}
        example["clusters"] = clusters_text(passage["responses"])
    return example


def _cell(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) or value is None else str(value)
