"""How much faster is sampling with the prompt prefilled once and its cache repeated for the N samples?

    python tests/benchmarks/bench_prefix_sharing.py

Prints the ratio of unshared to shared time, measured in turn in one process, for a short and a long passage.
"""

import statistics
import time

from seper_reward import Passage, ResponseSampler
from seper_reward.models import PLAIN
from seper_reward.prompts import PromptBuilder

REPEATS = 3


def seconds(sampler: ResponseSampler, prompts: list[str]) -> float:
    start = time.perf_counter()
    sampler.sample(prompts)
    return time.perf_counter() - start


def main() -> None:
    shared = ResponseSampler.from_pretrained(PLAIN, max_new_tokens=16, stop=(), temperature=1.0)
    unshared = ResponseSampler(
        shared._model, shared.tokenizer, share_prefix=False, max_new_tokens=16, stop=(), temperature=1.0
    )
    builder = PromptBuilder(shared.tokenizer, "brief", max_prompt_tokens=shared.max_prompt_tokens)
    for words in (60, 400):
        passages = [" ".join(f"word{n * words + i}" for i in range(words // 3)) for n in range(4)]
        prompts = [builder.build("Who built the mill?", (Passage(text),)) for text in passages]
        tokens = len(shared.tokenizer(prompts[0]).input_ids)
        times = [(seconds(unshared, prompts), seconds(shared, prompts)) for _ in range(REPEATS)]
        ratio = statistics.median(slow / fast for slow, fast in times)
        fast = statistics.median(fast for _, fast in times)
        print(f"4 prompts of {tokens} tokens, N=10: unshared / shared = {ratio:.1f} (shared takes {fast:.1f} s)")


if __name__ == "__main__":
    main()
