"""Edited labels are refused wherever labels are read."""

import json

import pytest

from seper_reward import load_labels
from seper_reward.cli import main
from seper_reward.labels.integrity import changed_files, check_labels
from seper_reward.labels.rows import read_label_rows

ROWS = [
    {
        "question": f"Who built mill {number}?",
        "answers": [f"Voss {number}"],
        "passages": [f"Voss {number} built it.", "Sheep."],
    }
    for number in range(3)
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    words = ["label", "--labeler", "contains", "--input", str(tmp_path / "data.jsonl")]
    assert main([*words, "--output_dir", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def edit(folder, name="labels.jsonl"):
    text = (folder / name).read_text()
    (folder / name).write_text(text.replace('"contains": 0.0', '"contains": 0.9', 1) if "labels" in name else "{}\n")


def commands(folder):
    out = folder.parent
    return {
        "export": ["export", "--labels", str(folder), "--output", str(out / "e.jsonl")],
        "page": ["report", "--labels", str(folder), "--output", str(out / "page.html")],
        "plot": ["report", "--labels", str(folder), "--output", str(out / "belief.svg")],
    }


@pytest.mark.parametrize("name", ["export", "page", "plot"])
def test_commands_refuse_edited_labels(folder, capsys, name):
    edit(folder)
    assert main(commands(folder)[name]) == 2
    error = capsys.readouterr().err
    assert f"{folder}: labels.jsonl changed after the run ended" in error
    assert "restore the file, label again, or delete summary.json" in error


def test_python_refuses_edited_labels_and_files(folder):
    assert len(load_labels(folder)) == len(load_labels(folder / "labels.jsonl")) == 3
    edit(folder)
    for read, source in ((load_labels, folder), (load_labels, folder / "labels.jsonl"), (read_label_rows, folder)):
        with pytest.raises(ValueError, match=r"labels\.jsonl changed after the run ended"):
            read(source)
    (folder / "summary.json").unlink()  # the way out
    assert load_labels(folder).labeled()[0].labels == (1.0, 0.9)
    assert len(load_labels(folder)) == 3


def test_both_files_are_named_and_absent_ones_pass(folder):
    assert changed_files(folder, ["labels.jsonl", "rejected.jsonl", "other"]) == ["other"]
    edit(folder)
    edit(folder, "rejected.jsonl")
    with pytest.raises(ValueError, match=r"labels\.jsonl and rejected\.jsonl changed"):
        check_labels(folder)
    (folder / "labels.jsonl").unlink()
    (folder / "rejected.jsonl").unlink()
    check_labels(folder)
    assert changed_files(folder, ["labels.jsonl"]) == ["labels.jsonl"]


def test_folders_without_hashes_pass(tmp_path):
    check_labels(tmp_path)  # of a trainer, whose labels grow
    (tmp_path / "labels.jsonl").write_text("{}\n")
    (tmp_path / "summary.json").write_text('{"questions": 1}')
    check_labels(tmp_path)
