"""Trackers of a run (W&B, TensorBoard and Trackio) through Accelerate: numbers, tables, histograms, files.

Environment variables of the trackers override arguments: W&B's (``WANDB_PROJECT``, ``WANDB_NAME``,
``WANDB_MODE=offline``, ...), Trackio's (``TRACKIO_SPACE_ID``, ``TRACKIO_SERVER_URL``, ``TRACKIO_DIR``) and, as in
transformers, ``TENSORBOARD_LOGGING_DIR``.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

from tabulate import tabulate

from seper_reward.labels.rows import baseline_sepers
from seper_reward.reports.tables import clusters_text
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.imports import need
from seper_reward.runtime.json_files import leaves, read_json, write_json
from seper_reward.types import answer_items

PROJECT = "seper-reward"
_EXAMPLES = 50  # questions in the table of examples
_LONGEST_TEXT = 300  # characters of a passage in that table
_IDENTITIES = "tracking.json"  # identity of the run in each tracker, for resuming
_TRACKERS = ("wandb", "tensorboard", "trackio")
_LOGGING_DIR = "TENSORBOARD_LOGGING_DIR"


class Run:
    """A run in trackers, as a context manager; without trackers all methods do nothing.

    A trainer of transformers inside the ``with`` block continues the same run: W&B's run belongs to the process,
    TensorBoard's folder is in the environment, and Trackio's run is found by ``name``.

    Args:
        report_to: Trackers by name: ``"wandb"``, ``"tensorboard"``, ``"trackio"``, ``"all"`` for all installed ones,
            or a list; other names in a list are left to the trainer.
        job_type: Kind of the run, such as ``"label"``.
        config: The run's settings.
        folder: Folder of the outputs, with the identity of the run in the trackers, for resuming, and TensorBoard's
            files; ``None`` for a new run.
        name: Name of a new run; ``None`` lets the trackers choose one.
        project: Project of Trackio; W&B's is ``$WANDB_PROJECT``, else this default.

    Raises:
        OSError: A tracker is not installed, or fails to start a run.
    """

    def __init__(
        self,
        report_to: str | Sequence[str],
        job_type: str,
        config: Mapping[str, Any],
        folder: Path | None = None,
        name: str | None = None,
        project: str = PROJECT,
    ) -> None:
        self.name, self.project = name, project
        self._lent: str | None = None  # environment variable that is set during the run
        self._trackers: list[Any] = []
        named = _trackers(report_to) if process_state().is_main_process else []
        if not named:
            return
        path = None if folder is None else folder / _IDENTITIES
        known = read_json(path) if path is not None and path.is_file() else {}
        for each in named:
            tracker = self._start(each, job_type, known.get(each), folder)
            if each != "tensorboard" or each not in known:  # else the settings of each start would be logged
                tracker.store_init_configuration(_flat(config) if each == "tensorboard" else dict(config))
            known[each] = _identity(tracker)
            self._trackers.append(tracker)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, known)

    def _start(self, name: str, job_type: str, identity: str | None, folder: Path | None) -> Any:
        """Start one of Accelerate's trackers, and resume ``identity`` if given."""
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        project, options = self.project, dict[str, Any]()
        if name == "wandb":
            project = os.environ.get("WANDB_PROJECT", PROJECT)
            options = {"job_type": job_type} | ({} if self.name is None else {"name": self.name})
            if folder is not None:
                options["resume"] = os.environ.get("WANDB_RESUME", "allow")
                options |= {"id": identity} if identity and "WANDB_RUN_ID" not in os.environ else {}
        elif name == "trackio":
            options = {"name": identity or self.name, "group": job_type, "resume": "allow"}
        else:
            place = self._logging_dir(folder)
            project, options = place.name, {"logging_dir": place.parent}
        tracker = LOGGER_TYPE_TO_CLASS[name](project, **options)
        try:
            tracker.start()
        except Exception as error:  # each library raises its own errors, such as wandb.Error
            hint = "run `wandb login`, set WANDB_MODE=offline, or " if name == "wandb" else ""
            raise OSError(f"{name} cannot start a run: {error}; {hint}omit --report_to {name}") from error
        if name == "trackio":
            self.name = tracker.tracker.name
        return tracker

    def _logging_dir(self, folder: Path | None) -> Path:
        """Return the folder of TensorBoard, also for trainers, which would create a new one at each start."""
        if _LOGGING_DIR not in os.environ:
            self._lent = _LOGGING_DIR
            os.environ[_LOGGING_DIR] = str((folder or Path("runs")) / "tensorboard")
        return Path(os.environ[_LOGGING_DIR]).expanduser()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for tracker in self._trackers:
            if tracker.name == "wandb" and kind is not None:
                tracker.tracker.finish(exit_code=1)
            else:
                tracker.finish()
        if self._lent is not None:
            del os.environ[self._lent]

    def log(self, row: Mapping[str, Any], step: int | None = None) -> None:
        """Log numbers, at a step of TensorBoard; other trackers count steps themselves, also in resumed runs."""
        for tracker in self._trackers:
            tracker.log(_flat(row), step=step if tracker.name == "tensorboard" else None)

    def histogram(self, name: str, values: Sequence[float]) -> None:
        """Log the distribution of values."""
        import torch

        for tracker in self._trackers:
            if tracker.name == "tensorboard":
                tracker.tracker.add_histogram(f"histogram/{name}", torch.tensor(list(values)))
            else:
                tracker.log({f"histogram/{name}": _library(tracker).Histogram(list(values))})

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log rows with equal keys as a table; values other than numbers and texts are converted to text."""
        if not rows:
            return
        columns = list(rows[0])
        data = [[_cell(row[column]) for column in columns] for row in rows]
        for tracker in self._trackers:
            if tracker.name == "tensorboard":
                tracker.log({name: tabulate(data, columns, tablefmt="github")})
            else:
                tracker.log({name: _library(tracker).Table(columns=columns, data=data)})

    def figure(self, name: str, plot: Callable[[Path], None]) -> None:
        """Log a figure, if matplotlib is installed; TensorBoard gets none.

        ``plot`` writes the figure to a path, in the format of its suffix.
        """
        trackers = [tracker for tracker in self._trackers if tracker.name != "tensorboard"]
        if not trackers or find_spec("matplotlib") is None:
            return
        with TemporaryDirectory() as folder:
            path = Path(folder) / "figure.png"
            plot(path)
            for tracker in trackers:
                tracker.log({name: _library(tracker).Image(str(path))})

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set the run's summary; for trackers without a summary, log its numbers."""
        for tracker in self._trackers:
            if tracker.name == "wandb":
                tracker.tracker.summary.update(dict(values))
            else:
                numbers = ((path, value) for path, value in leaves(values) if isinstance(value, (int, float)))
                tracker.log({f"summary/{path}": value for path, value in numbers})

    def artifact(self, name: str, kind: str, paths: Sequence[Path], about: Mapping[str, Any] | None = None) -> None:
        """Log files and folders as one artifact, with ``kind`` as its type and ``about`` as its metadata.

        TensorBoard has no artifacts.
        """
        for tracker in self._trackers:
            if tracker.name != "tensorboard":
                artifact = _library(tracker).Artifact(name, type=kind, metadata=dict(about or {}))
                for path in paths:
                    (artifact.add_dir if path.is_dir() else artifact.add_file)(str(path))
                tracker.tracker.log_artifact(artifact)


