"""The benchmarks run, on tiny models and one question: they must not rot between measurements."""

import json

import pytest

from tests.benchmarks import false_negatives, label_noise, many_questions, sampling
from tests.benchmarks.common import CONTEXTS, contexts, questions


def test_contexts_are_ten_different_sets_of_about_a_hundred_words(shared_data):
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


@pytest.mark.slow
def test_the_benchmark_of_many_questions_writes_its_numbers(tmp_path):
    many_questions.main(["--questions", "3", "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())["3"]
    assert found["label_files"] == 1
    assert found["label"]["peak_mb"] > 50
    assert found["finished"]["cpu_seconds"] > 0


@pytest.mark.slow
def test_the_sampling_benchmark_writes_its_numbers(shared_data, tiny_reader, tiny_entailment, tmp_path):
    words = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--json", str(tmp_path / "out.json")]
    sampling.main([*words, "--passages", "1", "--reference_contexts", "1"])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["speedup_vs_reference"]["passages_1"] > 1
    assert set(found["peak_memory_mb"]) == {"reference_passages_1", "ours_passages_1"}


@pytest.mark.slow
def test_the_benchmark_of_false_negatives_writes_its_numbers(shared_data, tiny_reader, tiny_entailment, tmp_path):
    words = ["--questions", "2", "--negatives", "1", "--output_dir", str(tmp_path / "labels")]
    words += ["--reader", str(tiny_reader), "--judge", str(tiny_entailment)]
    false_negatives.main([*words, "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["questions"] == 2
    for roles in found["flagged"].values():
        assert list(roles) == ["gold", "planted", "wrong", "mined"]
        assert {row["passages"] for row in roles.values()} == {2}
