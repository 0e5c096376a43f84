"""Checks of TRL's trainers with a real vLLM: in the trainer's process, as a server, and that of AsyncGRPOTrainer.

Three parts do not work on a CPU, where they are replaced: vLLM packs the weights of a model when it loads it and then
takes no others, TRL sends weights to a server by NCCL only, and AsyncGRPOTrainer attends by FlashAttention 3.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

from seper_reward import SePerScorer
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reward.reward import SePerReward
from tests.gpu_check import training
from tests.gpu_check.models import Plan, load_scorer, new_tokenizer, write_reader
from tests.vllm_server import SETTINGS, vllm_server

_READERS = ("separate", "policy-base", "policy")
_LORA_RANK, _STALENESS = 8, 1


def grpo_vllm(plan: Plan) -> dict[str, Any] | None:
    """GRPO with TRL's vLLM in the trainer's process, by each reader."""
    if not _has_vllm():
        return None
    if plan.device.type == "cpu":
        os.environ.update(SETTINGS)
        from vllm.model_executor.layers import utils

        utils.dispatch_cpu_unquantized_gemm = _keep_weights
    engine = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.1}
    return {reader: training.grpo(plan, reader, **engine) for reader in _READERS}


def grpo_vllm_server(plan: Plan) -> dict[str, Any] | None:
    """GRPO with TRL's vLLM as a server, by each reader; it needs two GPUs, since NCCL refuses ranks that share one."""
    if not _has_vllm() or (plan.device.type != "cpu" and torch.accelerator.device_count() < 2):
        return None
    flags = []
    if plan.device.type == "cpu":
        from trl.generation.vllm_client import VLLMClient

        VLLMClient.init_communicator = lambda *_, **__: None
        VLLMClient.update_named_params = lambda _, __, named: [None for _ in named]
    else:
        flags = ["--weight-transfer-config", '{"backend": "nccl"}']
    with _server(plan, *flags, CUDA_VISIBLE_DEVICES="1") as url:
        engine = {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": url}
        return {reader: training.grpo(plan, reader, **engine) for reader in _READERS}


def async_grpo(plan: Plan) -> dict[str, Any] | None:
    """AsyncGRPOTrainer with LoRA: its vLLM serves the policy's adapters and the base, which is the reader."""
    if not _has_vllm():
        return None
    from peft import LoraConfig
    from trl.chat_template_utils import qwen2_5_chat_template

    from tests.serving.helpers import ServerThread

    trainer_type = _async_trainer()
    home = sys.modules[trainer_type.__module__]
    config_type: Any = home.AsyncGRPOConfig
    if plan.device.type == "cpu":
        vars(home)["get_peak_flops_per_device"] = lambda *_: None  # it asks CUDA for the name of the device
    attention = SimpleNamespace(flash_attn_varlen_func=_attend)
    home.register_tree_attention.__globals__["_flash_attn"] = lambda: attention
    tokenizer = new_tokenizer()
    tokenizer.chat_template = qwen2_5_chat_template
    flags = ("--enable-lora", "--max-loras", f"{_STALENESS + 2}", "--max-lora-rank", f"{_LORA_RANK}")
    with _server(plan, *flags) as url:
        own = load_scorer(plan)
        sampler = EngineSampler(replace(own.sampler.options, engine=[f"reader@{url}/v1"]), own.sampler.tokenizer)
        with ServerThread(SePerScorer(sampler, own.entailment, prompt="brief")) as served:
            trainer = trainer_type(
                model=str(write_reader(plan)),
                reward_funcs=[SePerReward(served.url, price=0.1), training.distinct],
                args=config_type(
                    vllm_server_base_url=url,
                    max_staleness=_STALENESS,
                    **training.arguments(plan, "async", torch.float32),
                ),
                train_dataset=training.dataset(conversational=True),
                processing_class=tokenizer,
                peft_config=LoraConfig(r=_LORA_RANK, target_modules=["q_proj", "v_proj"]),
            )
            trainer.train()
    return training.checked(plan, trainer)


def _async_trainer() -> Any:
    """Return AsyncGRPOTrainer: of ``trl`` since 1.18, of ``trl.experimental`` before."""
    import trl

    if hasattr(trl, "AsyncGRPOTrainer"):
        return trl.AsyncGRPOTrainer
    from trl.experimental.async_grpo import AsyncGRPOTrainer

    return AsyncGRPOTrainer


def _has_vllm() -> bool:
    return importlib.util.find_spec("vllm") is not None


@contextmanager
def _server(plan: Plan, *flags: str, **settings: str) -> Iterator[str]:
    settings |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
    if plan.device.type == "cpu":
        settings["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"  # CUDA allows no forks
    flags += ("--logprobs-mode", "processed_logprobs", "--gpu-memory-utilization", "0.3")
    log = plan.folder / "vllm.txt"
    with vllm_server(write_reader(plan), log, *flags, python=sys.executable, settings=settings) as url:
        yield url.removesuffix("/v1")


def _keep_weights(layer: Any, remove_weight: bool) -> None:
    layer.cpu_linear = functional.linear


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *bounds: Any, **options: Any) -> torch.Tensor:
    """Attention of each segment of a tree of rollouts to its path, as ``flash_attn_varlen_func`` returns it."""
    segments, paths = (pairwise(each.tolist()) for each in bounds[:2])
    parts = []
    for (start, end), (first, last) in zip(segments, paths, strict=True):
        heads = (each.transpose(0, 1)[None] for each in (query[start:end], key[first:last], value[first:last]))
        seen = torch.ones(end - start, last - first, dtype=torch.bool, device=query.device)
        attended = functional.scaled_dot_product_attention(
            *heads,
            attn_mask=seen.tril(last - first - (end - start)),
            scale=options["softmax_scale"],
            enable_gqa=True,
        )
        parts.append(attended[0].transpose(0, 1))
    return torch.cat(parts)
