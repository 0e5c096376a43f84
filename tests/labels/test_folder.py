"""A label folder that something happened to: what a run did not write is reported, never believed."""

import json
import shutil
from contextlib import nullcontext
from importlib.metadata import version
from types import SimpleNamespace

import pytest

from seper_reward.cli import main
from seper_reward.labels import provenance
from seper_reward.labels import run as label_run
from seper_reward.labels.blocks import Block
from seper_reward.labels.labelers import GoldLabeler
from seper_reward.labels.run import LabelRun
from seper_reward.runtime.run_folder import lock_folder
from tests.helpers import as_query, labels_of, write_rows
from tests.labels.test_run import rows

RECORDS = rows(4)
QUERIES = [as_query(record) for record in RECORDS]
PUBLISHED = ["labels.jsonl", "rejected.jsonl", "summary.json"]


class Counting(GoldLabeler):
    """Counts what it labels, and fails before it would label more than ``most`` queries."""

    def __init__(self, most=4):
        self.asked, self.most = [], most

    def label(self, query):
        if len(self.asked) == self.most:
            raise KeyboardInterrupt
        self.asked.append(query.id)
        return super().label(query)


@pytest.fixture
def folder(tmp_path):
    """Return a finished folder."""
    LabelRun(tmp_path / "out", GoldLabeler(), QUERIES).run()
    return tmp_path / "out"


@pytest.fixture
def unfinished(tmp_path):
    """Return a folder with three of four questions in ``progress/``."""
    with pytest.raises(KeyboardInterrupt):
        LabelRun(tmp_path / "cut", Counting(3), QUERIES).run()
    return tmp_path / "cut"


@pytest.fixture
def command(tmp_path):
    """Return the words of the command whose folder this is."""
    words = ["label", "--input", str(write_rows(tmp_path / "data.jsonl", RECORDS)), "--labeler", "gold"]
    return lambda folder: [*words, "--output_dir", str(folder)]


@pytest.mark.parametrize(
    ("name", "change"),
    [("labels.jsonl", "cut"), ("labels.jsonl", "edited"), ("rejected.jsonl", "edited"), ("rejected.jsonl", "gone")],
)
def test_label_command_reports_a_changed_file(folder, command, capsys, name, change):
    before = (folder / name).read_bytes()
    if change == "gone":
        (folder / name).unlink()
    else:
        changed = before.partition(b"\n")[0] + b"\n" if change == "cut" else before.replace(b"Voss 1", b"Boss 1")
        (folder / name).write_bytes(changed if changed != before else b"{}\n")
    assert main(command(folder)) == 2
    error = capsys.readouterr().err
    assert f"{folder}: {name} changed after the run ended" in error
    assert "delete labels.jsonl and summary.json to label again" in error
    (folder / "labels.jsonl").unlink()
    (folder / "summary.json").unlink()
    assert main(command(folder)) == 0  # the way out is one
    assert (folder / name).read_bytes() == before


def test_label_run_writes_a_changed_file_again_from_progress(folder, tmp_path, monkeypatch, capsys):
    before = [(folder / name).read_bytes() for name in PUBLISHED]
    monkeypatch.setattr(shutil, "rmtree", lambda path: None)  # as a kill after summary.json leaves it
    LabelRun(tmp_path / "new", GoldLabeler(), QUERIES).run()
    monkeypatch.undo()
    (tmp_path / "new" / "labels.jsonl").write_text("")
    labeler = Counting(0)
    assert LabelRun(tmp_path / "new", labeler, QUERIES).run()["questions"] == 4
    assert "labels.jsonl changed after the run ended; writing it again from progress/" in capsys.readouterr().err
    assert [(tmp_path / "new" / name).read_bytes() for name in PUBLISHED] == before
    assert not (tmp_path / "new" / "progress").exists()


def test_label_run_leaves_a_finished_folder_alone(folder):
    summary, stamp = json.loads((folder / "summary.json").read_text()), (folder / "labels.jsonl").stat().st_mtime_ns
    (folder / "progress").mkdir()  # as a kill at the very end would leave it
    assert LabelRun(folder, Counting(0), QUERIES).run() == summary
    assert (folder / "labels.jsonl").stat().st_mtime_ns == stamp
    assert not (folder / "progress").exists()
    assert set(summary["sha256"]) == {"labels.jsonl", "rejected.jsonl"}


