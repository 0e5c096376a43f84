"""Finished labels: loaded, as datasets that trainers take, as Parquet, and on the hub."""

import pytest
from datasets import Dataset
from IPython.core.formatters import HTMLFormatter
from sentence_transformers import (
    CrossEncoder,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    cross_encoder,
)
from sentence_transformers.sentence_transformer import losses

from seper_reward import load_labels
from seper_reward.cli import main
from seper_reward.labels.load import Labels
from seper_reward.labels.rows import label_row, read_label_rows, recommended_label
from seper_reward.runtime.parquet_files import as_dataset, write_parquet
from seper_reward.types import LabeledQuery, Passage, Query
from tests.helpers import write_rows


def labeled():
    passages = (
        Passage("Ann built it.", "Mill", "p1", {"page": 7}),
        Passage("Sheep.", id="p2"),
        Passage("Bob.", id="p3"),
    )
    tags = {"source": "web", "tags": {"a": {}}}
    mill = Query("q1", "Who built the mill?", ("Ann", "Ann Lee"), passages, tags)
    ferry = Query("q2", "When did it sink?", ("1900",), (Passage("Fog.", id="p2"), Passage("Rain.", id="p9")))
    errors = ({"std_error": 0.1}, {"std_error": 0.3}, {"std_error": 0.1})
    return [
        LabeledQuery(mill, (0.8, 0.01, -0.4), (0.1, 0.3, 0.1), baseline={"seper": 0.25}, details=errors),
        LabeledQuery(ferry, (0.02, -0.5), (0.1, 0.1)),  # nothing helps
    ]


@pytest.fixture
def folder(tmp_path):
    write_rows(tmp_path / "labels.jsonl", [label_row(row, "mine") for row in labeled()])
    return tmp_path


def gains(labeler, *values, **fields):
    """Return a label row with these gains, a belief's if it is a pair; ``delta_seper`` is .1 times the place."""
    passage = {"title": "", "text": "x", "delta_seper_hard": 0.0, "erag": 1.0, "std_error": 0.2, "std_error_gain": 0.1}
    passages = [
        {**passage, "passage_id": f"p{at}", "delta_seper": 0.1 * at, "seper_gain": gain, "delta_belief": belief}
        for at, (gain, belief) in enumerate(values)
    ]
    row = {"labeler": labeler, "id": labeler, "question": "Who?", "answers": ["Ann"], "baseline": {"std_error": 0.4}}
    return {**row, "passages": [{**passage, "question_gain": passage["seper_gain"]} for passage in passages], **fields}


KNOWN, UNKNOWN = (gains("delta_seper", (0.7, 0.7), last) for last in ((0.5, 0.5), (None, None)))
OF_SETS = gains("delta_seper", (0.7, 0.7), sufficient_set={}, sets=[{"delta_seper_hard": 0.1}])


@pytest.mark.parametrize(
    ("rows", "label"),
    [
        ([KNOWN], "seper_gain"),
        ([KNOWN, UNKNOWN], "delta_seper"),  # one label for all
        ([gains("delta_seper", (0.7, 0.3), (None, 0.3))], "delta_belief"),  # servers do not read the question
        ([gains("erag", (0.7, 0.7))], "erag"),
        ([gains("delta_seper", (0.7, 0.7), sufficient_set={}), OF_SETS], "delta_seper_hard"),
        ([], "delta_seper"),
    ],
)
def test_recommended_label(rows, label):
    assert recommended_label(rows) == label


def test_labels_labeled_by_the_recommended_or_another_label():
    (known,) = Labels([KNOWN]).labeled()
    assert (known.labels, known.std_errors, known.baseline_error) == ((0.7, 0.5), (0.1, 0.1), 0.2)
    assert [row.labels for row in Labels([KNOWN, UNKNOWN]).labeled()] == [(0.0, 0.1)] * 2
    assert Labels([KNOWN]).labeled("delta_seper")[0].labels == (0.0, 0.1)


def test_to_dataset_by_hand(folder):
    labels = load_labels(folder)
    assert len(labels) == 2
    mill, good = "Who built the mill?", "Mill: Ann built it."
    assert labels.to_dataset("pairs").to_list() == [{"anchor": mill, "positive": good}]
    assert labels.to_dataset("triplets").to_list() == [
        {"anchor": mill, "positive": good, "negative": "Bob.", "label": 1.2},
        {"anchor": mill, "positive": good, "negative": "Sheep.", "label": 0.79},
    ]
    assert labels.to_dataset("lists")[0] == {
        "query": mill,
        "docs": [good, "Sheep.", "Bob."],
        "labels": [0.8, 0.01, -0.4],
    }
    flat = labels.to_dataset("flat")
    assert flat.column_names == ["query", "passage", "label"]
    assert flat["label"] == [0.8, 0.01, -0.4, 0.02, -0.5]
    assert [row["id"] for row in labels.to_dataset()] == ["q1", "q2"]
    with pytest.raises(ValueError, match=r"form must be one of pairs, triplets, lists, flat, got 'csv'"):
        labels.to_dataset("csv")
    with pytest.raises(ValueError, match=r"helps by at least 0.9 .* got none of 2; lower the margin"):
        labels.to_dataset("triplets", margin=0.9)
    with pytest.raises(ValueError, match="gold"):
        labels.to_dataset("flat", label="gold")


