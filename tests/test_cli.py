"""The command line: what goes wrong is one line that says what to do."""

import errno
import io
import json
import os
import re
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from seper_reward import cli
from seper_reward.commands import export
from seper_reward.labels.labelers import GoldLabeler
from seper_reward.shipped import configs_folder, copy_configs
from tests.helpers import labels_of

PASSAGES = [{"text": "Ann did.", "relevant": True}, {"text": "Corn.", "relevant": False}]


@pytest.fixture
def words(tmp_path):
    """Return a command that loads no model."""
    rows = [
        {"id": f"q{n}", "group": "Δ", "question": "Who?", "answers": ["Ann"], "passages": PASSAGES} for n in range(3)
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"label --labeler gold --input {tmp_path / 'data.jsonl'} --output_dir {tmp_path / 'out'}".split()


def test_an_interrupted_command_says_that_it_goes_on(words, tmp_path, monkeypatch, capsys):
    def interrupted(labeler, query):
        if query.id == "q2":
            raise KeyboardInterrupt
        return label(labeler, query)

    label = GoldLabeler.label
    monkeypatch.setattr(GoldLabeler, "label", interrupted)
    assert cli.main(words) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "seper-reward label: interrupted; finished work stays on disk, and the same command resumes"
    monkeypatch.undo()
    assert cli.main(words) == 0
    assert "2/3" in capsys.readouterr().err  # it went on
    assert len(labels_of(tmp_path / "out")) == 3


@pytest.mark.parametrize(
    ("rank", "outcome", "status", "shown"),
    [
        ("0", ["run this"], 0, "next: run this\n"),
        ("1", ["run this"], 0, ""),  # one process shows it
        ("0", KeyboardInterrupt, 130, "\nseper-reward export: interrupted\n"),  # and promises nothing
    ],
)
def test_run_shows_how_a_command_ended(tmp_path, monkeypatch, capsys, rank, outcome, status, shown):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(export, "command", Mock(side_effect=outcome))
    assert cli.main(["export", "--labels", str(tmp_path), "--output", "x"]) == status
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize(("calls", "name"), [(1, r"provenance\.json"), (4, r"progress/\w+\.jsonl")])
def test_a_full_disk_is_named(words, tmp_path, monkeypatch, capsys, calls, name):
    left = [calls]

    def full(descriptor):
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert "No space left on device: '" in error
    end = rf"{name}'; finished work is kept: free some space and run the same command again"
    assert re.search(end, error.splitlines()[-1])
    monkeypatch.undo()
    assert cli.main(words) == 0
    assert len(labels_of(tmp_path / "out")) == 3


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_output_that_is_not_utf8_has_replacements(words, monkeypatch, encoding):
    for arguments in (["--help"], ["label", "--help"], words):
        shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", shown)
        if arguments == ["label", "--help"]:
            with pytest.raises(SystemExit, match=r"^0$"):
                cli.main(arguments)
        else:
            assert cli.main(arguments) == 0
        shown.flush()
        assert b"?" in shown.buffer.getvalue()
        assert not shown.buffer.getvalue().count("Δ".encode())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lable"], "unknown command 'lable'; did you mean 'label'?"),
        (["baseline", "corelation", "--seed", "1"], "'baseline corelation'; did you mean 'baseline correlation'?"),
        (["evaluate"], "unknown command 'evaluate'; did you mean 'evaluate "),
        (["--seed", "1"], "unknown command '--seed'; expected one of label, audit-searches, "),
        (["train", "retreiver", "--seed", "1"], "'train retreiver'; did you mean 'train retriever'?"),
        (["baseline", "erga"], "'baseline erga'; did you mean 'baseline erag'?"),
    ],
)
def test_an_unknown_command_is_named_with_the_nearest(capsys, arguments, message):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_next_command_finds_the_labels_without_a_word(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words[:-2]) == 0
    assert capsys.readouterr().err.endswith("next: seper-reward export --labels runs/label --output lists.jsonl\n")
    assert cli.main(["export", "--format", "trec", "--output", "qrels"]) == 0
    assert capsys.readouterr().err == "next: ir_measures qrels RUN.trec nDCG@10\n"
    assert cli.main(["report"]) == 2
    assert "runs/label has labels of 'gold'" in capsys.readouterr().err


def test_configurations_are_copied_once_and_not_over_others(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    compiled = configs_folder() / "scripts" / "__pycache__" / "grpo.cpython-311.pyc"  # as pip writes it
    if not compiled.exists():
        compiled.parent.mkdir(exist_ok=True)
        compiled.write_bytes(b"compiled")
    assert cli.main(["init"]) == 0
    shown = capsys.readouterr()
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert shown.out.splitlines() == files
    assert not [name for name in files if "__pycache__" in name]
    assert {"configs/label/demo.yaml", "configs/scripts/grpo.py", "configs/scripts/retriever.py"} <= set(files)
    assert shown.err == "next: seper-reward train retriever --config configs/retriever/demo.yaml\n"
    assert Path("configs/label/demo.yaml").read_bytes() == (configs_folder() / "label" / "demo.yaml").read_bytes()
    assert cli.main(["init"]) == 0  # the same again
    Path("configs/label/demo.yaml").write_text("limit: 1\n")
    Path("configs/sft/policy.yaml").unlink()
    capsys.readouterr()
    assert cli.main(["init"]) == 2
    assert (
        "configs/label/demo.yaml exists and differs from ours; name another folder with --output_dir"
        in capsys.readouterr().err
    )
    assert Path("configs/label/demo.yaml").read_text() == "limit: 1\n"
    assert not Path("configs/sft/policy.yaml").exists()  # nothing was written


def test_errors_of_a_recipe_are_one_line_if_they_are_ours(monkeypatch, capsys):
    def ours(name, arguments):
        configs_folder()
        copy_configs(Path("/proc/nowhere"))

    monkeypatch.setattr(cli, "run_recipe", ours)
    assert cli.main(["train", "retriever"]) == 2
    assert capsys.readouterr().err.startswith("seper-reward train retriever: ")
    monkeypatch.setattr(cli, "run_recipe", lambda name, arguments: json.loads("{"))
    with pytest.raises(ValueError, match="Expecting property name"):  # a library's: the traceback is needed
        cli.main(["train", "retriever"])


def test_a_library_that_recipes_need_is_named(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "trainers.entailment", raising=False)
    monkeypatch.setitem(sys.modules, "peft", None)
    assert cli.main(["train", "entailment"]) == 2
    assert capsys.readouterr().err.endswith("run: pip install peft (extra: train)\n")
