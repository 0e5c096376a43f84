"""Exports, read back the way their readers do."""

import json

import pytest

from seper_reward.cli import main
from seper_reward.labels.export import LAYOUTS, form_rows, write_labels
from seper_reward.types import LabeledQuery, Passage, Query
from tests.helpers import write_rows
from tests.labels.test_load import labeled


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_write_labels_as_qrels_for_ir_measures(tmp_path):
    ir_measures = pytest.importorskip("ir_measures")
    assert write_labels(labeled(), tmp_path / "qrels.tsv", "trec", margin=0.3) == 5
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels.tsv")))
    assert [(row.query_id, row.doc_id, row.relevance) for row in qrels] == [
        ("q1", "p1", 3), ("q1", "q1:p2", 0), ("q1", "p3", -1), ("q2", "q2:p2", 0), ("q2", "p9", -1),
    ]  # fmt: skip
    run = [ir_measures.ScoredDoc("q1", name, -place) for place, name in enumerate(["p3", "p1"])]
    measures = ir_measures.calc_aggregate([ir_measures.RR], [row for row in qrels if row.query_id == "q1"], run)
    assert measures[ir_measures.RR] == pytest.approx(0.5)


SPACED = LabeledQuery(Query("q 1", "Who?", ("Ann",), (Passage("x", id="p"),)), (0.5,), (0.0,))


@pytest.mark.parametrize(
    ("labels", "name", "layout", "message"),
    [
        *(([], "x", layout, "lower the margin") for layout in LAYOUTS),
        (labeled(), "x", "csv", "must be one of"),
        ([SPACED], "x", "trec", "no spaces in TREC files, got 'q 1'"),
        (labeled(), "x.csv", "trec", r"trec is a text format, not for \.csv; use another extension"),
        (labeled(), "x.csv", "flagembedding", r"x.csv: flagembedding has lists, .* ends in .jsonl or .parquet"),
    ],
)
def test_write_labels_refuses(tmp_path, labels, name, layout, message):
    with pytest.raises(ValueError, match=message):
        write_labels(labels, tmp_path / name, layout)
    assert not (tmp_path / name).exists()


def test_write_labels_keeps_grades_of_people_in_qrels(tmp_path):
    query = Query("q", "Who?", ("Ann",), tuple(Passage(f"text {at}", id=f"p{at}") for at in range(5)))
    graded = LabeledQuery(query, (0.0, 1.0, 2.0, 3.0, 4.0), (0.0,) * 5, graded=True)
    write_labels([graded], tmp_path / "qrels", "trec", margin=0.5)
    assert [line.split()[-1] for line in (tmp_path / "qrels").read_text().splitlines()] == list("01234")


def row_of(**changes):
    passage = {"seper": 0.9, "responses": [], "delta_seper_hard": 1.0, "std_error_hard": 0.1, "title": ""}
    passages = [
        {**passage, "passage_id": "a", "text": "Ann.", "delta_seper": 0.8, "std_error": 0.1},
        {**passage, "passage_id": "b", "text": "Bob.", "delta_seper": -0.2, "std_error": 0.3},
    ]
    return {"id": "q1", "question": "Who?", "answers": ["Ann"], "baseline": {}, "passages": passages, **changes}


def test_export_command(tmp_path, capsys):
    write_rows(tmp_path / "labels.jsonl", [row_of(metadata={"group": "fiction"})])
    arguments = ["export", "--labels", str(tmp_path), "--output", str(tmp_path / "out.jsonl")]
    assert main(arguments) == 0
    assert "1 line from 1 of 1 question, " in capsys.readouterr().out
    assert lines(tmp_path / "out.jsonl")[0]["labels"] == [0.8, -0.2]
    # squared errors .01 and .09, mean .05: Q = .5 / .05 has p = .0016, and .05 of the variance .5 is noise
    assert main([*arguments, "--heterogeneity", "0.01", "--shrink", "true"]) == 0
    assert lines(tmp_path / "out.jsonl")[0]["labels"] == pytest.approx([0.3 + 0.5 * 0.9, 0.3 - 0.5 * 0.9])
    assert main([*arguments, "--label", "delta_seper_hard", "--format", "trec"]) == 0
    assert (tmp_path / "out.jsonl").read_text() == "q1 0 a 3\nq1 0 b 3\n"


@pytest.mark.parametrize(
    ("rows", "words", "message"),
    [
        ([row_of()], "--heterogeneity 0.001", "(heterogeneity=0.001), got none of 1; raise heterogeneity"),
        ([row_of()], "--heterogeneity 0", "heterogeneity must be in (0, 1], got 0"),
        ([row_of()], "--format trec --margin 1", "format='trec' needs a margin in [0, 1)"),
        ([row_of()], "--format trec --margin -1", "format='trec' needs a margin in [0, 1)"),
        ([row_of()], "--format csv", "format must be one of sentence-transformers"),
        ([row_of()], "--learn_from paths", "for learn_from=paths, got none of 1 question"),
        ([row_of(labeler="likelihood")], "--format trec", "needs labels in [-1, 1], got labels of 'likelihood'"),
        ([row_of(passages=[{}])], "", "line 1: expected a row written by `seper-reward label`"),
    ],
)
def test_export_command_refuses(tmp_path, capsys, rows, words, message):
    write_rows(tmp_path / "labels.jsonl", rows)
    words = ["--label", "delta_seper", *words.split()]
    assert main(["export", "--labels", str(tmp_path), "--output", str(tmp_path / "x"), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["flat", "pairs", "triplets"])
def test_write_labels_as_csv_is_read_back(tmp_path, kind):
    from datasets import load_dataset

    layout = f"sentence-transformers-{kind}"
    folder = tmp_path / "deep"
    count = write_labels(labeled(), folder / "x.jsonl", layout)
    assert write_labels(labeled(), folder / "x.csv", layout) == count
    read = {
        name: load_dataset(name, data_files=str(folder / f"x.{ending}"), cache_dir=str(tmp_path / "cache"))["train"]
        for name, ending in (("csv", "csv"), ("json", "jsonl"))
    }
    assert read["csv"].to_list() == read["json"].to_list()


def test_form_rows_bounds_the_triplets_of_a_question(capsys):
    """60 positives of labels .6 to 1 and 40 negatives at 0 make 2,400 triplets."""
    labels = (*(0.6 + place / 150 for place in range(60)), *[0.0] * 40)
    passages = tuple(Passage(f"Text {place}.", id=str(place)) for place in range(100))
    rows = form_rows([LabeledQuery(Query("q", "Who?", ("Ann",), passages), labels, (0.0,) * 100)], "triplets", 0.5)
    assert len(rows) == 1000
    assert len({row["positive"] for row in rows}) == 60  # from all ranks
    assert "left out: 1400 triplets; a question has at most 1000" in capsys.readouterr().err
