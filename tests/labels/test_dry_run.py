"""A dry run: it estimates the whole run from a few questions, names what is finished, and writes nothing."""

import json
import re

import pytest

from seper_reward.batching import query_cost
from seper_reward.cli import main
from seper_reward.labels import forecast as forecasts
from seper_reward.labels.forecast import Forecast
from seper_reward.labels.labelers import GoldLabeler
from seper_reward.labels.run import LabelRun
from seper_reward.reports.tables import forecast_lines
from seper_reward.runtime.memory import peak_bytes
from seper_reward.types import UnscorableError
from tests.helpers import as_query

PASSAGES = [{"text": "Ann runs the mill.", "relevant": True}, {"text": "Corn grows.", "relevant": False}]
ROWS = [
    {"id": f"q{number}", "question": f"Who runs mill {number}?", "answers": ["Ann"], "passages": PASSAGES}
    for number in range(4)
]


@pytest.fixture
def words(tmp_path, tiny_reader, tiny_entailment):
    """Return the words of the command with tiny models, for short responses."""
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[:3]))
    fixed = f"--input {tmp_path / 'data.jsonl'} --output_dir {tmp_path / 'out'} --num_samples 2 --max_new_tokens 3"
    return ["label", *fixed.split(), "--reader", str(tiny_reader), "--judge", str(tiny_entailment)]


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_command_estimates_and_writes_nothing(words, tmp_path, capsys):
    cache = tmp_path / "cache.sqlite"
    assert main([*words, "--cache", str(cache), "--dry_run", "true"]) == 0
    shown = capsys.readouterr()
    assert not (tmp_path / "out").exists()
    assert not cache.exists()
    lines = shown.out.splitlines()
    assert lines[0] == "questions: 3, in 9 contexts; 0 finished, 3 left"
    assert re.fullmatch(r"time: about \d+ (s|min), estimated from 3 questions", lines[1])
    prompts, responses = map(int, re.fullmatch(r"tokens: about (\d+) in prompts and (\d+) in .*", lines[2]).groups())
    # 9 contexts and the placebo's, of 20 to 100 tokens; 2 samples in each of 1 to 3 tokens, by extrapolation
    assert 9 * 20 < prompts < 15 * 100
    assert 9 * 2 <= responses <= 18 * 6
    assert float(re.fullmatch(r"memory: ([\d.]+) GB per process.*", lines[3])[1]) > 0.3  # torch
    assert "3 questions with 6 passages from " in shown.err
    assert ", 0 finished; labels by delta_seper into " in shown.err
    assert shown.err.endswith("next: the same command without --dry_run\n")


def test_what_is_finished_is_named_and_stays(words, tmp_path, capsys, monkeypatch):
    gold = [*words, "--labeler", "gold"]

    def stopped(labeler, query):
        if query.id == "q2":
            raise KeyboardInterrupt
        return label(labeler, query)

    label = GoldLabeler.label
    monkeypatch.setattr(GoldLabeler, "label", stopped)
    assert main(gold) == 130
    monkeypatch.undo()
    before = files_of(tmp_path / "out")
    capsys.readouterr()
    assert main([*gold, "--dry_run"]) == 0
    shown = capsys.readouterr()
    counts = "questions: 3, in 9 contexts; 2 finished, 1 left"
    assert shown.out.startswith(f"{counts}\ntime: about 1 s, estimated from 1 question\n")
    assert "3 questions with 6 passages from " in shown.err
    assert ", 2 finished; labels by gold" in shown.err
    assert files_of(tmp_path / "out") == before
    assert main([*gold, "--limit", "2", "--dry_run"]) == 2  # what the run itself would say
    assert "holds labels made otherwise; changed: other queries" in capsys.readouterr().err
    assert main(gold) == 0
    before = files_of(tmp_path / "out")
    capsys.readouterr()
    assert main([*gold, "--dry_run"]) == 0
    assert capsys.readouterr().out == "questions: 3, in 9 contexts; 3 finished, 0 left\n"
    assert files_of(tmp_path / "out") == before
    assert "dry_run" not in json.loads((tmp_path / "out" / "provenance.json").read_text())["settings"]
    (tmp_path / "out" / "provenance.json").unlink()
    assert main([*gold, "--dry_run"]) == 2
    assert "of unknown origin" in capsys.readouterr().err


class Slow:
    """Clock that a labeler moves on."""

    now = 0.0


class Timed(GoldLabeler):
    """Labels in as many seconds as the question's number, and says which it labelled."""

    def __init__(self):
        self.asked = []

    def label(self, query):
        Slow.now += 1 + int(query.id[1:])
        self.asked.append(query.id)
        return super().label(query)


def test_time_grows_with_the_cost_of_the_questions(tmp_path, monkeypatch):
    monkeypatch.setattr(forecasts.time, "perf_counter", lambda: Slow.now)
    queries = [as_query(row) for row in ROWS]
    longest = as_query({**ROWS[1], "question": "Who runs the mill in the valley behind the hill? " * 20})
    queries[1] = longest
    labeler = Timed()
    found = LabelRun(tmp_path / "out", labeler, queries, dry_run=True).forecast(sample=2)
    assert labeler.asked == ["q1", "q0", "q2"]  # the most expensive one warms up
    cost = [query_cost(query) for query in queries]
    # 1 and 3 seconds were measured
    assert found.seconds == pytest.approx(4 * sum(cost) / (cost[0] + cost[2]))
    assert (found.questions, found.contexts, found.finished, found.measured) == (4, 12, 0, 2)
    assert 0 < found.peak_bytes <= peak_bytes()
    assert not (tmp_path / "out").exists()


def test_few_passages_of_a_question_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(forecasts.time, "perf_counter", lambda: Slow.now)

    class PerPassage(GoldLabeler):
        seen = 0

        def label(self, query):
            Slow.now += len(query.passages)
            PerPassage.seen += len(query.passages)
            return super().label(query)

    passages = [{"text": f"Text {number:04}.", "relevant": False} for number in range(10_000)]
    query = as_query({**ROWS[0], "passages": passages})
    found = LabelRun(tmp_path / "out", PerPassage(), [query], dry_run=True).forecast()
    assert PerPassage.seen <= 100
    assert found.seconds == pytest.approx(10_000, rel=0.05)  # as each passage takes a second
    assert found.contexts == 10_001


def test_questions_that_cannot_be_scored_are_counted(tmp_path, monkeypatch):
    def label(labeler, query):
        if query.id == "q1":
            raise UnscorableError("no mark")
        return gold(labeler, query)

    gold = GoldLabeler.label
    monkeypatch.setattr(GoldLabeler, "label", label)
    found = LabelRun(tmp_path, GoldLabeler(), [as_query(row) for row in ROWS[:3]], dry_run=True).forecast()
    assert (found.measured, found.unscorable) == (3, ("no mark",))
    assert "1 of the measured questions cannot be scored: no mark" in forecast_lines(found)


def test_lines():
    found = Forecast(
        100, 500, 20, measured=3, seconds=7200.0, prompt_tokens=9000, response_tokens=4000, peak_bytes=3 * 2**30,
        device_peak_bytes=10 * 2**30,
    )  # fmt: skip
    assert forecast_lines(found, 4).splitlines() == [
        "questions: 100, in 500 contexts; 20 finished, 80 left",
        "time: about 2 h on 4 processes, estimated from 3 questions",
        "tokens: about 9000 in prompts and 4000 in responses",
        "memory: 3.0 GB per process, 10.0 GB on its GPU",
    ]
