"""Edited labels are refused wherever labels are read."""

import pytest

from seper_reward import load_labels
from seper_reward.labels.integrity import changed_files, check_labels
from seper_reward.labels.labelers import ContainsLabeler
from seper_reward.labels.rows import read_label_rows
from seper_reward.labels.run import LabelRun
from tests.helpers import as_query, mill_rows


@pytest.fixture
def folder(tmp_path):
    labeler, run = ContainsLabeler(), tmp_path / "run"
    LabelRun(run, labeler, [as_query(row) for row in mill_rows(3)]).run()
    return run


def edit(folder, name="labels.jsonl"):
    text = (folder / name).read_text()
    (folder / name).write_text(text.replace('"contains": 1.0', '"contains": 0.9', 1) if "labels" in name else "{}\n")


def test_load_labels_and_read_label_rows_refuse_edited_labels(folder):
    sources = (folder, folder / "labels.jsonl")
    assert [len(read(source)) for read in (load_labels, read_label_rows) for source in sources] == [3] * 4
    edit(folder)
    for read in (load_labels, read_label_rows):
        for source in sources:
            with pytest.raises(ValueError, match=r"labels\.jsonl changed after the run ended"):
                read(source)
    (folder / "summary.json").unlink()  # the way out
    assert load_labels(folder).labeled()[0].labels == (0.9,)


def test_check_labels_names_both_files_and_passes_absent_ones(folder):
    check_labels(folder.parent)  # of a trainer, whose labels grow
    assert changed_files(folder, ["labels.jsonl", "rejected.jsonl", "other"]) == ["other"]
    edit(folder)
    edit(folder, "rejected.jsonl")
    with pytest.raises(ValueError, match=r"labels\.jsonl and rejected\.jsonl changed"):
        check_labels(folder)
    (folder / "labels.jsonl").unlink()
    (folder / "rejected.jsonl").unlink()
    check_labels(folder)
    assert changed_files(folder, ["labels.jsonl"]) == ["labels.jsonl"]
    (folder / "labels.jsonl").write_text("{}\n")
    (folder / "summary.json").write_text('{"questions": 1}')  # without hashes
    check_labels(folder)
