"""`seper-reward label` as users run it: whole commands, killed, repeated, shuffled, shared among processes."""

import json
import multiprocessing
import os
import random
import signal
import sys
import tracemalloc
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from seper_reward import load_labels
from seper_reward.cli import main
from seper_reward.data.inputs import Needs, load_input
from seper_reward.labels import blocks as label_blocks
from seper_reward.labels import run as label_run
from seper_reward.labels.blocks import Block, divide
from seper_reward.labels.labelers import ContainsLabeler, DeltaSePerLabeler, LikelihoodLabeler
from seper_reward.labels.run import LabelRun
from seper_reward.options import InputOptions
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import read_lines
from seper_reward.types import LabeledQuery, UnscorableError
from tests.helpers import as_query, labels_of, launch, until, write_rows

FILES = ["labels.jsonl", "placebo.jsonl", "provenance.json", "rejected.jsonl", "summary.json"]


def rows(count):
    return [
        {"id": f"q{number}", "group": "ab"[number % 2], "question": f"Who built mill {number}?",
         "answers": [f"Voss {number}", "Voss", "🙂 فوس"], "passages": [
             {"id": "s", "text": f"Voss {number} built mill {number}.", "role": "supporting"},
             {"id": "u", "title": "Mills", "text": "A mill grinds corn. " * (number + 1), "role": "unrelated"},
         ]}
        for number in range(count)
    ]  # fmt: skip


def test_label_command_writes_a_folder(label_words, tmp_path, capsys):
    bad = {"id": "bad", "question": "", "answers": [], "passages": []}
    assert main(label_words(write_rows(tmp_path / "data.jsonl", [*rows(3), bad]), "out")) == 0
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir() if path.name != ".lock") == FILES
    rejected = json.loads((out / "rejected.jsonl").read_text())
    assert rejected["where"].endswith("data.jsonl, line 4")
    assert rejected["row"]["id"] == "bad"
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["questions"], summary["passages"], summary["rejected"]) == (3, 6, 1)
    placebo = list(read_lines(out / "placebo.jsonl"))
    assert sorted(row["id"] for row in placebo) == ["q0", "q1", "q2"]
    assert [row["passages"][0]["passage_id"] for row in placebo] == ["placebo"] * 3
    effect = sum(row["passages"][0]["delta_seper"] for row in placebo) / 3
    assert summary["placebo"]["questions"] == 3
    assert summary["placebo"]["delta_seper"] == pytest.approx(effect, abs=1e-6)
    assert summary["placebo"]["interval"][0] < effect < summary["placebo"]["interval"][1]
    supporting = [row["passages"][0]["delta_seper"] for row in labels_of(out) if row["metadata"] == {"group": "a"}]
    assert summary["groups"]["a"]["delta_seper"]["supporting"] == pytest.approx(sum(supporting) / 2, abs=1e-6)
    provenance = json.loads((out / "provenance.json").read_text())
    assert {"reader_weights", "entailment_weights", "prompt", "sampling", "estimator"} < set(provenance["decides"])
    shown = capsys.readouterr().out
    assert "ΔSePer supporting" in shown
    assert f"placebo, a passage that answers nothing: ΔSePer {effect:+.3f} (95 %: " in shown
    assert str(out / "labels.jsonl") in shown


def dies(words, kill_after, errors):
    """Run a command in a process that is killed as soon as it has written a number of blocks."""
    replace, written = Path.replace, []

    def replace_and_die(scratch, path):
        replace(scratch, path)
        written.extend([path] if path.parent.name == "progress" else [])
        if len(written) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    Path.replace = replace_and_die
    with errors.open("w") as sys.stderr:
        main(words)


def killed(words, kill_after, errors):
    """Run a command in a fork that is killed; return its stderr."""
    process = multiprocessing.get_context("fork").Process(target=dies, args=(words, kill_after, errors))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL, errors.read_text()
    return errors.read_text()


