"""A policy whose weights are sharded over two ranks: the reward reads with it, and training does not notice."""

import importlib.util
import os
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch
from accelerate.utils.other import extract_model_from_parallel
from peft.utils.other import fsdp_auto_wrap_policy
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from seper_reward.reward.policy_reader import PolicyReader
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.sharding import whole_policy
from seper_reward.runtime.cache import Cache
from seper_reward.scorer import SePerScorer
from tests.helpers import on_two_ranks
from tests.reward import test_base_weights

IDS = torch.arange(40, 52)[None]
NO_DEEPSPEED = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")
KINDS = [
    "FSDP1",
    "FSDP2",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("FSDP1 as PEFT", "FSDP2 in bfloat16")),
]
KINDS.append(pytest.param("ZeRO-3", marks=[pytest.mark.slow, NO_DEEPSPEED]))  # it compiles an operator of its own


def new_policy(folder):
    model = test_base_weights.new_policy(folder, torch.float32, "all-linear")
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.config.use_cache = False
    return model.train()


def new_optimizer(model):
    return torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.1)


def sharded(kind, policy):
    """Return the wrapped model, its optimizer, and a function that makes a step of training and returns the loss."""
    if kind == "ZeRO-3":
        return zero3(policy)
    if kind.startswith("FSDP1"):
        os.environ["FSDP_TRANSFORMER_CLS_TO_WRAP"] = "LlamaDecoderLayer"
        layers = ModuleWrapPolicy({LlamaDecoderLayer})
        model = FullyShardedDataParallel(
            policy,
            auto_wrap_policy=fsdp_auto_wrap_policy(policy) if kind.endswith("PEFT") else layers,
            use_orig_params=kind == "FSDP1",
            device_id=torch.device("cpu"),
        )
    else:  # as fsdp2_prepare_model of Accelerate wraps a model with tied embeddings
        half = torch.bfloat16 if kind.endswith("bfloat16") else None
        options, base = {"mp_policy": MixedPrecisionPolicy(param_dtype=half)}, policy.get_base_model()
        for layer in base.model.layers:
            fully_shard(layer, **options)
        tail = [base.model.norm, base.model.embed_tokens, base.lm_head]
        fully_shard(tail, reshard_after_forward=False, **options)
        model = fully_shard(policy, **options)
    optimizer = new_optimizer(model)

    def step():
        loss = model(input_ids=IDS, labels=IDS).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return model, step


def zero3(policy):
    os.environ |= {"DS_ACCELERATOR": "cpu", "LOCAL_RANK": str(torch.distributed.get_rank())}
    import deepspeed

    zero = {"stage": 3, "stage3_param_persistence_threshold": 0}
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero, "zero_allow_untested_optimizer": True}
    deepspeed.init_distributed("gloo", verbose=False)
    engine, *_ = deepspeed.initialize(model=policy, optimizer=new_optimizer(policy), config=config)

    def step():
        loss = engine(input_ids=IDS, labels=IDS).loss
        engine.backward(loss)
        engine.step()
        return loss.item()

    return engine, step


def trainer_of(model, tokenizer):
    return SimpleNamespace(
        model=model.module if type(model).__name__ == "DeepSpeedEngine" else model,
        model_wrapped=model,
        processing_class=tokenizer,
        accelerator=SimpleNamespace(unwrap_model=extract_model_from_parallel),
        use_vllm=True,  # the base is read from a copy
    )


def state_of(model):
    """Return modes, hooks and what this rank has of each weight."""
    modules = [(each.training, len(each._forward_hooks), len(each._forward_pre_hooks)) for each in model.modules()]
    weights = [weight.to_local() if isinstance(weight, DTensor) else weight for weight in model.parameters()]
    return modules, [(weight.numel(), weight.requires_grad) for weight in weights]


def columns_of(passages):
    count = len(passages)
    return {"question": ["Who?"] * count, "answers": [["Ida Voss"]] * count, "passages": [[each] for each in passages]}


PASSAGES = [f"Ida Voss painted mill {number}." for number in range(5)]


@pytest.mark.parametrize("kind", KINDS)
def test_reward_reads_with_a_sharded_policy(kind, tiny_reader, tiny_sampler, tiny_judge, tmp_path):
    """The rewards are those of the base, each rank reads as often as it likes, and training goes on to the bit."""
    scorer = SePerScorer(tiny_sampler, tiny_judge, prompt="brief", cache=Cache(":memory:"))

    def rank(number):
        _, step = sharded(kind, new_policy(tiny_reader))
        untouched = [step() for _ in range(3)]
        policy = new_policy(tiny_reader)
        trainer = trainer_of(policy, tiny_sampler.tokenizer)
        reward = SePerReward(scorer, answer_weight=0.0, reader="policy-base", price=0.0)
        reward.attach(trainer)  # a trainer shards its policy later, when training begins
        model, step = sharded(kind, policy)
        vars(trainer).update(vars(trainer_of(model, tiny_sampler.tokenizer)))
        losses, before = [step()], state_of(model)
        values = reward(**columns_of(PASSAGES if number else PASSAGES[:1]))
        again = reward(**columns_of(PASSAGES[:1]))  # nothing is left to read
        losses.append(step())
        lending = PolicyReader(scorer, "policy-base")
        lending.attach(trainer)
        with suppress(KeyError), lending.scorer() as reader:
            identity = reader.sampler.weights_hash
            if number:
                raise KeyError("one rank fails")
        after = state_of(model)
        losses.append(step())
        return values, again, identity, losses == untouched, before == after

    whole = tiny_sampler
    if kind.endswith("bfloat16"):
        model = AutoModelForCausalLM.from_pretrained(tiny_reader).eval()
        for weight in model.parameters():  # and not buffers
            weight.data = weight.data.bfloat16()
        whole = tiny_sampler.reading_with(model)
    expected = SePerReward(SePerScorer(whole, tiny_judge, prompt="brief"), answer_weight=0.0, price=0.0)(
        **columns_of(PASSAGES)
    )
    few, many = on_two_ranks(rank, tmp_path, seconds=300)  # DeepSpeed compiles for minutes
    assert few == ([pytest.approx(expected[0], abs=1e-5)], few[0], whole.weights_hash, True, True)
    assert many == (pytest.approx(expected, abs=1e-5), many[0][:1], whole.weights_hash, True, True)


def test_whole_policy_without_sharding():
    model = torch.nn.Linear(2, 2)
    with whole_policy(trainer_of(model, None)) as (policy, sharding):
        assert (policy, sharding) == (model, "")


def test_whole_policy_refuses_tensor_parallelism(tmp_path):
    """Tensor parallelism: a forward pass of any rank needs the others."""

    def rank(_):
        mesh = init_device_mesh("cpu", (2,))
        model = parallelize_module(torch.nn.Sequential(torch.nn.Linear(4, 4)), mesh, {"0": ColwiseParallel()})
        with pytest.raises(ValueError, match="sharded, and cannot be gathered"), whole_policy(trainer_of(model, None)):
            pass

    on_two_ranks(rank, tmp_path)
