"""How much faster are likelihoods of answers with what prompts have in common read once?

    python -m tests.benchmarks.answer_log_probs

Prompts of a question of the demo, alone and with each of its passages, with one and several aliases. Prints the ratio
of the time of reading each prompt for each alias to that of reading their common start once and each prompt once,
measured in turn in one process, and how far the results differ.
"""

import functools
import statistics

from seper_reward.data.inputs import load_input
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import reader_defaults
from seper_reward.reader.prompts import PromptBuilder
from tests.benchmarks.common import clocked, finish, parser
from tests.helpers import rebuilt

REPEATS = 3
ALIASES = ["Ann Lee", "Ann B. Lee", "Mrs Lee", "Lee"]


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded")
    options = made.parse_args()
    shared = ResponseSampler.from_pretrained(options.reader)
    unshared = rebuilt(shared, layout="alone")
    defaults = reader_defaults(options.reader)
    builder = PromptBuilder(shared.tokenizer, defaults.prompt, max_prompt_tokens=shared.max_prompt_tokens)
    query = load_input().queries[0]
    prompts = [builder.build(query.question, passages) for passages in query.contexts]
    texts = list(map(builder.response_text, ALIASES))
    result = {}
    for count in (1, 2, 4):
        pairs = [(prompt, text) for prompt in prompts for text in texts[:count]]
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
    finish({**result, "prompts": len(prompts)}, options.json)


if __name__ == "__main__":
    main()
