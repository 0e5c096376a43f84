"""What the filters of noisy labels let through, and what intervals over seeds cover. (No timing: simulations.)

    python -m tests.benchmarks.label_noise --json runs/label_noise.json

Readers are simulated: a response supports the gold answer by about .95 or .05, and how often it does which is the
truth about a passage. So the true label is known, N responses give a label and its standard error as for real ones,
and each filter is asked. The differences of trained systems are simulated likewise, from a true lead of 0.
"""

import functools
import statistics
from collections.abc import Callable, Sequence

import numpy as np
import torch

from seper_reward.estimators.draws import drawn_by_weight, estimate
from seper_reward.labels.heterogeneity import heterogeneity_p_value, shrunk
from seper_reward.labels.targets import informative
from seper_reward.statistics import interval_over_questions
from seper_reward.types import LabeledQuery, Passage, Query, Responses
from tests.benchmarks.common import finish, parser
from tests.benchmarks.experiments.seeds import interval_over_questions_and_seeds

RIGHT, WRONG, JITTER = 0.95, 0.05, 0.03  # support by right and by wrong responses, and its standard deviation
MIN_SPREAD = 0.05
P_VALUES = (0.05, 0.1, 0.2)
QUESTION_SD = 0.07  # of the differences between two systems' SePer, question by question

Truth = Callable[[np.random.Generator, int], np.ndarray]  # P passages: how often a response supports the answer


def _equal(share: float) -> Truth:
    return lambda random, passages: np.full(passages, share)


def _small(random: np.random.Generator, passages: int) -> np.ndarray:
    return (random.uniform(0.1, 0.7) + random.normal(0, 0.08, passages)).clip(0.01, 0.99)


def _one_helps(random: np.random.Generator, passages: int) -> np.ndarray:
    shares = np.full(passages, random.uniform(0.05, 0.5))
    shares[0] = min(shares[0] + random.uniform(0.2, 0.7), 0.99)
    return shares


def _clear(random: np.random.Generator, passages: int) -> np.ndarray:
    shares = random.beta(1, 20, passages)
    shares[0] = random.beta(20, 1)
    return shares


TRUTHS: dict[str, Truth] = {
    "all equal, .05": _equal(0.05),
    "all equal, .2": _equal(0.2),
    "all equal, .5": _equal(0.5),
    "small differences (sd .08)": _small,
    "one passage helps by .2 to .7": _one_helps,
    "one passage helps by about .9": _clear,
}
# standard deviations over seeds of two systems, and of what a seed does to a single question
SEEDS = [(0.006, 0.006, 0.0), (0.006, 0.006, 0.07), (0.027, 0.006, 0.0), (0.027, 0.006, 0.07), (0.027, 0.027, 0.0)]


def simulate(
    truth: Truth, random: np.random.Generator, *, passages: int = 8, samples: int = 10
) -> tuple[LabeledQuery, list[float]]:
    """Return a question with labels measured on so many samples, and its true labels."""
    shares = np.array([random.uniform(0.05, 0.5), *truth(random, passages)])  # (1 + P,), the baseline first
    right = random.random((len(shares), samples)) < shares[:, None]
    support = (np.where(right, RIGHT, WRONG) + random.normal(0, JITTER, right.shape)).clip(0, 1)  # (1 + P, N)
    # of the responses nothing is known but what they say
    draws = drawn_by_weight(Responses(tuple(map(str, range(samples))), ()), torch.full((samples,), 1 / samples))
    baseline_error, *errors = (estimate(draws, torch.tensor(row)).std_error for row in support)
    baseline, *beliefs = support.mean(axis=1)
    labeled = LabeledQuery(
        Query("q", "Who?", ("Ann",), (Passage("x"),) * passages),
        tuple(float(belief - baseline) for belief in beliefs),
        tuple(float(np.hypot(error, baseline_error)) for error in errors),
        baseline_error,
    )
    return labeled, list(WRONG + (RIGHT - WRONG) * (shares[1:] - shares[0]))


