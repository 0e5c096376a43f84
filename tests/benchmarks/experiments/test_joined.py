"""Ways to join two beliefs, by hand, and the command."""

import json
import math

import pytest

from tests.benchmarks.experiments.joined import CHOICES, WAYS, Reading, choices, joined, main
from tests.helpers import evaluation_arguments as arguments

MOVED, GIVEN = Reading(0.8, 0.6), Reading(0.2, 0.2)


def test_ways_by_hand():
    logits = [math.log(4), math.log(0.6 / 0.4), math.log(1 / 4), math.log(1 / 4)]
    moved, given = (logits[0] + logits[1]) / 2, (logits[2] + logits[3]) / 2
    expected = {
        "half of each (delta_belief)": 0.5 * 0.6 + 0.5 * 0.5,
        "a quarter of ΔSePer": 0.25 * 0.6 + 0.75 * 0.5,
        "three quarters of ΔSePer": 0.75 * 0.6 + 0.25 * 0.5,
        "relative change of p alone": 0.4 / 0.8,
        "mean of s and p": 0.7 - 0.2,
        "s or p": (1 - 0.2 * 0.4) - (1 - 0.8 * 0.8),
        "geometric mean": math.sqrt(0.48) - 0.2,
        "product of experts": 1 / (1 + math.exp(-moved)) - 1 / (1 + math.exp(-given)),
        "mean log-odds": moved - given,
        "larger of both": 0.6,
    }
    assert {way: join(MOVED, GIVEN) for way, join in WAYS.items()} == pytest.approx(expected)
    assert all(join(Reading(1.0, 0.0), Reading(0.0, 0.0)) >= 0 for join in WAYS.values())


def test_the_lead_is_the_difference_of_two_correlations():
    rows = [
        {
            "question": number,
            "relevance": float(mark),
            "gains": {"rouge_l": rouge},
            "moved": [s, p],
            "given": [0.1, 0.1],
        }
        for number, mark, rouge, s, p in (
            (3, 1, 0.5, 0.9, 0.6),
            (3, 0, 0.6, 0.2, 0.1),
            (5, 1, 0.9, 0.7, 0.8),
            (5, 0, 0.1, 0.3, 0.2),
        )
    ]
    found = joined({"reader, set": rows})
    row = found.sets["reader, set"]
    ours, rival = row["half of each (delta_belief)"], row["rouge_l"]
    assert rival["lead"]["pearson"] == pytest.approx(ours["pearson"] - rival["pearson"], abs=1e-3)
    assert found.questions == {"reader, set": 2}
    assert found.mean["rouge_l"] == rival["pearson"]


def test_one_readers_labels_choose_and_another_reader_judges():
    def rows(number, relevance, belief, seper):
        columns = zip(relevance, belief, seper, strict=True)
        return [
            {
                "question": number,
                "relevance": mark,
                "gains": dict.fromkeys(CHOICES, 0.0) | {"delta_belief": ours, "delta_seper_soft": soft},
            }
            for mark, ours, soft in columns
        ]

    labelled = [*rows(0, [1, 0, 0], [0.9, 0.1, 0.2], [0.5, 0.7, 0.1]), *rows(2, [0, 1], [0.4, 0.1], [0.1, 0.3])]
    judged = [
        *rows(2, [0, 1], [0, 0], [0.2, 0.6]),
        *rows(0, [1, 0, 0], [0, 0, 0], [0.8, 0.3, 0.1]),
        *rows(1, [1], [0], [1]),
    ]
    found = choices(labelled, judged)
    assert found["delta_belief"]["mean"] == pytest.approx((0.8 + 0.2) / 2)
    assert found["delta_seper_soft"]["mean"] == pytest.approx((0.3 + 0.6) / 2)
    assert found["delta_seper_soft"]["lead"]["lead"] == pytest.approx(0.05)
    assert found["people's marks"]["mean"] == pytest.approx((0.8 + 0.6) / 2)
    assert found["exact_match"]["mean"] == pytest.approx((0.4 + 0.4) / 2)  # all equal: the mean of all
    assert "lead" not in found["delta_belief"]


def test_the_command_measures_each_set_once(tiny_reader, tiny_entailment, lane_questions, tmp_path, capsys):
    words = arguments(tiny_reader, tiny_entailment, lane_questions, tmp_path / "out.json")
    words += ["--limit", "3", "--passages_per_question", "2", "--rows_dir", str(tmp_path / "rows")]
    assert main(words) == 0
    first = json.loads((tmp_path / "out.json").read_text())
    assert len(first["sets"]) == 1
    assert main([*words, "--reader", str(tmp_path / tiny_reader.name)]) == 0  # not loaded: there is nothing to measure
    assert json.loads((tmp_path / "out.json").read_text())["sets"] == first["sets"]
    assert "| lead of delta_belief over" in capsys.readouterr().out
