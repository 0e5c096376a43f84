"""An evaluation shared by two processes against the same one on one."""

import os
from functools import partial

import pytest

from seper_reward.cli import main
from tests.helpers import evaluation_arguments, launch, write_rows

PASSAGES = [
    {"id": "a", "text": "Ann owns it.", "relevant": True},
    {"id": "b", "text": "Bob owns it.", "relevant": False, "counterfactual": True},
    {"id": "c", "text": "Rain fell.", "relevant": False},
]


@pytest.fixture
def words(tmp_path, tiny_reader, tiny_entailment):
    """Words of a command, whose JSON goes into the folder that it is run in."""
    rows = [
        {"id": f"q{n}", "question": f"Who owns house {n}?", "answers": ["Ann"], "passages": PASSAGES} for n in range(5)
    ]
    rows.insert(1, {**rows[0], "id": "long", "question": "Who? " * 500})
    path = write_rows(tmp_path / "questions.jsonl", rows)
    return ["evaluate", "counterfactual", *evaluation_arguments(tiny_reader, tiny_entailment, path, "out.json")]


def test_evaluation_on_two_processes(words, tmp_path, monkeypatch, capsys):
    def measure(folder):
        (tmp_path / folder).mkdir(exist_ok=True)
        os.chdir(tmp_path / folder)
        return main(words)

    monkeypatch.chdir(tmp_path)
    shared, warned = launch(partial(measure, "two"), tmp_path)
    assert measure("one") == 0
    out, err = capsys.readouterr()
    # torch 2.9 prints the processes that it connects
    assert out == "".join(line for line in shared.splitlines(True) if not line.startswith("[Gloo]"))
    one, two = ((tmp_path / name / "out.json").read_text() for name in ("one", "two"))
    assert one == two
    for text in (err, warned):
        assert text.count("question id='long' is left out") == 1
