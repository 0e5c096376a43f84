"""Where the reader runs: named, or the faster of both, as measured."""

import time

import pytest

from seper_reward import ResponseSampler
from seper_reward.reader.backends import load_sampler
from seper_reward.runtime.pretrained import LoadedModel

DEAD = "http://127.0.0.1:9/v1"


@pytest.fixture
def load(tiny_reader):
    def load_from(*urls, backend, reader=str(tiny_reader)):
        return load_sampler(
            reader,
            backend=backend,
            engine=urls,
            engine_options={"retries": 0, "timeout": 30.0},
            reader_options={"dtype": "float32", "device": "cpu"},
            prompt="brief",
            num_samples=4,
            max_new_tokens=8,
        )

    return load_from


def test_the_default_is_an_engine_where_one_is_named(load, serve):
    url = serve().url
    assert load(backend=None).backend == "process"
    assert load(url, backend=None).backend == "engine"
    assert load(url, backend="process").backend == "process"


@pytest.mark.parametrize("slow", ["process", "engine"])
def test_auto_keeps_the_faster(load, serve, slow, monkeypatch, capsys):
    server, sample = serve(), ResponseSampler.sample
    server.fault = lambda _: time.sleep(0.5 * (slow == "engine"))

    def delayed(self, prompts, *more):
        if slow == "process" and self is not server.sampler:
            time.sleep(3)
        return sample(self, prompts, *more)

    monkeypatch.setattr(ResponseSampler, "sample", delayed)
    fastest = "process" if slow == "engine" else "engine"
    assert load(server.url, backend="auto").backend == fastest
    told = capsys.readouterr().out
    assert f"backend '{fastest}'" in told
    assert told.count("prompts/s") == 2


def test_auto_goes_on_in_process_where_no_engine_answers(load, capsys):
    assert load(DEAD, backend="auto").backend == "process"
    assert "backend 'engine' cannot be used" in capsys.readouterr().out


def test_auto_goes_on_with_the_engine_where_memory_is_short(load, serve, monkeypatch, capsys):
    import torch

    def full(*_, **__):
        raise torch.OutOfMemoryError("full")

    url = serve().url
    monkeypatch.setattr("seper_reward.reader.backends.ResponseSampler.from_pretrained", full)
    assert load(url, backend="auto").backend == "engine"
    assert "backend 'process' cannot be used: full" in capsys.readouterr().out
    with pytest.raises(ConnectionError, match="no backend can be used"):
        load(DEAD, backend="auto")


def test_what_cannot_be_is_refused(load, tiny_sampler):
    with pytest.raises(ValueError, match="backend must be process, engine, auto, got 'gpu'"):
        load(backend="gpu")
    with pytest.raises(ValueError, match="needs an engine"):
        load(backend="auto")
    loaded = LoadedModel(tiny_sampler._model, tiny_sampler.tokenizer, "tiny")
    with pytest.raises(ValueError, match="engine runs the reader itself"):
        load(DEAD, backend="engine", reader=loaded)