def test_label_command_killed_goes_on_to_the_same_bytes(label_words, tmp_path, capsys):
    source = write_rows(tmp_path / "data.jsonl", rows(8))
    assert main(label_words(source, "whole")) == 0
    resumed, progress = label_words(source, "cut"), tmp_path / "cut" / "progress"
    for kill_after, finished in ((1, 1), (3, 4)):
        killed(resumed, kill_after, tmp_path / "errors.txt")
        assert len(list(progress.glob("*.jsonl"))) == finished
    (progress / "torn.jsonl.tmp").write_text('{"rejected": [], "torn in the mid')
    # killed while the placebo is measured; the progress bar starts where it was
    assert "4/8" in killed(resumed, 6, tmp_path / "errors.txt")
    capsys.readouterr()
    assert main(resumed) == 0
    assert "2/8" in capsys.readouterr().err
    for name in FILES:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes() or (
            name == "provenance.json"  # holds output_dir
        )
    assert not progress.exists()


def absent(path):
    raise FileNotFoundError(path)


def blind(words):
    """Run a command; processes after the first see nothing of what that one writes, as on a slow network disk."""
    if process_state().process_index == 1:
        label_run.read_json = Block.rows = Block.head = absent
    return main(words)


def test_label_command_on_two_processes_gives_the_same_bytes(label_words, tmp_path):
    records = rows(7)
    assert main(label_words(write_rows(tmp_path / "data.jsonl", records), "one")) == 0
    random.Random(3).shuffle(records)
    words = label_words(write_rows(tmp_path / "shuffled.jsonl", records), "two")
    launch(partial(blind, words), tmp_path)
    lines = {name: (tmp_path / name / "labels.jsonl").read_bytes().splitlines() for name in ("one", "two")}
    assert sorted(lines["one"]) == sorted(lines["two"])
    assert [json.loads(line)["id"] for line in lines["two"]] == [record["id"] for record in records]
    assert json.loads((tmp_path / "two" / "provenance.json").read_text())["processes"] == 2
    placebo = [(tmp_path / name / "placebo.jsonl").read_bytes() for name in ("one", "two")]
    assert placebo[0] == placebo[1]


def test_label_command_names_processes_without_a_block(tmp_path, capsys, monkeypatch, tiny_scorer):
    monkeypatch.setattr(label_run, "process_state", lambda: SimpleNamespace(num_processes=4, is_main_process=True))
    queries = [as_query(row) for row in rows(6)]
    LabelRun(tmp_path / "large", LikelihoodLabeler(tiny_scorer), queries, batch_size=4).run()
    assert "2 blocks of 4 questions for 4 processes, so 2 have no work" in capsys.readouterr().err
    LabelRun(tmp_path / "small", LikelihoodLabeler(tiny_scorer), queries, batch_size=1).run()
    assert "have no work" not in capsys.readouterr().err


def test_label_command_refuses_changed_settings_by_name(label_words, tmp_path, capsys):
    source = write_rows(tmp_path / "data.jsonl", rows(2))
    assert main(label_words(source, "out")) == 0
    before = (tmp_path / "out" / "labels.jsonl").read_bytes()
    assert main(label_words(source, "out", "--seed", 5, "--estimator", "paper", "--batch_size", 2)) == 2
    message = capsys.readouterr().err
    assert "batch_size was 1, is 2" in message
    assert "sampling.seed was 0, is 5" in message
    assert "estimator.aliases was 'any', is 'mean'" in message
    assert main(label_words(write_rows(source, rows(3)), "out")) == 2
    assert "other queries" in capsys.readouterr().err
    assert (tmp_path / "out" / "labels.jsonl").read_bytes() == before


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_label_run_rejects_a_label_that_is_no_number(tmp_path, value):
    class Broken(ContainsLabeler):
        def label(self, query):
            return LabeledQuery(query, (0.5, value if query.id == "q1" else 0.1), (0.0, 0.0))

    queries = [as_query(row) for row in rows(3)]
    with pytest.raises(UnscorableError, match=r"question id='q1': the labeler returned (nan|-inf), expected a finite"):
        LabelRun(tmp_path, Broken(), queries).run(strict=True)
    assert LabelRun(tmp_path, Broken(), queries).run()["rejected"] == 1
    assert [row["id"] for row in labels_of(tmp_path)] == ["q0", "q2"]


