"""Measures of label rows by hand, and their agreement with marks."""

import json
import math

import pytest

from seper_reward.cli import main
from seper_reward.evaluate.labels import Agreement, AgreementByFolder, MarkedRow, agreement, bm25_scores
from seper_reward.evaluate.rivals import answered_before, label_measures
from seper_reward.statistics import Statistic
from seper_reward.types import Passage, Query
from tests.helpers import labels_of, read_row, write_rows
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
        passage(
            "The mill was built by Voss.",
            title="Old mill",
            metadata={"cosine": 0.6},
            responses=[said("The Voss", 0.6), said("Ann", 0.4)],
        ),
        passage("Sheep graze.", question_log_prob=-4.0, question_gain=-0.5, answer_log_prob=None, delta_belief=None),
    ],
}


def test_label_measures_by_hand():
    (first, second), evidence = label_measures(read_row(ROW), [3.0, 4.0])
    assert first == pytest.approx({
        "retriever": 0.6, "bm25": 3.0, "contains": 1.0, "contains x bm25": 3.0, "question_gain": 1.5,
        "erag": 0.6 - 0.25, "likelihood": 2.0, "delta_belief": 0.25, "delta_seper": 0.5, "delta_seper_hard": 0.6,
        "seper_gain": 1.0,
    })  # fmt: skip
    assert second["contains"] == second["contains x bm25"] == 0.0
    assert all(math.isnan(second[name]) for name in ("retriever", "likelihood", "delta_belief", "seper_gain"))
    # labels that a passage lacks have no evidence; e^4 : 1 for the softmax of twice 1.5 and -0.5
    assert evidence.keys() == {"delta_seper", "delta_seper_hard", "question_gain"}
    assert evidence["delta_seper"] == [0.5, 0.5]
    assert evidence["question_gain"] == pytest.approx([math.exp(4) / (math.exp(4) + 1), 1 / (math.exp(4) + 1)])


def test_answered_before_by_the_likeliest_response():
    assert not answered_before(read_row(ROW))
    baseline = {"responses": [said("Bob", 0.9, log_prob=-0.5), said("ida voss.", 0.1, log_prob=-0.2)]}
    assert answered_before(read_row({**ROW, "baseline": baseline}))


def rows_of(*questions):
    """Return rows of passages given as (relevant, measure, ΔSePer, another reader's SePer)."""
    return [
        MarkedRow(
            Query(f"q{number}", "Who?", ("Ann",), tuple(Passage(f"{number} {at}") for at in range(len(passages)))),
            tuple(each[0] for each in passages),
            tuple({"ours": each[1], "delta_seper": each[2]} for each in passages),
            {"delta_seper": [each[2] for each in passages]},
            tuple(each[3] for each in passages),
        )
        for number, passages in enumerate(questions)
    ]


ROWS = rows_of(
    [(True, 0.9, 0.3, 0.8), (False, 0.1, 0.4, 0.2), (False, 0.95, 0.1, 0.3)],
    [(True, 0.2, 0.9, 0.6), (False, 0.2, 0.0, 0.4)],
    [(False, 0.5, 0.2, 0.0), (True, 0.7, 0.8, math.nan)],
    [(False, 0.1, 0.2, 0.0), (False, 0.7, 0.8, 0.0)],
)


def test_agreement_by_hand():
    found = agreement(ROWS, "ours", known_left_out=2)
    ours = {part: each.value for part, each in found.measures["ours"].items()}
    # areas 1/2, 1/2 (a tie) and 1; the best is another one, half a relevant one, and a relevant one
    assert ours["within"] == pytest.approx(2 / 3, abs=1e-4)
    assert ours["best"] == 0.5
    assert ours["seper"] == pytest.approx((0.3 + 0.5 + 0.0) / 3, abs=1e-4)  # the third is unknown
    rival = {part: each.value for part, each in found.measures["delta_seper"].items()}
    assert (rival["within"], rival["best"]) == (
        pytest.approx((0.5 + 1 + 1) / 3, abs=1e-4),
        pytest.approx(2 / 3, abs=1e-4),
    )
    assert found.leads["delta_seper"]["within"].value == pytest.approx(-1 / 6, abs=1e-4)
    assert found.leads["delta_seper"]["seper"].value == pytest.approx((0.1 - 0.1 + 0.0) / 3, abs=1e-4)
    assert found.measures["human labels"]["seper"].value == pytest.approx((0.8 + 0.6 + 0.0) / 3, abs=1e-4)
    # ΔSePer from .4 on: .4 .9 .8 .8, of which two are marked; from .8 on grades are 3 of [.4, 1]
    assert found.positives["delta_seper"]["0.4"] == {
        "precision": 0.5,
        "recall": pytest.approx(2 / 3),
        "highest": pytest.approx(1 / 6, abs=1e-4),
    }
    assert (found.questions, found.passages, found.relevant) == (4, 9, 3)
    assert "set: 4 questions, 2 known ones left out, 9 passages (3 relevant)" in found.table("set")
    with pytest.raises(ValueError, match="against must be one of ours, delta_seper, got 'theirs'"):
        agreement(ROWS, "theirs")


