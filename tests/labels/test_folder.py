"""A label folder that something happened to: what a run did not write is reported, never believed."""

import importlib.metadata
import json
import shutil
import time

import pytest

from seper_reward.cli import main
from seper_reward.labels import provenance
from seper_reward.labels.labelers import GoldLabeler
from seper_reward.labels.run import LabelRun
from seper_reward.runtime.run_folder import lock_folder
from tests.helpers import as_query, labels_of

RECORDS = [
    {
        "id": f"q{number}",
        "question": f"Who built mill {number}?",
        "answers": [f"Voss {number}"],
        "passages": [
            {"id": "s", "text": f"Voss {number} built it. 🙂", "relevant": True},
            {"id": "u", "text": "Corn.", "relevant": False},
        ],
    }
    for number in range(4)
]
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
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    words = ["label", "--input", str(tmp_path / "data.jsonl"), "--labeler", "gold"]
    return lambda folder: [*words, "--output_dir", str(folder)]


@pytest.mark.parametrize(
    ("name", "change"),
    [("labels.jsonl", "cut"), ("labels.jsonl", "edited"), ("rejected.jsonl", "edited"), ("rejected.jsonl", "gone")],
)
def test_a_changed_file_of_a_finished_run_is_reported(folder, command, capsys, name, change):
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


def test_a_changed_file_is_written_again_while_progress_is_there(folder, tmp_path, monkeypatch, capsys):
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


def test_a_finished_folder_is_left_alone(folder):
    summary, stamp = json.loads((folder / "summary.json").read_text()), (folder / "labels.jsonl").stat().st_mtime_ns
    (folder / "progress").mkdir()  # as a kill at the very end would leave it
    assert LabelRun(folder, Counting(0), QUERIES).run() == summary
    assert (folder / "labels.jsonl").stat().st_mtime_ns == stamp
    assert not (folder / "progress").exists()
    assert set(summary["sha256"]) == {"labels.jsonl", "rejected.jsonl"}


def test_no_changed_byte_in_progress_is_published(folder, unfinished, tmp_path, capsys):
    blocks = LabelRun(unfinished, Counting(0), QUERIES, dry_run=True)._labelling.blocks
    for at, file in enumerate(block.file for block in blocks[:3]):
        whole = file.read_bytes()
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
    assert len(list((unfinished / "progress").glob("*.jsonl"))) == 3


def test_a_network_disk_may_show_a_block_late(unfinished, monkeypatch):
    run = LabelRun(unfinished, Counting(), QUERIES)
    ((_, late),) = run._missing(0)
    assert late == run._labelling.blocks[3]
    slept = []

    def shows(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            run._write(late, [], [])

    monkeypatch.setattr(time, "sleep", shows)
    assert not run._missing(60)
    assert len(slept) == 2


def test_progress_whose_settings_are_unknown_is_refused(unfinished, command, capsys):
    (unfinished / "provenance.json").unlink()
    assert main(command(unfinished)) == 2
    assert "has progress of unknown origin (no provenance.json); restore" in capsys.readouterr().err
    assert list((unfinished / "progress").glob("*.jsonl"))


@pytest.mark.parametrize("name", ["provenance.json", "summary.json"])
@pytest.mark.parametrize(("text", "message"), [('{"a": 1,\n b}', "expected JSON"), ("[]", "expected a JSON object")])
def test_a_broken_file_is_named(folder, command, capsys, name, text, message):
    (folder / name).write_text(text)
    assert main(command(folder)) == 2
    error = capsys.readouterr().err
    assert f"{folder / name}: {message}" in error
    assert error.count("\n") == 1


def test_a_run_that_ended_leaves_its_folder_to_others(tmp_path):
    ended = LabelRun(tmp_path / "out", GoldLabeler(), QUERIES)
    with pytest.raises(ValueError, match="in use by another process"):
        LabelRun(tmp_path / "out", GoldLabeler(), QUERIES)
    ended.run()
    LabelRun(tmp_path / "out", GoldLabeler(), QUERIES).run()  # while ``ended`` lives


@pytest.mark.parametrize("ends", ["while it works", "before it begins"])
def test_a_run_that_failed_leaves_its_folder_to_others(ends, tmp_path):
    if ends == "while it works":
        failed = LabelRun(tmp_path / "out", Counting(1), QUERIES)
        with pytest.raises(KeyboardInterrupt):
            failed.run()
    else:
        LabelRun(tmp_path / "out", GoldLabeler(), QUERIES[:2]).run()
        with pytest.raises(ValueError, match="Name another folder") as kept:  # its traceback keeps the run alive
            LabelRun(tmp_path / "out", GoldLabeler(), QUERIES)
        assert kept.tb
    with lock_folder(tmp_path / "out"):
        pass


def test_a_run_that_failed_can_be_run_again(tmp_path):
    labeler = Counting(1)
    run = LabelRun(tmp_path / "out", labeler, QUERIES)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    labeler.most = 5
    with lock_folder(tmp_path / "out"), pytest.raises(ValueError, match="in use by another process"):
        run.run()
    assert run.run()["questions"] == 4
    assert [row["id"] for row in labels_of(tmp_path / "out")] == [query.id for query in QUERIES]


def test_only_what_really_changed_is_named(tiny_scorer, tmp_path, monkeypatch):
    from seper_reward.labels.labelers import DeltaSePerLabeler

    LabelRun(tmp_path, DeltaSePerLabeler(tiny_scorer), QUERIES).run()
    monkeypatch.setitem(tiny_scorer.fingerprint, "reader", "other")
    with pytest.raises(ValueError, match=r"; changed: reader was '[^']*', is 'other'\. Name another"):
        LabelRun(tmp_path, DeltaSePerLabeler(tiny_scorer), QUERIES)


def upgrade(monkeypatch, **versions):
    """Have the packages be of other versions from now on."""
    monkeypatch.setattr(provenance, "version", lambda name: versions.get(name) or importlib.metadata.version(name))


@pytest.mark.parametrize("package", ["torch", "transformers", "seper-reward"])
def test_other_versions_are_refused_and_named(folder, unfinished, command, monkeypatch, capsys, package):
    upgrade(monkeypatch, **{package: "98.1"})
    for begun in (unfinished, folder):
        with pytest.raises(ValueError, match=rf"changed: {package} was '[^']*', is '98\.1'\. Name another folder"):
            LabelRun(begun, Counting(0), QUERIES)
    assert main(command(folder)) == 2
    assert "(and the same cache, if any), or use the former settings and versions" in capsys.readouterr().err
