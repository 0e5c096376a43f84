"""Questions without gold answers: their label, next to others in one file, in exports, reports and trainers."""

import math
from dataclasses import replace

import pytest

from seper_reward import load_labels
from seper_reward.cli import main
from seper_reward.labels.labelers import DeltaSePerLabeler
from seper_reward.labels.rows import evidence_of, label_row, labeled_queries, labeled_query, recommended_label
from seper_reward.runtime.json_files import read_json
from seper_reward.types import Passage, Query
from tests.helpers import labels_of
from tests.tiny_models import lane_rows

KNOWN = Query(
    "known", "Who built the mill?", ("Ann Lee",), (Passage("Ann Lee built it.", id="a"), Passage("Sheep.", id="b"))
)
BARE = replace(KNOWN, id="bare", answers=())


def test_evidence_of_by_hand():
    passages = [{"delta_belief": b, "question_gain": q} for b, q in ((0.4, 1.0), (0.9, 3.0), (-0.5, -1.0))]
    likelihoods = 5 * math.exp(1.5), 10 * math.exp(4.5)
    first = likelihoods[0] / likelihoods[1]
    assert evidence_of(passages, "seper_gain") == pytest.approx((0.4 * first, 0.9, -0.5 * math.exp(-6)))
    total = 1 + math.exp(-4) + math.exp(-8)
    assert evidence_of(passages, "question_gain") == pytest.approx(
        (math.exp(-4) / total, 1 / total, math.exp(-8) / total)
    )
    assert evidence_of(passages, "delta_belief") == ()


def test_delta_seper_labeler_without_answers_has_the_questions_gain(tiny_scorer, capsys):
    bare, known = DeltaSePerLabeler(tiny_scorer).label_batch([BARE, KNOWN])
    # the likelihood of a question does not depend on its answer
    assert bare.labels == pytest.approx([each["question_gain"] for each in known.details], abs=1e-5)
    assert bare.std_errors == (0.0, 0.0)
    assert bare.baseline["question_log_prob"] == pytest.approx(known.baseline["question_log_prob"], abs=1e-5)
    assert capsys.readouterr().err.count("such as id='bare', have question_gain as their only label") == 1
    rows = [label_row(each, "delta_seper") for each in (bare, known)]
    assert "delta_seper" not in rows[0]["passages"][0]
    assert labeled_query(rows[0], "delta_belief").labels == pytest.approx(bare.labels, abs=1e-6)
    # a mixed file has the label of its rows with answers
    assert recommended_label(rows) == "seper_gain"
    assert recommended_label(rows[:1]) == "question_gain"
    read = labeled_queries({"1": rows[0], "2": rows[1]})
    assert read[1].labels == tuple(each["seper_gain"] for each in rows[1]["passages"])
    assert sum(read[0].evidence) == pytest.approx(1.0)


@pytest.fixture
def words(label_words):
    """Return a function of rows: the words that label them, by default six, three of which have no answer."""
    rows = [{**row, "answers": row["answers"] if at % 2 else []} for at, row in enumerate(lane_rows(6))]
    return lambda rows=rows, folder="out": label_words(rows, folder, "--prompt", "brief")


def test_label_of_a_mixed_file_is_exported_and_reported(words, tmp_path, capsys):
    assert main(words()) == 0
    shown = capsys.readouterr()
    assert shown.err.count("have question_gain as their only label") == 1
    assert "without gold answers, labelled by question_gain: 3 questions" in shown.out
    assert "exports and trainers learn from seper_gain" in shown.out
    folder = tmp_path / "out"
    summary = read_json(folder / "summary.json")
    assert (summary["questions"], summary["without_answers"], summary["placebo"]["questions"]) == (6, 3, 3)
    labels = [
        [passage[name] for passage in row["passages"]]
        for row, name in zip(labels_of(folder), ["question_gain", "seper_gain"] * 3, strict=True)
    ]
    assert load_labels(folder).to_dataset("lists")["labels"] == labels
    assert main(["export", "--labels", str(folder), "--format", "trec", "--output", str(tmp_path / "qrels")]) == 0
    assert len((tmp_path / "qrels").read_text().splitlines()) == sum(map(len, labels))
    assert main(["report", "--labels", str(folder), "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "on this page, since they have no gold answers: 3 questions, labelled by question_gain" in page


def test_label_of_a_file_without_answers(words, tmp_path, capsys):
    bare = [{**row, "answers": None, "reply": "Ida"} for row in lane_rows(3)]
    assert main(words(bare)) == 0
    # a misspelt name shows
    assert "such as id='q0' with the other columns reply, have question_gain as" in capsys.readouterr().err
    report = ["report", "--labels", str(tmp_path / "out"), "--output"]
    assert main([*report, str(tmp_path / "page.html")]) == 0
    assert "question gain" in (tmp_path / "page.html").read_text()
    assert main([*report, str(tmp_path / "one.svg")]) == 2
    assert "no question has a gold answer, so there is no belief" in capsys.readouterr().err
    assert main([*words(bare, "sets"), "--sets", "conditional"]) == 2
    assert "answers must be a text or a list with at least one text" in capsys.readouterr().err
