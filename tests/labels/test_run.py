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
from datasets import Dataset, load_dataset

import seper_reward
from seper_reward import load_labels
from seper_reward.cli import main
from seper_reward.data import queries as reading
from seper_reward.data.inputs import Needs, load_input
from seper_reward.labels import blocks as label_blocks
from seper_reward.labels import run as label_run
from seper_reward.labels.blocks import Block, divide
from seper_reward.labels.labelers import ContainsLabeler, DeltaSePerLabeler, load_labeler
from seper_reward.labels.rows import label_row
from seper_reward.labels.run import LabelRun
from seper_reward.options import InputOptions
from seper_reward.runtime.distributed import process_state
from seper_reward.types import UnscorableError
from tests.helpers import as_query, labels_of, launch, until, write_rows

FILES = ["labels.jsonl", "placebo.jsonl", "provenance.json", "rejected.jsonl", "summary.json"]


def rows(count):
    return [
        {
            "id": f"q{number}",
            "group": "ab"[number % 2],
            "question": f"Who built mill {number}?",
            "answers": [f"Voss {number}", "Voss", "🙂 فوس"],
            "passages": [
                {"id": "s", "text": f"Voss {number} built mill {number}.", "role": "supporting"},
                {"id": "u", "title": "Mills", "text": "A mill grinds corn. " * (number + 1), "role": "unrelated"},
            ],
        }
        for number in range(count)
    ]


@pytest.fixture
def label(tiny_reader, tiny_entailment, tmp_path):
    """Return the command's words for the tiny models."""

    def words(source, output, *more):
        fixed = {
            "--input": source,
            "--output_dir": tmp_path / output,
            "--reader": tiny_reader,
            "--judge": tiny_entailment,
            "--num_samples": 4,
            "--max_new_tokens": 6,
        }
        kind = ["--dtype", "float32", "--device", "cpu"]
        return ["label", *(str(word) for pair in fixed.items() for word in pair), *kind, *map(str, more)]

    return words


def test_the_folder_and_its_schema(label, tmp_path, capsys):
    bad = {"id": "bad", "question": "", "answers": [], "passages": []}
    source = write_rows(tmp_path / "data.jsonl", [*rows(3), bad])
    assert main(label(source, "out")) == 0
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir() if path.name != ".lock") == FILES
    first = labels_of(out)[0]
    assert list(first) == ["id", "question", "answers", "metadata", "baseline", "passages"]
    interval = ["std_error", "low", "high", "std_error_hard", "low_hard", "high_hard"]
    sampled = ["unseen_mass", "known_leaves", "responses"]
    log_probs = ["answer_log_prob", "question_log_prob"]
    assert list(first["baseline"]) == ["seper", "seper_hard", *interval, *log_probs, *sampled]
    assert list(first["passages"][0]) == [
        "passage_id", "title", "text", "metadata", "truncated", "tokens", "seper", "seper_hard", "delta_seper",
        "delta_seper_hard", "delta_belief", "seper_gain", *interval, "std_error_belief", "low_belief", "high_belief",
        "std_error_gain", "low_gain", "high_gain",
        *log_probs, "question_gain", *sampled,
    ]  # fmt: skip
    assert list(first["baseline"]["known_leaves"][0]) == [
        "text", "token_ids", "log_prob", "draw_log_prob", "mean_log_prob",
    ]  # fmt: skip
    assert list(first["baseline"]["responses"][0]) == [
        "text", "count", "weight", "cluster", "support", "log_prob", "draw_log_prob", "finished", "token_ids",
        "token_log_probs",
    ]  # fmt: skip
    for row in labels_of(out):
        for passage in row["passages"]:
            assert passage["delta_seper"] == pytest.approx(passage["seper"] - row["baseline"]["seper"], abs=2e-6)
            gain = passage["question_log_prob"] - row["baseline"]["question_log_prob"]
            assert passage["question_gain"] == pytest.approx(gain, abs=2e-6)
    rejected = json.loads((out / "rejected.jsonl").read_text())
    assert rejected["where"].endswith("data.jsonl, line 4")
    assert rejected["row"]["id"] == "bad"
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["questions"], summary["passages"], summary["rejected"]) == (3, 6, 1)
    placebo = [json.loads(line) for line in (out / "placebo.jsonl").read_text().splitlines()]
    assert sorted(row["id"] for row in placebo) == ["q0", "q1", "q2"]
    assert [row["passages"][0]["passage_id"] for row in placebo] == ["placebo"] * 3
    effects = [row["passages"][0]["delta_seper"] for row in placebo]
    assert summary["placebo"]["questions"] == 3
    assert summary["placebo"]["delta_seper"] == pytest.approx(sum(effects) / 3, abs=1e-6)
    assert summary["placebo"]["interval"][0] < sum(effects) / 3 < summary["placebo"]["interval"][1]
    supporting = [row["passages"][0]["delta_seper"] for row in labels_of(out) if row["metadata"] == {"group": "a"}]
    assert summary["groups"]["a"]["delta_seper"]["supporting"] == pytest.approx(sum(supporting) / 2, abs=1e-6)
    provenance = json.loads((out / "provenance.json").read_text())
    assert len(provenance["labels_hash"]) == 64
    assert {"reader_weights", "entailment_weights", "prompt", "sampling", "estimator"} < set(provenance["decides"])
    shown = capsys.readouterr().out
    assert "ΔSePer supporting" in shown
    assert f"placebo, a passage that answers nothing: ΔSePer {sum(effects) / 3:+.3f} (95 %: " in shown
    assert str(out / "labels.jsonl") in shown


