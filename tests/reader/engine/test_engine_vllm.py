"""The engine against a real vLLM with the embedded reader: `make engine-test` sets it up and runs this."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import requests
import torch
from peft import LoraConfig, get_peft_model
from scipy.stats import chisquare
from transformers import AutoModelForCausalLM

from seper_reward.cli import main
from seper_reward.estimators.belief import weigh
from seper_reward.estimators.draws import estimate
from seper_reward.estimators.seper import Estimator
from seper_reward.options import ReaderOptions
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.sampler import Request
from seper_reward.runtime.codec import from_json
from seper_reward.types import Responses
from tests.helpers import PROMPTS, asking, leaves_of, prompt_ids, rebuilt, teacher_forced
from tests.vllm_server import ABSENT, PYTHON, SETTINGS, vllm_server

try:
    from trl.experimental.async_grpo.vllm_client import VLLMClient
except ImportError:  # from TRL 1.18 on
    from trl.generation.async_vllm_client import AsyncVLLMClient as VLLMClient

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PYTHON.exists(), reason=ABSENT)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The embedded reader, its adapter merged."""
    folder = tmp_path_factory.mktemp("vllm")
    assert main(["merge-reader", "--output_dir", str(folder / "reader"), "--dtype", "float32"]) == 0
    return folder


@pytest.fixture(scope="module")
def url(folder):
    with vllm_server(folder / "reader", folder / "log.txt") as url:
        yield url


@pytest.fixture(scope="module")
def local():
    return ResponseSampler.from_pretrained(ReaderOptions(dtype="float32", device="cpu", max_new_tokens=12))


def on_engine(local, url, **changes):
    return EngineSampler(replace(local.options, engine=[url], **changes), local.tokenizer)


@pytest.mark.parametrize("drawn", [{}, {"temperature": 0.6, "top_p": 0.9}, {"temperature": 0.0}])
def test_log_probs_are_those_of_the_reader_in_process(local, url, drawn):
    engine = on_engine(local, url, **drawn)
    sampled = engine.sample(asking(PROMPTS))
    for prompt, responses in zip(PROMPTS, sampled, strict=True):
        assert len(responses.texts) == 10
        for log_probs, token_ids in zip(responses.token_log_probs, responses.token_ids, strict=True):
            torch.testing.assert_close(log_probs, teacher_forced(local, prompt, token_ids), atol=5e-3, rtol=1e-3)
    if drawn.get("temperature") == 0:
        greedy = rebuilt(local, temperature=0.0).sample(asking(PROMPTS))
        assert [row.token_ids for row in sampled] == [row.token_ids for row in greedy]
        assert [(row.texts, row.finished) for row in sampled] == [(row.texts, row.finished) for row in greedy]


def test_probabilities_of_gold_answers_are_those_in_process(local, url):
    engine = on_engine(local, url)
    assert engine.knows_leaves
    texts = [" honey", " in 1840", " 4 or so"]
    for one, other in zip(leaves_of(engine, PROMPTS, texts), leaves_of(local, PROMPTS, texts), strict=True):
        assert (one.text, one.token_ids) == (other.text, other.token_ids)
        # only ends among the 20 likeliest next tokens count
        assert other.log_prob - 0.1 <= one.log_prob <= other.log_prob + 0.02
        assert one.draw_log_prob == one.log_prob
        assert one.mean_log_prob == pytest.approx(other.mean_log_prob, abs=5e-3)


def test_first_tokens_follow_the_readers_distribution(local, url):
    engine = on_engine(local, url, num_samples=200, max_new_tokens=1, temperature=0.7, stop=())
    first = torch.tensor([ids[0] for ids in engine.sample(asking(PROMPTS[:1]))[0].token_ids])
    with torch.no_grad():
        logits = local.model(input_ids=torch.tensor([prompt_ids(local, PROMPTS[0])])).logits[0, -1]
    probs, tokens = (logits.double() / 0.7).softmax(-1).topk(5)
    observed = [int((first == token).sum()) for token in tokens]
    expected = (probs * len(first)).tolist()
    rest = len(first) - sum(expected)
    assert min(*expected, rest) > 4  # else the test would not mean much
    assert chisquare([*observed, len(first) - sum(observed)], [*expected, rest]).pvalue > 0.001


