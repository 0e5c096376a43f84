"""Where the reader runs: in this process, or on an engine if one is named."""

import pytest

from seper_reward.options import EngineOptions, ReaderOptions
from seper_reward.reader.engine.engine_sampler import load_sampler
from seper_reward.runtime.pretrained import LoadedModel

DEAD = "http://127.0.0.1:9/v1"


def load(reader, *urls):
    return load_sampler(
        reader,
        options=ReaderOptions(dtype="float32", device="cpu"),
        engine=EngineOptions(urls, engine_requests=8, retries=0, timeout=30.0),
        num_samples=4,
        max_new_tokens=8,
    )


def test_a_reader_runs_on_an_engine_if_one_is_named(tiny_reader, serve):
    assert load(str(tiny_reader)).backend == "process"
    assert load(str(tiny_reader), serve().url).backend == "engine"


def test_an_engine_needs_the_name_of_a_reader(tiny_sampler):
    loaded = LoadedModel(tiny_sampler._model, tiny_sampler.tokenizer, "tiny")
    with pytest.raises(ValueError, match="engine runs the reader itself"):
        load(loaded, DEAD)
