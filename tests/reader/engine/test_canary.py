"""Weights that move under a fixed name: the run stops, the cache stays right, and a trainer's base is a reader."""

import copy
import sqlite3

import pytest
import torch

from seper_reward.options import ReaderOptions
from seper_reward.reader.engine.canary import CanaryReading, WeightsMovedError
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reward.reward import SePerReward
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.codec import from_json, to_json
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, UnscorableError
from tests.helpers import PROMPTS, asking, engine
from tests.serving.helpers import ServerThread

PUSHED = {"weight_transfer_config": {"backend": "nccl"}}  # as AsyncGRPOTrainer's servers are started
SHARED = ("trl-policy-v1",)  # a trainer of adapters shares the server
LORA = {"max_loras": 8, "max_lora_rank": 16}


def moved(sampler, by):
    """Return a sampler with the weights of a policy after some training."""
    model = copy.deepcopy(sampler.model)
    torch.manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(by * torch.randn_like(weight))
    return sampler.reading_with(model)


def reading(*rows):
    return CanaryReading(tuple(max(row, key=row.get) for row in rows), rows)


def test_a_difference_by_hand():
    """Tokens that both have count, up to the first token that differs."""
    one = reading({"a": -1.0, "c": -2.0, "d": -3.0}, {"b": -0.5, "e": -4.0}, {"f": -0.1})
    assert one.difference(one) == 0
    other = reading({"a": -1.25, "c": -1.5, "x": -2.0}, {"e": -0.5, "b": -1.5}, {"f": -9.0})
    assert one.difference(other) == pytest.approx((0.25 + 0.5 + 1.0 + 3.5) / 4)
    assert one.difference(reading({"y": -0.1})) == float("inf")
    assert from_json(CanaryReading, to_json(one)) == one


def test_a_run_stops_when_weights_move(tiny_sampler, serve, tmp_path):
    server = serve(adapters=SHARED)
    path = tmp_path / "cache.sqlite"

    def entries():
        return sqlite3.connect(path).execute("SELECT count(*) FROM entries").fetchone()

    reader = PromptedReader(engine(tiny_sampler, server), prompt="brief", cache=path)
    asked = [[Asked(f"Who owns house {number}?", ("Owner",), ((),))] for number in range(3)]
    reader.responses(asked[0])
    server.move_to(moved(tiny_sampler, 1e-4))  # as rounding on another processor
    reader.responses([Asked("Who owns the mill?", ("Ida",), ((),))])
    before = entries()
    server.move_to(moved(tiny_sampler, 0.3))
    for batch in asked[1:]:
        with pytest.raises(WeightsMovedError, match=r"has other weights than before: .* AsyncGRPOTrainer"):
            reader.responses(batch)
    assert entries() == before
    reader.responses(asked[0])  # what is in the cache is right
    with pytest.raises(WeightsMovedError, match="other weights than before"):  # as would be seen by the next run
        PromptedReader(engine(tiny_sampler, server), prompt="brief", cache=path)
    server.move_to(tiny_sampler)
    PromptedReader(engine(tiny_sampler, server), prompt="brief", cache=path)


def test_a_trainer_behind_a_server_stops(tiny_sampler, tiny_judge, serve):
    """Rewards of replaced weights are errors, and no rollouts that cannot be scored."""
    engine_server = serve(adapters=SHARED)
    scorer = SePerScorer(engine(tiny_sampler, engine_server), tiny_judge, prompt="brief")
    with ServerThread(scorer) as server:
        reward = SePerReward(server.url, answer_weight=0.0, price=0.0)
        columns = {"answers": [["Ida Voss"]], "passages": [["Ida Voss lives there."]]}
        assert reward(question=["Who lives in the mill?"], **columns) != [None]
        engine_server.move_to(moved(tiny_sampler, 0.3))
        with pytest.raises(ConnectionError, match=r"answered 500: .*has other weights than before"):
            reward(question=["Who built the mill?"], **columns)
        assert not reward.failures