def test_the_base_is_the_reader_while_adapters_come_and_go(folder, local, monkeypatch):
    """As AsyncGRPOTrainer starts and synchronises its server for a LoRA policy; nothing echoes a prompt."""
    model = AutoModelForCausalLM.from_pretrained(folder / "reader")
    torch.manual_seed(0)
    policy = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    policy.save_pretrained(folder / "policy")
    monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    monkeypatch.setenv("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1")
    flags = ("--enable-lora", "--max-loras", "2", "--max-lora-rank", "8", "--logprobs-mode", "processed_logprobs")
    with vllm_server(folder / "reader", folder / "lora.txt", *flags) as url:
        client = VLLMClient(url.removesuffix("/v1"))
        assert client.get_server_info()["lora_config"] is not None
        engine = on_engine(local, url)
        assert not engine.knows_leaves
        before = engine.sample(asking(PROMPTS))
        for version in range(2):
            client.load_lora_adapter(f"trl-policy-v{version}", str(folder / "policy"))
            policies = ReaderOptions(engine=[f"trl-policy-v{version}@{url}"])
            with pytest.raises(ValueError, match="is a policy in training"):
                EngineSampler(policies, local.tokenizer)
            played = requests.post(
                f"{url}/completions",
                json={"model": f"trl-policy-v{version}", "prompt": "Who?", "max_tokens": 4},
                timeout=60,
            )
            assert played.ok
            if version:
                client.unload_lora_adapter("trl-policy-v0")
        again = on_engine(local, url)  # it names the base by itself
        assert again.weights_hash == engine.weights_hash
        after = again.sample(asking(PROMPTS))
        for prompt, one, other in zip(PROMPTS, before, after, strict=True):
            assert one.token_ids == other.token_ids  # the same seeds
            forced = teacher_forced(local, prompt, other.token_ids[0])
            torch.testing.assert_close(other.token_log_probs[0], forced, atol=5e-3, rtol=1e-3)


SAMPLES = 64


@pytest.fixture(scope="module")
def in_process(folder, local):
    """Return what vLLM returns, in a process of its own environment; one prompt fills several blocks of its cache."""
    template = local.tokenizer.apply_chat_template
    long = "The old mill at Hallow was built by Peter Voss in 1812, and it burned down in 1840 after a storm. " * 8
    questions = {"Who wrote Hamlet?": "", "When did the mill burn down?": long}
    answers = [("William Shakespeare", "Bacon"), ("1840", "in 1812")]
    requests = [
        Request(
            template([{"role": "user", "content": text + question}], tokenize=False, add_generation_prompt=True),
            own,
            question,
        )
        for (question, text), own in zip(questions.items(), answers, strict=True)
    ]
    asked = {
        "sampling": {"num_samples": SAMPLES, "max_new_tokens": 12, "seed": 3},
        "requests": [{"prompt": row.prompt, "answers": row.answers, "question": row.question} for row in requests],
        "pairs": [(row.prompt, row.answers[0]) for row in requests],
    }
    asked["requests"].append({"prompt": "", "answers": [], "question": ""})
    settings = {**os.environ, **SETTINGS, "PYTHONPATH": str(Path(__file__).parents[3])}
    words = [PYTHON, "-m", "tests.reader.vllm_sampling", folder / "reader"]
    done = subprocess.run(words, input=json.dumps(asked), env=settings, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return requests, json.loads(done.stdout.partition("\0")[2].splitlines()[0])


def test_vllm_in_process_reads_like_the_reader_in_process(in_process, local):
    requests, found = in_process
    expected = rebuilt(local, num_samples=SAMPLES, seed=5).sample(requests)
    *rows, error = found["rows"]
    assert "must not be empty" in error
    for request, row, other in zip(requests, rows, expected, strict=True):
        mine = from_json(Responses, row)
        assert mine.question_log_prob == pytest.approx(other.question_log_prob, abs=5e-3)
        for one, two in zip(mine.known_leaves, other.known_leaves, strict=True):
            assert (one.text, one.token_ids) == (two.text, two.token_ids)
            assert one.log_prob <= two.log_prob + 0.02  # only ends among the likeliest next tokens count
            if two.log_prob > -10:
                assert one.log_prob == pytest.approx(two.log_prob, abs=0.02)
            assert one.mean_log_prob == pytest.approx(two.mean_log_prob, abs=5e-3)
        for log_probs, token_ids in zip(mine.token_log_probs, mine.token_ids, strict=True):
            forced = teacher_forced(local, request.prompt, token_ids)
            torch.testing.assert_close(log_probs, forced, atol=5e-3, rtol=1e-3)
        # as many samples of as much mass: the intervals are as narrow, and the shares of a text agree
        one, two = (weigh(Estimator(), each) for each in (mine, other))
        assert one.unseen_mass == pytest.approx(two.unseen_mass, abs=0.1)
        right = request.answers[0]
        beliefs = [
            estimate(draws, torch.tensor([float(text == right) for text in draws.responses.texts]))
            for draws in (one, two)
        ]
        assert beliefs[0].value == pytest.approx(beliefs[1].value, abs=0.1)
        assert beliefs[0].high - beliefs[0].low == pytest.approx(beliefs[1].high - beliefs[1].low, abs=0.1)
    pairs = zip(*((row.prompt, row.answers[0]) for row in requests), strict=True)
    for log_probs, other in zip(found["log_probs"], local.log_probs(*pairs), strict=True):
        torch.testing.assert_close(torch.tensor(log_probs), other, atol=5e-3, rtol=1e-3)
    assert found["again"][0]["texts"] == rows[0]["texts"][:2]  # a seed repeats