def test_label_gives_the_same_rows(label, tmp_path, tiny_reader, tiny_entailment):
    from seper_reward import SePerScorer

    assert main(label(write_rows(tmp_path / "data.jsonl", rows(2)), "out")) == 0
    scorer = SePerScorer.from_pretrained(
        reader=str(tiny_reader),
        judge=str(tiny_entailment),
        num_samples=4,
        max_new_tokens=6,
        dtype="float32",
        device="cpu",
    )
    labels = seper_reward.label(Dataset.from_list(rows(2)), scorer)
    assert isinstance(labels, Dataset)
    assert labels.to_list() == labels_of(tmp_path / "out")


def test_label_names_the_bad_row(tiny_scorer):
    dataset = Dataset.from_list([{"question": "Who?", "answers": ["x"], "passages": ["y"]}, {"question": ""}])
    with pytest.raises(ValueError, match="row 1: question must be"):
        seper_reward.label(dataset, tiny_scorer)
    assert len(seper_reward.label(dataset, tiny_scorer, strict=False)) == 1


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


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(label, tmp_path, capsys):
    source = write_rows(tmp_path / "data.jsonl", rows(8))
    assert main(label(source, "whole")) == 0
    resumed, progress = label(source, "cut"), tmp_path / "cut" / "progress"
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


def test_two_processes_a_shuffled_file_and_one_process_give_the_same_bytes(label, tmp_path):
    records = rows(7)
    assert main(label(write_rows(tmp_path / "data.jsonl", records), "one")) == 0
    random.Random(3).shuffle(records)
    words = label(write_rows(tmp_path / "shuffled.jsonl", records), "two")
    launch(partial(blind, words), tmp_path)
    lines = {name: (tmp_path / name / "labels.jsonl").read_bytes().splitlines() for name in ("one", "two")}
    assert sorted(lines["one"]) == sorted(lines["two"])
    assert [json.loads(line)["id"] for line in lines["two"]] == [record["id"] for record in records]
    assert json.loads((tmp_path / "two" / "provenance.json").read_text())["processes"] == 2
    placebo = [(tmp_path / name / "placebo.jsonl").read_bytes() for name in ("one", "two")]
    assert placebo[0] == placebo[1]


