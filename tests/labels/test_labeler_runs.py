"""Every labeler goes through the same run: the same folder, resume, provenance, rejected rows and exports."""

import json

import pytest
from transformers import AutoTokenizer

from seper_reward import load_labels
from seper_reward.cli import main
from seper_reward.data.queries import read_queries
from seper_reward.labels.labelers import LABELERS, load_labeler, needs_answers
from seper_reward.labels.rows import label_row, labeler_of, passage_lengths
from seper_reward.labels.run import LabelRun
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from tests.helpers import as_query, labels_of, write_rows


def records(count):
    return [
        {"id": f"q{number}", "question": f"Who built mill {number}?", "answers": [f"Voss {number}"], "passages": [
            {"id": "s", "text": f"Voss {number} built mill {number}.", "relevant": True, "page": 7},
            {"id": "u", "text": "A mill grinds corn.", "relevant": False},
        ]}
        for number in range(count)
    ]  # fmt: skip


LONG = {**records(1)[0], "id": "long", "question": "why " * 600}


@pytest.fixture
def words(label_words):
    """Return the command's words for a labeler, a folder and its rows."""
    return lambda labeler, folder="out", rows=None: label_words(
        rows or [*records(3), LONG], folder, "--labeler", labeler
    )


def test_label_command_names_a_corpus_that_is_not_searched(words, tmp_path, capsys):
    corpus = write_rows(tmp_path / "corpus.jsonl", [{"id": "1", "text": "Rain fell."}])
    assert main([*words("contains"), "--corpus", str(corpus), "--limit", "1"]) == 0
    assert "corpus.jsonl is not searched: all questions have passages" in capsys.readouterr().err


def test_label_command_by_gold_needs_neither_reader_nor_answers(words, tmp_path, capsys):
    rows = [*records(3), {name: value for name, value in LONG.items() if name != "answers"}]
    assert main([*words("gold", rows=rows), "--reader", "no/such-model"]) == 0
    labeled = load_labels(tmp_path / "out").labeled()
    assert [row.labels for row in labeled] == [(1.0, 0.0)] * 4  # nobody reads, so no question is too long
    assert labeled[3].query.answers == ()
    output = tmp_path / "qrels"
    assert main(["export", "--labels", str(tmp_path / "out"), "--format", "trec", "--output", str(output)]) == 0
    assert output.read_text().startswith("q0 0 q0:s 1\nq0 0 u 0\n")
    assert main(words("contains", "other", rows[3:])) == 2
    assert "found no column for answers" in capsys.readouterr().err


def test_label_command_shares_a_folder_by_labels_of_its_rows(words, tmp_path, capsys):
    assert main(words("delta_seper")) == 0
    rows = (tmp_path / "out" / "labels.jsonl").read_bytes()
    capsys.readouterr()
    assert main([*words("delta_seper"), "--label", "delta_seper_hard"]) == 0
    assert "ΔSePer relevant" in capsys.readouterr().out
    assert (tmp_path / "out" / "labels.jsonl").read_bytes() == rows
    hard = [tuple(passage["delta_seper_hard"] for passage in row["passages"]) for row in labels_of(tmp_path / "out")]
    assert [row.labels for row in load_labels(tmp_path / "out").labeled("delta_seper_hard")] == hard
    # questions that have no delta_belief are rejected where it is the label; sets have the label of one name
    assert main([*words("delta_seper"), "--label", "delta_belief"]) == 2
    assert "labels made otherwise" in capsys.readouterr().err
    sets = [*words("delta_seper", "sets", records(1)), "--sets", "conditional"]
    assert main(sets) == 0
    assert main([*sets, "--label", "delta_seper_hard"]) == 2
    assert "labels made otherwise" in capsys.readouterr().err


