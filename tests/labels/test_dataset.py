"""``label`` on datasets as people have them: columns of other names, and streams."""

import pytest
from datasets import Dataset, DatasetDict

from seper_reward.labels.dataset import label
from seper_reward.labels.labelers import ContainsLabeler, ERAGLabeler, GoldLabeler
from seper_reward.runtime.parquet_files import without_none
from seper_reward.types import UnscorableError

ROWS = [
    {"question": "Who runs the mill?", "answers": "Ida", "passages": ["Ida runs it.", "Sheep graze."]},
    {"question": "What is the ferry called?", "answers": "Heron", "passages": ["A ferry.", "It is Heron."]},
    {"question": "Who rows it?", "answers": "Bob", "passages": ["Bob rows."]},
]


def test_label_takes_lists_datasets_and_other_columns():
    def contains(labels):
        return [[passage["contains"] for passage in row["passages"]] for row in labels]

    labels = label(ROWS, ContainsLabeler())
    assert isinstance(labels, list)
    assert contains(labels) == [[1.0, 0.0], [0.0, 1.0], [1.0]]
    assert labels == [without_none(row) for row in label(Dataset.from_list(ROWS), ContainsLabeler())]
    renamed = Dataset.from_list(ROWS).rename_column("answers", "gold")
    assert contains(label(renamed, ContainsLabeler(), columns={"answers": "gold"})) == contains(labels)


UNANSWERED = [{name: value for name, value in row.items() if name != "answers"} for row in ROWS]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (Dataset.from_list(UNANSWERED), "the dataset: found no column for answers, got the columns question"),
        (DatasetDict(train=Dataset.from_list(ROWS)), "got a dictionary of train; choose one of its splits"),
        ((row for row in ROWS), "dataset must be a list or Dataset, got generator; for a stream, use"),
        ([*ROWS, {"question": ""}], "row 3: question must be"),
    ],
)
def test_label_refuses(dataset, message):
    with pytest.raises((ValueError, TypeError), match=message):
        label(dataset, ContainsLabeler())


def test_label_of_what_cannot_be_labelled(tiny_scorer):
    assert len(label([*ROWS, {"question": ""}], ContainsLabeler(), strict=False)) == 3
    assert len(label(Dataset.from_list(UNANSWERED), GoldLabeler())) == 3
    for labeler in (ERAGLabeler(tiny_scorer), tiny_scorer):
        with pytest.raises(UnscorableError, match="row 0: question has no room"):
            label([{**ROWS[0], "question": "why " * 600}], labeler)
