"""Agreement with human verdicts: reading them, thresholds from one split, calibration."""

import gzip
import json
from dataclasses import replace

import pytest

from seper_reward.cli import main
from seper_reward.data.rows import BadRowError
from seper_reward.data.splits import split_of
from seper_reward.evaluate.judge import (
    Verdict,
    best_alias_probs,
    best_threshold,
    calibration,
    equivalence,
    error_rates,
    read_verdicts,
)
from seper_reward.judge.judge import Judge
from tests.helpers import ScriptedModel, write_rows

EVOUNA_ROW = {
    "question": "who?", "golden_answer": "Ann Lee/A. Lee", "answer_fid": "Ann", "judge_fid": True,
    "answer_gpt4": "Bob", "judge_gpt4": False, "answer_newbing": "Ann", "judge_newbing": None, "improper": False,
}  # fmt: skip


def own(number, **changes):
    row = {"question": f"who {number}?", "answers": ["Ann"], "response": "It is Ann", "equivalent": True}
    return {**row, **changes}


def test_read_verdicts_of_evouna(tmp_path):
    with gzip.open(tmp_path / "nq.json.gz", "wt") as file:
        json.dump([EVOUNA_ROW, {**EVOUNA_ROW, "improper": True}], file)
    assert read_verdicts(tmp_path / "nq.json.gz") == [
        Verdict("who?", ("Ann Lee", "A. Lee"), "Ann", True, "fid"),
        Verdict("who?", ("Ann Lee", "A. Lee"), "Bob", False, "gpt4"),
    ]


def test_read_verdicts_groups_by_a_field(tmp_path):
    kinds = [{"question": "who?", "answers": ["Ann"], "response": "Bob", "right": False, "kind": "names"}]
    path = write_rows(tmp_path / "own.jsonl", [own(1, system="mine"), own(2), *kinds])
    assert [row.column for row in read_verdicts(path)] == ["mine", "response", "names"]
    assert not read_verdicts(path)[-1].equivalent


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (own(1, equivalent="yes"), "line 2: expected 'equivalent' as bool, got 'yes'"),
        (own(1, answers=["Ann", 1912]), "line 2: answers must be a list of at least one text"),
        ({**EVOUNA_ROW, "golden_answer": "/"}, "line 2: expected 'golden_answer' as a text"),
        ({**EVOUNA_ROW, "judge_fid": "yes"}, "line 2: expected 'judge_fid' as true, false or null"),
        ({"question": "who?"}, "line 2: expected 'answers' as list, got None"),
        ("text", "line 2: expected an object"),
    ],
)
def test_read_verdicts_names_a_bad_row(tmp_path, row, message):
    with pytest.raises(BadRowError, match=message):
        read_verdicts(write_rows(tmp_path / "own.jsonl", [own(0), row]))


def test_best_threshold_by_hand():
    # at .6: precision 2/3, recall 1, F1 .8; at .7: 1, 1/2, .67; at .2: 1/2, 1, .67
    assert best_threshold([0.7, 0.65, 0.6, 0.2], [True, False, True, False]) == pytest.approx(0.6)


def test_best_threshold_needs_both_kinds():
    with pytest.raises(ValueError, match="verdicts of both kinds"):
        best_threshold([0.1, 0.9], [True, True])


def test_calibration_by_hand():
    result = calibration([0.05, 0.15, 0.15, 0.95, 1.0], [False, True, False, True, False])
    # bins: .05 (n=1, share 0), .15 (n=2, share .5), .975 (n=2, share .5)
    assert [row["n"] for row in result["reliability"]] == [1, 2, 2]
    assert result["ece"] == pytest.approx((1 * 0.05 + 2 * 0.35 + 2 * 0.475) / 5, abs=1e-4)


def test_equivalence_learns_from_the_train_split(tiny_judge):
    rows = [
        Verdict(f"who {n}?", ("Ann",), "Ann" if n % 3 else "Bob", n % 3 > 0, "one" if n % 2 else "two")
        for n in range(60)
    ]
    test = [row for row in rows if split_of(row.question) == "test"]
    before = equivalence(Judge(tiny_judge), rows)
    assert sum(column.n for column in before.columns.values()) == len(test)
    turned = [replace(row, equivalent=row.equivalent ^ (row in test)) for row in rows]
    assert equivalence(Judge(tiny_judge), turned).thresholds == before.thresholds  # test verdicts do not reach them
    untaught = [replace(row, equivalent=row.equivalent ^ (split_of(row.question) == "train")) for row in rows]
    assert equivalence(Judge(tiny_judge), untaught).thresholds != before.thresholds
    assert before.support["right"] == 1.0  # all say "Ann"
    assert all(column.accuracy["lexical"] == 100 for column in before.columns.values())
    with pytest.raises(ValueError, match="got 0 and"):
        equivalence(Judge(tiny_judge), test)
    assert equivalence(Judge(tiny_judge), test, threshold=0.5).thresholds["cosine"] == 0.5


