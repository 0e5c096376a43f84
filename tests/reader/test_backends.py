"""Where the reader runs: named, or the faster of both, as measured."""

from types import SimpleNamespace

import pytest

from seper_reward.data.queries import read_examples
from seper_reward.reader import backends
from seper_reward.reader.backends import load_sampler
from seper_reward.reader.sampler import EngineOptions, ReaderOptions
from seper_reward.runtime.pretrained import LoadedModel

DEAD = "http://127.0.0.1:9/v1"


@pytest.fixture
def load(tiny_reader):
    def load_from(*urls, backend, reader=str(tiny_reader)):
        return load_sampler(
            reader,
            options=ReaderOptions(dtype="float32", device="cpu", backend=backend),
            engine=EngineOptions(urls, requests=8, retries=0, timeout=30.0),
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


@pytest.mark.parametrize("fastest", ["process", "engine"])
def test_auto_keeps_the_faster(load, serve, fastest, monkeypatch, capsys):
    """The rates are given: what a loaded machine measures is not for a test to decide."""
    rates = {"process": 2.0, "engine": 3.0} | {fastest: 5.0}
    monkeypatch.setattr(backends, "_prompts_per_second", lambda sampler, _: rates[sampler.backend])
    assert load(serve().url, backend="auto").backend == fastest
    output = capsys.readouterr().err
    assert f"backend '{fastest}'" in output
    assert f"{rates[fastest]} prompts/s" in output
    assert output.count("prompts/s") == 2


def test_the_rate_counts_the_prompts_that_were_sampled(load, serve, monkeypatch):
    clock = iter([10.0, 14.0] * 2)
    monkeypatch.setattr(backends, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    process, on_engine = load(backend="process"), load(serve().url, backend="engine")
    examples, _ = read_examples("demo")
    prompts = sum(len(query.contexts) for query in examples.queries[:2])
    assert backends._prompts_per_second(process, "brief") == prompts / 4
    assert backends._prompts_per_second(on_engine, "brief") == on_engine.prompts_ahead / 4


def test_auto_goes_on_in_process_where_no_engine_answers(load, capsys):
    assert load(DEAD, backend="auto").backend == "process"
    assert "backend 'engine' cannot be used" in capsys.readouterr().err


def test_auto_goes_on_with_the_engine_where_memory_is_short(load, serve, monkeypatch, capsys):
    import torch

    def full(*_, **__):
        raise torch.OutOfMemoryError("full")

    url = serve().url
    monkeypatch.setattr(backends, "_prompts_per_second", lambda *_: 1.0)
    monkeypatch.setattr("seper_reward.reader.backends.ResponseSampler.from_pretrained", full)
    assert load(url, backend="auto").backend == "engine"
    assert "backend 'process' cannot be used: full" in capsys.readouterr().err
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
