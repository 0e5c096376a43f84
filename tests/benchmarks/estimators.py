"""How far are estimates of SePer from the truth, at what cost, and do their 95 % intervals hold? (Not a timing alone.)

    python -m tests.benchmarks.estimators --json out.json --plot docs/figures/estimators.svg

First it samples --draws responses per context, at three temperatures of the reader, and keeps them in --folder
(minutes to an hour; a stopped run goes on). Their probabilities are known, so that hardly any mass is left unseen:
this is the truth. Then every estimator gets small samples of the same draws, many times.
"""

import itertools
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm.auto import tqdm

from seper_reward import SePerScorer
from seper_reward.data.inputs import load_input
from seper_reward.data.marks import is_relevant
from seper_reward.data.queries import read_queries
from seper_reward.data.splits import split_of, spread
from seper_reward.estimators.draws import difference, drawn_by_mass, drawn_by_weight, estimate
from seper_reward.estimators.seper import response_weights
from seper_reward.evaluate.correlation import choose_passages
from seper_reward.scorer import beliefs_of
from seper_reward.types import Estimate, Leaf, Pair, Query, Responses, unwrap
from tests.benchmarks.common import CLOCK, SHARED, clocked, finish, parser

TEMPERATURES = (0.7, 1.0, 1.3)
SETS = ("demo", "nq", "popqa")
COUNTS = (1, 2, 3, 5, 10, 20, 40)
# estimators that need the same draws cost the same
COST_OF = {"paper": "uniform", "official": "uniform", "mass": "uniform"}


def queries_of(name: str, count: int) -> list[Query]:
    """Return questions with two passages each, one of them relevant: of the demo, or of a dev split."""
    if name == "demo":
        asked = [query for query in load_input().queries if len(query.passages) > 1]
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
        contexts = unwrap(scorer.reader.responses([query])[0])
        texts = sorted({text for row in contexts for text in row.texts})
        pairs = [Pair(query.question, text, answer) for text in texts for answer in query.answers]
        scores = scorer.judge.probs(pairs).rows(pairs)[:, 0].view(len(texts), -1).amax(1)
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


class Space:
    """All responses that a reader may give in one context, as far as many draws tell.

    What they leave unseen is filled with copies of the responses that were drawn once.
    """

    def __init__(self, leaves: list[list[float]], relevant: bool | None) -> None:
        probs, support, counts, log_probs, lengths = np.array(leaves).T
        probs = probs / max(1.0, probs.sum())
        once = np.flatnonzero(counts == 1)
        copies = []
        unseen = 1.0 - probs.sum()
        for at in itertools.islice(itertools.cycle(once), 5000 if len(once) else 0):
            if unseen < 1e-6:
                break
            copies.append((min(probs[at], unseen), at))
            unseen -= copies[-1][0]
        sources = np.array([*range(len(probs)), *(at for _, at in copies)])
        self.probs = np.array([*probs, *(prob for prob, _ in copies)])
        self.probs /= self.probs.sum()
        self.support, self.log_probs, self.lengths = support[sources], log_probs[sources], lengths[sources]
        self.truth, self.relevant = float(self.probs @ self.support), relevant
        right = np.flatnonzero(self.support > 0.999)  # word for word
        self.gold = int(right[self.probs[right].argmax()]) if len(right) else None

    def drawn(self, places: np.ndarray, *, gold: bool = False) -> Responses:
        """Return draws as a sampler would, each of one token and an end."""
        known = [] if not gold or self.gold is None else [self.gold]
        return Responses(
            texts=tuple(map(str, places)),
            token_log_probs=tuple(
                torch.full((int(self.lengths[at]),), self.log_probs[at] / self.lengths[at]) for at in places
            ),
            token_ids=tuple((int(at), 0) for at in places),
            finished=(True,) * len(places),
            draw_log_probs=tuple(np.log(self.probs[places])),
            known_leaves=tuple(
                Leaf(str(at), (at,), float(np.log(self.probs[at])), float(np.log(self.probs[at])), 0.0) for at in known
            ),
        )

    def estimate(self, name: str, count: int, random: np.random.Generator) -> Estimate:
        """Return what an estimator makes of so many fresh draws."""
        way = ESTIMATORS[name]
        sampled = self.drawn(random.choice(len(self.probs), count, p=self.probs), gold=way.gold)
        if way.weighting == "mass":
            draws = drawn_by_mass(sampled)
        else:
            draws = drawn_by_weight(sampled, response_weights(sampled.token_log_probs, way.weighting))
        values = self.support[[int(text) for text in draws.responses.texts]]
        return estimate(draws, torch.tensor(values))


class Way(NamedTuple):
    """How draws are weighed, and whether the gold answers are known leaves."""

    weighting: str
    gold: bool = False


ESTIMATORS = {
    "uniform": Way("uniform"),
    "paper": Way("sequence"),
    "official": Way("mean_token"),
    "mass": Way("mass"),
    "mass_and_gold": Way("mass", gold=True),
}