def test_processes_without_a_block_are_named(label, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(label_run, "process_state", lambda: SimpleNamespace(num_processes=4, is_main_process=True))
    source = write_rows(tmp_path / "data.jsonl", rows(6))
    assert main(label(source, "large", "--block", 4)) == 0
    assert "2 blocks of 4 questions for 4 processes, so 2 have no work" in capsys.readouterr().err
    assert main(label(source, "small", "--block", 1)) == 0
    assert "have no work" not in capsys.readouterr().err


def test_changed_settings_are_refused_with_what_changed(label, tmp_path, capsys):
    source = write_rows(tmp_path / "data.jsonl", rows(2))
    assert main(label(source, "out")) == 0
    before = (tmp_path / "out" / "labels.jsonl").read_bytes()
    assert main(label(source, "out", "--seed", 5, "--estimator", "paper", "--block", 2)) == 2
    message = capsys.readouterr().err
    assert "block was 1, is 2" in message
    assert "sampling.seed was 0, is 5" in message
    assert "estimator.aliases was 'any', is 'mean'" in message
    assert main(label(write_rows(source, rows(3)), "out")) == 2
    assert "other queries" in capsys.readouterr().err
    assert (tmp_path / "out" / "labels.jsonl").read_bytes() == before


def test_labels_of_unknown_origin_are_not_overwritten(label, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "labels.jsonl").write_text("mine\n")
    assert main(label(write_rows(tmp_path / "data.jsonl", rows(1)), "out")) == 2
    assert "unknown origin" in capsys.readouterr().err
    assert (tmp_path / "out" / "labels.jsonl").read_text() == "mine\n"


def test_what_strict_json_cannot_hold_is_rejected_and_nothing_is_lost(tmp_path, capsys):
    broken = [{"group": "\ud800"}, {"question": "half \ud83d"}, {"id": "\ud800"}, {"score": float("inf")}]
    records = [*rows(1), *({**rows(1)[0], "id": f"bad{n}", **change} for n, change in enumerate(broken))]
    source = write_rows(tmp_path / "data.jsonl", records)
    assert main(["label", "--labeler", "gold", "--input", str(source), "--output_dir", str(tmp_path / "out")]) == 0
    assert "4 rows rejected" in capsys.readouterr().out

    def strict(name):
        lines = (tmp_path / "out" / name).read_text(encoding="utf-8").splitlines()
        return [json.loads(line, parse_constant=pytest.fail) for line in lines]

    assert [row["id"] for row in strict("labels.jsonl")] == ["q0"]
    kept = [row["row"] for row in strict("rejected.jsonl")]
    assert kept == [*records[1:-1], {**records[-1], "score": "Infinity"}]


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_label_that_is_no_number_is_rejected(tmp_path, value):
    from seper_reward.labels.labelers import GoldLabeler
    from seper_reward.types import LabeledQuery

    class Broken(GoldLabeler):
        def label(self, query):
            return LabeledQuery(query, (0.5, value if query.id == "q1" else 0.1), (0.0, 0.0))

    queries = [as_query(row) for row in rows(3)]
    with pytest.raises(UnscorableError, match=r"question id='q1': the labeler returned (nan|-inf), expected a finite"):
        LabelRun(tmp_path, Broken(), queries).run(strict=True)
    assert LabelRun(tmp_path, Broken(), queries).run()["rejected"] == 1
    assert [row["id"] for row in labels_of(tmp_path)] == ["q0", "q2"]


def test_a_foreign_provenance_file_is_refused(label, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "provenance.json").write_text('{"mine": 1}')
    assert main(label(write_rows(tmp_path / "data.jsonl", rows(1)), "out")) == 2
    assert "made otherwise" in capsys.readouterr().err


def test_a_block_that_another_process_has_is_not_labelled_twice(tmp_path, monkeypatch):
    asked = []

    class Asked(ContainsLabeler):
        def label(self, query):
            asked.append(query.id)
            return super().label(query)

    queries = [as_query(row) for row in rows(3)]
    LabelRun(tmp_path / "one", ContainsLabeler(), queries).run()
    run = LabelRun(tmp_path / "out", Asked(), queries)
    begin = run._begin

    def another_begins(strict):
        done = begin(strict)
        block = run._labelling.blocks[1]
        assert block.take()
        row = label_row(ContainsLabeler().label(queries[1]), "contains")
        run._write(block, [row], [])
        return done

    monkeypatch.setattr(run, "_begin", another_begins)
    run.run()
    assert asked == ["q0", "q2"]
    assert (tmp_path / "out" / "labels.jsonl").read_bytes() == (tmp_path / "one" / "labels.jsonl").read_bytes()


def test_many_questions_are_few_blocks_of_whole_batches(monkeypatch):
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


def test_many_rows_are_shards_that_every_reader_joins(tmp_path, monkeypatch):
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
    loaded = load_dataset(
        "json", data_files=str(out / "labels-*.jsonl"), split="train", cache_dir=str(tmp_path / "hf")
    )
    assert loaded["id"] == [f"q{at}" for at in range(5)]
    assert load_labels(out).rows == load_labels(tmp_path / "one").rows
    assert load_labels(out).labeled() == load_labels(tmp_path / "one").labeled()
    for name in ("one", "out"):
        assert main(["export", "--labels", str(tmp_path / name), "--output", str(tmp_path / f"{name}.jsonl")]) == 0
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert LabelRun(out, ContainsLabeler(), queries).run() == summary
    (out / shards[1]).write_text("")
    with pytest.raises(ValueError, match=r"labels-00001-of-00003\.jsonl changed after the run ended"):
        LabelRun(out, ContainsLabeler(), queries)


def test_memory_does_not_grow_with_the_questions(tmp_path, monkeypatch):
    monkeypatch.setattr(label_blocks, "_MOST_BLOCKS", 50)
    corn = "A mill grinds corn. " * 25
    peaks = []
    for count in (300, 1500):
        records = ({"id": f"q{at}", "question": "Who?", "answers": ["Ida"], "passages": [corn]} for at in range(count))
        source = write_rows(tmp_path / f"{count}.jsonl", records)
        tracemalloc.start()
        asked = load_input(InputOptions(str(source)), Needs(on_disk=True))
        LabelRun(tmp_path / str(count), ContainsLabeler(), asked.queries, asked.rejected).run()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 1200 * 250  # a question has 600 characters


def test_a_finished_run_is_known_by_its_files_without_reading_a_question(tmp_path, monkeypatch, capsys):
    source = write_rows(tmp_path / "data.jsonl", rows(3))
    words = ["label", "--labeler", "contains", "--input", str(source), "--output_dir", str(tmp_path / "out")]
    assert main(words) == 0
    first = capsys.readouterr()
    monkeypatch.setattr(reading, "parse_query", pytest.fail)
    assert main(words) == 0
    again = capsys.readouterr()
    assert again.out == first.out.partition("seconds of this process:")[0]
    assert "3 questions with 6 passages from " in again.err
    assert ", 3 finished; labels by contains" in again.err
    monkeypatch.undo()
    assert main([*words, "--limit", "2"]) == 2  # another choice of questions is read
    assert "other queries" in capsys.readouterr().err
    write_rows(source, rows(3)[::-1])
    assert main(words) == 0  # in another order they are the same questions
    write_rows(source, rows(4))
    assert main(words) == 2
    assert "other queries" in capsys.readouterr().err
    write_rows(source, rows(3))
    (tmp_path / "out" / "rejected.jsonl").unlink()
    assert main(words) == 2
    assert "rejected.jsonl changed after the run ended" in capsys.readouterr().err


def test_two_questions_of_one_id_are_refused(tmp_path):
    queries = [as_query({**row, "id": "1"}) for row in rows(2)]
    with pytest.raises(ValueError, match="unique ids, got '1' more than once"):
        LabelRun(tmp_path / "out", load_labeler("contains", lambda: None), queries)


def test_a_question_that_nobody_labelled_is_named(tiny_scorer, tmp_path, monkeypatch):
    run = LabelRun(tmp_path / "out", DeltaSePerLabeler(tiny_scorer), [as_query(row) for row in rows(3)])
    first, take = run._labelling.blocks[0], Block.take
    monkeypatch.setattr(Block, "take", lambda block: block is not first and take(block))  # another process took it
    with pytest.raises(ValueError, match=r"not labelled: \d questions?, the first is id='q0'"):
        run.run()
    monkeypatch.undo()
    assert run.run()["questions"] == 3


def test_strict_stops_at_a_bad_row(label, tmp_path, capsys):
    source = write_rows(tmp_path / "data.jsonl", [*rows(1), {"question": "?"}])
    assert main(label(source, "out", "--strict", "true")) == 2
    assert "data.jsonl, line 2: passages must be a text or a list" in capsys.readouterr().err


def test_a_question_longer_than_the_window_is_rejected_or_strict(label, tmp_path, capsys):
    long = {**rows(1)[0], "id": "long", "question": "why " * 600}
    source = write_rows(tmp_path / "data.jsonl", [*rows(2), long])
    assert main(label(source, "out", "--strict", "true")) == 2
    assert "question id='long': question has no room" in capsys.readouterr().err
    assert main(label(source, "out")) == 0  # what was finished before is kept
    assert len(labels_of(tmp_path / "out")) == 2
    assert json.loads((tmp_path / "out" / "rejected.jsonl").read_text())["row"]["id"] == "long"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--input", "nowhere.jsonl"], "nowhere.jsonl: no such file or folder"),
        (["--output_dir", "/proc/out"], "output_dir='/proc/out' cannot be written"),
        (
            ["--reader", "no/such-model"],
            "reader='no/such-model' could not be loaded: expected 'embedded', 'plain', a local",
        ),
        (["--judge", "no/such-model"], "judge='no/such-model' could not be loaded"),
        (["--prompt", "mine"], "prompt must be one of paper, brief, few_shot, or a YAML file with some of style"),
        (["--dtype", "int8"], "--dtype: invalid choice: 'int8' (choose from"),
        (["--report_to", "mlflow"], "invalid choice: 'mlflow' (choose from"),
        (["--corpus", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["--top_k", "0"], "top_k must be at least 1"),
        (["--block", "0"], "block must be at least 1"),
        (["--labeler", "clicks", "--corpus", "no/such-corpus"], "labeler must be one of"),
        (["--max_passage_tokens", "0"], "max_passage_tokens must be at least 1"),
        (["--chat_template_kwargs", "[1]"], "chat_template_kwargs must be dict or str or nothing, got [1]"),
    ],
)
def test_bad_settings_end_with_one_message(label, tmp_path, capsys, change, message):
    source = write_rows(tmp_path / "data.jsonl", rows(1))
    assert main([*label(source, "out"), *change]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: many\n", "argument --seed: invalid int value: 'many'"),
        ("stop: word\n", "stop must be"),
        ("strict: 3\n", "strict must be bool"),
        ("chat_template_kwargs: 3\n", "chat_template_kwargs must be dict or str or nothing, got 3"),
        ("prompt: {passages: '{question}'}\n", "passages of prompt must be a text with {question}, {reference}"),
        ("prompt: {wording: '{question}'}\n", "prompt has 'wording', expected some of style, closed_book, passages"),
        ("prompt: {style: mine}\n", "style of prompt must be one of paper, brief, few_shot, got 'mine'"),
        ("prompt: {placebo: ' '}\n", "placebo of prompt must be a text, got ' '"),
        ("sets: conditional:depth=4\n", "depth must be 2, 3, got 4"),
        ("sets: all\n", "sets must be one of none, conditional, got 'all'"),
    ],
)
def test_a_bad_config_file_ends_with_one_message(label, tmp_path, capsys, text, message):
    (tmp_path / "config.yaml").write_text(text)
    source = write_rows(tmp_path / "data.jsonl", rows(1))
    assert main([*label(source, "out"), "--config", str(tmp_path / "config.yaml")]) == 2
    assert message in capsys.readouterr().err


