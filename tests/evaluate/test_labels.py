"""Measures of label rows by hand, and their agreement with marks."""

import json
import math

import pytest

from seper_reward.cli import main
from seper_reward.evaluate.labels import MarkedRow, agreement, bm25_scores
from seper_reward.evaluate.rivals import answered_before, label_measures, question_words
from seper_reward.types import Passage, Query
from tests.helpers import read_row, write_rows
from tests.tiny_models import lane_rows


def said(text, weight, count=1, log_prob=-1.0):
    return {"text": text, "weight": weight, "count": count, "log_prob": log_prob}


def passage(text, **fields):
    numbers = {"delta_seper": 0.5, "delta_seper_hard": 0.6, "delta_belief": 0.25, "seper": 0.7}
    likelihoods = {"answer_log_prob": -1.0, "question_log_prob": -2.0, "question_gain": 1.5}
    return {"passage_id": text[:3], "title": "", "text": text, "responses": [], **numbers, **likelihoods, **fields}


ROW = {
    "id": "q1",
    "question": "Who built the old mill?",
    "answers": ["Ida Voss", "Voss"],
    "baseline": {
        "seper": 0.2,
        "answer_log_prob": -3.0,
        "question_log_prob": -3.5,
        "std_error": 0.0,
        "responses": [said("Bob", 0.75, log_prob=-0.3), said("voss", 0.25, count=0, log_prob=-0.1)],
    },
    "passages": [
        passage("The mill was built by Voss.", title="Old mill", responses=[said("The Voss", 0.6), said("Ann", 0.4)]),
        passage("Sheep graze.", question_log_prob=-4.0, question_gain=-0.5, answer_log_prob=None, delta_belief=None),
    ],
}


def test_measures_by_hand():
    first, second = label_measures(read_row(ROW), [0.25, 2.0], [3.0, 4.0])
    assert "delta_belief + 0.25 gain" not in first  # it is seper_gain
    expected = {
        "bm25": 3.0,
        "contains": 1.0,
        "contains x bm25": 3.0,
        "question_words": 4 / 5,  # all but "who"
        "question_log_prob": -2.0,
        "question_gain": 1.5,
        "erag": 0.6 - 0.25,
        "likelihood": 2.0,
        "delta_belief": 0.25,
        "delta_seper": 0.5,
        "delta_seper_hard": 0.6,
        "seper_gain": 0.625,
        "delta_seper + 0.25 gain": 0.875,
        "delta_belief + 2 gain": 3.25,
        "contains x gain": 1.5,
        "log chain rule": math.log(0.72 / 0.22) + 1.5,
    }
    assert {name: first[name] for name in expected} == pytest.approx(expected)
    assert (second["contains"], second["question_words"]) == (0.0, 0.0)
    assert second["delta_seper + 0.25 gain"] == pytest.approx(0.375)
    assert all(
        math.isnan(second[name]) for name in ("likelihood", "delta_belief", "delta_belief + 2 gain", "seper_gain")
    )
    assert first.keys() == second.keys()
    assert second["contains x bm25"] == 0.0
    assert question_words("The?", "Sheep") == 0.0


def test_a_question_is_known_by_its_likeliest_drawn_response():
    assert not answered_before(read_row(ROW))
    baseline = {"responses": [said("Bob", 0.9, log_prob=-0.5), said("ida voss.", 0.1, log_prob=-0.2)]}
    assert answered_before(read_row({**ROW, "baseline": baseline}))


def rows_of(*questions):
    """Return rows of passages given as (relevant, kind, contains, measure)."""
    return [
        MarkedRow(
            Query(f"q{number}", "Who?", ("Ann",), tuple(Passage(f"{number} {at}") for at in range(len(passages)))),
            tuple(each[0] for each in passages),
            tuple(each[1] for each in passages),
            tuple({"contains": each[2], "ours": each[3], "delta_seper": each[4]} for each in passages),
        )
        for number, passages in enumerate(questions)
    ]


ROWS = rows_of(
    [(True, "gold", 1.0, 0.9, 0.3), (False, "near", 0.0, 0.1, 0.4), (False, "bearer", 1.0, 0.95, 0.1)],
    [(True, "gold", 0.0, 0.2, 0.9), (False, "near", 0.0, 0.3, 0.0)],
    [(False, "bearer", 1.0, 0.5, 0.2), (True, "gold", 1.0, 0.7, 0.8)],
)