def compare(spaces: list[list[Space]], counts: Sequence[int], repeats: int) -> dict[str, Any]:
    """Return errors, coverage of the 95 % intervals and agreement with marks, by number of draws and estimator."""
    found: dict[str, Any] = {}
    for count, name in tqdm(list(itertools.product(counts, ESTIMATORS)), desc="estimating"):
        random = np.random.default_rng(0)
        errors, held, delta_held, width, pearson = [], [], [], [], []
        for _ in range(repeats):
            deltas, marks = [], []
            for contexts in spaces:
                baseline, *others = [(space, space.estimate(name, count, random)) for space in contexts]
                for space, one in (baseline, *others):
                    errors.append(one.value - space.truth)
                    held.append(one.low <= space.truth + 1e-9 and space.truth - 1e-9 <= one.high)
                    width.append(one.high - one.low)
                for space, one in others:
                    delta, truth = difference(one, baseline[1]), space.truth - baseline[0].truth
                    delta_held.append(delta.low <= truth + 1e-9 and truth - 1e-9 <= delta.high)
                    deltas.append(delta.value)
                    marks.append(float(bool(space.relevant)))
            pearson.append(np.corrcoef(deltas, marks)[0, 1])
        found.setdefault(str(count), {})[name] = {
            "mse": float(np.mean(np.square(errors))),
            "coverage_seper": round(float(np.mean(held)), 3),
            "coverage_delta_seper": round(float(np.mean(delta_held)), 3),
            "width": round(float(np.mean(width)), 3),
            "pearson": round(float(np.mean(pearson)), 4),
        }
    return found


def seconds(count: int = 4) -> dict[str, dict[str, float]]:
    """Return processor seconds per context, sampled and judged, by number of draws and estimator, in turn."""
    queries = queries_of("demo", count)
    base = SePerScorer.from_pretrained()
    spent: dict[str, dict[str, float]] = {}
    for draws, (name, way) in itertools.product(COUNTS, ESTIMATORS.items()):
        if name in COST_OF:
            continue
        scorer = base.with_sampling(num_samples=draws)

        def act(scorer: SePerScorer = scorer, gold: bool = way.gold) -> None:
            for query in queries:
                known = query.answers if gold else ()
                responses = unwrap(scorer.reader.responses([query], [known])[0])
                beliefs_of(
                    scorer.judge, scorer.estimator, [(query.question, query.answers, each) for each in responses]
                )

        times = [clocked(act)[0][CLOCK] for _ in range(3)]
        contexts = sum(len(query.contexts) for query in queries)
        spent.setdefault(str(draws), {})[name] = round(statistics.median(times) / contexts, 4)
    return spent


def main(words: list[str] | None = None) -> None:
    """Sample, then compare the estimators."""
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=12, help="questions of each set, three contexts each")
    made.add_argument("--draws", type=int, default=400, help="responses per context that stand for the truth")
    made.add_argument("--repeats", type=int, default=20, help="how often each context is drawn anew")
    made.add_argument("--folder", default="runs/estimators", help="where draws are kept")
    made.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    made.add_argument("--plot", help="image file: error over cost, by estimator")
    options = made.parse_args(words)
    spaces: list[list[Space]] = []
    for temperature in TEMPERATURES:
        scorer = SePerScorer.from_pretrained(num_samples=options.draws, temperature=temperature)
        for name in options.sets:
            file = sample(scorer, name, options.questions, Path(options.folder))
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            spaces += [[Space(each["leaves"], each["relevant"]) for each in row["contexts"]] for row in rows]
    found = compare(spaces, COUNTS, options.repeats)
    base = found["10"]["uniform"]["mse"]
    result = {
        "relative_mse": {name: round(row["mse"] / base, 3) for name, row in found["10"].items()},
        "relative_mse_at_5": {name: round(row["mse"] / base, 3) for name, row in found["5"].items()},
        "coverage": {
            kind: {name: row[f"coverage_{kind}"] for name, row in found["10"].items()}
            for kind in ("seper", "delta_seper")
        },
        "pearson": {count: {name: row["pearson"] for name, row in found[count].items()} for count in ("5", "10")},
        "seconds_per_context": seconds(),
        "all": found,
        "contexts": sum(map(len, spaces)),
        "settings": vars(options),
    }
    finish(result, options.json)
    if options.plot:
        _plot(result, Path(options.plot))


def _plot(result: dict[str, Any], path: Path) -> None:
    """Draw the root mean squared error over N, and over processor seconds, by estimator."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for name in ESTIMATORS:
        errors = [math.sqrt(result["all"][str(count)][name]["mse"]) for count in COUNTS]
        left.plot(COUNTS, errors, marker=".", label=name.replace("_", " "))
        spent = [result["seconds_per_context"][str(count)].get(COST_OF.get(name, name)) for count in COUNTS]
        right.plot(spent, errors, marker=".")
    for axis, label in ((left, "N"), (right, f"{CLOCK} seconds per context")):
        axis.set(xlabel=label, xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    left.set_ylabel("root mean squared error of SePer")
    left.legend(fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    main()