def filters(truth: Truth, questions: int, *, passages: int = 8, samples: int = 10, seed: int = 0) -> dict[str, float]:
    """Return the share of questions that each filter lets through, and what shrinking does to the error of the labels.

    ``squared_error_shrunk`` is the mean squared error of the labels' differences from their question's mean, after
    shrinking and relative to that before.
    """
    random = np.random.default_rng(seed)
    drawn = [simulate(truth, random, passages=passages, samples=samples) for _ in range(questions)]
    p_values = [heterogeneity_p_value(labeled) for labeled, _ in drawn]
    before = statistics.fmean(_squared_error(labeled.labels, true) for labeled, true in drawn)
    after = statistics.fmean(_squared_error(shrunk(labeled).labels, true) for labeled, true in drawn)
    return {
        "min_spread": statistics.fmean(informative(labeled, MIN_SPREAD) for labeled, _ in drawn),
        **{f"heterogeneity_{limit}": statistics.fmean(value <= limit for value in p_values) for limit in P_VALUES},
        "squared_error_shrunk": after / before,
    }


def coverage(
    first_sd: float,
    other_sd: float,
    residual_sd: float,
    trials: int,
    *,
    seeds: int = 3,
    questions: int = 82,
    seed: int = 0,
) -> dict[str, float]:
    """Return how often 95 % intervals of a lead that is truly 0 contain 0, and how wide they are."""
    random = np.random.default_rng(seed)
    covered: dict[str, list[bool]] = {"questions": [], "questions_and_seeds": []}
    widths: dict[str, list[float]] = {name: [] for name in covered}
    for _ in range(trials):
        first, other = (
            random.normal(0, sd, (seeds, 1)) + random.normal(0, residual_sd, (seeds, questions))
            for sd in (first_sd, other_sd)
        )
        first = first + random.normal(0, QUESTION_SD, questions)
        differences = first.mean(axis=0) - other.mean(axis=0)
        mean = functools.partial(_mean_of, differences)
        intervals = {
            "questions": interval_over_questions(mean, questions, resamples=299),
            "questions_and_seeds": interval_over_questions_and_seeds(first, other),
        }
        for name, (low, high) in intervals.items():
            covered[name].append(low <= 0 <= high)
            widths[name].append(high - low)
    return {
        **{name: statistics.fmean(values) for name, values in covered.items()},
        **{f"width_{name}": statistics.fmean(values) for name, values in widths.items()},
    }


def _mean_of(values: np.ndarray, numbers: np.ndarray) -> float:
    return float(values[numbers].mean())


def _squared_error(labels: Sequence[float], true: Sequence[float]) -> float:
    """Return the mean squared error of labels less their mean: a constant in a question changes no ranking loss."""
    mean, true_mean = statistics.fmean(labels), statistics.fmean(true)
    return statistics.fmean(
        (label - mean - (value - true_mean)) ** 2 for label, value in zip(labels, true, strict=True)
    )


def main(argv: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=2000, help="simulated questions per truth")
    made.add_argument("--passages", type=int, default=8)
    made.add_argument("--samples", type=int, default=10)
    made.add_argument("--trials", type=int, default=2000, help="simulated comparisons per kind of seeds")
    made.add_argument("--seeds", type=int, default=3, help="seeds of training")
    made.add_argument("--test_questions", type=int, default=82)
    options = made.parse_args(argv)
    passing = {
        name: filters(truth, options.questions, passages=options.passages, samples=options.samples)
        for name, truth in TRUTHS.items()
    }
    covering = {
        f"sd of seeds {first} and {other}, of a seed's effect on a question {residual}": coverage(
            first, other, residual, options.trials, seeds=options.seeds, questions=options.test_questions
        )
        for first, other, residual in SEEDS
    }
    result = {"settings": {**vars(options)}, "filters": passing, "coverage": covering}
    finish(_rounded(result), options.json)


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
