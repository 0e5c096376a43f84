"""How much faster is the likelihood of several aliases with the prompt read once for all of them?

    python tests/benchmarks/bench_answer_log_probs.py

Prints the ratio of unshared to shared time, measured in turn in one process, and how far the results differ.
"""

import statistics
import time

from seper_reward import Passage, ResponseSampler
from seper_reward.models import PLAIN
from seper_reward.prompts import PromptBuilder

REPEATS = 3
ALIASES = ["Ann Lee", "Ann B. Lee", "Mrs Lee", "Lee"]


def main() -> None:
    shared = ResponseSampler.from_pretrained(PLAIN)
    unshared = ResponseSampler(shared._model, shared.tokenizer, share_prefix=False)
    builder = PromptBuilder(shared.tokenizer, "brief", max_prompt_tokens=shared.max_prompt_tokens)
    passages = [" ".join(f"word{n * 100 + i}" for i in range(40)) for n in range(4)]
    prompts = [builder.build("Who built the mill?", (Passage(text),)) for text in passages]
    for count in (1, 2, 4):
        pairs = [(prompt, alias) for prompt in prompts for alias in ALIASES[:count]]
        times, found = [], {}
        for _ in range(REPEATS):
            row = []
            for name, sampler in (("unshared", unshared), ("shared", shared)):
                start = time.perf_counter()
                found[name] = sampler.log_probs(*zip(*pairs, strict=True))
                row.append(time.perf_counter() - start)
            times.append(row)
        ratio = statistics.median(slow / fast for slow, fast in times)
        apart = max(float((one - two).abs().max()) for one, two in zip(*found.values(), strict=True))
        print(f"4 prompts, {count} aliases: unshared / shared = {ratio:.1f}; greatest difference {apart:.3f} nats")


if __name__ == "__main__":
    main()
