"""The command labels what other libraries wrote: their columns, their folders, their runs and judgments."""

import math
from pathlib import Path

import datasets
import pytest
from datasets import Dataset

from seper_reward.cli import main
from seper_reward.labels.labelers import DeltaSePerLabeler
from seper_reward.labels.rows import label_row
from tests.helpers import as_query, labels_of

BEIR = Path(__file__).parents[1] / "data" / "files" / "beir"


@pytest.fixture
def label(tmp_path):
    """Label into a folder and return the rows."""

    def run(labeler, *words):
        folder = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        assert main(["label", "--labeler", labeler, "--output_dir", str(folder), *map(str, words)]) == 0
        return labels_of(folder)

    return run


def shown(row):
    return [(passage["passage_id"], passage.get("metadata", {}).get("relevant")) for passage in row["passages"]]


def test_what_is_recognised_is_said(label, tmp_path, capsys):
    row = {"query": "Who?", "answers": ["Ida"], "passages": {"passage_text": ["Ida.", "x"], "is_selected": [1, 0]}}
    Dataset.from_list([row]).to_json(tmp_path / "marco.jsonl")
    rows = label("contains", "--input", tmp_path / "marco.jsonl")
    assert [[passage["contains"] for passage in row["passages"]] for row in rows] == [[1.0, 0.0]]
    assert "marco.jsonl: read as MS MARCO" in capsys.readouterr().err
    label("contains")
    assert "read as" not in capsys.readouterr().err


def test_a_folder_of_beir_has_judged_and_retrieved_passages(label):
    rows = label("gold", "--input", f"{BEIR}:test", "--top_k", "2")
    assert [row["id"] for row in rows] == ["q1", "q2"]
    # BM25 finds d1 and d2 for the mill, d3 for the ferry; d4 was judged
    assert shown(rows[0]) == [("d1", 1), ("d4", 0), ("d2", 0)]
    assert shown(rows[1])[0] == ("d3", 2)
    assert not any(isinstance(mark, bool) for row in rows for _, mark in shown(row))  # one type in a column
    assert [passage["gold"] for passage in rows[0]["passages"]] == [1.0, 0.0, 0.0]
    assert rows[1]["passages"][0]["gold"] == 2.0


def test_a_run_has_the_passages_of_the_questions(label):
    words = ["--input", BEIR / "queries.jsonl", "--corpus", BEIR / "corpus.jsonl"]
    words += ["--run", f"{BEIR / 'bm25.run'}"]
    rows = label("gold", *words, "--top_k", "2", "--qrels", f"{BEIR / 'qrels' / 'test.tsv'}")
    assert [shown(row) for row in rows] == [[("d1", 1), ("d2", 0)], [("d3", 2), ("d4", 0)]]


def test_columns_and_a_limit(label, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = [
        {"q": f"Who has {number}?", "gold": f"Ann {number}", "ctx": f"Ann {number} has it."} for number in range(9)
    ]
    Dataset.from_list(rows).to_parquet(tmp_path / "data" / "train.parquet")
    words = ["--input", f"{tmp_path / 'data'}:train", "--columns", "question=q", "answers=gold", "passages=ctx"]
    spread = label("contains", *words, "--limit", "3")  # over all rows
    assert [row["question"] for row in spread] == ["Who has 0?", "Who has 3?", "Who has 6?"]


def test_a_table_as_people_keep_it(label, tmp_path):
    (tmp_path / "table.csv").write_text(
        ",Q,A,Passage 1,Passage 2\n0,Who runs the mill?,Ida,Voss or Ida run it.,Sheep.\n"
        "1,Who rows?,Bob,Fog.,Bob rows.\n"
    )
    columns = ["question=Q", "answers=A", "passages=Passage 1", "passages=Passage 2"]
    words = ["--input", tmp_path / "table.csv", "--columns", *columns]
    rows = label("contains", *words)
    assert [[passage["contains"] for passage in row["passages"]] for row in rows] == [[1, 0], [0, 1]]
    assert [row["answers"] for row in rows] == [["Ida"], ["Bob"]]


def test_a_long_reference_is_an_answer_like_any_other(tiny_scorer):
    reference = "Ida Voss runs the mill in Hallow. She took it over from her aunt, who had it for forty years. " * 12
    row = {"user_input": "Who?", "question": "Who?", "answers": reference, "passages": ["Ida runs it.", "Sheep."]}
    labels = label_row(DeltaSePerLabeler(tiny_scorer).label(as_query(row)))
    assert labels["answers"] == [reference.strip()]
    for passage in labels["passages"]:
        assert all(math.isfinite(passage[name]) for name in ("delta_seper", "delta_belief", "answer_log_prob"))
        assert passage["delta_belief"] != 0  # its likelihood moves where no response says all of it
