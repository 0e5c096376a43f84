"""Correlation with relevance marks, as a function and as a command."""

import json

import pytest
from scipy.stats import pearsonr

from seper_reward.cli import main
from seper_reward.data import as_query
from seper_reward.evaluation import choose_passages, correlation, split_of

RECORD = {
    "question": "Who?",
    "answers": ["Ann"],
    "passages": [{"id": str(n), "text": f"text {n}", "relevant": n in (1, 3)} for n in range(5)],
}


def test_relevant_passages_are_kept_first_in_their_order():
    assert [p.id for p in choose_passages(as_query(RECORD), 3).passages] == ["0", "1", "3"]
    assert [p.id for p in choose_passages(as_query(RECORD), 1).passages] == ["1"]
    assert [p.id for p in choose_passages(as_query(RECORD), 9).passages] == list("01234")


def test_the_command_agrees_with_scipy(tiny_reader, tiny_entailment, tiny_scorer, tmp_path, capsys):
    records = [{**RECORD, "id": f"q{n}", "question": f"Who {n}?"} for n in range(4)]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    words = ["evaluate", "correlation", "--file", tmp_path / "qa.jsonl", "--limit", 3, "--passages_per_question", 4]
    words += ["--reader", tiny_reader, "--entailment", tiny_entailment, "--dtype", "float32", "--device", "cpu"]
    words += ["--num_samples", 4, "--max_new_tokens", 8, "--prompt", "brief", "--json", tmp_path / "out.json"]
    assert main([str(word) for word in words]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    queries = [choose_passages(as_query(record), 4) for record in records[:3]]
    utilities = [judged for row in tiny_scorer.utilities(queries) for judged in row]
    marks = [passage.metadata["relevant"] for query in queries for passage in query.passages]
    for name, values in (
        ("delta_seper_soft", [judged.delta_seper for judged in utilities]),
        ("delta_seper_hard", [judged.delta_seper_hard for judged in utilities]),
    ):
        assert result["pearson"][name] == pytest.approx(pearsonr(values, marks).statistic, abs=1e-3)
        assert result["p_value"][name] == pytest.approx(pearsonr(values, marks).pvalue, abs=1e-2)
    assert result["n"] == 12
    assert '"pearson"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("passages", "message"),
    [(["text"], "expected 'relevant'"), ([{"text": "a", "relevant": True}], "relevant and not relevant")],
)
def test_missing_marks_are_named(tiny_scorer, passages, message):
    with pytest.raises(ValueError, match=message):
        correlation(tiny_scorer, [as_query({**RECORD, "passages": passages})])


def test_split_of_is_by_hash():
    counts = {name: sum(split_of(str(n)) == name for n in range(1600)) for name in ("train", "dev", "test")}
    assert sum(counts.values()) == 1600
    assert abs(counts["train"] - 1200) < 80
    assert abs(counts["dev"] - 200) < 60


def test_a_file_is_needed(capsys):
    assert main(["evaluate", "correlation"]) == 2
    assert "--file is required" in capsys.readouterr().err