@pytest.mark.parametrize(
    ("form", "loss"),
    [("pairs", "MultipleNegativesRankingLoss"), ("triplets", "MarginMSELoss"), ("flat", "CoSENTLoss")],
)
def test_to_dataset_trains_a_bi_encoder(form, loss, folder, tiny_encoder, tmp_path):
    model = SentenceTransformer(str(tiny_encoder), device="cpu")
    rows = Labels(load_labels(folder).rows * 2).to_dataset(form, margin=0.01)  # a batch of pairs needs two of them
    loss = getattr(losses, loss)(model)
    arguments = SentenceTransformerTrainingArguments(str(tmp_path / "out"), **STEP)
    assert_step_moves(model, SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=loss))


@pytest.mark.parametrize(
    ("form", "loss"), [("lists", "LambdaLoss"), ("flat", "MSELoss"), ("triplets", "MarginMSELoss")]
)
def test_to_dataset_trains_a_cross_encoder(form, loss, folder, tiny_encoder, tmp_path):
    model = CrossEncoder(str(tiny_encoder), num_labels=1, device="cpu")
    rows = load_labels(folder).to_dataset(form)
    loss = getattr(cross_encoder.losses, loss)(model)
    arguments = cross_encoder.CrossEncoderTrainingArguments(str(tmp_path / "out"), **STEP)
    assert_step_moves(model, cross_encoder.CrossEncoderTrainer(model, arguments, train_dataset=rows, loss=loss))


STEP = {"max_steps": 1, "per_device_train_batch_size": 2, "learning_rate": 0.01, "report_to": "none"}
STEP |= {"save_strategy": "no", "use_cpu": True, "disable_tqdm": True}


def assert_step_moves(model, trainer):
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    trainer.train()
    moved = [name for name, weight in model.named_parameters() if not weight.equal(before[name])]
    assert len(moved) > len(before) / 2


def test_load_labels_from_parquet(folder, tmp_path):
    labels = load_labels(folder)
    file = tmp_path / "other" / "labels.parquet"
    write_parquet(file, labels.rows)
    for read in (load_labels(file.parent), load_labels(file), Labels.from_rows(labels.to_dataset())):
        assert read.labeled() == labels.labeled()
        assert read.labeled()[0].query.answers == ("Ann", "Ann Lee")
        assert read.labeled()[0].query.passages[0].metadata == {"page": 7}
        assert read.to_dataset("flat").to_list() == labels.to_dataset("flat").to_list()
    assert not list(file.parent.glob("*.tmp"))


def test_as_dataset_has_the_columns_of_all_rows():
    rows = as_dataset([{"a": 1}, {"b": [{"c": {}}], "a": 2.5}])
    assert rows.to_list() == [{"a": 1.0, "b": None}, {"a": 2.5, "b": [{"c": None}]}]
    assert as_dataset([{"a": 1}, {"a": "x"}])["a"] == [1, "x"]


def test_export_command_writes_parquet(folder, tmp_path):
    pairs, grades = tmp_path / "pairs.parquet", tmp_path / "qrels.parquet"
    export = ["export", "--labels", str(folder), "--output"]
    assert main([*export, str(pairs), "--format", "sentence-transformers-pairs"]) == 0
    assert Dataset.from_parquet(str(pairs)).column_names == ["anchor", "positive"]
    assert main([*export, str(grades), "--format", "trec"]) == 2


def test_load_labels_refuses_other_folders(tmp_path):
    with pytest.raises(OSError, match="no such file or folder"):
        load_labels(tmp_path / "nowhere")
    (tmp_path / "provenance.json").write_text("{}")  # the last files that a run writes are not there
    for load in (load_labels, read_label_rows):
        with pytest.raises(OSError, match="the run has not finished; run its command again, which resumes"):
            load(tmp_path)
    questions = [{"question": "Who?", "answers": ["Ida"], "passages": ["Ida did."]}]
    with pytest.raises(ValueError, match="expected label rows, whose passages are objects"):
        load_labels(write_rows(tmp_path / "questions.jsonl", questions))


def test_labels_describe_themselves(folder):
    labels = load_labels(folder)
    assert repr(labels) == "Labels(2 questions, 5 passages; mine from -0.500 to 0.800, mean -0.014)"
    assert repr(Labels([])) == "Labels(0 questions, 0 passages)"
    rows = [{**labels.rows[0], "question": "<b>Who</b>" + "?" * 100}] * 9
    page = HTMLFormatter()(Labels(rows))
    assert page.startswith("<p>Labels(9 questions, 27 passages;")
    assert page.count("<tr>") == 11  # a header and ten passages
    assert "&lt;b&gt;Who&lt;/b&gt;" in page
    assert "?" * 60 not in page
