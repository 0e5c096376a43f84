"""Finished labels: loaded, as datasets that trainers take, as tables, as Parquet, and on the hub."""

import json

import pytest
from datasets import Dataset

from seper_reward import load_labels
from seper_reward.cli import main
from seper_reward.labels.load import Labels
from seper_reward.labels.rows import label_row, read_label_rows, recommended_label
from seper_reward.runtime.parquet_files import as_dataset, write_parquet
from seper_reward.types import LabeledQuery, Passage, Query


def labeled():
    mill = Query(
        "q1",
        "Who built the mill?",
        ("Ann", "Ann Lee"),
        (
            Passage("Ann built it.", "Mill", "p1", {"page": 7}),
            Passage("Sheep.", id="p2"),
            Passage("Bob did.", id="p3"),
        ),
        {"source": "web", "tags": {"a": {}}},
    )
    ferry = Query("q2", "When did it sink?", ("1900",), (Passage("Fog.", id="p2"), Passage("Rain.", id="p9")))
    errors = ({"std_error": 0.1}, {"std_error": 0.3}, {"std_error": 0.1})
    return [
        LabeledQuery(mill, (0.8, 0.01, -0.4), (0.1, 0.3, 0.1), baseline={"seper": 0.25}, details=errors),
        LabeledQuery(ferry, (0.02, -0.5), (0.1, 0.1)),  # nothing helps
    ]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(label_row(row, "mine")) + "\n" for row in labeled()))
    (tmp_path / "summary.json").write_text(
        '{"questions": 2, "passages": 5, "helpful": 1, "harmful": 2, "rejected": 3, "sha256": {}}'
    )
    decides = {"labeler": "mine", "reader": "tiny", "sampling": {"num_samples": 4, "temperature": 0.5}, "seed": 0}
    provenance = {
        "labels_hash": "abc123",
        "decides": decides,
        "settings": {"engine": "http://private"},
        "platform": "x",
    }
    (tmp_path / "provenance.json").write_text(json.dumps(provenance))
    return tmp_path


def test_seper_gain_is_the_label_to_train_on_where_it_is_known():
    def row(labeler, *gains, sets=()):
        passages = [
            {"passage_id": f"p{at}", "title": "", "text": "x", "delta_seper": 0.1 * at, "delta_seper_hard": 0.0,
             "erag": 1.0, "seper_gain": gain, "delta_belief": gain,
             "question_gain": gain, "std_error": 0.2, "std_error_hard": 0.0, "std_error_gain": 0.1}
            for at, gain in enumerate(gains)
        ]  # fmt: skip
        return {"labeler": labeler, "id": labeler, "question": "Who?", "answers": ["Ann"], "passages": passages,
                "baseline": {"std_error": 0.4}, "sets": list(sets)}  # fmt: skip

    known, unknown, erag = row("delta_seper", 0.7, 0.5), row("delta_seper", 0.7, None), row("erag", 0.7)
    sets, of_one = row("delta_seper", 0.7, sets=[{"delta_seper_hard": 0.1}]), row("delta_seper", 0.7)
    for with_sets in (sets, of_one):
        with_sets["sufficient_set"] = {}
    assert recommended_label([known]) == "seper_gain"
    assert recommended_label([known, unknown]) == "delta_seper"  # one label for all
    engine = {**unknown, "passages": [{**each, "delta_belief": 0.3} for each in unknown["passages"]]}
    assert recommended_label([engine]) == "delta_belief"  # servers do not read the question
    assert recommended_label([erag]) == "erag"
    assert recommended_label([of_one, sets]) == "delta_seper_hard"
    assert recommended_label([]) == "delta_seper"
    assert [each.labels for each in Labels([known]).labeled()] == [(0.7, 0.5)]
    assert [each.std_errors for each in Labels([known]).labeled()] == [(0.1, 0.1)]
    assert [each.baseline_error for each in Labels([known]).labeled()] == [0.2]
    assert [each.labels for each in Labels([known, unknown]).labeled()] == [(0.0, 0.1)] * 2
    assert [each.labels for each in Labels([known]).labeled("delta_seper")] == [(0.0, 0.1)]


