"""The command line: what goes wrong is one line that says what to do."""

import errno
import io
import json
import os
import sys

import pytest

import seper_reward
from seper_reward import cli
from seper_reward.labels.labelers import GoldLabeler
from tests.helpers import labels_of


@pytest.fixture
def words(tmp_path):
    """Return a command that loads no model."""
    rows = [
        {"id": f"q{n}", "group": "Δ", "question": "Who?", "answers": ["Ann"], "passages": ["Ann did.", "Corn."]}
        for n in range(3)
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        "label",
        "--labeler",
        "gold",
        "--input",
        str(tmp_path / "data.jsonl"),
        "--output_dir",
        str(tmp_path / "out"),
    ]


def test_an_interrupted_command_says_that_it_goes_on(words, tmp_path, monkeypatch, capsys):
    def interrupted(labeler, query):
        if query.id == "q2":
            raise KeyboardInterrupt
        return label(labeler, query)

    label = GoldLabeler.label
    monkeypatch.setattr(GoldLabeler, "label", interrupted)
    assert cli.main(words) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "seper-reward label: interrupted; what is finished stays on disk, and the same command goes on"
    monkeypatch.undo()
    assert cli.main(words) == 0
    assert "2/3" in capsys.readouterr().err  # it went on
    assert len(labels_of(tmp_path / "out")) == 3


def test_another_command_that_is_interrupted_promises_nothing(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_export", lambda arguments: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cli.main(["export"]) == 130
    assert capsys.readouterr().err == "\nseper-reward export: interrupted\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"seed: 1\nstop: [a\nlimit: 3\n", "config.yaml, line 3: expected YAML in UTF-8, got expected ',' or ']'"),
        (b"seed: \xff\n", "config.yaml: expected YAML in UTF-8, got "),
        (b"seed: \x00\n", "config.yaml: expected YAML in UTF-8, got "),
    ],
)
def test_a_broken_config_file_is_named(words, tmp_path, capsys, text, message):
    (tmp_path / "config.yaml").write_bytes(text)
    assert cli.main([*words, f"--config={tmp_path / 'config.yaml'}"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("calls", "name"), [(1, "provenance.json"), (4, "process-0.jsonl")])
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
    assert error.splitlines()[-1].endswith(f"{name}'")
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
        (["evaluate", "corelation", "--seed", "1"], "'evaluate corelation'; did you mean 'evaluate correlation'?"),
        (["evaluate"], "unknown command 'evaluate'; did you mean 'evaluate "),
        (["--seed", "1"], "unknown command '--seed'; expected one of label, evaluate correlation, "),
    ],
)
def test_an_unknown_command_is_named_with_the_nearest(capsys, arguments, message):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"seper-reward {seper_reward.__version__}\n"


def test_the_next_command_finds_the_labels_without_a_word(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words[:-2]) == 0
    assert cli.main(["export", "--format", "trec", "--output", "qrels"]) == 0
    assert cli.main(["report"]) == 2
    assert "runs/label holds labels of 'gold'" in capsys.readouterr().err


def test_a_damaged_label_file_is_named(tmp_path, capsys):
    (tmp_path / "labels.jsonl").write_text("{broken\n")
    for words in (["report"], ["export", "--output", str(tmp_path / "x")]):
        assert cli.main([*words, "--labels", str(tmp_path)]) == 2
        assert "labels.jsonl, line 1: expected one JSON object on the line" in capsys.readouterr().err