def test_what_was_sent_ahead_is_confirmed_too(tiny_sampler, serve):
    server = serve(adapters=SHARED)
    sampler = engine(tiny_sampler, server)
    server.move_to(moved(tiny_sampler, 0.3))
    sampler.expect(asking(PROMPTS))
    with pytest.raises(WeightsMovedError):
        sampler.sample(asking(PROMPTS[:1]))
    with pytest.raises(WeightsMovedError, match="model 'tiny', has other weights"):
        engine(tiny_sampler, serve(), server)


def test_a_server_that_cannot_be_watched(tiny_sampler, serve, capsys):
    """It is used, and a line warns."""
    server = serve()
    server.greedy = lambda body: {"choices": [{"logprobs": {"tokens": ["a"], "top_logprobs": None}}]}
    assert len(engine(tiny_sampler, server).sample(asking(PROMPTS))) == len(PROMPTS)
    assert "a change of weights at engine=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "adapters"),
    [(None, ("mine",)), (None, ("trl-policy-v3", "trl-policy-v4")), ({**PUSHED, "lora_config": LORA}, ())],
)
def test_no_prompt_is_read_by_a_server_with_adapters(tiny_sampler, serve, capsys, config, adapters):
    """As one ended a vLLM on the CPU: probabilities of gold answers are then not known."""
    server = serve(vllm_config=config, adapters=adapters)
    sampler = engine(tiny_sampler, server)
    assert not sampler.knows_leaves
    assert "probabilities of gold answers are not known: engine serves LoRA adapters" in capsys.readouterr().err
    (refused,) = sampler.log_probs(PROMPTS[:1], ["a"])
    assert isinstance(refused, UnscorableError)
    with pytest.raises(ValueError, match=r"cannot be used with temperature=0\.5"):
        engine(tiny_sampler, server, temperature=0.5)
    assert not any("prompt_logprobs" in body for body in server.requests + server.canaries)
    assert all((body["temperature"], body["max_tokens"]) == (0, 4) for body in server.canaries)


def test_the_base_on_the_trainers_server_is_the_reader(tiny_sampler, serve, tmp_path):
    """AsyncGRPOTrainer with LoRA: new adapters come and go, the base's responses and their key in the cache stay."""
    server = serve(vllm_config={**PUSHED, "lora_config": LORA})
    cache = Cache(tmp_path / "cache.sqlite")
    asked = [Asked("Who owns the house?", ("Owner",), ((),))]
    first = PromptedReader(engine(tiny_sampler, server), prompt="brief", cache=cache)
    (before,) = first.responses(asked)
    server.adapters = ("trl-policy-v1", "trl-policy-v2")
    again = PromptedReader(engine(tiny_sampler, server), prompt="brief", cache=cache)  # it names the base by itself
    sent = len(server.requests)
    (after,) = again.responses(asked)
    assert [row.texts for row in before] == [row.texts for row in after]
    assert len(server.requests) == sent
    assert {body["model"] for body in server.requests} == {"tiny"}


def test_weights_that_a_trainer_replaces_are_refused(tiny_sampler, serve):
    """AsyncGRPOTrainer without adapters, and GRPOTrainer in server mode: the base's name is the policy."""
    server = serve(vllm_config={**PUSHED, "lora_config": None})
    with pytest.raises(ValueError, match=r"takes weights from a trainer .*--enable-lora"):
        engine(tiny_sampler, server)
    engine(tiny_sampler, serve(vllm_config={"weight_transfer_config": None, "lora_config": None}))
    with pytest.raises(ConnectionError, match=r"cannot show its settings: /server_info answers .*pip install pip"):
        engine(tiny_sampler, serve(vllm_config="failed"))
    server.adapters, server.vllm_config = ("trl-policy-v7",), None
    server.model = "trl-policy-v7"
    with pytest.raises(ValueError, match="is a policy in training, which its trainer replaces; name the base"):
        EngineSampler(ReaderOptions(engine=[f"trl-policy-v7@{server.url}"]), tiny_sampler.tokenizer)
