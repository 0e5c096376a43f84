"""Fixtures: tiny random models for speed, the embedded models for truth, the shared data where present."""

import functools
import gc
import json
import os
import ssl
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from hypothesis import settings

from seper_reward import SePerScorer
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.options import ModelOptions, ReaderOptions
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from tests.tiny_models import lane_rows, make_encoder, make_entailment, make_reader

collect_ignore = ["verifiers_traces.py"]  # it imports verifiers, which has a separate environment

settings.register_profile("fast", max_examples=50, deadline=None)
settings.load_profile("fast")
# each client of an engine reads the certificates of this machine, which takes a quarter of a second
ssl.create_default_context = functools.cache(ssl.create_default_context)


def pytest_collection_finish():
    """Keep all imported objects out of the garbage collection, which trainers run in full after each training."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(os.environ.get("SEPER_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent; set SEPER_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def tiny_reader(tmp_path_factory) -> Path:
    return make_reader(tmp_path_factory.mktemp("tiny_reader"))


@pytest.fixture(scope="session")
def tiny_entailment(tmp_path_factory) -> Path:
    return make_entailment(tmp_path_factory.mktemp("tiny_entailment"))


@pytest.fixture(scope="session")
def tiny_sampler(tiny_reader) -> ResponseSampler:
    return ResponseSampler.from_pretrained(
        ReaderOptions(reader=str(tiny_reader), dtype="float32", device="cpu", num_samples=4, max_new_tokens=8)
    )


@pytest.fixture(scope="session")
def tiny_judge(tiny_entailment) -> EntailmentScorer:
    return EntailmentScorer.from_pretrained(str(tiny_entailment), ModelOptions(dtype="float32", device="cpu"))


@pytest.fixture(scope="session")
def tiny_scorer(tiny_sampler, tiny_judge) -> SePerScorer:
    return SePerScorer(tiny_sampler, tiny_judge, prompt="brief")


@pytest.fixture(scope="session")
def embedded_scorer() -> SePerScorer:
    return SePerScorer.from_pretrained(max_new_tokens=12)


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("tiny_encoder"))


@pytest.fixture
def lane_questions(tmp_path) -> Path:
    """24 questions with two or three passages of their own each, as a file."""
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in lane_rows()))
    return path


@pytest.fixture
def serve(tiny_sampler):
    """Return a function that starts a server, by default over the tiny reader."""
    from contextlib import ExitStack

    from tests.completions_server import CompletionsServer

    with ExitStack() as stack:
        yield lambda sampler=tiny_sampler, **behaviour: stack.enter_context(
            CompletionsServer(sampler, **behaviour).running()
        )


@pytest.fixture
def retriever_settings(tmp_path, lane_questions, tiny_reader, tiny_entailment, tiny_encoder):
    """Words of a small `train retriever`, as a list."""
    (tmp_path / "held_out").symlink_to(tiny_reader)
    return [
        "--input", str(lane_questions), "--model", str(tiny_encoder), "--reader", str(tiny_reader),
        "--judge", str(tiny_entailment), "--prompt", "brief",
        "--dtype", "float32", "--device", "cpu",
        "--num_samples", "3", "--max_new_tokens", "4", "--eval_readers", str(tmp_path / "held_out"),
        "--test_share", "0.25", "--top_k", "2", "--min_spread", "0",
        "--heterogeneity", "1", "--shrink", "false",
        "--output_dir", str(tmp_path / "run"), "--bf16", "false",
        "--num_train_epochs", "1", "--per_device_train_batch_size", "4", "--learning_rate", "1e-3",
        "--logging_steps", "1",
    ]  # fmt: skip


@pytest.fixture
def no_intervals(monkeypatch):
    """Leave out the bootstrap intervals, which take most of the time of evaluations of numbers by hand."""
    monkeypatch.setattr("seper_reward.statistics.interval_over_questions", lambda *_, **__: None)
