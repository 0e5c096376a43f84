"""Is bf16 faster than fp32 on this machine, as `--dtype auto` takes it to be?

    OMP_NUM_THREADS=1 python -m tests.benchmarks.dtypes --json out.json

The same reader in both dtypes, in one process and by turns: it reads the prompts of a question with ten contexts, and
takes a step of training on them (forward and backward, all weights). Prints the seconds of bf16 over those of fp32
(above 1: bf16 is slower) and what `fast_dtype` takes here.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from seper_reward.reader.loading import load_reader
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.runtime.pretrained import LoadOptions, fast_dtype, resolve_device
from tests.benchmarks.common import CLOCK, clocked, contexts, finish, parser, questions

DTYPES = ("bfloat16", "float32")


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded", help="as of `seper-reward label`")
    made.add_argument("--repeats", type=int, default=3, help="times that each is done; the median counts")
    options = made.parse_args(arguments)
    finish(measure(options.reader, options.repeats), options.json)


def measure(reader: str, repeats: int) -> dict[str, Any]:
    device = resolve_device(None)
    loaded = {name: load_reader(reader, LoadOptions(dtype=name)) for name in DTYPES}
    (query,) = questions(1)
    builder = PromptBuilder(loaded["float32"].tokenizer, "brief", max_prompt_tokens=512)
    prompts = [builder.build(query.question, passages) for passages in contexts(query, 1)]
    tokens = loaded["float32"].tokenizer(prompts, return_tensors="pt", padding=True).to(device)
    seconds: dict[str, list[dict[str, float]]] = {name: [] for name in DTYPES}
    for _ in range(repeats + 1):  # the first is warm-up
        for name in DTYPES:
            model = loaded[name].model
            seconds[name].append(
                {
                    "reading": spent(lambda model=model: read(model, tokens)),
                    "training": spent(lambda model=model: train(model, tokens)),
                }
            )
    median = {
        act: {name: statistics.median(row[act] for row in seconds[name][1:]) for name in DTYPES}
        for act in ("reading", "training")
    }
    return {
        "tokens": tokens["input_ids"].numel(),
        "seconds": {act: {name: round(took, 2) for name, took in row.items()} for act, row in median.items()},
        "bfloat16_over_float32": {act: round(row["bfloat16"] / row["float32"], 2) for act, row in median.items()},
        "fast_dtype": str(fast_dtype(device)).removeprefix("torch."),
    }


def spent(act: Callable[[], Any]) -> float:
    return clocked(act)[0][CLOCK]


@torch.inference_mode()
def read(model: Any, tokens: Any) -> None:
    model.requires_grad_(False)(**tokens, logits_to_keep=1)


def train(model: Any, tokens: Any) -> None:
    model.requires_grad_(True)(**tokens, labels=tokens["input_ids"]).loss.backward()
    model.zero_grad()


if __name__ == "__main__":
    main()
