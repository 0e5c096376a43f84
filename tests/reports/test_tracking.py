"""Trackers: their own variables are heeded, a resumed run goes on, trainers log into it, and errors say what to do."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import accelerate.tracking  # before W&B is replaced: it looks for it when it is imported
import pytest
import torch

from seper_reward.reports.tracking import LabelTracker, Run, _example

ROW = {"passages": [{"delta_seper": 0.5}], "baseline": {}}


class FakeWandb:
    """Records how runs are started and what they log."""

    Error = type("Error", (Exception,), {})

    def __init__(self, error=None):
        self.error, self.started, self.logged, self.finished = error, [], [], []
        self.config = types.SimpleNamespace(update=lambda values, allow_val_change: None)

    def init(self, **options):
        if self.error is not None:
            raise self.Error(self.error)
        self.started.append(options)
        return types.SimpleNamespace(
            id=options.get("id") or f"run{len(self.started)}",
            log=lambda values, step: self.logged.append(values),
            finish=lambda exit_code=0: self.finished.append(exit_code),
        )


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for name in ("WANDB_PROJECT", "WANDB_RUN_ID", "WANDB_RESUME"):
        monkeypatch.delenv(name, raising=False)
    return fake


@pytest.fixture
def installed(monkeypatch):
    """Return a function that sets which trackers are installed."""
    return lambda *names: monkeypatch.setattr(accelerate.tracking, "_available_trackers", list(names))


def test_the_project_of_the_environment_is_taken(wandb, monkeypatch, installed):
    installed("wandb")
    Run("wandb", "label", {})
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    Run(["mlflow", "wandb"], "label", {})  # what is none of ours is left to the trainer
    Run("none", "label", {})
    assert [options["project"] for options in wandb.started] == ["seper-reward", "mine"]
    assert not any({"id", "name", "entity", "mode"} & set(options) for options in wandb.started)  # wandb reads them
    Run("wandb", "label", {}, name="first")
    assert wandb.started[-1]["name"] == "first"


def test_a_resumed_run_goes_on(wandb, monkeypatch, tmp_path):
    for finished in (0, 7):
        with Run("wandb", "label", {}, tmp_path) as run:
            LabelTracker(run, "delta_seper", finished=finished).progress(ROW)
    assert [(options.get("id"), options["resume"]) for options in wandb.started] == [
        (None, "allow"),
        ("run1", "allow"),
    ]
    assert [logged["questions"] for logged in wandb.logged] == [1, 8]
    monkeypatch.setenv("WANDB_RUN_ID", "mine")
    monkeypatch.setenv("WANDB_RESUME", "must")
    Run("wandb", "label", {}, tmp_path)
    assert ("id" in wandb.started[-1], wandb.started[-1]["resume"]) == (False, "must")


def test_a_run_that_fails_is_marked(wandb):
    with pytest.raises(ZeroDivisionError), Run("wandb", "label", {}):
        print(1 / 0)
    assert wandb.finished == [1]


def test_without_a_login_the_way_out_is_named(wandb):
    wandb.error = "No API key configured."
    with pytest.raises(OSError, match=r"No API key configured\.; run `wandb login`, set WANDB_MODE=offline, or omit"):
        Run("wandb", "label", {})


def test_examples_show_the_text_of_passages(wandb, tmp_path):
    passage = {"passage_id": "7", "text": "mill " * 100, "delta_seper": 0.5, "std_error": 0.1}
    row = {"id": "q", "question": "Who?", "answers": ["Ida"], "passages": [passage, {**passage, "title": "Hallow"}]}
    with Run("wandb", "label", {}) as run:
        rows = [_example(row, each, "delta_seper") for each in row["passages"]]
        wandb.Table = lambda columns, data: [dict(zip(columns, values, strict=True)) for values in data]
        run.table("examples", rows)
    plain, titled = (each["passage"] for each in wandb.logged[-1]["examples"])
    assert plain.startswith("mill mill")
    assert plain.endswith("mill …")
    assert 290 < len(plain) <= 300
    assert titled.startswith("Hallow: mill mill")


def test_figures_of_evaluations_are_logged(wandb):
    pytest.importorskip("matplotlib")
    wandb.Image = lambda path: Path(path).read_bytes()
    with Run("wandb", "correlation", {}) as run:
        run.figure("correlation", lambda path: path.write_bytes(b"picture"))
    assert wandb.logged == [{"correlation": b"picture"}]


def test_a_tracker_that_is_not_installed_is_named(installed):
    installed("wandb")
    with pytest.raises(OSError, match=r"--report_to trackio needs trackio; run: pip install 'seper-reward\[tr"):
        Run("trackio", "label", {})


def test_all_are_those_that_are_installed(wandb, installed):
    installed("mlflow", "wandb")
    Run("all", "label", {})
    assert len(wandb.started) == 1
    installed()
    Run("all", "label", {}).log({"loss": 1.0})
    assert len(wandb.started) == 1


def events(folder):
    """Return what TensorBoard reads in a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
    accumulator.Reload()
    return accumulator


