"""Evaluations shared by two processes against the same ones on one, and what trackers get of them."""

import itertools
import json
import os
import sys
import types
from functools import partial

import accelerate.tracking  # before W&B is replaced: it looks for it when it is imported
import pytest

from seper_reward.batching import measure_shared
from seper_reward.cli import main
from seper_reward.runtime import distributed
from seper_reward.runtime.memory import in_batches
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
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


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
def test_two_processes_measure_what_one_does(commands, names, tmp_path, monkeypatch, capsys):
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


@pytest.mark.parametrize("count", [0, 1, 7])
def test_every_item_is_measured_by_one_process(monkeypatch, count):
    """Three processes in turn; what they would gather is put together by hand."""
    items, measured = list(range(count)), []
    for index in range(3):
        state = types.SimpleNamespace(num_processes=3, process_index=index, is_main_process=index == 0)
        monkeypatch.setattr(distributed, "process_state", lambda state=state: state)
        monkeypatch.setattr("seper_reward.batching.process_state", lambda state=state: state)
        monkeypatch.setattr("seper_reward.batching.gather_in_order", lambda shares: measured.append(shares) or shares)
        measure_shared(items, lambda batch: [item * item for item in batch], "squaring", size=2)
    shares = list(itertools.chain.from_iterable(measured))
    assert [len(share) for share in shares] == [len(batch) for batch in in_batches(items, 2)]
    assert list(itertools.chain(*shares)) == [item * item for item in items]


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def test_the_numbers_are_logged(commands, tmp_path, monkeypatch, wandb):
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


def test_a_tracker_that_is_missing_is_named_before_anything_is_measured(commands, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(accelerate.tracking, "_available_trackers", [])
    assert main([*commands["correlation"], "--report_to", "wandb"]) == 2
    assert "--report_to wandb needs wandb; run: pip install wandb (extra: wandb)" in capsys.readouterr().err
    assert not (tmp_path / "correlation.json").exists()
