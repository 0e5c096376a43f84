"""Labelers are compared: what each chooses, the retrievers that their labels train, and the questions of both."""

import json

import pytest
from scipy.stats import ttest_1samp
from sentence_transformers import SentenceTransformer

from seper_reward import load_labels
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.types import LabeledQuery, Passage, Query
from tests.benchmarks.experiments import compare_labelers
from tests.benchmarks.experiments.compare_labelers import (
    CompareConfig,
    aggregate,
    as_ranked,
    best,
    halves,
    leads,
)


def test_best_follows_the_labels_and_then_the_query():
    passages = tuple(Passage(f"text {at}", id=str(at)) for at in range(5))
    row = LabeledQuery(Query("q", "Who?", ("Ann",), passages), (0.2, 0.7, -0.1, 0.7, 0.2), (0.0,) * 5)
    assert [best(row, k) for k in (1, 2, 3, 9)] == [[1], [1, 3], [1, 3, 0], [1, 3, 0, 4, 2]]


def test_equal_labels_choose_the_first_one_of_the_retriever(tiny_encoder):
    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    marked = Passage("Sheep graze on the hill.", id="m", metadata={"relevant": True})
    others = [Passage(f"House {at} was blue, and Ann saw it.", id=str(at)) for at in range(3)]
    (ordered,) = as_ranked(encoder, [Query("q", "Who saw the house?", ("Ann",), (marked, *others))])
    vectors = encoder.encode_document([passage.full_text for passage in (marked, *others)])
    near = encoder.similarity(encoder.encode_query(["Who saw the house?"]), vectors)[0]
    by_hand = [(marked, *others)[at].id for at in near.argsort(descending=True)]
    assert by_hand != ["m", "0", "1", "2"]
    assert [passage.id for passage in ordered.passages] == by_hand


def test_means_and_leads_by_hand():
    before, after = [0.1, 0.5, 0.9, 0.5, 0.3], [0.9, 0.52, 0.1, 0.6, None]
    found = aggregate({"untrained": {"mrr": 0.5}, "gold-0": {"mrr": 0.6}, "gold-1": {"mrr": 0.8}})
    assert found["gold"]["mrr"] == {"mean": 0.7, "sd": 0.1414}
    assert found["untrained"]["mrr"] == {"mean": 0.5, "sd": 0.0}
    lead = leads({"untrained": before, "gold-0": after, "gold-1": before}, "gold")["untrained"]
    assert lead["value"] == pytest.approx((0.8 + 0.02 - 0.8 + 0.1) / 2 / 4, abs=1e-4)
    assert lead["interval"][0] < 0 < lead["interval"][1]
    one_seed = leads({"untrained": before, "gold-0": after}, "gold")["untrained"]["interval"]
    assert one_seed == pytest.approx(ttest_1samp([0.8, 0.02, -0.8, 0.1], 0).confidence_interval(), abs=1e-4)


def test_config_of_each_labeler():
    config = CompareConfig(labelers=["delta_belief", "likelihood", "gold"], seeds=[0], teacher_temperature=0.3)
    settings = [config.of(name) for name in config.labelers]
    assert [(each.labeler, each.label, each.teacher_temperature) for each in settings] == [
        ("delta_seper", "delta_belief", 0.3),
        ("likelihood", None, 1.0),
        ("gold", None, 0.3),
    ]
    for wrong, message in (
        ({"labeler": "erag"}, "labelers says what is compared"),
        ({"judge_seed": 1}, "judge_seed must be none of seeds, got 1"),
        ({"seeds": [0, 0]}, "expected labelers, and each seed once"),
    ):
        with pytest.raises(ValueError, match=message):
            CompareConfig(**wrong)


def test_each_question_is_tested_after_training_on_the_other_half():
    queries = [Query(f"q{number}", "Who?", ("Ann",), metadata={"train_only": number < 5}) for number in range(40)]
    first, second = (halves(queries, {}, half) for half in ("first", "second"))
    tested = [query.id for questions in (first, second) for query in questions.test]
    assert sorted(tested) == sorted(query.id for query in queries[5:])
    for questions in (first, second):
        assert {*queries[:5]} <= {*questions.train}
        assert len(questions.train) + len(questions.test) == 40
        assert len(questions.test) > 10
        assert not questions.dev


@pytest.mark.slow
def test_the_command_compares_labelers_and_resumes(retriever_settings, tmp_path, capsys, monkeypatch):
    asked = []
    sample = ResponseSampler.sample
    monkeypatch.setattr(
        ResponseSampler, "sample", lambda self, requests: asked.extend(requests) or sample(self, requests)
    )
    words = "--eval_strategy no --max_steps 1 --dev_share 0 --seeds 0 1 --labelers delta_seper erag"
    words += " --warmup_steps 0"
    settings = [*retriever_settings, *words.split()]  # the tiny reader never answers as the reference does
    folder = tmp_path / "run"
    assert compare_labelers.main([*settings, "--table_only", "true"]) == 0
    table = json.loads((folder / "choices.json").read_text())
    assert set(table["measures"]) == {"untrained", "delta_seper", "erag", "gold"}
    assert table["measures"]["gold"]["recall@1"]["mean"] == 1.0
    assert not (folder / "results.json").exists()
    assert compare_labelers.main(settings) == 0
    first, second = (load_labels(folder / f"delta_seper-{seed}").labeled() for seed in (0, 1))
    assert [row.query for row in first] == [row.query for row in second]
    assert [row.labels for row in first] != [row.labels for row in second]
    results = json.loads((folder / "results.json").read_text())
    assert results["choices"] == table
    assert results["untaught"] == {"erag": [0, 1]}
    assert results["measures"]["erag"] == results["measures"]["untrained"]
    assert all(row["erag"]["value"] == row["untrained"]["value"] for row in results["leads"].values())
    text = (folder / "results.md").read_text()
    assert "Labels by `erag` of seeds [0, 1] differ for no question" in text
    assert "with its 95 % interval over questions and seeds" in text
    assert capsys.readouterr().err.count("its retriever is the untrained one") == 2
    asked.clear()
    assert compare_labelers.main(settings) == 0
    assert asked == []
