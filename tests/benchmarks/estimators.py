"""How far are estimates of SePer from the truth, and do their 95 % intervals hold? (No timing.)

    python -m tests.benchmarks.estimators --json out.json

First it samples --draws responses per context, at three temperatures of the reader, and keeps them in --folder
(minutes to an hour; a stopped run goes on). Their probabilities are known, so that hardly any mass is left unseen:
this is the truth. Then every estimator gets small samples of the same draws, many times.
"""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from seper_reward import SePerScorer
from seper_reward.baselines.correlation import choose_passages
from seper_reward.data.inputs import load_input
from seper_reward.data.marks import is_relevant
from seper_reward.data.queries import read_queries
from seper_reward.data.splits import split_of, spread
from seper_reward.estimators.draws import difference, drawn_by_mass, drawn_by_weight, estimate
from seper_reward.estimators.seper import response_weights
from seper_reward.types import Estimate, Leaf, Pair, Query, Responses, unwrap
from tests.benchmarks.common import NQ, SHARED, finish, parser

TEMPERATURES = (0.7, 1.0, 1.3)
SETS = {"demo": None, "nq": NQ, "popqa": SHARED / "qa" / "popqa.jsonl.gz"}
COUNTS = (1, 5, 10, 20)
#: How draws are weighed, and whether the gold answers are known leaves.
ESTIMATORS = {
    "uniform": ("uniform", False),
    "paper": ("sequence", False),
    "official": ("mean_token", False),
    "mass": ("mass", False),
    "mass_and_gold": ("mass", True),
}


def queries_of(name: str, count: int) -> list[Query]:
    """Return questions with two passages each, one of them relevant: of the demo, or of a dev split."""
    file = SETS[name]
    asked = load_input().queries if file is None else read_queries(file).queries
    usable = [
        query
        for query in asked
        if sum(map(is_relevant, query.passages)) == 1
        and len(query.passages) > 1
        and (file is None or split_of(query.id) == "dev")
    ]
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
        with file.open("a") as out:
            out.write(
                json.dumps({"id": query.id, "contexts": [list(_leaves(row, support)) for row in contexts]}) + "\n"
            )
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

    def __init__(self, leaves: list[list[float]], hard: bool) -> None:
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
        right = np.flatnonzero(self.support > 0.999)  # word for word
        self.gold = [int(right[self.probs[right].argmax()])] if len(right) else []
        if hard:
            self.support = (self.support >= 0.5).astype(float)
        self.truth = float(self.probs @ self.support)

    def estimate(self, name: str, count: int, random: np.random.Generator) -> Estimate:
        """Return what an estimator makes of so many fresh draws, each of one token and an end."""
        weighting, gold = ESTIMATORS[name]
        places = random.choice(len(self.probs), count, p=self.probs)
        sampled = Responses(
            texts=tuple(map(str, places)),
            token_log_probs=tuple(
                torch.full((int(self.lengths[at]),), self.log_probs[at] / self.lengths[at]) for at in places
            ),
            token_ids=tuple((int(at), 0) for at in places),
            finished=(True,) * count,
            draw_log_probs=tuple(np.log(self.probs[places])),
            known_leaves=tuple(
                Leaf(str(at), (at,), float(np.log(self.probs[at])), float(np.log(self.probs[at])), 0.0)
                for at in (self.gold if gold else ())
            ),
        )
        if weighting == "mass":
            draws = drawn_by_mass(sampled)
        else:
            draws = drawn_by_weight(sampled, response_weights(sampled.token_log_probs, weighting))
        return estimate(draws, torch.tensor(self.support[[int(text) for text in draws.responses.texts]]))


def compare(questions: list[list[Space]], repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return squared errors, coverage of the 95 % intervals, their width, and the spread over repeats.

    They are by number of draws and estimator. Coverage ``to_.001`` also counts intervals that miss the truth by .001
    at most: in wrong contexts the judge's probabilities, and so the truth, are about 1e-6. The spread is the standard
    deviation of a context's estimates (the root of its mean square over contexts), ``cv`` divides it by the mean
    estimate (SePer, Table 4).
    """
    compared: dict[str, dict[str, dict[str, float]]] = {}
    for count, name in tqdm(list(itertools.product(COUNTS, ESTIMATORS)), desc="estimating"):
        random = np.random.default_rng(0)
        values, errors, misses, delta_misses, width = [], [], [], [], []
        for _, contexts in itertools.product(range(repeats), questions):
            estimates = [space.estimate(name, count, random) for space in contexts]
            for space, one in zip(contexts, estimates, strict=True):
                values.append(one.value)
                errors.append(one.value - space.truth)
                misses.append(_distance(one, space.truth))
                width.append(one.high - one.low)
                if space is not contexts[0]:  # which is the question alone
                    delta_misses.append(_distance(difference(one, estimates[0]), space.truth - contexts[0].truth))
        spread_of_repeats = float(np.sqrt(np.reshape(values, (repeats, -1)).var(0, ddof=1).mean()))
        compared.setdefault(str(count), {})[name] = {
            "mse": float(np.mean(np.square(errors))),
            "coverage_seper": _coverage(misses),
            "coverage_delta_seper": _coverage(delta_misses),
            "coverage_seper_to_.001": _coverage(misses, 1e-3),
            "coverage_delta_seper_to_.001": _coverage(delta_misses, 1e-3),
            "width": round(float(np.mean(width)), 3),
            "spread": round(spread_of_repeats, 3),
            "cv": round(spread_of_repeats / float(np.mean(values)), 3),
        }
    return compared


def _distance(one: Estimate, truth: float) -> float:
    """Return how far the truth is outside the interval, at most 0 within."""
    return max(one.low - truth, truth - one.high)


def _coverage(misses: list[float], tolerance: float = 1e-9) -> float:
    return round(float(np.mean(np.array(misses) <= tolerance)), 3)


def main(words: Sequence[str] | None = None) -> None:
    """Sample, then compare the estimators."""
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=12, help="questions of each set, three contexts each")
    made.add_argument("--draws", type=int, default=400, help="responses per context that stand for the truth")
    made.add_argument("--repeats", type=int, default=20, help="how often each context is drawn anew")
    made.add_argument("--folder", default="runs/estimators", help="where draws are kept")
    made.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    options = made.parse_args(words)
    rows: list[dict[str, Any]] = []
    for temperature in TEMPERATURES:
        scorer = SePerScorer.from_pretrained(num_samples=options.draws, temperature=temperature)
        for name in options.sets:
            file = sample(scorer, name, options.questions, Path(options.folder))
            rows += [json.loads(line) for line in file.read_text().splitlines()]
    soft, hard = ([[Space(leaves, kind) for leaves in row["contexts"]] for row in rows] for kind in (False, True))
    compared = compare(soft, options.repeats)
    base = compared["10"]["uniform"]["mse"]
    for measures in itertools.chain.from_iterable(by_estimator.values() for by_estimator in compared.values()):
        measures["relative_mse"] = round(measures["mse"] / base, 3)
    result = {**compared, "hard": compare(hard, options.repeats), "settings": vars(options)}
    finish({"contexts": sum(map(len, soft)), **result}, options.json)


if __name__ == "__main__":
    main()
