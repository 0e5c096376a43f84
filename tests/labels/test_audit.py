"""An audit of mined negatives: whose answers, what is a false negative, and what the command writes."""

import json

import pytest

from seper_reward import cli
from seper_reward.data.rows import BadRowError
from seper_reward.labels.audit import false_negatives, questions_to_audit, read_gold_answers, write_audit
from seper_reward.labels.labelers import DeltaSePerLabeler
from seper_reward.labels.mined_negatives import read_mined
from seper_reward.types import LabeledQuery, Passage, Query
from tests.helpers import labels_of, write_rows

ROWS = [
    {"query": "Who runs the mill?", "pos": ["Ida."], "neg": ["Ida Voss runs it.", "Fog."], "answers": ["Ida Voss"]},
    {"query": "Who sings?", "pos": ["Bob."], "neg": ["Hens."], "answers": "Bob"},
    {"query": "Who?", "pos": ["Ann."], "neg": ["Corn."], "answers": []},
]


@pytest.fixture
def mined(tmp_path):
    return read_mined(write_rows(tmp_path / "mined.jsonl", ROWS))


def test_questions_have_their_negatives_and_answers(mined):
    asked = questions_to_audit(mined)
    assert [(each.question, each.answers) for each in asked.queries] == [
        ("Who runs the mill?", ("Ida Voss",)),
        ("Who sings?", ("Bob",)),
    ]
    assert [passage.text for passage in asked.queries[0].passages] == ["Ida Voss runs it.", "Fog."]
    assert asked.unanswered == ("Who?",)
    assert len(questions_to_audit(mined, limit=1).queries) == 1


def test_answers_from_a_file(mined, tmp_path):
    rows = [{"question": "Who? ", "answers": ["Ann", "Anna"]}, {"anchor": "Who sings?", "answers": "Bob"}]
    asked = questions_to_audit(mined, read_gold_answers(write_rows(tmp_path / "gold.jsonl", rows)))
    assert [each.answers for each in asked.queries] == [("Bob",), ("Ann", "Anna")]
    assert asked.unanswered == ("Who runs the mill?",)


def test_without_answers_there_is_no_audit(mined, tmp_path):
    with pytest.raises(ValueError, match=r"gold answers, and none of 3 questions has any in 'answers'; add the"):
        questions_to_audit(mined, {})
    with pytest.raises(BadRowError, match=r"line 1: expected 'answers', got fields question; name the"):
        read_gold_answers(write_rows(tmp_path / "gold.jsonl", [{"question": "Who?"}]))
    with pytest.raises(BadRowError, match=r"line 1: expected a text in one of question, query, anchor, got fields id"):
        read_gold_answers(write_rows(tmp_path / "gold.jsonl", [{"id": "q1", "answers": ["x"]}]))


def test_an_unusable_answer_is_rejected(mined):
    asked = questions_to_audit(mined, {"Who?": ["Ann"], "Who sings?": [["Bob"], "Eve"]})
    assert [each.question for each in asked.queries] == ["Who?"]
    assert "question 'Who sings?'" in asked.rejected[0].where
    asked = questions_to_audit(mined, {"Who?": {"name": "Ann"}, "Who sings?": [["Bob"], "Eve"]})
    assert [each.where.split("question ")[1] for each in asked.rejected] == ["'Who sings?'", "'Who?'"]
    assert "answers[0] must be a non-empty text, got {'name': 'Ann'}" in asked.rejected[1].reason


def test_a_false_negative_exceeds_two_errors_and_the_margin():
    query = Query("q", "Who?", ("Ida",), (Passage("a"), Passage("b"), Passage("c")))
    labeled = LabeledQuery(query, (0.19, 0.21, 0.04), (0.1, 0.1, 0.001))
    assert false_negatives(labeled) == [1]  # the last is sure, but too little
    assert false_negatives(labeled, margin=0.01) == [1, 2]


def label_rows(mined):
    """Return label rows in which what names the answer helps for sure."""
    rows = []
    for query in questions_to_audit(mined).queries:
        labels = [0.9 if query.answers[0] in passage.text else 0.02 for passage in query.passages]
        rows.append(
            {
                "id": query.id,
                "question": query.question,
                "answers": list(query.answers),
                "baseline": {"seper": 0.05},
                "passages": [
                    {
                        **{"passage_id": each.id, "title": "", "text": each.text},
                        **dict.fromkeys(("delta_seper", "low", "high"), label),
                        **dict.fromkeys(("delta_seper_hard", "low_hard", "high_hard"), label),
                        **{"std_error": 0.005, "std_error_hard": 0.005},
                    }
                    for each, label in zip(query.passages, labels, strict=True)
                ],
            }
        )
    return rows


@pytest.mark.parametrize(("action", "first"), [("list", None), ("drop", {**ROWS[0], "neg": ["Fog."]})])
def test_what_an_audit_writes(mined, tmp_path, action, first):
    write_rows(tmp_path / "labels.jsonl", label_rows(mined))
    found = write_audit(mined, questions_to_audit(mined), tmp_path, action=action, settings={"seed": 0})
    (listed,) = [json.loads(line) for line in (tmp_path / "false_negatives.jsonl").read_text().splitlines()]
    assert (listed["question"], listed["negative"], listed["delta_seper"]) == (
        "Who runs the mill?",
        "Ida Voss runs it.",
        0.9,
    )
    counts = ("rows", "questions", "negatives", "audited_questions", "audited_negatives", "unanswered")
    assert [found[name] for name in counts] == [3, 3, 4, 2, 3, 1]
    assert (found["false_negatives"], found["share"], found["by_question"]) == (1, 0.3333, 1)
    assert json.loads((tmp_path / "audit.json").read_text()) == {**found, "settings": {"seed": 0}}
    if first is None:
        assert "output" not in found
        assert not (tmp_path / "audited.jsonl").exists()
        return
    rows = [json.loads(line) for line in (tmp_path / "audited.jsonl").read_text().splitlines()]
    assert rows == [first, *ROWS[1:]]  # what was not audited stays
    assert (found["rows_written"], found["rows_changed"], found["rows_dropped"]) == (3, 1, 0)


@pytest.fixture
def words(tmp_path, mined, tiny_scorer, monkeypatch):
    monkeypatch.setattr("seper_reward.labels.labelers.load_labeler", lambda *_: DeltaSePerLabeler(tiny_scorer))
    return ["audit-negatives", "--input", str(mined.path), "--output_dir", str(tmp_path / "out")]


def test_the_command_audits_and_another_action_labels_nothing_again(words, tmp_path, capsys):
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "FlagEmbedding (query, pos, neg): 3 negatives of 2 questions audited" in out
    assert "not audited: 1 question, 1 of them without answers" in out
    labels = labels_of(tmp_path / "out")
    assert [[passage["text"] for passage in row["passages"]] for row in labels] == [ROWS[0]["neg"], ROWS[1]["neg"]]
    assert cli.main([*words, "--action", "drop"]) == 0
    captured = capsys.readouterr()
    assert "drop: " in captured.out
    assert "labelling" not in captured.err
    assert cli.main(["report", "--labels", str(tmp_path / "out"), "--output", str(tmp_path / "page.html")]) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--label", "gold"], "invalid choice: 'gold'"),
        (["--limit", "0"], "limit must be at least 1, got 0"),
        (["--margin", "-1"], "margin must be at least 0, got -1"),
        (["--input", "absent.jsonl"], "absent.jsonl: no such file"),
    ],
)
def test_what_cannot_be_audited_is_said(words, changes, message, capsys):
    assert cli.main([*words, *changes]) == 2
    assert message in capsys.readouterr().err
