"""How far are estimates of SePer from the truth, at what cost, and do their 95 % intervals hold? (Not a timing alone.)

    python -m tests.benchmarks.estimators --json out.json --plot docs/figures/estimators.svg

First it samples --draws responses per context, at three temperatures of the reader, and keeps them in --folder
(minutes to an hour; a stopped run goes on). Their probabilities are known, so that hardly any mass is left unseen:
this is the truth. Then every estimator gets small samples of the same draws, many times.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from seper_reward import SePerScorer
from seper_reward.data.marks import is_relevant
from seper_reward.data.queries import read_examples, read_queries
from seper_reward.data.splits import split_of, spread
from seper_reward.evaluation.correlation import choose_passages
from seper_reward.types import Query, Responses
from tests.benchmarks.common import SHARED, finish, parser

TEMPERATURES = (0.7, 1.0, 1.3)
SETS = ("demo", "nq", "popqa")


def queries_of(name: str, count: int) -> list[Query]:
    """Return questions with two passages each, one of them relevant: of the demo, or of a dev split."""
    if name == "demo":
        asked = [query for query in read_examples("demo", None)[0].queries if len(query.passages) > 1]
    else:
        file = {"nq": "nq_oracle_bm25neg", "popqa": "popqa"}[name]
        asked = read_queries(SHARED / "qa" / f"{file}.jsonl.gz").queries
        asked = [query for query in asked if split_of(query.id) == "dev"]
    usable = [query for query in asked if sum(map(is_relevant, query.passages)) == 1 and len(query.passages) > 1]
    return [choose_passages(query, 2) for query in spread(usable, count)]


def sample(scorer: SePerScorer, name: str, count: int, folder: Path) -> Path:
    """Draw many responses for each context of a set, judge them, and write a line per question; return the file."""
    options = scorer.sampler.options
    file = folder / f"{name}-{options.temperature:g}-{options.num_samples}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    done = {json.loads(line)["id"] for line in file.read_text().splitlines()} if file.is_file() else set()
    for query in tqdm(queries_of(name, count), desc=file.stem, unit="question"):
        if query.id in done:
            continue
        contexts = scorer.reader.responses(query.question, query.contexts)
        texts = sorted({text for row in contexts for text in row.texts})
        pairs = [(text, answer) for text in texts for answer in query.answers]
        scores = scorer.entailment.score(pairs, [query.question] * len(pairs)).view(len(texts), -1).amax(1)
        support = dict(zip(texts, scores.tolist(), strict=True))
        marks = [None, *map(is_relevant, query.passages)]
        rows = [
            {"relevant": mark, "leaves": list(_leaves(row, support))}
            for mark, row in zip(marks, contexts, strict=True)
        ]
        with file.open("a") as out:
            out.write(json.dumps({"id": query.id, "contexts": rows}) + "\n")
    return file


def _leaves(sampled: Responses, support: dict[str, float]) -> Iterator[list[float]]:
    """Yield of each distinct response: its probability, support of the answer, count, log-probability and length.

    The probability is that of the draw, the log-probability that of the model.
    """
    known: dict[tuple[int, ...], list[float]] = {}
    for at, token_ids in enumerate(sampled.token_ids):
        prob, text = math.exp(sampled.draw_log_probs[at]), sampled.texts[at]
        known.setdefault(token_ids, [prob, support[text], 0, sampled.log_probs[at], len(token_ids)])[2] += 1
    yield from known.values()


def main(words: list[str] | None = None) -> None:
    """Sample, then compare the estimators."""
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=12, help="questions of each set, three contexts each")
    made.add_argument("--draws", type=int, default=400, help="responses per context that stand for the truth")
    made.add_argument("--folder", default="runs/estimators", help="where draws are kept")
    options = made.parse_args(words)
    files: dict[str, Any] = {}
    for temperature in TEMPERATURES:
        scorer = SePerScorer.from_pretrained(num_samples=options.draws, temperature=temperature)
        for name in SETS:
            files[f"{name} {temperature:g}"] = sample(scorer, name, options.questions, Path(options.folder))
    finish({}, options.json)


if __name__ == "__main__":
    main()
