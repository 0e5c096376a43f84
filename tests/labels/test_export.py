"""Exports, read back the way their readers do."""

import json
from dataclasses import replace

import pytest

from seper_reward.cli import main
from seper_reward.labels import rows
from seper_reward.labels.export import LAYOUTS, form_rows, write_labels
from seper_reward.types import Estimate, LabeledQuery, Passage, Query, SetLabel
from tests.labels.test_load import labeled


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_tevatron(tmp_path):
    assert write_labels(labeled(), tmp_path / "t.jsonl", "tevatron") == 1
    (row,) = lines(tmp_path / "t.jsonl")
    assert (row["query_id"], row["query"]) == ("q1", "Who built the mill?")
    assert row["positive_passages"] == [{"docid": "p1", "title": "Mill", "text": "Ann built it.", "score": 0.8}]
    # p2 means another text in q2, so it is named by question
    assert [(passage["docid"], passage["score"]) for passage in row["negative_passages"]] == [
        ("q1:p2", 0.01),
        ("p3", -0.4),
    ]


def test_flagembedding(tmp_path):
    assert write_labels(labeled(), tmp_path / "f.jsonl", "flagembedding") == 1
    (row,) = lines(tmp_path / "f.jsonl")
    assert row == {
        "query": "Who built the mill?",
        "pos": ["Mill: Ann built it."],
        "neg": ["Sheep.", "Bob did."],
        "pos_scores": [0.8],
        "neg_scores": [0.01, -0.4],
    }


def test_trec_qrels_are_read_by_ir_measures(tmp_path):
    ir_measures = pytest.importorskip("ir_measures")
    assert write_labels(labeled(), tmp_path / "qrels", "trec", margin=0.3) == 5
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels")))
    assert [(row.query_id, row.doc_id, row.relevance) for row in qrels] == [
        ("q1", "p1", 3), ("q1", "q1:p2", 0), ("q1", "p3", -1), ("q2", "q2:p2", 0), ("q2", "p9", -1),
    ]  # fmt: skip
    run = [ir_measures.ScoredDoc("q1", name, -place) for place, name in enumerate(["p3", "p1"])]
    found = ir_measures.calc_aggregate([ir_measures.RR], [row for row in qrels if row.query_id == "q1"], run)
    assert found[ir_measures.RR] == pytest.approx(0.5)


def test_grades_of_people_stay_in_qrels(tmp_path):
    query = Query("q", "Who?", ("Ann",), tuple(Passage(f"text {at}", id=f"p{at}") for at in range(5)))
    graded = LabeledQuery(query, (0.0, 1.0, 2.0, 3.0, 4.0), (0.0,) * 5, graded=True)
    write_labels([graded], tmp_path / "qrels", "trec", margin=0.5)
    assert [line.split()[-1] for line in (tmp_path / "qrels").read_text().splitlines()] == list("01234")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_to_write_is_an_error(tmp_path, layout):
    with pytest.raises(ValueError, match="lower the margin"):
        write_labels([], tmp_path / "x", layout)


def test_bad_requests(tmp_path):
    with pytest.raises(ValueError, match="must be one of"):
        write_labels(labeled(), tmp_path / "x", "csv")
    spaced = LabeledQuery(Query("q 1", "Who?", ("Ann",), (Passage("x", id="p"),)), (0.5,), (0.0,))
    with pytest.raises(ValueError, match="no spaces in TREC files, got 'q 1'"):
        write_labels([spaced], tmp_path / "x", "trec")


def test_export_command(tmp_path, capsys):
    folder = tmp_path / "labels"
    folder.mkdir()
    passage = {"seper": 0.9, "responses": [], "delta_seper_hard": 1.0, "std_error_hard": 0.1}
    passage |= {"metadata": {"role": "supporting"}}
    row = {
        "id": "q1",
        "question": "Who?",
        "answers": ["Ann"],
        "metadata": {"group": "fiction"},
        "baseline": {},
        "passages": [
            {"passage_id": "a", "title": "", "text": "Ann.", "delta_seper": 0.8, "std_error": 0.1, **passage},
            {"passage_id": "b", "title": "", "text": "Bob.", "delta_seper": -0.2, "std_error": 0.3, **passage},
        ],
    }
    (folder / "labels.jsonl").write_text(json.dumps(row) + "\n")
    arguments = ["export", "--labels", str(folder), "--output", str(tmp_path / "out.jsonl")]
    assert main(arguments) == 0
    assert "1 line from 1 of 1 question, " in capsys.readouterr().out
    assert lines(tmp_path / "out.jsonl")[0]["labels"] == [0.8, -0.2]
    # squared errors .01 and .09, mean .05: Q = .5 / .05 has p = .0016, and .05 of the variance .5 is noise
    assert main([*arguments, "--heterogeneity", "0.01", "--shrink", "true"]) == 0
    assert lines(tmp_path / "out.jsonl")[0]["labels"] == pytest.approx([0.3 + 0.5 * 0.9, 0.3 - 0.5 * 0.9])
    assert main([*arguments, "--heterogeneity", "0.001"]) == 2
    assert "(heterogeneity=0.001), got none of 1; raise heterogeneity" in capsys.readouterr().err
    assert main([*arguments, "--heterogeneity", "0"]) == 2
    assert "heterogeneity must be in (0, 1], got 0" in capsys.readouterr().err
    assert main([*arguments, "--label", "delta_seper_hard", "--format", "trec"]) == 0
    assert (tmp_path / "out.jsonl").read_text() == "q1 0 a 3\nq1 0 b 3\n"
    for margin in ("1", "1.2", "-1"):
        assert main([*arguments, "--label", "delta_seper_hard", "--format", "trec", "--margin", margin]) == 2
        assert "format='trec' needs a margin in [0, 1)" in capsys.readouterr().err
    assert main([*arguments, "--format", "csv"]) == 2
    folder.joinpath("labels.jsonl").write_text(json.dumps(row | {"labeler": "likelihood"}) + "\n")
    assert main([*arguments, "--label", "delta_seper", "--format", "trec"]) == 2
    assert "format='trec' needs labels in [-1, 1], got labels of 'likelihood'" in capsys.readouterr().err
    assert main(["export", "--labels", str(tmp_path), "--output", "x"]) == 2
    assert "labels.jsonl: no such file" in capsys.readouterr().err


