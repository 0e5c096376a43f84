"""``Labeler`` on batches as data engines give them: labels of one process to the byte, errors in a column."""

import pickle

import numpy as np
import pandas
import pytest
from datasets import Dataset

from seper_reward.cli import main
from seper_reward.labels.dataset import Labeler
from seper_reward.options import LabelOptions
from tests.helpers import labels_of, mill_rows

ROWS = mill_rows(5)
ADDED = ["labels", "std_errors", "label_row", "label_error"]


def columns_of(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.fixture
def options(tiny_reader, tiny_entailment):
    return LabelOptions(
        reader=str(tiny_reader), judge=str(tiny_entailment), num_samples=3, max_new_tokens=4, dtype="float32"
    )


@pytest.fixture
def lines(label_words, tmp_path):
    """The lines of the command's labels."""
    assert main(label_words(ROWS)) == 0
    return (tmp_path / "out" / "labels.jsonl").read_text().splitlines()


def test_labeler_gives_every_kind_of_batch_the_labels_of_the_command(options, lines, tmp_path):
    labeler = pickle.loads(pickle.dumps(Labeler(options)))
    found = labeler(columns_of(ROWS))
    assert list(found) == [*ROWS[0], *ADDED]
    assert found["label_row"] == lines
    rows = labels_of(tmp_path / "out")
    assert found["labels"] == [[passage["delta_seper"] for passage in row["passages"]] for row in rows]
    assert found["std_errors"] == [[passage["std_error"] for passage in row["passages"]] for row in rows]
    assert found["label_error"] == [""] * 5
    assert b"_labeler" not in pickle.dumps(labeler)  # nor the models, which are loaded now
    arrays = {name: np.empty(len(ROWS), dtype=object) for name in ("answers", "passages")}
    for at, row in enumerate(ROWS):
        for name, values in arrays.items():
            values[at] = np.array(row[name])
    arrays |= {name: np.array([row[name] for row in ROWS]) for name in ("id", "question")}  # of texts
    assert labeler(arrays)["label_row"] == lines
    table = labeler(pandas.DataFrame(arrays))
    assert isinstance(table, pandas.DataFrame)
    assert list(table["label_row"]) == lines
    mapped = Dataset.from_list(ROWS).map(labeler, batched=True, batch_size=2)
    assert mapped["label_row"] == lines
    assert mapped["question"] == [row["question"] for row in ROWS]


def test_labeler_has_a_column_of_errors_and_refuses_other_columns():
    labeler = Labeler(LabelOptions(labeler="contains", columns=["answers=gold"]))
    batch = {
        "question": ["Who?", "", "Who?", "Who?"],
        "gold": [["Ida"], ["Ida"], [], ["Ida"]],
        "passages": [["Ida.", "Sheep."], ["x"], ["x"], ["", "Ida."]],
    }
    labels = labeler(batch)
    assert labels["labels"] == [[1.0, 0.0], [], [], []]
    assert labels["label_row"][1:] == ["", "", ""]
    assert labels["label_error"][0] == ""
    errors = ("question must be a non-empty text", "answers must be a text or a list", "passages[0] is empty")
    assert all(start in error for start, error in zip(errors, labels["label_error"][1:], strict=True))
    assert labels["gold"] is batch["gold"]
    with pytest.raises(ValueError, match="expected a column 'gold'"):
        labeler({name: batch[name] for name in ("question", "passages")})
    with pytest.raises(ValueError, match=r"columns of a batch must have equal lengths, got \{'question': 1"):
        labeler({**batch, "question": ["Who?"]})


def test_labeler_loads_models_by_the_first_batch():
    labeler = Labeler(LabelOptions(reader="no/such-reader"))
    with pytest.raises(OSError, match="reader='no/such-reader' could not be loaded"):
        labeler({"question": ["Who?"], "answers": ["Ida"], "passages": ["x"]})