@pytest.mark.parametrize("name", LABELERS)
def test_needs_answers_is_that_of_the_loaded_labeler(name, tiny_scorer):
    assert load_labeler(name, lambda: tiny_scorer).needs_answers == needs_answers(name, by_question=True)
    assert needs_answers("delta_seper")


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        *(("delta_seper", chosen) for chosen in (None, "delta_seper_hard", "delta_belief", "seper_gain")),
        *((name, None) for name in ("erag:token_f1", "erag:token_f1:preset=paper", "likelihood", "gold")),
    ],
)
def test_label_row_keeps_fields_of_the_input_called_like_ours(tmp_path, tiny_scorer, name, chosen):
    fields = {"labeler": "alice", "baseline": "mine", "source": "web"}
    passage_fields = {"seper": "x", "std_error": "y", "responses": [3], "delta_seper": 9, "gold": 8, "page": 7}
    passage_fields |= {"passage_id": "mine", "truncated": "mine", "tokens": 7}
    first, second = records(1)[0]["passages"]
    query = as_query({**records(1)[0], **fields, "passages": [{**first, **passage_fields}, second]})
    labeler = load_labeler(name, lambda: tiny_scorer, label=chosen)
    labeled = labeler.label(query)
    row = label_row(labeled, labeler.name, passage_lengths(labeler.scorer, query))
    assert row["metadata"] == fields
    assert row["passages"][0]["passage_id"] == "s"
    assert [passage["metadata"] for passage in row["passages"]] == [
        {"relevant": True, **passage_fields}, {"relevant": False}
    ]  # fmt: skip
    assert ("tokens" in row["passages"][0]) == (name != "gold")  # no reader is asked
    write_rows(tmp_path / "labels.jsonl", [row])
    (read,) = load_labels(tmp_path).labeled(labeler.name)
    assert read.query == query
    assert read.query.metadata == query.metadata
    assert [passage.metadata for passage in read.query.passages] == [passage.metadata for passage in query.passages]
    assert read.labels == pytest.approx(labeled.labels, abs=1e-6)
    assert read.std_errors == pytest.approx(labeled.std_errors, abs=1e-6)
    assert read.baseline_error == pytest.approx(labeled.baseline_error, abs=1e-6)


@pytest.mark.parametrize(("first", "second"), [("erag", "gold"), ("gold", "delta_seper"), ("delta_seper", "gold")])
def test_label_run_on_labels_of_another_labeler(tmp_path, tiny_scorer, first, second):
    queries = [as_query(record) for record in records(2)]
    LabelRun(tmp_path / "first", load_labeler(first, lambda: tiny_scorer), queries).run()
    examples = read_queries(tmp_path / "first" / "labels.jsonl")
    assert not examples.rejected
    LabelRun(tmp_path / "second", load_labeler(second, lambda: tiny_scorer), examples.queries).run()
    LabelRun(tmp_path / "alone", load_labeler(second, lambda: tiny_scorer), queries).run()
    old, new, alone = (labels_of(tmp_path / name) for name in ("first", "second", "alone"))
    column = labeler_of(old)
    assert labeler_of(new) == second
    with pytest.raises(ValueError, match=f"'{column}' is missing"):
        load_labels(tmp_path / "second").labeled(column)
    for before, after, expected in zip(old, new, alone, strict=True):
        for was, judged, passage in zip(before["passages"], after["passages"], expected["passages"], strict=True):
            kept, marks = judged.pop("metadata"), passage.pop("metadata")
            assert kept.items() >= {**marks, column: was[column]}.items()
        assert after.pop("metadata", {}).get("baseline") == before.get("baseline")
        assert after == expected  # ids, labels


def test_label_command_fails_if_all_questions_are_rejected(words, capsys):
    for _ in range(2):  # the second finds a finished folder
        assert main(words("delta_seper", rows=[LONG])) == 2
        shown = capsys.readouterr()
        assert "1 row rejected\n" in shown.out
        assert "out/rejected.jsonl: id long: question has no room" in shown.out
        assert "no question could be labelled; rejected.jsonl there has the reasons" in shown.err
        assert "next:" not in shown.err


def test_label_command_marks_and_counts_cut_passages(words, tmp_path, capsys, tiny_reader):
    first, second = records(1)[0]["passages"]
    row = {**records(1)[0], "passages": [first, {**second, "text": "A mill grinds corn. " * 300}]}
    assert main(words("likelihood", rows=[row])) == 0
    assert "warning: longer than the reader's window or max_passage_tokens: 1 passage; " in capsys.readouterr().err
    short, long = labels_of(tmp_path / "out")[0]["passages"]
    assert (short["truncated"], long["truncated"]) == (False, True)
    tokenizer = AutoTokenizer.from_pretrained(tiny_reader)
    for passage in (short, long):  # of the whole passage, whatever the prompt has room for
        assert passage["tokens"] == len(tokenizer(passage["text"]).input_ids)
    assert long["tokens"] > 512
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["truncated"] == 1


def test_label_command_with_another_preset_and_the_cache_asks_no_reader(words, tmp_path, monkeypatch):
    def labels(preset):
        cache = ["--cache", str(tmp_path / "cache.sqlite"), "--estimator", preset]
        assert main([*words("delta_seper", preset), *cache]) == 0
        return [row["baseline"] for row in labels_of(tmp_path / preset)]

    official = labels("official")
    monkeypatch.setattr(ResponseSampler, "sample", lambda *_, **__: pytest.fail("the reader was asked"))
    paper = labels("paper")
    assert [row["seper"] for row in paper] != [row["seper"] for row in official]
    drawn = [
        [{(each["text"], each["count"]) for each in row["responses"]} for row in rows] for rows in (paper, official)
    ]
    assert drawn[0] == drawn[1]
