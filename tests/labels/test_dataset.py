"""``label`` on datasets as people have them: columns of other names, and streams."""

import pytest
from datasets import Dataset, DatasetDict, IterableDataset

from seper_reward.labels.dataset import label
from seper_reward.labels.labelers import ContainsLabeler, ERAGLabeler
from seper_reward.labels.load import Labels
from seper_reward.runtime.parquet_files import without_none
from seper_reward.types import UnscorableError

ROWS = [
    {"question": "Who runs the mill?", "answers": "Ida", "passages": ["Ida runs it.", "Sheep graze."]},
    {
        "question": "What is the ferry called?",
        "answers": "Heron",
        "passages": ["A ferry.", "It is Heron."],
    },
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


def test_a_stream_is_labelled_as_it_is_read(tiny_scorer):
    read = []

    def rows():
        for row in ROWS:
            read.append(row["question"])
            yield row

    labels = label(IterableDataset.from_generator(rows), tiny_scorer)
    read.clear()
    first = next(iter(labels))
    assert len(read) <= 2  # datasets looks one row ahead
    whole = Labels.from_rows(label(Dataset.from_list(ROWS), tiny_scorer))
    assert without_none(first) == whole.rows[0]
    assert Labels.from_rows(labels) == whole
    # with Arrow underneath, which knows the columns
    assert Labels.from_rows(label(Dataset.from_list(ROWS).to_iterable_dataset(), tiny_scorer)) == whole


def test_bad_rows_of_a_stream(tiny_scorer):
    rows = [*ROWS[:2], {**ROWS[2], "question": "why " * 600}, {**ROWS[2], "answers": ""}, ROWS[2]]
    stream = Dataset.from_list(rows).to_iterable_dataset()
    with pytest.raises(UnscorableError, match="row 2: question has no room"):
        list(label(stream, tiny_scorer))
    for block in (1, 2):
        labels = list(label(stream, tiny_scorer, strict=False, batch_size=block))
        assert [row["question"] for row in labels] == [row["question"] for row in ROWS]
        assert all(isinstance(row["answers"], list) for row in labels)


def test_a_stream_survives_a_batch_of_bad_rows(tiny_scorer):
    bad = {**ROWS[0], "question": ""}
    stream = Dataset.from_list([bad, *ROWS]).to_iterable_dataset()
    labels = list(label(stream, ERAGLabeler(tiny_scorer), strict=False, batch_size=1))
    assert len(labels) == len(ROWS)


def test_a_list_gives_a_list():
    labels = label(ROWS, ContainsLabeler())
    assert isinstance(labels, list)
    with pytest.raises(TypeError, match="dataset must be a list, Dataset or IterableDataset, got generator"):
        label((row for row in ROWS), ContainsLabeler())
    assert labels == [without_none(row) for row in label(Dataset.from_list(ROWS), ContainsLabeler())]
