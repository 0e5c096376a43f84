"""Correlation with relevance marks and planted answers, as functions and as commands."""

import json
from dataclasses import replace

import pytest
from scipy.stats import pearsonr

from seper_reward.cli import main
from seper_reward.data.queries import as_query
from seper_reward.evaluation.correlation import choose_passages, contexts_of, correlation
from tests.helpers import evaluation_arguments as arguments

RECORD = {
    "question": "Who?",
    "answers": ["Ann"],
    "passages": [{"id": str(n), "text": f"text {n}", "relevant": n in (1, 3)} for n in range(5)],
}
ONE_RELEVANT = [{"id": str(n), "text": f"text {n}", "relevant": n == 2} for n in range(4)]


def test_relevant_passages_are_kept_first_in_their_order():
    assert [p.id for p in choose_passages(as_query(RECORD), 3).passages] == ["0", "1", "3"]
    with pytest.raises(ValueError, match="has 2 relevant passages, more than 1"):
        choose_passages(as_query(RECORD), 1)
    assert [p.id for p in choose_passages(as_query(RECORD), 9).passages] == list("01234")


def test_several_supporting_passages_share_the_worth_and_are_judged_together():
    contexts = contexts_of(as_query(RECORD))
    assert [context.relevance for context in contexts] == [0, 0.5, 0, 0.5, 0, 1]
    assert [passage.id for passage in contexts[-1].passages] == ["1", "3"]
    assert [c.relevance for c in contexts_of(as_query({**RECORD, "passages": ONE_RELEVANT}))] == [0, 0, 1, 0]


def test_the_command_agrees_with_scipy(tiny_reader, tiny_entailment, tiny_scorer, tmp_path, capsys):
    records = [{**RECORD, "id": f"q{n}", "question": f"Who {n}?", "passages": ONE_RELEVANT} for n in range(4)]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    words = ["evaluate", "correlation", "--limit", "3", "--passages_per_question", "3"]
    words += arguments(tiny_reader, tiny_entailment, tmp_path / "qa.jsonl", tmp_path / "out.json")
    assert main(words) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    queries = [choose_passages(as_query(record), 3) for record in records[:3]]
    utilities = [judged for row in tiny_scorer.utilities(queries) for judged in row]
    marks = [passage.metadata["relevant"] for query in queries for passage in query.passages]
    columns = {
        "delta_seper_soft": [judged.delta_seper for judged in utilities],
        "delta_seper_hard": [judged.delta_seper_hard for judged in utilities],
        "delta_log_odds": [judged.delta_log_odds for judged in utilities],
        "delta_belief": [judged.combined.value for judged in utilities],
        "entropy": [judged.baseline.entropy - judged.belief.entropy for judged in utilities],
        "semantic_entropy": [
            judged.baseline.semantic_entropy - judged.belief.semantic_entropy for judged in utilities
        ],
    }
    for name, values in columns.items():
        assert result["pearson"][name] == pytest.approx(pearsonr(values, marks).statistic, abs=1e-3)
        assert result["p_value"][name] == pytest.approx(pearsonr(values, marks).pvalue, abs=1e-2)
        low, high = result["interval"][name]
        assert low <= result["pearson"][name] <= high
    assert {"exact_match", "rouge_l", "answer_log_prob"} <= set(result["pearson"])
    assert result["n"] == 9
    assert '"pearson"' in capsys.readouterr().out


def test_a_list_among_the_answers_leaves_out_what_is_not_known_of_it(tiny_scorer):
    plain = as_query({**RECORD, "id": "plain", "passages": ONE_RELEVANT})
    listed = as_query({**RECORD, "id": "list", "answers": [["Ann"], ["Bob"]], "passages": ONE_RELEVANT})
    for queries in ([plain, listed], [listed, plain]):
        assert "delta_belief" not in correlation(tiny_scorer, queries)["pearson"]
    assert "delta_belief" in correlation(tiny_scorer, [plain])["pearson"]


def test_the_rivals_by_hand(tiny_scorer, monkeypatch):
    """Responses are given; exact match, ROUGE-L and the answer's log-probability follow by hand."""
    query = as_query({**RECORD, "answers": ["Ann Lee"], "passages": ONE_RELEVANT})
    said = {(): ("Bob", "Bob", "Bob", "Ann Lee"), ("2",): ("ann lee.", "Ann Lee", "Ann Ray", "Ann Lee")}
    real = tiny_scorer.beliefs

    def beliefs(question, answers, sets):
        found = real(question, answers, sets)
        keys = [tuple(passage.id for passage in shown) for shown in sets]
        texts = [said.get(key, said[()]) for key in keys]
        return [
            replace(b, sampled=replace(b.sampled, texts=t), weights=(0.25,) * 4)
            for b, t in zip(found, texts, strict=True)
        ]

    monkeypatch.setattr(tiny_scorer, "beliefs", beliefs)
    result = correlation(tiny_scorer, [query])
    assert result["mean"]["exact_match"] == {"0": 0.0, "1": 0.5}  # 3 of 4 less 1 of 4
    # ROUGE-L of "Ann Ray" is 1/2, so 3.5 of 4 less 1 of 4
    assert result["mean"]["rouge_l"]["1"] == pytest.approx(0.625)
    assert result["pearson"]["exact_match"] == 1.0


@pytest.mark.parametrize(
    ("passages", "message"),
    [(["text"], "expected 'relevant'"), ([{"text": "a", "relevant": True}], "relevant and not relevant")],
)
def test_missing_marks_are_named(tiny_scorer, passages, message):
    with pytest.raises(ValueError, match=message):
        correlation(tiny_scorer, [as_query({**RECORD, "passages": passages})])


@pytest.mark.parametrize("kind", ["correlation", "counterfactual"])
def test_a_file_and_a_known_split_are_needed(kind, capsys):
    assert main(["evaluate", kind]) == 2
    assert "--file is required" in capsys.readouterr().err
    assert main(["evaluate", kind, "--split", "validation"]) == 2
    assert "--split: invalid choice: 'validation' (choose from" in capsys.readouterr().err
