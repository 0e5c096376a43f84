"""vLLM in this process, as a stand-in with the interface of 0.32; `make engine-test` has the real one."""

import atexit
import threading
from types import SimpleNamespace

import pytest
import torch

from seper_reward.options import EngineOptions
from seper_reward.reader import vllm
from seper_reward.reader.sampler import Request
from seper_reward.reader.vllm import VLLMSampler
from seper_reward.types import UnscorableError, unwrap
from tests.helpers import PROMPTS, asking, leaves_of, prompt_ids, rebuilt


class Engine:
    """Answers what is in the queue, the newest first; a reading that may use the cache finds too much there."""

    def __init__(self, sampler, window):
        self.sampler, self.queue, self.asked, self.aborted = sampler, [], [], []
        self.most_cached, self.padded = 10**6, True
        config = SimpleNamespace(max_model_len=window, try_get_generation_config=dict)
        self.vllm_config, self.llm_engine = SimpleNamespace(model_config=config), self

    def enqueue(self, inputs, params, use_tqdm):
        names = [f"{len(self.asked) + place}-x{place}" for place in range(len(inputs))]
        self.queue += zip(names, (each["prompt_token_ids"] for each in inputs), params, strict=True)
        self.asked += params
        return names

    def abort_request(self, names):
        self.aborted += names

    def step(self):
        name, ids, params = self.queue.pop()
        reads = hasattr(params, "prompt_logprobs")
        answer = self.read(ids, params) if reads else self.draw(ids, params)
        return [SimpleNamespace(request_id=name.partition("-")[0], finished=True, **answer)]

    def read(self, ids, params):
        with torch.no_grad():
            rows = self.sampler.model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
        cached = 0 if params.skip_reading_prefix_cache else min(len(ids) - 1, self.most_cached)
        likeliest = rows.topk(params.prompt_logprobs).indices.tolist()
        named = [{token, *more} for token, more in zip(ids[1:], likeliest[:-1], strict=True)]
        known = [None, *({at: logprob(row[at]) for at in each} for row, each in zip(rows[:-1], named, strict=True))]
        prompt = [None] * (cached if self.padded else 0) + known[cached:]
        return {"num_cached_tokens": cached, "prompt_logprobs": prompt, "outputs": []}

    def draw(self, ids, params):
        sampler = rebuilt(self.sampler, num_samples=params.n, max_new_tokens=params.max_tokens)
        (row,) = sampler.sample([Request(self.sampler.tokenizer.decode(ids))])
        columns = zip(row.token_ids, row.token_log_probs, row.finished, strict=True)
        return {"outputs": [self.ended(index, *each, params) for index, each in enumerate(columns)][::-1]}

    def ended(self, index, tokens, log_probs, finished, params):
        reason, stopped = "stop" if finished else "length", None
        for length in range(1, len(tokens) + 1):
            text = self.sampler.tokenizer.decode(tokens[:length])
            if found := [string for string in params.stop or () if string in text]:
                tokens, reason, stopped = tokens[:length], "stop", found[0]
                break
        rows = [{token: logprob(value)} for token, value in zip(tokens, log_probs, strict=False)]
        return SimpleNamespace(index=index, token_ids=tokens, logprobs=rows, finish_reason=reason, stop_reason=stopped)


def logprob(value):
    return SimpleNamespace(logprob=float(value))


@pytest.fixture
def make(monkeypatch, tiny_sampler):
    parts = SimpleNamespace(RequestOutputKind=SimpleNamespace(FINAL_ONLY=2))
    module = SimpleNamespace(SamplingParams=SimpleNamespace, sampling_params=parts)
    monkeypatch.setattr(vllm, "need", lambda *_: module)

    def sampler(window=512, **changes):
        local = rebuilt(tiny_sampler, **{"max_new_tokens": 6, **changes})
        llm = Engine(local, window)
        return VLLMSampler(llm, local.tokenizer, local.options, weights_hash="x"), local, llm

    return sampler


def test_responses_and_answers_are_those_in_process(make):
    sampler, local, llm = make(stop=("c",))
    requests = asking(PROMPTS, {PROMPTS[0]: [" honey", " in 1840"]}, {PROMPTS[1]: PROMPTS[1]})
    found = sampler.sample([*requests, requests[0]])
    for one, request in zip(found, [*requests, requests[0]], strict=True):
        (other,) = local.sample([request])  # alone, since this reader's tokens are near-ties
        assert (one.texts, one.token_ids, one.finished) == (other.texts, other.token_ids, other.finished)
        assert one.draw_log_probs == pytest.approx(other.draw_log_probs, abs=1e-4)
        assert one.question_log_prob == pytest.approx(other.question_log_prob, abs=1e-4)
        for leaf, expected in zip(one.known_leaves, other.known_leaves, strict=True):
            assert leaf.mean_log_prob == pytest.approx(expected.mean_log_prob, abs=1e-4)
            assert leaf.log_prob <= expected.log_prob + 1e-4  # ends that are not among the 128 likeliest do not count
    drawn = [each for each in llm.asked if hasattr(each, "n")]
    assert [each.n for each in drawn] == [4] * len(PROMPTS)
    assert len({each.seed for each in drawn}) == len(PROMPTS)
    cached = [each.skip_reading_prefix_cache for each in llm.asked if hasattr(each, "prompt_logprobs")]
    assert sorted(cached) == [False] * 2 + [True] * 3  # read again where the cache has too much, and a question


