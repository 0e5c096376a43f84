"""Evaluations shared by two processes against the same ones on one, and what trackers get of them."""

import json
import os
import sys
from functools import partial

import accelerate.tracking  # before W&B is replaced: it looks for it when it is imported
import pytest

from seper_reward.cli import main
from tests.helpers import evaluation_arguments, launch, write_rows
from tests.reports.test_tracking import FakeWandb

PASSAGES = [
    {"id": "a", "text": "Ann owns it.", "relevant": True},
    {"id": "b", "text": "Bob owns it.", "relevant": False, "counterfactual": True},
    {"id": "c", "text": "Rain fell.", "relevant": False},
]


@pytest.fixture
def questions(tmp_path):
    rows = [
        {"id": f"q{n}", "question": f"Who owns house {n}?", "answers": ["Ann"], "passages": PASSAGES} for n in range(5)
    ]
    rows.insert(1, {**rows[0], "id": "long", "question": "Who? " * 500})
    return write_rows(tmp_path / "questions.jsonl", rows)


@pytest.fixture
def commands(questions, tiny_reader, tiny_entailment):
    """Words of each command, whose JSON goes into the folder that it is run in."""
    words = {
        name: ["evaluate", name, *evaluation_arguments(tiny_reader, tiny_entailment, questions, f"{name}.json")]
        for name in ("correlation", "counterfactual", "retrievers")
    }
    words["correlation"] += ["--llm_judge", "reader", "--leave_out_known", "true"]
    words["retrievers"] += ["--retrievers", "bm25", "--depths", "1", "2"]
    said = {"answers": ["Ann"], "response": "It is Ann"}
    verdicts = [{**said, "question": f"who {n}?", "equivalent": n % 3 > 0} for n in range(40)]
    path = write_rows(questions.with_name("verdicts.jsonl"), verdicts)
    judge = ["--judge", str(tiny_entailment), "--json", "judge.json", "--file", str(path)]
    judge += ["--dtype", "float32", "--device", "cpu"]
    return {**words, "judge": ["evaluate", "judge", *judge]}


@pytest.mark.parametrize(
    "names",
    [
        ["counterfactual"],
        pytest.param(["correlation", "counterfactual", "retrievers", "judge"], marks=pytest.mark.slow),
    ],
)
def test_evaluations_on_two_processes(commands, names, tmp_path, monkeypatch, capsys):
    def measure(folder):
        os.chdir(tmp_path / folder)
        return sum(main(commands[name]) for name in names)

    monkeypatch.chdir(tmp_path)
    for name in ("one", "two", "outputs"):
        (tmp_path / name).mkdir()
    shared, warned = launch(partial(measure, "two"), tmp_path / "outputs")
    assert measure("one") == 0
    out, err = capsys.readouterr()
    # torch 2.9 prints the processes that it connects
    assert out == "".join(line for line in shared.splitlines(True) if not line.startswith("[Gloo]"))
    one_of, two_of = ({n: (tmp_path / each / f"{n}.json").read_text() for n in names} for each in ("one", "two"))
    assert one_of == two_of
    if "correlation" in names:
        assert "llm_judge" in json.loads(two_of["correlation"])["files"]["questions"]["mean"]
    for text in (err, warned):  # each command but the judge writes it once
        assert text.count("question id='long' is left out") == len(set(names) - {"judge"})


def test_evaluations_log_their_numbers(commands, tmp_path, monkeypatch):
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(accelerate.tracking, "_available_trackers", ["wandb"])
    assert main([*commands["counterfactual"], "--report_to", "wandb"]) == 0
    result = json.loads((tmp_path / "counterfactual.json").read_text())
    assert result["settings"]["report_to"] == "wandb"
    assert [options["job_type"] for options in wandb.started] == ["evaluate counterfactual"]
    (logged,) = wandb.logged
    value = result["kinds"]["supporting"]["delta_seper"]["value"]
    assert logged["kinds.supporting.delta_seper.value"] == value
    assert logged["questions"] == 5
