"""What does it cost to draw N distinct responses instead of N independent ones, and how much do they cover?

    python -m tests.benchmarks.without_replacement

Prompts of the demo's questions, alone and with each of their passages, a question at a time; all ways in turn in one
process. Prints processor seconds (wall seconds on an accelerator) of independent draws, of draws without replacement,
the same with the gold answers' probabilities as known leaves, and of these read apart; ratios to independent draws;
wall seconds by stage; and the probability that the N responses cover, as a mean over prompts.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seper_reward import ResponseSampler
from seper_reward.data.queries import read_examples
from seper_reward.reader.loading import reader_defaults
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.reader.sampler import ReaderOptions
from seper_reward.runtime.profiling import profiling
from seper_reward.types import Responses
from tests.benchmarks.common import CLOCK, clocked, finish, parser
from tests.helpers import rebuilt


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--layout", help="how the samples of a prompt share its reading; not given: the reader's own")
    made.add_argument("--questions", type=int, default=4)
    made.add_argument("--samples", type=int, nargs="+", default=[10])
    made.add_argument("--rounds", type=int, default=3)
    options = made.parse_args(arguments)
    defaults = reader_defaults(options.reader)
    sampler = ResponseSampler.from_pretrained(
        options.reader,
        ReaderOptions(layout=options.layout),
        temperature=defaults.temperature,
        max_new_tokens=defaults.max_new_tokens,
    )
    builder = PromptBuilder(sampler.tokenizer, defaults.prompt, max_prompt_tokens=sampler.max_prompt_tokens)
    examples, _ = read_examples("demo")
    chosen = examples.queries[:: len(examples.queries) // options.questions][: options.questions]
    units = []
    for query in chosen:
        texts = [builder.response_text(answer) for answer in query.answers]
        units.append({builder.build(query.question, passages): texts for passages in query.contexts})
    result = {f"samples_{count}": measured(sampler, units, count, options.rounds) for count in options.samples}
    finish({**result, "clock": CLOCK, "prompts": sum(map(len, units)), "settings": vars(options)}, options.json)


def measured(
    sampler: ResponseSampler, units: Sequence[Mapping[str, Sequence[str]]], count: int, rounds: int
) -> dict[str, object]:
    usual, distinct = (
        rebuilt(sampler, num_samples=count, draw=draw, layout=sampler.layout)
        for draw in ("independent", "without_replacement")
    )
    ways: dict[str, Callable[[Mapping[str, Sequence[str]]], Any]] = {
        "independent": lambda unit: usual.sample([*unit]),
        "without_replacement": lambda unit: distinct.sample([*unit]),
        "with_known_leaves": lambda unit: distinct.sample([*unit], given=unit),
        "leaves_apart": lambda unit: distinct.leaves(
            [prompt for prompt, texts in unit.items() for _ in texts], [*itertools.chain(*unit.values())]
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    stages: dict[str, dict[str, float]] = {}
    covered: dict[str, float] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            with profiling() as profile:
                spent, found = clocked(lambda way=way: [row for unit in units for row in way(unit)])
            seconds[name].append(spent[CLOCK])
            if name in ("independent", "without_replacement"):
                stages[name] = {stage: round(profile.seconds[stage], 2) for stage in ("prefill", "decode", "draw")}
                covered[name] = round(statistics.fmean(map(mass, found)), 3)
    return {
        "ratio": {name: ratio(each, seconds["independent"]) for name, each in seconds.items()},
        "seconds": {name: round(statistics.median(each), 2) for name, each in seconds.items()},
        "wall_seconds_by_stage": stages,
        "probability_covered": covered,
    }


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Return the median over rounds of one time over another."""
    return round(statistics.median(one / other for one, other in zip(slow, fast, strict=True)), 2)


def mass(responses: Responses) -> float:
    """Return the probability of the distinct responses."""
    return sum(map(math.exp, dict(zip(responses.token_ids, responses.draw_log_probs, strict=True)).values()))


if __name__ == "__main__":
    main()