def test_a_response_that_stops_before_its_first_character_goes_on(make):
    sampler, _, llm = make(stop=(" ", "e"), num_samples=8)
    rows = sampler.sample(asking(PROMPTS))
    assert any(each.n == 1 for each in llm.asked)
    for row in rows:
        for text, ids, log_probs in zip(row.texts, row.token_ids, row.token_log_probs, strict=True):
            assert len(ids) == len(log_probs) <= 6
            assert not {" ", "e"} & set(text[1:])


def test_log_probs_errors_and_greedy_samples(make):
    sampler, local, llm = make(window=64, temperature=0.0)
    prompts, texts = [*PROMPTS, "", "why " * 90], [" honey", " in 1840", " 4", " a", " b"]
    *found, empty, long = sampler.log_probs(prompts, texts)
    for one, other in zip(found, local.log_probs(PROMPTS, texts[: len(PROMPTS)]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    for error in (empty, long, *sampler.sample(asking(prompts[-2:]))):
        assert isinstance(error, UnscorableError)
    (row,) = sampler.sample(asking(PROMPTS[:1]))
    assert llm.asked[-1].n == 1
    assert len(set(row.texts)) == 1
    assert row.draw_log_probs == ()  # of another temperature
    assert not sampler.knows_leaves


@pytest.mark.parametrize("padded", [True, False])
def test_both_runners_return_the_rows_after_cached_tokens(make, padded):
    sampler, local, llm = make()
    llm.most_cached, llm.padded = 5, padded
    for one, other in zip(
        *(each.log_probs(PROMPTS, [" honey"] * len(PROMPTS)) for each in (sampler, local)), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    assert not any(each.skip_reading_prefix_cache for each in llm.asked)


def test_what_is_queued_ahead_is_used_once_or_given_up(make, monkeypatch):
    monkeypatch.setattr(vllm, "_MOST_QUEUED", 2)
    sampler, local, llm = make()
    sampler.expect(asking(PROMPTS[:1]))
    sampler.expect(asking(PROMPTS[1:]))
    assert llm.aborted == ["0"]
    assert len(llm.queue) == len(PROMPTS)
    sampler.sample(asking(PROMPTS[1:]))
    assert len(llm.asked) == len(PROMPTS)
    sampler.expect(asking(PROMPTS))
    assert len(sampler.sample(asking(PROMPTS[:2]))) == 2  # the oldest ones in a full queue
    assert unwrap(sampler.with_options(local.options).sample(asking(PROMPTS[:1]))[0]).texts
    (leaf,) = leaves_of(sampler, PROMPTS[:1], [" honey"])
    assert leaf.token_ids == tuple(local.tokenizer(" honey", add_special_tokens=False).input_ids)
    assert prompt_ids(local, PROMPTS[0])


def test_devices_of_a_rank(monkeypatch):
    monkeypatch.setattr("torch.accelerator.device_count", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with vllm.own_devices(2):
        assert vllm.os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"
        assert "RANK" not in vllm.os.environ
        assert vllm.os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"
    assert not {"CUDA_VISIBLE_DEVICES", "VLLM_WORKER_MULTIPROC_METHOD"} & vllm.os.environ.keys()
    assert vllm.os.environ["RANK"] == "1"
    with pytest.raises(ValueError, match=r"gpu_memory_utilization must be in \(0, 1\], got 2"):
        EngineOptions(["vllm"], gpu_memory_utilization=2)


def test_vllm_ends_before_python_does(monkeypatch):
    """Its core is told to end, and its threads are waited for; one that was dropped has ended by itself."""
    ends, told = [], threading.Event()
    monkeypatch.setattr(atexit, "register", ends.append)
    thread = threading.Thread(target=told.wait, daemon=True)
    thread.start()
    core = type("Core", (), {"shutdown": lambda self: told.set()})()
    vllm.end_at_exit(SimpleNamespace(llm_engine=SimpleNamespace(engine_core=core)), [thread])
    ends[0]()
    assert not thread.is_alive()
    told.clear()
    del core
    ends[0]()
    assert not told.is_set()