def test_agreement_by_folder_means():
    one, other = (Statistic(0.8, [0.77, 0.83]), Statistic(0.6, [0.56, 0.64]))
    empty = ({}, {}, "ours", 1, 2, 1)
    found = AgreementByFolder(
        {
            "one": Agreement({"ours": {"within": one}, "own": {"within": one}}, *empty),
            "other": Agreement({"ours": {"within": other}}, *empty),
        }
    ).means
    # the half of both is √(.03² + .04²) / 2
    assert found.measures == {"ours": {"within": Statistic(0.7, [0.675, 0.725])}}
    assert (found.questions, found.passages, found.relevant) == (2, 4, 2)


def test_bm25_scores_over_all_passages():
    mill = Query("a", "Who built the mill?", ("Ann",), (Passage("A mill.", id="0"), Passage("Sheep.", id="1")))
    sheep = Query("b", "Where are sheep?", ("Hill",), (Passage("Sheep graze here.", id="0"),))
    (first, other), (third,) = bm25_scores([mill, sheep])
    assert first > 0 == other
    assert third > 0


def test_labels_command(tiny_reader, tiny_entailment, tmp_path, capsys):
    source = write_rows(tmp_path / "lanes.jsonl", lane_rows(12))
    words = ["label", "--input", source, "--reader", tiny_reader, "--judge", tiny_entailment, "--split", "train"]
    options = "--prompt brief --num_samples 3 --max_new_tokens 4 --dtype float32 --device cpu"
    for seed in ("0", "1"):
        assert main([*map(str, words), *options.split(), "--seed", seed, "--output_dir", str(tmp_path / seed)]) == 0
    labels = [str(tmp_path / seed) for seed in ("0", "1")]
    out = tmp_path / "out.json"
    assert main(["evaluate", "labels", "--labels", *labels, "--read_by", *labels[::-1], "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    assert set(result["folders"]) == {"0", "1"}
    found = result["folders"]["0"]
    written = labels_of(tmp_path / "0")
    assert 0 < found["questions"] == len(written) < 12
    assert found["against"] == "seper_gain"
    best = [max(row["passages"], key=lambda each: each["question_gain"]) for row in written]
    shares = [each["metadata"]["relevant"] for each in best]
    assert found["measures"]["question_gain"]["best"]["value"] == pytest.approx(sum(shares) / len(shares), abs=1e-3)
    other = {(row["id"], each["text"]): each["seper"] for row in labels_of(tmp_path / "1") for each in row["passages"]}
    known = [other[row["id"], each["text"]] for row, each in zip(written, best, strict=True)]
    assert found["measures"]["question_gain"]["seper"]["value"] == pytest.approx(sum(known) / len(known), abs=1e-3)
    assert "mean of 2 folders: " in capsys.readouterr().out
    assert main(["evaluate", "labels", "--labels", *labels, "--read_by", labels[0]]) == 2
    assert "read_by needs one folder for each of labels" in capsys.readouterr().err
    assert main(["evaluate", "labels", "--labels", labels[0], "--split", "test"]) == 2
    assert "expected questions of the split test, got none" in capsys.readouterr().err
    write_rows(tmp_path / "labels.jsonl", [{**ROW, "labeler": "erag"}])
    assert main(["evaluate", "labels", "--labels", str(tmp_path)]) == 2
    assert "expected labels of delta_seper, got labels of erag" in capsys.readouterr().err