def test_hops_in_every_layout(tmp_path, capsys, monkeypatch):
    mill, ferry = labeled()
    nothing = Estimate(0.0, 0.0, 0.0, 0.0)

    def exactly(value):
        return Estimate(value, 0.0, value, value)

    gains = {1: 0.6, 2: -0.9}  # beside the first, which is worth .8
    sets = tuple(SetLabel((0, at), at, exactly(gain), exactly(0.8 + gain), nothing) for at, gain in gains.items())
    mill = replace(mill, std_errors=(0.0, 0.0, 0.0), sets=sets)
    monkeypatch.setattr(rows, "read_label_rows", lambda folder: {})
    monkeypatch.setattr(rows, "labeled_queries", lambda rows, label: [mill, ferry])

    def exported(layout, learn_from="paths"):
        words = ["--labels", str(tmp_path), "--label", "delta_seper", "--learn_from", learn_from]
        words += ["--output", str(tmp_path / "out"), "--format", layout]
        assert main(["export", *words]) == 0
        return (tmp_path / "out").read_text() if layout == "trec" else lines(tmp_path / "out")

    asked = "Who built the mill? [SEP] Mill: Ann built it."
    found = exported("sentence-transformers")
    assert found[0]["docs"] == ["Mill: Ann built it.", "Sheep.", "Bob did."]
    other = "Who built the mill? [SEP] Sheep."
    assert [row["query"] for row in found] == ["Who built the mill?", asked, other, "When did it sink?"]
    assert found[1] == {"query": asked, "docs": ["Sheep.", "Bob did."], "labels": pytest.approx([0.6, -0.9])}
    assert "4 lines from 4 of 4 questions by hop" in capsys.readouterr().out
    assert exported("sentence-transformers-triplets")[-1] == {
        "anchor": asked, "positive": "Sheep.", "negative": "Bob did.", "label": 1.5,
    }  # fmt: skip
    tevatron = exported("tevatron")[1]
    assert (tevatron["query_id"], tevatron["query"]) == ("q1|p1", asked)
    assert [passage["text"] for passage in tevatron["positive_passages"]] == ["Sheep."]
    assert exported("flagembedding")[1]["query"] == asked
    assert "q1 0 p1 3\n" in exported("trec")
    assert "q1|p1 0 p3 -1\n" in exported("trec")
    assert len(exported("sentence-transformers", "singles")) == 2
    monkeypatch.setattr(rows, "labeled_queries", lambda rows, label: [replace(mill, sets=()), ferry])
    words = ["--labels", str(tmp_path), "--label", "delta_seper", "--learn_from", "paths"]
    assert main(["export", *words, "--output", str(tmp_path / "out")]) == 2
    assert "for learn_from=paths, got none of 2 questions" in capsys.readouterr().err


def test_old_label_rows_are_refused(tmp_path, capsys):
    (tmp_path / "labels.jsonl").write_text('{"id": "q", "question": "Who?", "answers": [], "passages": [{}]}\n')
    assert main(["export", "--labels", str(tmp_path), "--output", str(tmp_path / "x")]) == 2
    assert "line 1: expected a row written by `seper-reward label`" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["flat", "pairs", "triplets"])
def test_csv_is_read_back(tmp_path, kind):
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


@pytest.mark.parametrize("layout", ["sentence-transformers", "tevatron", "flagembedding"])
def test_lists_are_refused_in_csv(tmp_path, layout):
    with pytest.raises(ValueError, match=rf"x.csv: {layout} has lists, .* ends in .jsonl or .parquet"):
        write_labels(labeled(), tmp_path / "x.csv", layout)
    assert not (tmp_path / "x.csv").exists()


def test_qrels_are_text(tmp_path):
    with pytest.raises(ValueError, match=r"trec is a text format, not for \.csv; use another extension"):
        write_labels(labeled(), tmp_path / "x.csv", "trec")
    write_labels(labeled(), tmp_path / "x.tsv", "trec")
    assert (tmp_path / "x.tsv").read_text().splitlines()[0].startswith("q1 0 ")


def test_triplets_of_a_question_are_bounded(capsys):
    """60 positives of labels .6 to 1 and 40 negatives at 0 make 2,400 triplets."""
    labels = [*(0.6 + place / 150 for place in range(60)), *[0.0] * 40]
    passages = tuple(Passage(f"Text {place}.", id=str(place)) for place in range(100))
    labeled = LabeledQuery(Query("q", "Who?", ("Ann",), passages), tuple(labels), (0.0,) * 100)
    rows = form_rows([labeled], "triplets", 0.5)
    assert len(rows) == 1000
    assert len({row["positive"] for row in rows}) == 60  # from all ranks
    assert "left out: 1400 triplets; a question has at most 1000" in capsys.readouterr().err