def test_the_readers_words_come_from_the_settings(label, tmp_path):
    (tmp_path / "config.yaml").write_text(
        f"prompt: {tmp_path / 'prompt.yaml'}\nsystem_prompt: Be brief.\nchat_template_kwargs: {{tone: calm}}\n"
    )
    (tmp_path / "prompt.yaml").write_text(
        "closed_book: 'Say it. {question}'\npassages: 'Read it. {reference} Say it. {question}'\n"
    )
    (tmp_path / "template.jinja").write_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<{{ tone }} bot>"
    )
    source = write_rows(tmp_path / "data.jsonl", rows(1))
    words = label(source, "out", "--config", tmp_path / "config.yaml", "--chat_template", tmp_path / "template.jinja")
    assert main(words) == 0
    decides = json.loads((tmp_path / "out" / "provenance.json").read_text())["decides"]
    assert decides["prompt"]["closed_book_prompt"] == "Say it. {question}"
    assert decides["chat"]["system_prompt"] == "Be brief."
    assert decides["chat"]["chat_template_kwargs"] == {"tone": "calm"}


def test_the_placebo_stands_in_for_no_passage(label, tmp_path, capsys):
    source = write_rows(tmp_path / "data.jsonl", rows(3))
    assert main(label(source, "none")) == 0
    assert main(label(source, "placebo", "--baseline", "placebo")) == 0
    assert (tmp_path / "none" / "placebo.jsonl").read_bytes() == (tmp_path / "placebo" / "placebo.jsonl").read_bytes()
    measured = [json.loads(line) for line in (tmp_path / "none" / "placebo.jsonl").read_text().splitlines()]
    closed, given = (
        {row["id"]: row["baseline"] for row in labels_of(tmp_path / name)} for name in ("none", "placebo")
    )
    for row in measured:
        assert row["baseline"] == closed[row["id"]]
        assert row["passages"][0]["responses"] == given[row["id"]]["responses"]
        assert row["passages"][0]["seper"] == pytest.approx(given[row["id"]]["seper"], abs=1e-6)
        assert given[row["id"]] != closed[row["id"]]
    for one, other in zip(labels_of(tmp_path / "none"), labels_of(tmp_path / "placebo"), strict=True):
        for without, instead in zip(one["passages"], other["passages"], strict=True):
            assert without["responses"] == instead["responses"]
            assert instead["delta_seper"] == pytest.approx(instead["seper"] - other["baseline"]["seper"], abs=2e-6)
    capsys.readouterr()
    assert main(label(source, "placebo", "--baseline", "placebo", "--prompt", "{placebo: The soup is hot.}")) == 2
    assert "prompt.placebo was 'Cut the felt" in capsys.readouterr().err