def test_agreement_over_parts_and_kinds_by_hand():
    found = agreement(ROWS, "ours", known_left_out=2)
    ours = {part: each.value for part, each in found.measures["ours"].items()}
    # relevant .9 .2 .7; not .1 .95 .3 .5; in: .9 .7 against .95 .5; out: .2 against .1 .3
    assert ours["all"] == pytest.approx(7 / 12, abs=1e-4)
    assert (ours["in"], ours["out"], ours["within"]) == (0.5, 0.5, 0.5)
    assert found.measures["contains"]["in"].value == 0.5
    assert found.kinds["near"]["ours"].value == pytest.approx(5 / 6, abs=1e-4)
    assert found.kinds["bearer"]["ours"].value == pytest.approx(2 / 6, abs=1e-4)
    # ΔSePer: relevant .3 .9 .8; from .3 on also .4
    assert found.positives["delta_seper"]["0.3"] == {"precision": 0.75, "recall": 1.0}
    assert found.positives["delta_seper"]["0.5"] == {"precision": 1.0, "recall": pytest.approx(2 / 3)}
    rival = found.measures["delta_seper"]["all"].value
    assert found.leads["delta_seper"]["all"].value == pytest.approx(ours["all"] - rival, abs=1e-4)
    assert found.passages == {"all": 7, "relevant": 3, "in": 4, "relevant in": 2}
    assert "| ours " in found.table("set")
    assert "set: 3 questions, 2 known ones left out, 7 passages (3 relevant), 4 with" in found.table("set")
    with pytest.raises(ValueError, match="against must be one of contains, ours, delta_seper, got 'theirs'"):
        agreement(ROWS, "theirs")


def test_bm25_is_over_the_passages_of_all_questions():
    mill = Query("a", "Who built the mill?", ("Ann",), (Passage("A mill.", id="0"), Passage("Sheep.", id="1")))
    sheep = Query("b", "Where are sheep?", ("Hill",), (Passage("Sheep graze here.", id="0"),))
    (first, other), (third,) = bm25_scores([mill, sheep])
    assert first > 0 == other
    assert third > 0


def test_the_command_reads_finished_labels(tiny_reader, tiny_entailment, tmp_path, capsys):
    rows = lane_rows()[:12]
    for row in rows:
        for at, each in enumerate(row["passages"]):
            each |= {"relevant": at == 0, "kind": "gold" if at == 0 else "lane"}
    source = write_rows(tmp_path / "lanes.jsonl", rows)
    words = ["label", "--input", source, "--reader", tiny_reader, "--judge", tiny_entailment, "--split", "train"]
    options = "--prompt brief --num_samples 3 --max_new_tokens 4 --dtype float32 --device cpu"
    for seed in ("0", "1"):
        assert main([*map(str, words), *options.split(), "--seed", seed, "--output_dir", str(tmp_path / seed)]) == 0
    labels = [str(tmp_path / seed) for seed in ("0", "1")]
    out = tmp_path / "out.json"
    assert main(["evaluate", "labels", "--labels", *labels, "--weights", "0.5", "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    assert set(result["folders"]) == {"0", "1"}
    found = result["folders"]["0"]
    written = [json.loads(line) for line in (tmp_path / "0" / "labels.jsonl").read_text().splitlines()]
    assert 0 < found["questions"] == len(written) < 12
    assert found["against"] == "seper_gain"
    assert set(found["kinds"]) == {"lane"}
    gains = [each["question_gain"] for row in written for each in row["passages"]]
    marks = [each["metadata"]["relevant"] for row in written for each in row["passages"]]
    won = [
        (one > other) + (one == other) / 2
        for one, mark in zip(gains, marks, strict=True)
        for other, none in zip(gains, marks, strict=True)
        if mark and not none
    ]
    assert found["measures"]["question_gain"]["all"]["value"] == pytest.approx(sum(won) / len(won), abs=1e-3)
    assert result["means"]["contains"]["all"] == found["measures"]["contains"]["all"]["value"]
    assert "| mean of 2 folders" in capsys.readouterr().out
    assert main(["evaluate", "labels", "--labels", labels[0], "--split", "test"]) == 2
    assert "expected questions of the split test, got none" in capsys.readouterr().err


def test_rows_of_another_labeler_are_refused(tmp_path, capsys):
    write_rows(tmp_path / "labels.jsonl", [{**ROW, "labeler": "erag"}])
    assert main(["evaluate", "labels", "--labels", str(tmp_path)]) == 2
    assert "expected labels of delta_seper, got labels of erag" in capsys.readouterr().err
