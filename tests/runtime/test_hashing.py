"""Hashes see what decides an answer, and nothing else."""

import torch
from tokenizers.normalizers import Lowercase

from seper_reward.options import ModelOptions
from seper_reward.reader.loading import load_reader
from seper_reward.runtime.hashing import content_key, hash_with_tokenizer, identity_hash, weights_hash


def test_weights_hash_sees_one_weight_and_the_dtype(tiny_reader):
    model = load_reader(str(tiny_reader), ModelOptions(dtype="float32", device="cpu")).model
    before = weights_hash(model)
    assert before == weights_hash(load_reader(str(tiny_reader), ModelOptions(dtype="float32", device="cpu")).model)
    assert before != weights_hash(load_reader(str(tiny_reader), ModelOptions(dtype="bfloat16", device="cpu")).model)
    with torch.no_grad():
        model.model.norm.weight[3] += 1e-3
    assert weights_hash(model) != before


def test_identity_hash_ignores_the_release_of_transformers(tiny_reader, monkeypatch):
    loaded = load_reader(str(tiny_reader), ModelOptions(dtype="float32", device="cpu"))
    before = identity_hash(loaded.model, loaded.tokenizer)
    monkeypatch.setattr("transformers.configuration_utils.__version__", "99.0")
    assert loaded.model.config.to_dict()["transformers_version"] == "99.0"
    assert identity_hash(loaded.model, loaded.tokenizer) == before
    ends = loaded.model.generation_config.eos_token_id
    loaded.model.generation_config.eos_token_id = [*(ends if isinstance(ends, list) else [ends]), 7]
    assert identity_hash(loaded.model, loaded.tokenizer) != before
    loaded.model.generation_config.eos_token_id = ends
    loaded.model.config.eos_token_id += 1
    assert identity_hash(loaded.model, loaded.tokenizer) != before


def test_identity_hash_sees_the_tokenizer(tiny_reader):
    loaded = load_reader(str(tiny_reader), ModelOptions(dtype="float32", device="cpu"))
    before = identity_hash(loaded.model, loaded.tokenizer)
    loaded.tokenizer(["a", "b c"], padding=True, truncation=True, max_length=2)  # leaves no trace
    assert identity_hash(loaded.model, loaded.tokenizer) == before
    loaded.tokenizer.backend_tokenizer.normalizer = Lowercase()
    assert identity_hash(loaded.model, loaded.tokenizer) != before


def test_hash_with_tokenizer_of_a_static_embedding(tiny_reader):
    tokenizer = load_reader(str(tiny_reader), ModelOptions(device="cpu")).tokenizer.backend_tokenizer
    before = hash_with_tokenizer([], tokenizer)
    tokenizer.normalizer = Lowercase()
    assert hash_with_tokenizer([], tokenizer) != before


def test_content_key_tells_types_and_order_apart():
    assert content_key("a", 1) == content_key("a", 1)
    assert len({content_key("a", 1), content_key("a", "1"), content_key(1, "a"), content_key("a1")}) == 4
    assert content_key({"x": 1, "y": 2}) == content_key({"y": 2, "x": 1})
