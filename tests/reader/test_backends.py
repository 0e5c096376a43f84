"""Where the reader runs: in this process, or on an engine if one is named."""

import pytest

from seper_reward.options import ReaderOptions
from seper_reward.reader.engine.engine_sampler import load_sampler
from seper_reward.runtime.pretrained import LoadedModel

DEAD = "http://127.0.0.1:9/v1"


def load(reader, *urls, loaded=None):
    options = ReaderOptions(reader=reader, engine=urls, dtype="float32", device="cpu", num_samples=4, max_new_tokens=8)
    return load_sampler(options, loaded)


def test_a_reader_runs_on_an_engine_if_one_is_named(tiny_reader, serve):
    assert load(str(tiny_reader)).backend == "process"
    assert load(str(tiny_reader), serve().url).backend == "engine"


def test_an_engine_needs_the_name_of_a_reader(tiny_sampler):
    loaded = LoadedModel(tiny_sampler.model, tiny_sampler.tokenizer, "tiny")
    with pytest.raises(ValueError, match="engine runs the reader itself"):
        load("tiny", DEAD, loaded=loaded)
