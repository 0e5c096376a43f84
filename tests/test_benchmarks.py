"""The benchmarks run, on tiny models and one question: they must not rot between measurements."""

import json

import pytest

from tests.benchmarks import compiled, sampling
from tests.benchmarks.common import CONTEXTS, contexts, questions


def test_contexts_are_ten_different_sets_of_about_a_hundred_words():
    (query,) = questions(1)
    assert all(60 <= len(passage.text.split()) <= 100 for passage in query.passages)
    for passages in (1, 5):
        sets = contexts(query, passages)
        assert len(set(sets)) == CONTEXTS
        assert {len(each) for each in sets} == {passages}


@pytest.mark.slow
def test_the_sampling_benchmark_writes_its_numbers(tiny_reader, tiny_entailment, tmp_path):
    words = ["--reader", str(tiny_reader), "--entailment", str(tiny_entailment), "--json", str(tmp_path / "out.json")]
    sampling.main([*words, "--passages", "1", "--reference_contexts", "1", "--factor_contexts", "1"])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["speedup_vs_reference"]["passages_1"] > 1
    assert found["ratio_to_floor"] > 0
    assert set(found["peak_memory_mb"]) == {"reference_passages_1", "ours_passages_1"}
    factors = found["measured"]["passages_1"]["factors"]
    assert {"baseline_reuse", "entailment_reuse", "prefix", "batching"} < set(factors)


@pytest.mark.slow
def test_the_compiled_benchmark_writes_its_numbers(tiny_reader, tmp_path):
    out = tmp_path / "out.json"
    compiled.main(["--reader", str(tiny_reader), "--passages", "1", "--rounds", "1", "--json", str(out)])
    found = json.loads(out.read_text())
    assert found["speedup"]["passages_1"] > 0
    assert found["compiling_seconds"] > 0
