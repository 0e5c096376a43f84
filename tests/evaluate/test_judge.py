"""Agreement with human verdicts: reading them, thresholds from one split, calibration."""

import gzip
import json
from dataclasses import replace

import pytest
from seper_reward.evaluate.llm_judge import LLMJudge

from seper_reward.cli import main
from seper_reward.data.rows import BadRowError
from seper_reward.data.splits import split_of
from seper_reward.evaluate.judge import (
    Verdict,
    best_alias_probs,
    best_threshold,
    calibration,
    equivalence,
    read_verdicts,
)
from seper_reward.reader.prompted import PromptedReader
from tests.helpers import ScriptedSampler, write_rows

EVOUNA_ROW = {
    "question": "who?",
    "golden_answer": "Ann Lee/A. Lee",
    "answer_fid": "Ann",
    "judge_fid": True,
    "answer_gpt4": "Bob",
    "judge_gpt4": False,
    "answer_newbing": "Ann",
    "judge_newbing": None,
    "improper": False,
}


def own(number, **changes):
    row = {"question": f"who {number}?", "answers": ["Ann"], "response": "It is Ann", "equivalent": True}
    return {**row, **changes}


def test_evouna_rows_give_one_judgement_per_verdict(tmp_path):
    with gzip.open(tmp_path / "nq.json.gz", "wt") as file:
        json.dump([EVOUNA_ROW, {**EVOUNA_ROW, "improper": True}], file)
    assert read_verdicts(tmp_path / "nq.json.gz") == [
        Verdict("who?", ("Ann Lee", "A. Lee"), "Ann", True, "fid"),
        Verdict("who?", ("Ann Lee", "A. Lee"), "Bob", False, "gpt4"),
    ]


def test_own_rows_are_grouped_by_a_field(tmp_path):
    path = write_rows(tmp_path / "own.jsonl", [own(1, system="mine"), own(2)])
    assert [row.column for row in read_verdicts(path)] == ["mine", "response"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (own(1, equivalent="yes"), "line 2: expected 'equivalent' as bool, got 'yes'"),
        (own(1, answers=[]), "line 2: answers must be a list of at least one text"),
        (own(1, answers=["Ann", 1912]), "line 2: answers must be a list of at least one text"),
        ({**EVOUNA_ROW, "golden_answer": None}, "line 2: expected 'golden_answer' as a text"),
        ({**EVOUNA_ROW, "golden_answer": "/"}, "line 2: expected 'golden_answer' as a text"),
        ({**EVOUNA_ROW, "judge_fid": "yes"}, "line 2: expected 'judge_fid' as true, false or null"),
        ({"question": "who?"}, "line 2: expected 'answers' as list, got None"),
        ("text", "line 2: expected an object"),
    ],
)
def test_a_bad_row_is_named(tmp_path, row, message):
    with pytest.raises(BadRowError, match=message):
        read_verdicts(write_rows(tmp_path / "own.jsonl", [own(0), row]))


