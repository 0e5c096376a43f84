"""The command labels what other libraries wrote: their columns, their folders, their runs and judgments."""

import math
from pathlib import Path

import pytest

from seper_reward.cli import main
from seper_reward.labels.labelers import DeltaSePerLabeler
from seper_reward.labels.rows import label_row
from tests.helpers import as_query, labels_of

BEIR = Path(__file__).parents[1] / "data" / "files" / "beir"


@pytest.fixture
def label(tmp_path):
    """Label into a folder and return the rows."""

    def run(labeler, *words):
        assert main(["label", "--labeler", labeler, "--output_dir", str(tmp_path / "out"), *map(str, words)]) == 0
        return labels_of(tmp_path / "out")

    return run


def test_label_command_reads_and_searches_a_folder_of_beir(label):
    rows = label("gold", "--input", f"{BEIR}:test", "--top_k", "2")
    marks = [{each["passage_id"]: each["metadata"]["relevant"] for each in row["passages"]} for row in rows]
    # BM25 finds d1 and d2 for the mill, d3 for the ferry; d4 was judged
    assert list(marks[0].items()) == [("d1", 1), ("d4", 0), ("d2", 0)]
    assert next(iter(marks[1].items())) == ("d3", 2)
    assert not any(isinstance(mark, bool) for row in marks for mark in row.values())  # one type in a column
    assert [passage["gold"] for passage in rows[0]["passages"]] == [1.0, 0.0, 0.0]
    assert rows[1]["passages"][0]["gold"] == 2.0


def test_label_command_reads_a_table_by_columns_and_limit(label, tmp_path, capsys):
    lines = [f"{at},Who runs mill {at}?,Ida,Voss or Ida run it.,Sheep." for at in range(9)]
    (tmp_path / "table.csv").write_text("\n".join([",Q,A,Passage 1,Passage 2", *lines]) + "\n")
    columns = ["question=Q", "answers=A", "passages=Passage 1", "passages=Passage 2"]
    rows = label("contains", "--input", tmp_path / "table.csv", "--columns", *columns, "--limit", "3")
    assert [row["question"] for row in rows] == [f"Who runs mill {at}?" for at in (0, 3, 6)]  # over all rows
    assert [[passage["contains"] for passage in row["passages"]] for row in rows] == [[1, 0]] * 3
    assert [row["answers"] for row in rows] == [["Ida"]] * 3


def test_delta_seper_labeler_takes_a_long_reference_as_an_answer(tiny_scorer):
    reference = "Ida Voss runs the mill in Hallow. She took it over from her aunt, who had it for forty years. " * 12
    row = {"user_input": "Who?", "question": "Who?", "answers": reference, "passages": ["Ida runs it.", "Sheep."]}
    labels = label_row(DeltaSePerLabeler(tiny_scorer).label(as_query(row)))
    assert labels["answers"] == [reference.strip()]
    for passage in labels["passages"]:
        assert all(math.isfinite(passage[name]) for name in ("delta_seper", "delta_belief", "answer_log_prob"))
        assert passage["delta_belief"] != 0  # its likelihood moves where no response says all of it
