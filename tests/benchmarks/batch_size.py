"""What measuring questions side by side saves, by reader.

    python -m tests.benchmarks.batch_size --reader embedded --questions 64

Each question has four passages of about 100 words, each read by itself. Prints the seconds of each batch size in one
run, and their ratio to one question after another.
"""

from collections.abc import Sequence
from dataclasses import replace

from seper_reward import SePerScorer
from seper_reward.types import Asked
from tests.benchmarks.common import CLOCK, clocked, finish, parser, questions


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--judge", default="embedded")
    made.add_argument("--questions", type=int, default=64)
    made.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 4, 16])
    options = made.parse_args(arguments)
    queries = [replace(query, passages=query.passages[:4]) for query in questions(options.questions)]
    asked = [Asked(query.question, query.answers, tuple(query.contexts)) for query in queries]
    scorer = SePerScorer.from_pretrained(options.reader, options.judge)
    scorer.measure(asked[:1])  # the first call is slower
    seconds = {}
    for size in options.batch_sizes:
        spent, _ = clocked(lambda size=size: scorer.measure(asked, size))
        seconds[str(size)] = round(spent[CLOCK], 1)
        print(f"{size} side by side: {seconds[str(size)]} s", flush=True)
    first = next(iter(seconds.values()))
    ratios = {size: round(value / first, 3) for size, value in seconds.items()}
    finish({"clock": CLOCK, "seconds": seconds, "ratio": ratios}, options.json)


if __name__ == "__main__":
    main()