def test_a_json_file_must_hold_an_array(tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="expected a JSON array of rows"):
        read_verdicts(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("[1, 2")
    with pytest.raises(ValueError, match="JSON lines end in"):
        read_verdicts(tmp_path / "a.json")


def test_best_threshold_by_hand():
    # at .6: precision 2/3, recall 1, F1 .8; at .7: 1, 1/2, .67; at .2: 1/2, 1, .67
    assert best_threshold([0.7, 0.65, 0.6, 0.2], [True, False, True, False]) == pytest.approx(0.6)


def test_thresholds_out_of_range_or_reach_are_refused(tiny_judge):
    with pytest.raises(ValueError, match="verdicts of both kinds"):
        best_threshold([0.1, 0.9], [True, True])
    for threshold in (0, 50):
        with pytest.raises(ValueError, match="must be in"):
            equivalence(tiny_judge, [Verdict("who?", ("Ann",), "Ann", True)], threshold=threshold)


def test_calibration_by_hand():
    result = calibration([0.05, 0.15, 0.15, 0.95, 1.0], [False, True, False, True, False])
    # bins: .05 (n=1, share 0), .15 (n=2, share .5), .975 (n=2, share .5)
    assert result["ece"] == pytest.approx((1 * 0.05 + 2 * 0.35 + 2 * 0.475) / 5, abs=1e-4)
    assert [row["n"] for row in result["reliability"]] == [1, 2, 2]


def test_thresholds_come_from_train_and_numbers_from_test(tiny_judge):
    rows = [
        Verdict(f"who {n}?", ("Ann",), "Ann" if n % 3 else "Bob", n % 3 > 0, "one" if n % 2 else "two")
        for n in range(60)
    ]
    test = [row for row in rows if split_of(row.question) == "test"]
    before = equivalence(tiny_judge, rows)
    assert sum(column["n"] for column in before.columns.values()) == len(test)
    turned = [replace(row, equivalent=row.equivalent ^ (row in test)) for row in rows]
    assert equivalence(tiny_judge, turned).thresholds == before.thresholds  # test verdicts do not reach them
    untaught = [replace(row, equivalent=row.equivalent ^ (split_of(row.question) == "train")) for row in rows]
    assert equivalence(tiny_judge, untaught).thresholds != before.thresholds
    assert before.support["right"] == 1.0  # all say "Ann"
    assert all(column["lexical_accuracy"] == 100 for column in before.columns.values())
    with pytest.raises(ValueError, match="got 0 and"):
        equivalence(tiny_judge, test)
    assert equivalence(tiny_judge, test, threshold=0.5).thresholds["cosine"] == 0.5


def test_the_best_alias_counts(tiny_judge):
    one = Verdict("who?", ("Zed",), "Ann", True)
    both = Verdict("who?", ("Zed", "Ann"), "Ann", True)
    alone, best = best_alias_probs(tiny_judge, [one, both])[:, 0].tolist()
    assert best == 1.0 > alone


def test_a_language_model_sees_the_answers_of_each_row(tiny_judge):
    class Equal:
        def verdicts(self, question, answers, responses):
            return {response: float(response in answers) for response in responses}

        def counts(self):
            return {}

    rows = [Verdict("Who wrote it?", (name,), name, True) for name in ("Austen", "Bell")]
    (row,) = equivalence(tiny_judge, rows, threshold=0.7, llm_judge=Equal()).columns.values()
    assert row["llm_judge_accuracy"] == 100


def test_replies_that_are_not_understood_leave_no_number(tiny_judge, tmp_path):
    class Silent:
        def verdicts(self, question, answers, responses):
            return {}

        def counts(self):
            return {"asked": 1, "not_understood": 1}

    found = equivalence(tiny_judge, [Verdict("Who?", ("Ann",), "Ann", True)], threshold=0.7, llm_judge=Silent())
    (row,) = found.columns.values()
    assert (row["llm_judge_f1"], row["llm_judge_accuracy"]) == (None, None)
    json.dumps(found.as_dict(), allow_nan=False)
    assert "–" in found.table()


def test_a_language_model_judges_too_and_is_counted(tiny_judge, tiny_sampler):
    replies = {"Ann": "yes", "Bob": "no", "Annie": "Yes.", "Al": "well, perhaps"}

    def reply(prompt):
        return replies[next(line for line in prompt.splitlines() if line.startswith("Response: "))[10:]]

    llm_judge = LLMJudge(PromptedReader(ScriptedSampler(tiny_sampler.tokenizer, reply), prompt="brief"))
    people = {"Ann": True, "Bob": False, "Annie": False, "Al": True}
    verdicts = [Verdict("who?", ("Ann",), response, right) for response, right in people.items()]
    found = equivalence(tiny_judge, verdicts, threshold=0.7, llm_judge=llm_judge)
    assert found.llm_judge == {"asked": 4, "not_understood": 1}
    (row,) = found.columns.values()
    # of three verdicts two are right; one of two that it calls right is, and none is missed
    assert (row["llm_judge_accuracy"], row["llm_judge_f1"]) == (66.7, 66.7)
    assert found.thresholds["llm_judge"] == 0.5
    assert (row["n"], row["bert_score_f1"]) == (4, row["token_f1_f1"])  # "Ann" alone is near enough
    assert "1 of 4 replies of the LLM judge not understood" in found.table()
    assert "llm_judge" not in equivalence(tiny_judge, verdicts, threshold=0.7).as_dict()


def test_the_command(tiny_entailment, tiny_reader, tmp_path, capsys):
    said = {"answers": ["Ann"], "response": "It is Ann"}
    rows = [{**said, "question": f"who {n}?", "equivalent": n % 3 > 0, "system": "ab"[n % 2]} for n in range(40)]
    for name in ("own", "more"):
        write_rows(tmp_path / f"{name}.jsonl", rows)
    words = ["--judge", tiny_entailment, "--dtype", "float32", "--device", "cpu"]
    words += ["--file", tmp_path / "own.jsonl", tmp_path / "more.jsonl", "--llm_judge", tiny_reader]
    words += ["--json", tmp_path / "out.json", "--plot", tmp_path / "plot.svg"]
    assert main(["evaluate", "judge", *map(str, words)]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert set(result["columns"]) == {"own, a", "own, b", "more, a", "more, b"}
    assert result["columns"]["own, a"] == result["columns"]["more, a"]
    assert result["llm_judge"]["asked"] > 0
    for column in result["columns"].values():
        assert {"f1", "accuracy", "lexical_f1", "lexical_accuracy", "token_f1_f1", "cosine_f1"} <= column.keys()
    out = capsys.readouterr().out
    assert "calibration error" in out
    assert "mean support" in out
    assert "<svg" in (tmp_path / "plot.svg").read_text()


def test_verdicts_are_required(capsys):
    assert main(["evaluate", "judge", "--llm_judge", "somewhere"]) == 2
    assert "--file is required: people's verdicts" in capsys.readouterr().err
