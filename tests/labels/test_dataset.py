"""``label`` on datasets as people have them: columns of other names, and streams."""

import pytest
from datasets import Dataset, DatasetDict

from seper_reward.labels.dataset import Labeler, label
from seper_reward.labels.labelers import ContainsLabeler
from seper_reward.options import LabelOptions
from seper_reward.runtime.parquet_files import without_none

ROWS = [
    {"question": "Who runs the mill?", "answers": "Ida", "passages": ["Ida runs it.", "Sheep graze."]},
    {"question": "What is the ferry called?", "answers": "Heron", "passages": ["A ferry.", "It is Heron."]},
    {"question": "Who rows it?", "answers": "Bob", "passages": ["Bob rows."]},
]


def found(labels):
    return [[passage["contains"] for passage in row["passages"]] for row in labels]


def test_columns_of_other_names():
    labels = label(Dataset.from_list(ROWS), ContainsLabeler())
    assert found(labels) == [[1.0, 0.0], [0.0, 1.0], [1.0]]
    assert labels["question"] == [row["question"] for row in ROWS]
    renamed = Dataset.from_list(ROWS).rename_column("answers", "gold")
    assert found(label(renamed, ContainsLabeler(), columns={"answers": "gold"})) == found(labels)
    with pytest.raises(ValueError, match="the dataset: found no column for answers, got the columns question"):
        label(renamed, ContainsLabeler())
    with pytest.raises(ValueError, match="got a dictionary of train, dev; choose one of its splits"):
        label(DatasetDict(train=renamed, dev=renamed), ContainsLabeler())


def test_labels_of_a_batch_never_shift_against_its_passages():
    batch = {"question": ["Who?", "Who?"], "answers": [["Ida"]] * 2, "passages": [["", "Ida runs it."], ["Ida."]]}
    found = Labeler(LabelOptions(labeler="contains"))(batch)
    assert found["labels"] == [[], [1.0]]
    assert found["label_error"][0].startswith("passages[0] is empty")
    with pytest.raises(ValueError, match=r"columns of a batch must have equal lengths, got \{'question': 1"):
        Labeler(LabelOptions(labeler="contains"))({**batch, "question": ["Who?"]})


def test_a_list_gives_a_list():
    labels = label(ROWS, ContainsLabeler())
    assert isinstance(labels, list)
    with pytest.raises(TypeError, match="dataset must be a list or Dataset, got generator; for a stream, use"):
        label((row for row in ROWS), ContainsLabeler())
    assert labels == [without_none(row) for row in label(Dataset.from_list(ROWS), ContainsLabeler())]
