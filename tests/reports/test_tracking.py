"""Trackers: their own variables are heeded, a resumed run goes on, trainers log into it, and errors say what to do."""

import sys
import types
from pathlib import Path

import accelerate.tracking  # before W&B is replaced: it looks for it when it is imported
import pytest

from seper_reward.reports.tracking import LabelTracker, Run, _example
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
    passage = {"text": "mill " * 100, "delta_seper": 0.5, "std_error": 0.1}
    labeled = read_row({"passages": [passage, {**passage, "title": "Hallow"}]})
    with Run("wandb", "label", {}) as run:
        rows = [_example(labeled, place, "delta_seper") for place in (0, 1)]
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
    installed("mlflow")
    Run("mlflow", "label", {})
    with pytest.raises(OSError, match=r"--report_to wandb needs wandb; run: pip install wandb \(extra: wandb\)"):
        Run("wandb", "label", {})


def test_missing_numbers_are_left_out(wandb, installed):
    installed("wandb")
    with Run("wandb", "retriever", {}) as run:
        run.log({"test/after/mrr": None, "test/after/seper@1": 0.5})
    assert wandb.logged == [{"test/after/seper@1": 0.5}]