def _trackers(report_to: str | Sequence[str]) -> list[str]:
    """Return the supported trackers among the requested ones; ``OSError`` if one is not installed."""
    from accelerate.tracking import get_available_trackers

    asked = [report_to] if isinstance(report_to, str) else report_to
    installed = set(map(str, get_available_trackers()))
    if "all" in asked:
        return [name for name in _TRACKERS if name in installed]
    named = [name for name in _TRACKERS if name in asked]
    for name in named:
        if name not in installed:
            raise OSError(f"--report_to {name} needs {name}; run: pip install 'seper-reward[{name}]'")
    return named


def _identity(tracker: Any) -> str:
    """Return the identity of a run in a tracker, for resuming: W&B's id, Trackio's name, TensorBoard's folder."""
    run = tracker.tracker
    return str(run.id if tracker.name == "wandb" else run.name if tracker.name == "trackio" else run.log_dir)


def _library(tracker: Any) -> Any:
    """Return the module of W&B or of Trackio, which have the same names for tables, histograms and artifacts."""
    return need(tracker.name, tracker.name)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values as numbers and texts, under keys joined by dots; ``None`` is left out."""
    return {
        name: value if isinstance(value, (int, float)) else str(value)
        for name, value in leaves(values)
        if value is not None and not isinstance(value, Mapping)
    }


class LabelTracker:
    """Logs one label run: progress, the distribution of labels, and examples.

    ``column`` is the field of the labels, ``cache`` that of the logged hits and misses, and ``finished`` the number of
    questions that an interrupted run finished.
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
        self._run.log(record, self._questions)

    def finish(self, rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], folder: Path) -> None:
        """Log histograms, a table of examples with clusters, the summary and the files of the folder."""
        if baselines := baseline_sepers(rows):
            self._run.histogram("baseline_seper", baselines)
        self._run.histogram(self._column, [passage[self._column] for row in rows for passage in row["passages"]])
        shown = [(row, passage) for row in rows[:_EXAMPLES] for passage in row["passages"]]
        self._run.table("examples", [_example(row, passage, self._column) for row, passage in shown])
        self._run.summary(summary)
        names = ["labels.jsonl", "provenance.json", "rejected.jsonl", "summary.json"]
        names += ["placebo.jsonl"] if "placebo" in summary else []
        self._run.artifact("labels", "dataset", [folder / name for name in names], summary)


def _example(row: Mapping[str, Any], passage: Mapping[str, Any], column: str) -> dict[str, Any]:
    text = shorten(passage["text"], _LONGEST_TEXT, placeholder=" …")
    example = {
        "id": row["id"],
        "question": row["question"],
        "answers": ", ".join(" | ".join(aliases) for aliases in answer_items(row["answers"])),
        "passage": f"{title}: {text}" if (title := passage.get("title")) else text,
        column: passage[column],
        "std_error": passage["std_error"],
    }
    if "seper" in passage:
        example |= {"baseline": row["baseline"]["seper"], "seper": passage["seper"]}
        example["clusters"] = clusters_text(passage["responses"])
    return example


def _cell(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) or value is None else str(value)
