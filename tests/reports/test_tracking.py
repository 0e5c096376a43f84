"""Trackers: their own variables are heeded, a resumed run goes on, trainers log into it, and errors say what to do."""

import sys
import types
from pathlib import Path

import accelerate.tracking  # before W&B is replaced: it looks for it when it is imported
import pytest

from seper_reward.reports.tracking import LabelTracker, Run
from tests.helpers import read_row

ROW = read_row({"passages": [{"delta_seper": 0.5}]})


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


def test_run_takes_the_project_of_the_environment(wandb, monkeypatch, installed):
    installed("wandb")
    Run("wandb", "label", {})
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    Run(["mlflow", "wandb"], "label", {}, name="first")  # what is none of ours is left to the trainer
    Run("none", "label", {})
    assert [options["project"] for options in wandb.started] == ["seper-reward", "mine"]
    assert not any({"id", "entity", "mode"} & set(options) for options in wandb.started)  # wandb reads them
    assert [options.get("name") for options in wandb.started] == [None, "first"]


def test_run_resumed_goes_on(wandb, monkeypatch, tmp_path):
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


def test_run_that_fails_is_marked(wandb):
    with pytest.raises(ZeroDivisionError), Run("wandb", "label", {}):
        print(1 / 0)
    assert wandb.finished == [1]
    wandb.error = "No API key configured."
    with pytest.raises(OSError, match=r"No API key configured\.; run `wandb login`, set WANDB_MODE=offline, or omit"):
        Run("wandb", "label", {})


def test_run_logs_figures_and_leaves_out_missing_numbers(wandb):
    pytest.importorskip("matplotlib")
    wandb.Image = lambda path: Path(path).read_bytes()
    with Run("wandb", "correlation", {}) as run:
        run.figure("correlation", lambda path: path.write_bytes(b"picture"))
        run.log({"test/after/mrr": None, "test/after/seper@1": 0.5})
    assert wandb.logged == [{"correlation": b"picture"}, {"test/after/seper@1": 0.5}]


def test_run_names_a_tracker_that_is_not_installed(installed):
    installed("mlflow")
    Run("mlflow", "label", {})
    with pytest.raises(OSError, match=r"--report_to wandb needs wandb; run: pip install wandb \(extra: wandb\)"):
        Run("wandb", "label", {})
