"""Runs in W&B through Accelerate: numbers, tables, histograms, figures, files.

W&B's environment variables (``WANDB_PROJECT``, ``WANDB_NAME``, ``WANDB_MODE=offline``, ...) override arguments.
"""

import importlib
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

from seper_reward.labels.integrity import PLACEBO, PROVENANCE, REJECTED, SUMMARY, label_files
from seper_reward.labels.rows import labeled_query
from seper_reward.reports.tables import clusters_text
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.imports import advice
from seper_reward.runtime.json_files import read_json, read_lines, write_json
from seper_reward.types import LabeledQuery

PROJECT = "seper-reward"
_EXAMPLES = 50  # questions in the table of examples
_LONGEST_TEXT = 300  # characters of a passage in that table
_IDENTITIES = "tracking.json"  # identity of the run in each tracker, for resuming
_WANDB = "wandb"


class Run:
    """A run in W&B, as a context manager; without W&B all methods do nothing.

    A trainer of transformers inside the ``with`` block continues the same run. ``folder`` has the identity of the run,
    for resuming. Raises ``OSError`` if W&B is not installed, or fails to start a run.
    """

    def __init__(
        self,
        report_to: str | Sequence[str],
        job_type: str,
        config: Mapping[str, object],
        folder: Path | None = None,
        name: str | None = None,
    ) -> None:
        self._tracker: Any = None
        trackers = [report_to] if isinstance(report_to, str) else report_to
        if _WANDB not in trackers or not process_state().is_main_process:
            return
        from accelerate.tracking import WandBTracker, get_available_trackers

        if _WANDB not in map(str, get_available_trackers()):
            raise OSError(f"--report_to wandb needs wandb; {advice('wandb', 'wandb')}")
        path = None if folder is None else folder / _IDENTITIES
        known = read_json(path) if path is not None and path.is_file() else {}
        options = {"job_type": job_type} | ({} if name is None else {"name": name})
        if path is not None:
            options["resume"] = os.environ.get("WANDB_RESUME", "allow")
            if _WANDB in known and "WANDB_RUN_ID" not in os.environ:
                options["id"] = known[_WANDB]
        self._wandb = importlib.import_module(_WANDB)
        self._tracker = WandBTracker(os.environ.get("WANDB_PROJECT", PROJECT), **options)
        try:
            self._tracker.start()
        except Exception as error:  # the library raises its own errors, such as wandb.Error
            hint = "run `wandb login`, set WANDB_MODE=offline, or omit --report_to wandb"
            raise OSError(f"wandb cannot start a run: {error}; {hint}") from error
        self._tracker.store_init_configuration(dict(config))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, {**known, _WANDB: str(self._tracker.tracker.id)})

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._tracker is not None:
            self._tracker.tracker.finish(**({} if kind is None else {"exit_code": 1}))

    def log(self, numbers: Mapping[str, object]) -> None:
        """Log numbers; ``None`` is left out. W&B counts steps itself, also in resumed runs."""
        if self._tracker is not None:
            self._tracker.log({name: value for name, value in numbers.items() if value is not None})

    def histogram(self, name: str, values: Sequence[float]) -> None:
        """Log the distribution of values."""
        if self._tracker is not None:
            self._tracker.log({f"histogram/{name}": self._wandb.Histogram(list(values))})

    def table(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Log rows with equal keys as a table; values other than numbers and texts are converted to text."""
        if self._tracker is not None and rows:
            kinds = (int, float, str, type(None))
            data = [
                [cell if isinstance(cell := values[name], kinds) else str(cell) for name in rows[0]] for values in rows
            ]
            self._tracker.log({name: self._wandb.Table(columns=list(rows[0]), data=data)})

    def figure(self, name: str, plot: Callable[[Path], None]) -> None:
        """Log the figure that ``plot`` writes to a path, if matplotlib is installed."""
        if self._tracker is None or find_spec("matplotlib") is None:
            return
        with TemporaryDirectory() as folder:
            path = Path(folder) / "figure.png"
            plot(path)
            self._tracker.log({name: self._wandb.Image(str(path))})

    def summary(self, values: Mapping[str, object]) -> None:
        """Set the run's summary."""
        if self._tracker is not None:
            self._tracker.tracker.summary.update(dict(values))

    def artifact(self, name: str, kind: str, paths: Sequence[Path], about: Mapping[str, object] | None = None) -> None:
        """Log files and folders as one artifact, with ``kind`` as its type and ``about`` as its metadata."""
        if self._tracker is not None:
            artifact = self._wandb.Artifact(name, type=kind, metadata=dict(about or {}))
            for path in paths:
                (artifact.add_dir if path.is_dir() else artifact.add_file)(str(path))
            self._tracker.tracker.log_artifact(artifact)


class LabelTracker:
    """Logs one label run: progress, the distribution of labels, and examples."""

    def __init__(self, run: Run, column: str, cache: Cache | None = None, finished: int = 0) -> None:
        self._run, self._column, self._cache = run, column, cache
        self._questions = finished

    def progress(self, labeled: LabeledQuery) -> None:
        """Log the labels of one question."""
        self._questions += 1
        record = {
            "questions": self._questions,
            f"{self._column}/best": max(labeled.labels),
            f"{self._column}/mean": sum(labeled.labels) / len(labeled.labels),
            "baseline_seper": labeled.baseline_seper,
        }
        if self._cache is not None:
            record |= {"cache/hits": self._cache.hits, "cache/misses": self._cache.misses}
        self._run.log(record)

    def finish(self, summary: Mapping[str, object], folder: Path) -> None:
        """Log histograms, a table of examples with clusters, the summary and the files of the folder."""
        files, column = label_files(folder), self._column
        baselines, labels, gains = array("d"), array("d"), array("d")
        examples: list[dict[str, object]] = []
        for at, line in enumerate(line for file in files for line in read_lines(file)):
            labeled = labeled_query(line, column)
            baselines.extend([] if labeled.baseline_seper is None else [labeled.baseline_seper])
            labels.extend(labeled.labels)
            gains.extend(gain for detail in labeled.details if (gain := detail.get("question_gain")) is not None)
            examples += [_example(labeled, place, column) for place in range(len(labeled.labels)) if at < _EXAMPLES]
        for name, values in (("baseline_seper", baselines), (column, labels), ("question_gain", gains)):
            if values:
                self._run.histogram(name, values)
        self._run.table("examples", examples)
        self._run.summary(summary)
        names = (PROVENANCE, REJECTED, SUMMARY, *([PLACEBO] if "placebo" in summary else []))
        self._run.artifact("labels", "dataset", [*files, *(folder / name for name in names)], summary)


def _example(labeled: LabeledQuery, place: int, column: str) -> dict[str, object]:
    query, passage, fields = labeled.query, labeled.query.passages[place], labeled.details[place]
    example = {
        "id": query.id,
        "question": query.question,
        "answers": " | ".join(query.answers),
        "passage": replace(passage, text=shorten(passage.text, _LONGEST_TEXT, placeholder=" …")).full_text,
        column: labeled.labels[place],
        "std_error": labeled.std_errors[place],
    }
    if "seper" in fields:
        example |= {
            "baseline": labeled.baseline_seper,
            "seper": fields["seper"],
            "question_gain": fields.get("question_gain"),
            "clusters": clusters_text(fields["responses"]),
        }
    return example