def test_forms_by_hand(folder):
    labels = load_labels(folder)
    assert len(labels) == 2
    mill, good = "Who built the mill?", "Mill: Ann built it."
    assert labels.to_dataset("pairs").to_list() == [{"anchor": mill, "positive": good}]
    assert labels.to_dataset("triplets").to_list() == [
        {"anchor": mill, "positive": good, "negative": "Bob did.", "label": 1.2},
        {"anchor": mill, "positive": good, "negative": "Sheep.", "label": 0.79},
    ]
    assert labels.to_dataset("lists")[0] == {
        "query": mill,
        "docs": [good, "Sheep.", "Bob did."],
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
    ("form", "loss", "options"),
    [
        ("pairs", "MultipleNegativesRankingLoss", {}),
        ("triplets", "MarginMSELoss", {}),
        ("flat", "CoSENTLoss", {}),
        ("flat", "CosineSimilarityLoss", {}),
    ],
)
def test_a_bi_encoder_trains_on(form, loss, options, folder, tiny_encoder, tmp_path):
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses

    model = SentenceTransformer(str(tiny_encoder), device="cpu")
    # a batch of pairs needs two of them
    labels = Labels(load_labels(folder).rows * 2)
    assert_step_moves(
        model,
        SentenceTransformerTrainer(
            model=model,
            args=SentenceTransformerTrainingArguments(str(tmp_path / "out"), **STEP),
            train_dataset=labels.to_dataset(form, margin=0.01),
            loss=getattr(losses, loss)(model, **options),
        ),
    )


@pytest.mark.parametrize(
    ("form", "loss"),
    [
        ("lists", "RankNetLoss"),
        ("lists", "LambdaLoss"),
        ("lists", "ListNetLoss"),
        ("flat", "MSELoss"),
        ("triplets", "MarginMSELoss"),
    ],
)
def test_a_cross_encoder_trains_on(form, loss, folder, tiny_entailment, tmp_path):
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments, losses

    arguments = {"model_kwargs": {"ignore_mismatched_sizes": True}, "num_labels": 1, "device": "cpu"}
    model = CrossEncoder(str(tiny_entailment), **arguments)
    assert_step_moves(
        model,
        CrossEncoderTrainer(
            model=model,
            args=CrossEncoderTrainingArguments(str(tmp_path / "out"), **STEP),
            train_dataset=load_labels(folder).to_dataset(form),
            loss=getattr(losses, loss)(model),
        ),
    )


STEP = {
    "max_steps": 1,
    "per_device_train_batch_size": 2,
    "learning_rate": 0.01,
    "report_to": "none",
    "save_strategy": "no",
    "use_cpu": True,
    "disable_tqdm": True,
}


def assert_step_moves(model, trainer):
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    trainer.train()
    moved = [name for name, weight in model.named_parameters() if not weight.equal(before[name])]
    assert len(moved) > len(before) / 2


def test_a_table(folder):
    table = load_labels(folder).to_pandas()
    assert list(table["passage_id"]) == ["p1", "p2", "p3", "p2", "p9"]
    first = table.iloc[0]
    assert (first["id"], first["question"], first["answer"]) == ("q1", "Who built the mill?", "Ann")
    assert (first["mine"], first["std_error"], first["page"], first["source"]) == (0.8, 0.1, 7, "web")
    assert (first["labeler"], first["baseline_seper"]) == ("mine", 0.25)
    assert table["answer"].iloc[3] == "1900"
    rows = [{**load_labels(folder).rows[0], "title": "asked"}]  # as passages have one
    assert list(Labels(rows).to_pandas()["question_title"]) == ["asked"] * 3
    assert list(Labels(rows).to_pandas()["title"]) == ["Mill", "", ""]


