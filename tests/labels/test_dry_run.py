"""A dry run: it estimates the whole run from a few questions, names what is finished, and writes nothing."""

import json
import re
from dataclasses import replace

import pytest

from seper_reward.batching import query_cost
from seper_reward.cli import main
from seper_reward.labels import forecast as forecasts
from seper_reward.labels.labelers import GoldLabeler
from seper_reward.labels.run import LabelRun
from seper_reward.reports.tables import forecast_lines
from seper_reward.runtime.memory import peak_bytes
from seper_reward.types import Passage
from tests.helpers import as_query

PASSAGES = [{"text": "Ann runs the mill.", "relevant": True}, {"text": "Corn grows.", "relevant": False}]
ROWS = [
    {"id": f"q{number}", "question": f"Who runs mill {number}?", "answers": ["Ann"], "passages": PASSAGES}
    for number in range(4)
]
QUERIES = [as_query(row) for row in ROWS]


@pytest.fixture
def words(label_words):
    return label_words(ROWS[:3], "out", "--num_samples", "2", "--max_new_tokens", "3")


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def timed_forecast(monkeypatch, folder, queries, seconds, **options):
    """Return a labeler and its forecast, if a question takes so many seconds."""
    labeler = Timed(seconds)
    monkeypatch.setattr(forecasts.time, "perf_counter", lambda: labeler.now)
    return labeler, LabelRun(folder, labeler, queries, dry_run=True).forecast(**options)


def test_dry_run_estimates_and_writes_nothing(words, tmp_path, capsys):
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


def test_dry_run_names_what_is_finished_and_leaves_it(words, tmp_path, capsys, monkeypatch):
    gold, label = [*words, "--labeler", "gold"], GoldLabeler.label

    def stopped(labeler, query):
        if query.id == "q2":
            raise KeyboardInterrupt
        return label(labeler, query)

    with monkeypatch.context() as patch:
        patch.setattr(GoldLabeler, "label", stopped)
        assert main(gold) == 130

    def dry_run(*more):
        before = files_of(tmp_path / "out")
        capsys.readouterr()
        status = main([*gold, "--dry_run", *more])
        assert files_of(tmp_path / "out") == before
        shown = capsys.readouterr()
        return status, shown.err if status else shown.out

    counts = "questions: 3, in 9 contexts; 2 finished, 1 left"
    status, shown = dry_run()
    assert shown.startswith(f"{counts}\ntime: about 1 s, estimated from 1 question\n")
    status, shown = dry_run("--limit", "2")  # an error of the run itself
    assert status == 2
    assert "holds labels made otherwise; changed: other queries" in shown
    assert main(gold) == 0
    assert dry_run() == (0, "questions: 3, in 9 contexts; 3 finished, 0 left\n")
    assert "dry_run" not in json.loads((tmp_path / "out" / "provenance.json").read_text())["settings"]
    (tmp_path / "out" / "provenance.json").unlink()
    status, shown = dry_run()
    assert status == 2
    assert "of unknown origin" in shown


class Timed(GoldLabeler):
    """Moves a clock on for each question, and says which it labelled."""

    def __init__(self, seconds):
        self.asked, self.seconds, self.now = [], seconds, 0.0

    def label(self, query):
        self.now += self.seconds(query)
        self.asked.append(query)
        return super().label(query)


def test_forecast_time_grows_with_the_cost_of_questions(tmp_path, monkeypatch):
    queries = list(QUERIES)
    queries[1] = replace(queries[1], question="Who runs the mill in the valley behind the hill? " * 20)
    labeler, total = timed_forecast(
        monkeypatch, tmp_path / "out", queries, lambda query: 1 + int(query.id[1:]), sample=2
    )
    assert [query.id for query in labeler.asked] == ["q1", "q0", "q2"]  # the most expensive one warms up
    cost = [query_cost(query) for query in queries]
    # 1 and 3 seconds were measured
    assert total.seconds == pytest.approx(4 * sum(cost) / (cost[0] + cost[2]))
    assert (total.questions, total.contexts, total.finished, total.measured) == (4, 12, 0, 2)
    assert 0 < total.peak_bytes <= peak_bytes()
    assert not (tmp_path / "out").exists()


def test_forecast_measures_few_passages_of_a_question(tmp_path, monkeypatch):
    passages = tuple(Passage(f"Text {number:04}.", id=str(number)) for number in range(10_000))
    query = replace(QUERIES[0], passages=passages)
    labeler, total = timed_forecast(monkeypatch, tmp_path, [query], lambda query: len(query.passages))
    assert sum(len(query.passages) for query in labeler.asked) <= 100
    assert total.seconds == pytest.approx(10_000, rel=0.05)  # as each passage takes a second
    assert total.contexts == 10_001


def test_forecast_counts_questions_that_cannot_be_scored(tmp_path, monkeypatch):
    queries = [*QUERIES[:2], replace(QUERIES[2], passages=(Passage("x", metadata={"relevant": "yes"}),))]
    _, total = timed_forecast(monkeypatch, tmp_path, queries, lambda query: 1)
    assert (total.measured, len(total.unscorable)) == (3, 1)
    assert "1 of the measured questions cannot be scored: passage id='': expected 'relevant'" in forecast_lines(total)
