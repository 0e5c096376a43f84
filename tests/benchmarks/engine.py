"""How fast is the reader in process and on a vLLM server, on the same machine, prompts, samples, dtype and threads?

    OMP_NUM_THREADS=2 python -m tests.benchmarks.engine --json out.json

Plain SmolLM2-135M-Instruct. Each round has prompts of its own; they are sampled on the server (cold: it has not seen
them), once more on the server (warm: its prefix cache has), and in process, before the server starts and after it
ended, since an idle server keeps a processor busy, too. Medians over the rounds. On a CPU this tells what the engine
costs or saves there; it says nothing about GPUs.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import PLAIN, embedded_reader_folder
from seper_reward.reader.sampler import EngineOptions, ReaderOptions
from tests.vllm_server import ABSENT, PYTHON, vllm_server


def prompts_of(round_: int, count: int, tokens: int, tokenizer) -> list[str]:
    """Return prompts of so many tokens that have only their first words in common."""
    texts = []
    for number in range(count):
        words = " ".join(f"word{(round_ * count + number) * 1000 + place}" for place in range(tokens))
        ids = tokenizer(f"Answer from the passage. Passage: {words}").input_ids[: tokens - 10]
        texts.append(f"{tokenizer.decode(ids)}\nQuestion: Who built the mill?\nAnswer:")
    return texts


def seconds(sampler, prompts: list[str]) -> tuple[float, int]:
    """Return the time, and how many tokens were drawn."""
    start = time.perf_counter()
    responses = sampler.sample(prompts)
    return time.perf_counter() - start, sum(len(ids) for row in responses for ids in row.token_ids)


def measure(rounds: int, count: int, tokens: int, dtype: str) -> dict:
    local = ResponseSampler.from_pretrained(
        PLAIN, ReaderOptions(dtype=dtype, device="cpu"), num_samples=10, max_new_tokens=16, stop=(), temperature=1.0
    )
    asked = [prompts_of(round_, count, tokens, local.tokenizer) for round_ in range(rounds + 1)]

    def in_process() -> list[tuple[float, int]]:
        return [seconds(local, prompts) for prompts in asked]

    before = in_process()
    with (
        tempfile.TemporaryDirectory() as folder,
        vllm_server(embedded_reader_folder(), Path(folder) / "log.txt", dtype=dtype, compiled=True) as url,
    ):
        engine = EngineSampler(EngineOptions((url,)), local.tokenizer, **vars(local.options))
        served = [[seconds(engine, prompts) for _ in ("cold", "warm")] for prompts in asked]
    mine = [((one + other) / 2, drawn) for (one, drawn), (other, _) in zip(before, in_process(), strict=True)]
    # the first round warms up all that is not the prefix cache
    rows = [(own, *theirs) for own, theirs in zip(mine, served, strict=True)][1:]
    names = ("in process", "engine, cold", "engine, warm")
    found = {name: statistics.median(row[at][0] for row in rows) for at, name in enumerate(names)}
    return {
        "seconds": found,
        "in process / engine, cold": statistics.median(row[0][0] / row[1][0] for row in rows),
        "in process / engine, warm": statistics.median(row[0][0] / row[2][0] for row in rows),
        "tokens drawn": {name: [row[at][1] for row in rows] for at, name in enumerate(names)},
        "rounds": rounds,
        "prompts": count,
        "prompt tokens": [len(local.tokenizer(prompt).input_ids) for prompt in asked[-1]],
        "dtype": dtype,
        "threads": torch.get_num_threads(),
        "load average before and after": None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=150)
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    if not PYTHON.exists():
        sys.exit(f"skipped: {ABSENT}")
    before = os.getloadavg()[0]
    found = measure(options.rounds, options.prompts, options.tokens, options.dtype)
    found["load average before and after"] = [before, os.getloadavg()[0]]
    text = json.dumps(found, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
