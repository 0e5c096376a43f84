"""The benchmarks run, on tiny models and one question: they must not rot between measurements."""

import json

import pytest

from tests.benchmarks import (
    batch_size,
    dense,
    erag_cost,
    false_negatives,
    label_noise,
    many_questions,
    roofline,
    sampling,
    scaling,
)
from tests.benchmarks.common import CONTEXTS, contexts, questions


def test_contexts_are_ten_different_sets_of_about_a_hundred_words():
    (query,) = questions(1)
    assert all(60 <= len(passage.text.split()) <= 100 for passage in query.passages)
    for passages in (1, 5):
        sets = contexts(query, passages)
        assert len(set(sets)) == CONTEXTS
        assert {len(each) for each in sets} == {passages}


def test_the_simulation_of_noise_writes_its_numbers(tmp_path):
    label_noise.main(["--questions", "5", "--passages", "3", "--trials", "2", "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(found["filters"]) == set(label_noise.TRUTHS)
    assert all(
        0 <= share <= 1 for row in found["filters"].values() for share in (row["min_spread"], row["heterogeneity_0.1"])
    )
    assert len(found["coverage"]) == len(label_noise.SEEDS)
    assert found["settings"]["passages"] == 3


def test_the_benchmark_of_dense_retrieval_writes_its_numbers(tiny_encoder, tmp_path):
    out = tmp_path / "out.json"
    dense.main(["--encoder", str(tiny_encoder), "--questions", "2", "--json", str(out)])
    found = json.loads(out.read_text())
    assert found["questions"] == 2 <= found["passages"]
    assert found["speedup_of_bfloat16"] > 0
    assert 0 <= found["same_best"] <= 1
    assert 0 < found["overlap_of_10"] <= 1


def test_the_benchmark_of_erags_cost_writes_its_numbers(tiny_reader, tmp_path):
    out = tmp_path / "out.json"
    erag_cost.main(["--reader", str(tiny_reader), "--questions", "1", "--depths", "1", "2", "--json", str(out)])
    found = json.loads(out.read_text())
    assert found["k_1"].keys() == found["k_2"].keys()
    assert found["k_2"]["each_passage_over_every_prefix"] > 0


@pytest.mark.slow
def test_the_benchmark_of_many_questions_writes_its_numbers(tmp_path):
    many_questions.main(["--questions", "3", "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())["3"]
    assert found["label_files"] == 1
    assert found["label"]["peak_mb"] > 50
    assert found["finished"]["cpu_seconds"] > 0


@pytest.mark.slow
def test_the_sampling_benchmark_writes_its_numbers(tiny_reader, tiny_entailment, tmp_path):
    words = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--json", str(tmp_path / "out.json")]
    sampling.main([*words, "--passages", "1", "--reference_contexts", "1", "--factor_contexts", "1"])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["speedup_vs_reference"]["passages_1"] > 1
    assert found["ratio_to_floor"] > 0
    assert set(found["peak_memory_mb"]) == {"reference_passages_1", "ours_passages_1"}
    factors = found["measured"]["passages_1"]["factors"]
    assert {"baseline_reuse", "entailment_reuse", "prefix", "batching"} < set(factors)


@pytest.mark.slow
def test_the_roofline_benchmark_writes_its_numbers(tiny_reader, tmp_path, monkeypatch):
    shape = {"hidden_size": 32, "intermediate_size": 64, "layers": 2, "heads": 2, "kv_heads": 1}
    monkeypatch.setitem(roofline.SHAPES, "random-1b", shape)
    for reader in (str(tiny_reader), "random-1b"):
        roofline.main(["--reader", reader, "--device", "cpu", "--json", str(tmp_path / "out.json")])
        found = json.loads((tmp_path / "out.json").read_text())
        assert found["steps"] >= 1
        assert min(found["tokens_per_second"].values()) > 0
        assert min(found["ratio_to_floor"].values()) > 0


@pytest.mark.slow
def test_the_benchmark_of_batch_sizes_writes_its_numbers(tiny_reader, tiny_entailment, tmp_path):
    words = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment)]
    words += ["--questions", "2", "--batch_sizes", "1", "2"]
    batch_size.main([*words, "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["seconds"].keys() == found["ratio"].keys() == {"1", "2"}
    assert found["ratio"]["1"] == 1.0


@pytest.mark.slow
def test_the_scaling_benchmark_writes_its_numbers(tiny_reader, tiny_entailment, tmp_path):
    words = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--json", str(tmp_path / "out.json")]
    sizes = "--samples 1 2 --passages 1 2 --questions 1 2 --corpus 10 20 --batch_sizes 1 2 --processes 1"
    scaling.main([*words, *sizes.split(), "--plot", str(tmp_path / "out.svg")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(found) == {"samples", "passages", "questions", "corpus", "batch_size", "processes"}
    assert all(seconds > 0 for curve in found.values() for seconds in curve["seconds"].values())
    assert found["samples"]["peak_mb"]["1"] > 10
    assert "<svg" in (tmp_path / "out.svg").read_text()


@pytest.mark.slow
def test_the_benchmark_of_false_negatives_writes_its_numbers(shared_data, tiny_reader, tiny_entailment, tmp_path):
    words = ["--questions", "2", "--negatives", "1", "--output_dir", str(tmp_path / "labels")]
    words += ["--reader", str(tiny_reader), "--judge", str(tiny_entailment)]
    false_negatives.main([*words, "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["questions"]["all"] == 2
    for rules in found["flagged"]["all"].values():
        for rule in rules.values():
            assert {role: row["passages"] for role, row in rule.items()} == dict.fromkeys(rule, 2)
            assert list(rule) == ["gold", "planted", "wrong", "mined"]
