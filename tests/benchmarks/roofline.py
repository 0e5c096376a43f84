"""Tokens per second of the sampler, and how far from what memory and arithmetic of the device allow.

    python -m tests.benchmarks.roofline --json out.json
    python -m tests.benchmarks.roofline --reader random-7b --questions 16 --device cuda

The prompts of some questions, each with ten contexts, are sampled in one call. A step of decoding must at least read
the weights and the key-value cache once, and multiply; reading prompts must at least multiply. Bandwidth and rate are
measured on the same device, by a copy and by a product of matrices. ``random-1b`` and ``random-7b`` have the shapes of
Llama 3.2 1B and Llama 2 7B and random weights: their samples share nothing and never end, which is the worst case.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch

from seper_reward.options import LoadOptions
from seper_reward.reader.in_process.decoding import TreeDecoder
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import load_reader, load_tokenizer
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.reader.sampler import Request
from seper_reward.runtime.pretrained import LoadedModel, resolve_device, resolve_dtype
from seper_reward.runtime.profiling import profiling
from tests.benchmarks.common import clocked, contexts, finish, parser, questions

SHAPES = {
    "random-1b": {"hidden_size": 2048, "intermediate_size": 8192, "layers": 16, "heads": 32, "kv_heads": 8},
    "random-7b": {"hidden_size": 4096, "intermediate_size": 11008, "layers": 32, "heads": 32, "kv_heads": 32},
}


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded", help="as of `seper-reward label`, random-1b or random-7b")
    made.add_argument("--device", help="default: the first accelerator, else the CPU")
    made.add_argument("--dtype", default="auto")
    made.add_argument("--questions", type=int, default=1)
    made.add_argument("--passages", type=int, default=1, help="in each context")
    options = made.parse_args(arguments)
    device = resolve_device(options.device)
    loaded = load(options.reader, options.dtype, device)
    sampler = ResponseSampler.from_pretrained(loaded, max_new_tokens=16)
    builder = PromptBuilder(loaded.tokenizer, "brief", max_prompt_tokens=sampler.max_prompt_tokens)
    prompts = [
        builder.build(query.question, passages)
        for query in questions(options.questions)
        for passages in contexts(query, options.passages)
    ]
    sampler.sample(list(map(Request, prompts[:2])))  # what happens once
    finish({**measure(sampler, loaded.model, prompts), "settings": vars(options)}, options.json)


def load(name: str, dtype: str, device: torch.device) -> LoadedModel:
    if name not in SHAPES:
        return load_reader(name, LoadOptions(dtype=dtype, device=device))
    from transformers import AutoModelForCausalLM, LlamaConfig

    tokenizer, shape = load_tokenizer(), SHAPES[name]
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape["hidden_size"],
        intermediate_size=shape["intermediate_size"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
    )
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=resolve_dtype(dtype, device))
    return LoadedModel(model.eval().requires_grad_(False), tokenizer, name)


def measure(sampler: ResponseSampler, model: Any, prompts: Sequence[str]) -> dict[str, Any]:
    bandwidth, rate = bytes_per_second(model.device), operations_per_second(model.device, model.dtype)
    weights = multiplied(model)
    count, size = sum(each.numel() for each in weights), sum(each.nbytes for each in weights)
    floors: list[float] = []
    step = TreeDecoder.step

    def counted(self: TreeDecoder, rows: Any) -> Any:
        found = step(self, rows)
        read = size + sum(layer.keys.nbytes + layer.values.nbytes for layer in self._cache.layers)
        floors.append(max(read / bandwidth, 2 * count * len(set(found[1])) / rate))
        return found

    with mock.patch.object(TreeDecoder, "step", counted), profiling() as profile:
        sampler.sample(list(map(Request, prompts)))
    seconds, tokens = profile.seconds, profile.tokens
    return {
        "tokens_per_second": {stage: round(tokens[stage] / seconds[stage]) for stage in ("prefill", "decode")},
        "ratio_to_floor": {
            "prefill": round(seconds["prefill"] / (2 * count * tokens["prefill"] / rate), 2),
            "decode": round(seconds["decode"] / sum(floors), 2),
        },
        "seconds": {stage: round(spent, 3) for stage, spent in seconds.items()},
        "device": str(model.device),
        "dtype": str(model.dtype),
        "parameters": count,
        "gigabytes_per_second": round(bandwidth / 1e9, 1),
        "teraflops": round(rate / 1e12, 3),
        "prompts": len(prompts),
        "steps": len(floors),
    }


def multiplied(model: Any) -> list[torch.Tensor]:
    """Return the weights that each token is multiplied with: the input embeddings only if they are the output's."""
    looked_up, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return [each for each in model.parameters() if each is not looked_up or each is output]


def bytes_per_second(device: torch.device) -> float:
    """Return the rate of reading memory, from a copy, which reads and writes."""
    source = torch.ones(2**28, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _seconds(lambda: target.copy_(source))


def operations_per_second(device: torch.device, dtype: torch.dtype) -> float:
    """Return the rate of a product of matrices as large as those of a model."""
    rows, size = 1024, 4096 if device.type != "cpu" else 1536
    one, other = (torch.randn(shape, device=device, dtype=dtype) for shape in ((rows, size), (size, size)))
    return 2 * rows * size * size / _seconds(lambda: one @ other)


def _seconds(act: Callable[[], Any]) -> float:
    act()
    return statistics.median(clocked(act)[0]["wall"] for _ in range(10))


if __name__ == "__main__":
    main()