def test_divide_makes_few_blocks_of_whole_batches(monkeypatch):
    queries = [as_query(row) for row in rows(50)]

    def sizes(batch):
        return [len(block) for block in divide(Path(), "", queries, batch)]

    assert sizes(1) == [1] * 50
    monkeypatch.setattr(label_blocks, "_MOST_BLOCKS", 4)
    assert sizes(1) == [13, 13, 13, 11]
    assert sizes(5) == [15, 15, 15, 5]
    last = divide(Path(), "", queries, 5)[3]
    assert [query.id for query in last.of(queries)] == [f"q{at}" for at in range(45, 50)]
    monkeypatch.setattr(label_blocks, "_LARGEST_BLOCK", 8)
    assert sizes(1) == [8] * 6 + [2]
    assert sizes(20) == [20, 20, 10]


def test_label_run_writes_many_rows_as_shards_that_readers_join(tmp_path, monkeypatch):
    queries = [as_query(row) for row in rows(5)]
    LabelRun(tmp_path / "one", ContainsLabeler(), queries).run()
    monkeypatch.setattr(label_run, "_ROWS_PER_FILE", 2)
    out = tmp_path / "out"
    summary = LabelRun(out, ContainsLabeler(), queries).run()
    shards = [f"labels-0000{at}-of-00003.jsonl" for at in range(3)]
    assert sorted(path.name for path in out.glob("labels*")) == shards
    whole = (tmp_path / "one" / "labels.jsonl").read_bytes()
    assert b"".join((out / name).read_bytes() for name in shards) == whole
    assert set(summary["sha256"]) == {*shards, "rejected.jsonl"}
    assert load_labels(out).labeled() == load_labels(tmp_path / "one").labeled()
    for name in ("one", "out"):
        assert main(["export", "--labels", str(tmp_path / name), "--output", str(tmp_path / f"{name}.jsonl")]) == 0
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert LabelRun(out, ContainsLabeler(), queries).run() == summary
    (out / shards[1]).write_text("")
    with pytest.raises(ValueError, match=r"labels-00001-of-00003\.jsonl changed after the run ended"):
        LabelRun(out, ContainsLabeler(), queries)


def test_label_run_needs_no_more_memory_for_more_questions(tmp_path, monkeypatch):
    monkeypatch.setattr(label_blocks, "_MOST_BLOCKS", 25)
    row = {"question": "Who?", "answers": ["Ida"], "passages": ["A mill grinds corn. " * 25]}
    peaks = []
    for count in (200, 800):
        source = write_rows(tmp_path / f"{count}.jsonl", ({"id": f"q{at}", **row} for at in range(count)))
        tracemalloc.start()
        data = load_input(InputOptions(str(source)), Needs(on_disk=True))
        LabelRun(tmp_path / str(count), ContainsLabeler(), data.queries, data.rejected).run()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 600 * 250  # a question has 600 characters


