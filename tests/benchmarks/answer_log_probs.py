"""How much faster is the likelihood of several aliases with the prompt read once for all of them?

    python -m tests.benchmarks.answer_log_probs

Prints the ratio of unshared to shared time, measured in turn in one process, and how far the results differ.
"""

import functools
import statistics

from seper_reward import Passage, ResponseSampler
from seper_reward.reader.loading import PLAIN
from seper_reward.reader.prompts import PromptBuilder
from tests.benchmarks.common import clocked, finish, parser
from tests.helpers import rebuilt

REPEATS = 3
ALIASES = ["Ann Lee", "Ann B. Lee", "Mrs Lee", "Lee"]


def main() -> None:
    options = parser(__doc__).parse_args()
    shared = ResponseSampler.from_pretrained(PLAIN)
    unshared = rebuilt(shared, layout="alone")
    builder = PromptBuilder(shared.tokenizer, "brief", max_prompt_tokens=shared.max_prompt_tokens)
    passages = [" ".join(f"word{n * 100 + i}" for i in range(40)) for n in range(4)]
    prompts = [builder.build("Who built the mill?", (Passage(text),)) for text in passages]
    result = {}
    for count in (1, 2, 4):
        pairs = [(prompt, alias) for prompt in prompts for alias in ALIASES[:count]]
        times, found = [], {}
        for _ in range(REPEATS):
            row = []
            for name, sampler in (("unshared", unshared), ("shared", shared)):
                spent, found[name] = clocked(functools.partial(sampler.log_probs, *zip(*pairs, strict=True)))
                row.append(spent["wall"])
            times.append(row)
        ratio = statistics.median(slow / fast for slow, fast in times)
        apart = max(float((one - two).abs().max()) for one, two in zip(*found.values(), strict=True))
        result[f"aliases_{count}"] = {"unshared_over_shared": round(ratio, 2), "greatest_difference": round(apart, 3)}
    finish(result, options.json)


if __name__ == "__main__":
    main()
