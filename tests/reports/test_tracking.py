"""W&B: its own variables are heeded, a resumed run goes on, and who is not logged in is told what to do."""

import types

import pytest

from seper_reward.reports import tracking
from seper_reward.reports.tracking import LabelTracker, Run


class FakeWandb:
    """Records how runs are started and what they log."""

    Error = type("Error", (Exception,), {})

    def __init__(self, error=None):
        self.error, self.started, self.logged = error, [], []

    def init(self, **options):
        if self.error is not None:
            raise self.Error(self.error)
        self.started.append(options)
        identity = options.get("id") or f"run{len(self.started)}"
        return types.SimpleNamespace(id=identity, log=self.logged.append, finish=lambda exit_code: None)


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandb()
    monkeypatch.setattr(tracking, "need", lambda *_: fake)
    for name in ("WANDB_PROJECT", "WANDB_RUN_ID", "WANDB_RESUME"):
        monkeypatch.delenv(name, raising=False)
    return fake


def test_the_project_of_the_environment_is_taken(wandb, monkeypatch):
    Run("wandb", "label", {})
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    Run(["tensorboard", "wandb"], "label", {})
    Run("none", "label", {})
    assert [options["project"] for options in wandb.started] == ["seper-reward", "mine"]
    assert not any({"id", "name", "entity", "mode"} & set(options) for options in wandb.started)  # wandb reads them


def test_a_resumed_run_goes_on(wandb, monkeypatch, tmp_path):
    row = {"passages": [{"delta_seper": 0.5}], "baseline": {}}
    for finished in (0, 7):
        with Run("wandb", "label", {}, tmp_path) as run:
            LabelTracker(run, "delta_seper", finished=finished).progress(row)
    assert [(options.get("id"), options["resume"]) for options in wandb.started] == [
        (None, "allow"),
        ("run1", "allow"),
    ]
    assert [logged["questions"] for logged in wandb.logged] == [1, 8]
    monkeypatch.setenv("WANDB_RUN_ID", "mine")
    monkeypatch.setenv("WANDB_RESUME", "must")
    Run("wandb", "label", {}, tmp_path)
    assert ("id" in wandb.started[-1], wandb.started[-1]["resume"]) == (False, "must")


def test_without_a_login_the_way_out_is_named(monkeypatch):
    monkeypatch.setattr(tracking, "need", lambda *_: FakeWandb("No API key configured."))
    with pytest.raises(OSError, match=r"No API key configured\.; run `wandb login`, set WANDB_MODE=offline, or leave"):
        Run("wandb", "label", {})