def test_rows_survive_parquet(folder, tmp_path):
    labels = load_labels(folder)
    write_parquet(tmp_path / "other" / "labels.parquet", labels.rows)
    again = load_labels(tmp_path / "other")
    assert again.labeled() == labels.labeled()
    assert again.labeled()[0].query.answers == ("Ann", "Ann Lee")
    assert again.to_dataset("flat").to_list() == labels.to_dataset("flat").to_list()
    assert load_labels(tmp_path / "other" / "labels.parquet").labeled() == labels.labeled()
    assert Labels.from_rows(labels.to_dataset()).labeled() == labels.labeled()
    assert not list((tmp_path / "other").glob("*.tmp"))


def test_columns_are_those_of_all_rows():
    rows = as_dataset([{"a": 1}, {"b": [{"c": {}}], "a": 2.5}])
    assert rows.to_list() == [{"a": 1.0, "b": None}, {"a": 2.5, "b": [{"c": None}]}]
    assert as_dataset([{"a": 1}, {"a": "x"}])["a"] == [1, "x"]


def test_labels_in_parquet(tmp_path, lane_questions):
    words = ["label", "--input", str(lane_questions), "--labeler", "contains", "--output_dir", str(tmp_path / "out")]
    assert main([*words, "--limit", "3"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out" / "labels.jsonl").read_text().splitlines()]
    write_parquet(tmp_path / "out" / "labels.parquet", rows)
    from_parquet = load_labels(tmp_path / "out" / "labels.parquet")
    assert from_parquet.labeled() == load_labels(tmp_path / "out").labeled()
    assert from_parquet.labeled()[0].query.passages[0].metadata == {"relevant": True}
    pairs, grades = tmp_path / "pairs.parquet", tmp_path / "qrels.parquet"
    export = ["export", "--labels", str(tmp_path / "out"), "--output"]
    assert main([*export, str(pairs), "--format", "sentence-transformers-pairs"]) == 0
    assert Dataset.from_parquet(str(pairs)).column_names == ["anchor", "positive"]
    assert main([*export, str(grades), "--format", "trec"]) == 2


def test_a_run_that_has_not_finished_is_no_dataset(folder):
    for name in ("labels.jsonl", "summary.json"):  # the last files that a run writes
        (folder / name).unlink()
    for load in (load_labels, read_label_rows):
        with pytest.raises(OSError, match="the run has not finished; run its command again, which resumes"):
            load(folder)


def test_what_is_no_label_folder(tmp_path):
    with pytest.raises(OSError, match="no such file or folder"):
        load_labels(tmp_path / "nowhere")
    (tmp_path / "questions.jsonl").write_text('{"question": "Who?", "answers": ["Ida"], "passages": ["Ida did."]}\n')
    with pytest.raises(ValueError, match="expected label rows, whose passages are objects"):
        load_labels(tmp_path / "questions.jsonl")


def test_a_folder_may_be_named_by_its_labels(folder):
    assert read_label_rows(folder / "labels.jsonl") == read_label_rows(folder)


def test_labels_describe_themselves(folder):
    labels = load_labels(folder)
    assert repr(labels) == "Labels(2 questions, 5 passages; mine from -0.500 to 0.800, mean -0.014)"
    assert repr(Labels([])) == "Labels(0 questions, 0 passages)"
    page = labels._repr_html_()
    assert page.startswith("<p>Labels(2 questions, 5 passages;")
    assert page.count("<tr>") == 6
    assert "<td>1900" in page
    assert "-0.400" in page
    rows = [{**labels.rows[0], "question": "<b>Who</b>" + "?" * 100}] * 9
    page = Labels(rows)._repr_html_()
    assert page.count("<tr>") == 11  # a header and ten passages
    assert "&lt;b&gt;Who&lt;/b&gt;" in page
    assert "?" * 60 not in page