def test_label_command_knows_a_finished_run(tmp_path, monkeypatch, capsys):
    source = write_rows(tmp_path / "data.jsonl", rows(3))
    words = ["label", "--labeler", "contains", "--input", str(source), "--output_dir", str(tmp_path / "out")]
    assert main(words) == 0
    first = capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(ContainsLabeler, "label", pytest.fail)
        assert main(words) == 0
    again = capsys.readouterr()
    assert again.out == first.out.partition("seconds of this process:")[0]
    assert ", 3 finished; labels by contains" in again.err
    write_rows(source, rows(3)[::-1])
    assert main(words) == 0  # in another order they are the same questions
    write_rows(source, rows(4))
    for changed in (words, [*words, "--limit", "2"]):  # another choice of questions is read
        assert main(changed) == 2
        assert "other queries" in capsys.readouterr().err
    write_rows(source, rows(3))
    (tmp_path / "out" / "rejected.jsonl").unlink()
    assert main(words) == 2
    assert "rejected.jsonl changed after the run ended" in capsys.readouterr().err


def test_label_run_refuses_two_questions_of_one_id_and_an_empty_block(tmp_path):
    queries = [as_query({**row, "id": "1"}) for row in rows(2)]
    with pytest.raises(ValueError, match="unique ids, got '1' more than once"):
        LabelRun(tmp_path / "out", ContainsLabeler(), queries)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        LabelRun(tmp_path / "out", ContainsLabeler(), [], batch_size=0)
    assert not (tmp_path / "out").exists()


def test_label_command_if_strict_stops_at_a_bad_row(label_words, tmp_path, capsys):
    long = {**rows(1)[0], "id": "long", "question": "why " * 600}
    source = write_rows(tmp_path / "data.jsonl", [*rows(2), long])
    assert main(label_words(source, "out", "--strict", "true")) == 2
    assert "question id='long': question has no room" in capsys.readouterr().err
    assert main(label_words(source, "out")) == 0  # what was finished before is kept
    assert len(labels_of(tmp_path / "out")) == 2
    assert json.loads((tmp_path / "out" / "rejected.jsonl").read_text())["row"]["id"] == "long"
    source = write_rows(tmp_path / "data.jsonl", [*rows(1), {"question": "?"}])
    assert main(label_words(source, "other", "--strict", "true")) == 2
    assert "data.jsonl, line 2: passages must be a text or a list" in capsys.readouterr().err


def test_label_run_gives_the_same_bytes_after_a_failure(tiny_scorer, tmp_path):
    long = {**rows(1)[0], "id": "long", "question": "why " * 600}
    queries = [as_query(row) for row in [*rows(4), long, *rows(7)[4:]]]
    whole, failed = (LabelRun(tmp_path / name, DeltaSePerLabeler(tiny_scorer), queries, batch_size=3) for name in "ab")
    with pytest.raises(UnscorableError, match="question id='long'"):
        failed.run(strict=True)  # in the middle of the second block
    for run in (whole, failed):
        run.run()
    one, other = ((tmp_path / name / "labels.jsonl").read_bytes() for name in "ab")
    assert one == other
    assert one.count(b"\n") == 7


def test_label_command_logs_to_wandb(label_words, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    folders = {"DIR": tmp_path, "CACHE_DIR": tmp_path / "cache", "DATA_DIR": tmp_path / "data"}
    for name, value in {"MODE": "offline", "SILENT": "true", **folders}.items():
        monkeypatch.setenv(f"WANDB_{name}", str(value))
    source = write_rows(tmp_path / "data.jsonl", rows(2))
    assert main([*label_words(source, "out"), "--report_to", "wandb"]) == 0
    identity = json.loads((tmp_path / "out" / "tracking.json").read_text())["wandb"]

    # some versions of accelerate start an offline run twice, in two folders if a second passes
    def stored():
        paths = (tmp_path / "wandb").glob(f"offline-run-*{identity}/**/*")
        return {path.name: path.read_bytes() for path in paths if path.is_file()}

    logged = [b"histogram/delta_seper", b"labels.jsonl", b"baseline_seper", b"num_samples", b"examples"]
    # wandb's service writes in its own time
    until(lambda: all(any(text in content for content in stored().values()) for text in logged))
    (table,) = (content for name, content in stored().items() if name.startswith("examples"))
    assert json.loads(table)["data"][0][0] == "q0"