def trained(folder, report_to, **options):
    """Train a line for two steps with transformers' trainer, which reports to its trackers."""
    from transformers import Trainer, TrainingArguments

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return {"loss": ((self.slope * x - 2 * x) ** 2).mean()}

    arguments = TrainingArguments(
        str(folder), max_steps=2, logging_steps=1, report_to=report_to, use_cpu=True, disable_tqdm=True,
        save_strategy="no", **options,
    )  # fmt: skip
    Trainer(Line(), arguments, train_dataset=[{"x": torch.tensor([1.0])}] * 4).train()


def test_tensorboard_goes_on_in_one_folder(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    for finished in (0, 7):
        with Run("tensorboard", "label", {"seed": 3, "stop": ["\n"], "nothing": None}, tmp_path) as run:
            LabelTracker(run, "delta_seper", finished=finished).progress(ROW)
            if finished:
                run.histogram("delta_seper", [0.1, 0.2, 0.9])
                run.table("examples", [{"question": "Who?", "delta_seper": 0.5}])
                run.summary({"questions": 8, "labeler": "delta_seper", "groups": {"known": 5}})
    assert "TENSORBOARD_LOGGING_DIR" not in os.environ  # it was lent to the trainer
    assert [path.name for path in tmp_path.glob("*") if path.is_dir()] == ["tensorboard"]
    seen = events(tmp_path / "tensorboard")
    assert [(each.step, each.value) for each in seen.Scalars("questions")] == [(1, 1.0), (8, 8.0)]
    assert seen.Scalars("summary/groups.known")[0].value == 5
    assert seen.Histograms("histogram/delta_seper")[0].histogram_value.num == 3
    assert "Who?" in str(seen.Tensors("examples/text_summary")[0].tensor_proto.string_val)
    (settings,) = (tmp_path / "tensorboard").rglob("hparams.yml")  # of the first start only
    assert "seed: 3" in settings.read_text()


@pytest.mark.slow
def test_a_trainer_logs_into_the_folder_of_tensorboard(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    for _ in range(2):
        with Run("tensorboard", "sft", {}, tmp_path):
            trained(tmp_path, "tensorboard")
    assert [each.step for each in events(tmp_path / "tensorboard").Scalars("train/loss")] == [1, 2, 1, 2]


def test_the_folder_of_the_environment_is_taken(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "mine"))
    with Run("tensorboard", "label", {}, tmp_path / "out") as run:
        run.log({"loss": 0.25}, 4)
    assert os.environ["TENSORBOARD_LOGGING_DIR"] == str(tmp_path / "mine")
    assert [(each.step, each.value) for each in events(tmp_path / "mine").Scalars("loss")] == [(4, 0.25)]


_TRACKIO = """
import json, sys
from pathlib import Path
from tests.reports.test_tracking import ROW, trained
from seper_reward.reports.tracking import LabelTracker, Run

folder = Path(sys.argv[1])
(folder / "labels.jsonl").write_text("{}")
for finished in (0, 7):
    with Run("trackio", "label", {"seed": 3}, folder) as run:
        LabelTracker(run, "delta_seper", finished=finished).progress(ROW)
        trained(folder, "trackio", project=run.project, run_name=run.name)
        run.histogram("delta_seper", [0.1, 0.2, 0.9])
        run.table("examples", [{"question": "Who?", "delta_seper": 0.5}])
        run.summary({"questions": 8})
        run.artifact("labels", "dataset", [folder / "labels.jsonl"])

import trackio
from trackio.sqlite_storage import SQLiteStorage

names = [each.name for each in trackio.Api().runs("seper-reward")]
print("RUNS", json.dumps(names))
print("LOGS", json.dumps(SQLiteStorage.get_logs("seper-reward", names[0])))
"""


@pytest.mark.slow
def test_trackio_goes_on_in_one_run(tmp_path):
    pytest.importorskip("trackio")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _TRACKIO, str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in done.stdout.splitlines() if " " in line}
    assert json.loads(said["RUNS"]) == [json.loads((tmp_path / "tracking.json").read_text())["trackio"]]
    logs = json.loads(said["LOGS"])
    assert [row["questions"] for row in logs if "questions" in row] == [1, 8]
    assert len([row for row in logs if "train/loss" in row]) == 4  # two steps of each start
    assert [row["summary/questions"] for row in logs if "summary/questions" in row] == [8, 8]
