"""The benchmarks run, on tiny models and one question: they must not rot between measurements."""

import json

import pytest

from tests.benchmarks import card, client, sampling
from tests.benchmarks.common import CONTEXTS, contexts, questions


def test_contexts_are_ten_different_sets_of_about_a_hundred_words(shared_data):
    (query,) = questions(1)
    assert all(60 <= len(passage.text.split()) <= 100 for passage in query.passages)
    for passages in (1, 5):
        sets = contexts(query, passages)
        assert len(set(sets)) == CONTEXTS
        assert {len(each) for each in sets} == {passages}


@pytest.mark.slow
def test_the_sampling_benchmark_writes_its_numbers(shared_data, tiny_reader, tiny_entailment, tmp_path):
    words = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--json", str(tmp_path / "out.json")]
    sampling.main([*words, "--passages", "1", "--reference_contexts", "1"])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["passages_1"]["speedup_wall"] > 1
    assert {"peak_memory_mb_reference", "peak_memory_mb_ours"} < set(found["passages_1"])


@pytest.mark.slow
def test_the_client_benchmark_writes_its_numbers(tmp_path):
    client.main(["--contexts", "2", "--answers", "0", "2", "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["2"] > 0


@pytest.mark.slow
def test_the_benchmark_of_a_card_compares_its_cases(shared_data, tiny_reader, tiny_entailment, tmp_path, monkeypatch):
    input_path = str(shared_data / "qa" / "2wikimultihopqa.jsonl.gz")
    settings = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--input", input_path, "--limit", "4"]
    cases = ["--cases", "default", "4 processes", "--json", str(tmp_path / "out.json")]
    monkeypatch.setattr("sys.argv", ["card", *cases, *settings])
    card.main()
    one, four = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert one["contexts"] == four["contexts"] == 44
    assert one["r"] == 1.0
    assert four["r"] > 0.99