def test_equivalence_of_the_model_alone():
    """Equal texts have the model's own entailment, as in the paper, and rewards still know that they are equal."""
    judge = Judge(ScriptedModel(lambda pair: 0.2))
    rows = [Verdict("who?", ("Zed", "Ann"), "Ann", True), Verdict("who?", ("Ann",), "Bob", False)]
    assert best_alias_probs(judge, rows)[:, 0].tolist() == pytest.approx([1.0, 0.2])
    assert best_alias_probs(judge, rows, verbatim=True)[:, 0].tolist() == pytest.approx([0.2, 0.2])
    found = equivalence(judge, rows, threshold=0.5, verbatim=True)
    assert found.support == {"wrong": pytest.approx(0.2), "right": pytest.approx(0.2)}
    assert (found.errors["all"]["missed"], found.errors["all"]["unpaid"]) == (1.0, 0.0)


def test_error_rates_by_hand():
    """Support above .5 counts in labels; a reward needs both directions, and pays 16 min(...) - 15."""
    probs = {
        ("It is Ann", "Ann"): 0.6, ("Ann", "It is Ann"): 0.9,  # right: supported, paid 0
        ("Anna", "Ann"): 0.4, ("Ann", "Anna"): 0.99,  # right: missed by both
        ("Ben", "Ann"): 0.99, ("Ann", "Ben"): 0.99,  # wrong: supported, and paid .84
        ("Bob", "Ann"): 0.7, ("Ann", "Bob"): 0.1,  # wrong: supported, not paid
        ("Cy", "Ann"): 0.1, ("Ann", "Cy"): 0.9,  # wrong: neither
    }  # fmt: skip
    judge = Judge(ScriptedModel(lambda pair: probs[pair.premise, pair.hypothesis]))
    said = [("It is Ann", True, "a"), ("Anna", True, "b"), ("Ann", True, "b")]
    said += [("Ben", False, "a"), ("Bob", False, "a"), ("Cy", False, "b")]
    verdicts = [Verdict("Which?", ("Ann",), text, right, column) for text, right, column in said]
    supported = best_alias_probs(judge, verdicts)[:, 0].tolist()
    found = error_rates(judge, verdicts, supported)
    assert found["all"] == pytest.approx(
        {"right": 3, "missed": 1 / 3, "unpaid": 2 / 3, "wrong": 3, "passed": 2 / 3, "paid": 1 / 3}, abs=1e-4
    )
    assert found["b"] == {"right": 2, "missed": 0.5, "unpaid": 0.5, "wrong": 1, "passed": 0, "paid": 0}
    assert error_rates(judge, verdicts[1:2], supported[1:2])["all"]["passed"] is None


def test_judge_command(tiny_entailment, tiny_reader, tmp_path, capsys):
    said = {"answers": ["Ann"], "response": "It is Ann"}
    rows = [{**said, "question": f"who {n}?", "equivalent": n % 3 > 0, "system": "ab"[n % 2]} for n in range(40)]
    for name in ("own", "more"):
        write_rows(tmp_path / f"{name}.jsonl", rows)
    words = ["--judge", tiny_entailment, "--dtype", "float32", "--device", "cpu"]
    words += ["--file", tmp_path / "own.jsonl", tmp_path / "more.jsonl", "--threshold", "0.5"]
    words += ["--json", tmp_path / "out.json", "--plot", tmp_path / "plot.svg"]
    assert main(["evaluate", "judge", *map(str, words)]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert set(result["columns"]) == {"own, a", "own, b", "more, a", "more, b"}
    assert result["columns"]["own, a"] == result["columns"]["more, a"]
    assert set(result["errors"]) == {*result["columns"], "all"}
    for column in result["columns"].values():
        assert {"entailment", "lexical", "token_f1", "cosine"} <= column["f1"].keys() == column["accuracy"].keys()
    assert "calibration error" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "plot.svg").read_text()
    assert main(["evaluate", "judge", "--threshold", "0.5"]) == 2
    assert "file is required: people's verdicts" in capsys.readouterr().err