def test_label_run_publishes_no_changed_byte(folder, unfinished, tmp_path, capsys):
    for file in (unfinished / "progress").glob("*.jsonl"):
        whole = file.read_bytes()
        (at,) = (at for at in range(4) if f'"id": "q{at}"'.encode() in whole)
        for place in range(at, len(whole), 53):
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            shutil.copytree(unfinished, tmp_path / "copy")
            copy = tmp_path / "copy" / "progress" / file.name
            copy.write_bytes(whole[:place] + bytes([whole[place] ^ 2]) + whole[place + 1 :])
            labeler = Counting()
            LabelRun(tmp_path / "copy", labeler, QUERIES).run()
            assert f"{copy}: damaged" in capsys.readouterr().err
            assert labeler.asked == [f"q{at}", "q3"]
            assert (tmp_path / "copy" / "labels.jsonl").read_bytes() == (folder / "labels.jsonl").read_bytes()


@pytest.mark.parametrize("shown_after", [2, None])
def test_label_run_waits_for_blocks_of_other_processes(folder, tmp_path, monkeypatch, shown_after):
    """Another process takes the second block, whose file a network disk shows late, or never."""
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path: None)
        LabelRun(tmp_path / "whole", GoldLabeler(), QUERIES).run()
    take, slept = Block.take, []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == shown_after:
            for file in (tmp_path / "whole" / "progress").iterdir():
                shutil.copy(file, tmp_path / "new" / "progress")

    monkeypatch.setattr(Block, "take", lambda block: block.places.start != 1 and take(block))
    monkeypatch.setattr(label_run, "process_state", lambda: SimpleNamespace(num_processes=2, is_main_process=True))
    monkeypatch.setattr(label_run, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: 50 * len(slept)))
    labeler = Counting()
    run = LabelRun(tmp_path / "new", labeler, QUERIES)
    if shown_after is None:
        with pytest.raises(ValueError, match=r"not labelled: 1 question, the first is id='q1'"):
            run.run()
        monkeypatch.undo()
    assert run.run()["questions"] == 4
    assert labeler.asked == (["q0", "q2", "q3"] if shown_after else ["q0", "q2", "q3", "q1"])
    assert [(tmp_path / "new" / name).read_bytes() for name in PUBLISHED[:2]] == [
        (folder / name).read_bytes() for name in PUBLISHED[:2]
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("labels.jsonl", "mine\n", "has labels.jsonl of unknown origin (no provenance.json); restore"),
        ("progress", None, "has progress of unknown origin (no provenance.json); restore"),
        ("provenance.json", '{"mine": 1}', "holds labels made otherwise"),
        ("provenance.json", '{"a": 1,\n b}', "provenance.json: expected JSON"),
        ("provenance.json", "[]", "provenance.json: expected a JSON object"),
    ],
)
def test_label_command_refuses_a_foreign_folder(command, tmp_path, capsys, name, text, message):
    path = tmp_path / "out" / name
    path.parent.mkdir()
    path.mkdir() if text is None else path.write_text(text)
    assert main(command(path.parent)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert path.is_dir() if text is None else path.read_text() == text


@pytest.mark.parametrize("ends", ["well", "while it works", "before it begins"])
def test_label_run_leaves_its_folder_to_others(ends, tmp_path):
    if ends == "before it begins":
        LabelRun(tmp_path / "out", GoldLabeler(), QUERIES[:2]).run()
        with pytest.raises(ValueError, match="Name another folder") as kept:  # its traceback keeps the run alive
            LabelRun(tmp_path / "out", GoldLabeler(), QUERIES)
        assert kept.tb
    else:
        labeler = Counting(4 if ends == "well" else 1)
        ended = LabelRun(tmp_path / "out", labeler, QUERIES)
        with pytest.raises(ValueError, match="in use by another process"):
            LabelRun(tmp_path / "out", GoldLabeler(), QUERIES)
        with nullcontext() if ends == "well" else pytest.raises(KeyboardInterrupt):
            ended.run()
        labeler.most = 5
        with lock_folder(tmp_path / "out"), pytest.raises(ValueError, match="in use by another process"):
            ended.run()
        assert ended.run()["questions"] == 4
        assert [row["id"] for row in labels_of(tmp_path / "out")] == [query.id for query in QUERIES]
    with lock_folder(tmp_path / "out"):
        pass


@pytest.mark.parametrize("package", ["torch", "transformers", "seper-reward"])
def test_label_run_refuses_other_versions(folder, unfinished, command, monkeypatch, capsys, package):
    monkeypatch.setattr(provenance, "version", lambda name: "98.1" if name == package else version(name))
    for begun in (unfinished, folder):
        with pytest.raises(ValueError, match=rf"changed: {package} was '[^']*', is '98\.1'\. Name another folder"):
            LabelRun(begun, Counting(0), QUERIES)
    assert main(command(folder)) == 2
    assert "(and the same cache, if any), or use the former settings and versions" in capsys.readouterr().err