def test_blocks_give_the_same_bytes_in_any_order_and_after_a_failure(tiny_scorer, tmp_path, monkeypatch):
    long = {**rows(1)[0], "id": "long", "question": "why " * 600}
    queries = [as_query(row) for row in [*rows(4), long, *rows(7)[4:]]]

    def labels_of_run(folder, act):
        run = LabelRun(tmp_path / folder, DeltaSePerLabeler(tiny_scorer), queries, block=3)
        act(run)
        run.run()
        return (tmp_path / folder / "labels.jsonl").read_bytes()

    def fail(run):
        with pytest.raises(UnscorableError, match="question id='long'"):
            run.run(strict=True)  # in the middle of the second block

    def turn_round(run):
        left = run._left
        monkeypatch.setattr(run, "_left", lambda work: left(work)[::-1])

    whole = labels_of_run("whole", lambda _: None)
    assert whole == labels_of_run("failed", fail) == labels_of_run("other order", turn_round)
    assert whole.count(b"\n") == 7


def test_a_block_that_cannot_be_leaves_the_folder_alone(tiny_scorer, tmp_path):
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        LabelRun(tmp_path / "out", DeltaSePerLabeler(tiny_scorer), [], block=0)
    assert not (tmp_path / "out").exists()


def test_wandb_offline_logs_examples_and_the_label_file(label, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    source = write_rows(tmp_path / "data.jsonl", rows(2))
    assert main([*label(source, "out"), "--report_to", "wandb"]) == 0
    identity = json.loads((tmp_path / "out" / "tracking.json").read_text())["wandb"]

    # some versions of accelerate start an offline run twice, in two folders if a second passes
    def files():
        return [path for path in (tmp_path / "wandb").glob(f"offline-run-*{identity}/**/*") if path.is_file()]

    def stored():
        return b"".join(path.read_bytes() for path in files())

    until(lambda: b"labels.jsonl" in stored())  # wandb's service writes in its own time
    for logged in (b"histogram/delta_seper", b"labels.jsonl", b"baseline_seper", b"num_samples", b"examples"):
        assert logged in stored()
    (table,) = (path for path in files() if path.match("examples*.table.json"))
    assert json.loads(table.read_text())["data"][0][0] == "q0"
