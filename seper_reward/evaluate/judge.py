"""Agreement of a judge and other scores with people on whether a response states the gold answer.

The scores are the judge's, lexical match, token F1, cosine similarity of embeddings and BERTScore (SePer,
arXiv:2503.01478, Table 1). Human verdicts come from EVOUNA (Wang et al., arXiv:2305.12421) or from the user's files.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seper_reward.batching import measure_shared
from seper_reward.command import Record, by_name, reporting
from seper_reward.data.rows import BadRowError, read_valid_rows
from seper_reward.data.splits import split_of
from seper_reward.estimators.utility import SUPPORTS
from seper_reward.evaluate.similarity import SIMILARITIES, load_similarity
from seper_reward.judge.extract import extract_answer
from seper_reward.judge.judge import Judge
from seper_reward.judge.support import Stated, mutual_supports
from seper_reward.options import JudgeEvaluationOptions
from seper_reward.reports.figures import new_figure, save_figure
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.runtime.imports import need
from seper_reward.runtime.memory import in_batches
from seper_reward.scorer import load_judge
from seper_reward.statistics import mean_or_none
from seper_reward.types import Pair

_NAME = "evaluate judge"
_TWO_VALUES = {"lexical": 0.5}  # fixed thresholds of scores that are 0 or 1
_HALF_PAID, _PAID = 0.5, 0.05
_CHUNK = 512  # verdicts that are judged together
_BINS = 10  # of equal width, of the reliability table; the last includes 1
EVOUNA_SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")


@dataclass(frozen=True)
class Verdict:
    """A person's verdict on whether a response states one of the gold answers."""

    question: str
    answers: tuple[str, ...]  # aliases of the gold answer
    response: str
    equivalent: bool  # whether the response states the answer, by the person
    column: str = "response"  # column of the results that the verdict counts in


@dataclass(frozen=True)
class Column:
    """Agreement on some verdicts by method, in %; ``None`` for a method without scores."""

    n: int  # verdicts
    f1: Mapping[str, float | None]
    accuracy: Mapping[str, float | None]

    def cell(self, method: str) -> str:
        """Return F1 and accuracy of a method as a cell of a table."""
        f1, accuracy = self.f1[method], self.accuracy[method]
        return "–" if f1 is None else f"{f1:.1f} / {accuracy:.1f}"


@dataclass(frozen=True)
class Agreement(Record):
    """Agreement of scores with people's verdicts."""

    columns: Mapping[str, Column]
    thresholds: Mapping[str, float]  # least score of a response that counts as equivalent, by method
    calibration: Mapping[str, Any]  # of the entailment probabilities
    # means of the entailment over `wrong` and `right` responses; None without such responses
    support: Mapping[str, float | None]
    # by column, of the reported `right` and `wrong` responses the share `missed` by labels (support below .5) and by
    # rewards (`unpaid`, below .5), and the share `passed` by labels (above .5) and by rewards (`paid`, above .05)
    errors: Mapping[str, Mapping[str, float | None]]

    def table(self) -> str:
        """Return F1 and accuracy by column and method as Markdown."""
        rows = [[name, column.n, *map(column.cell, self.thresholds)] for name, column in self.columns.items()]
        thresholds = ", ".join(f"{name} {value:.2f}" for name, value in self.thresholds.items())
        error = f"expected calibration error {self.calibration['ece']:.3f}"
        table = markdown_table(["verdicts of people", "n", *self.thresholds], rows)
        support = ", ".join(f"{value:.3f} of {name}" for name, value in self.support.items() if value is not None)
        text = f"{table}\n\nF1 / accuracy in %; thresholds: {thresholds}; {error}; mean support {support} responses"
        errors = [
            [name, *(shares[key] if key in ("right", "wrong") else cell(shares[key]) for key in _ERRORS)]
            for name, shares in self.errors.items()
        ]
        return f"{text}\n\n{markdown_table(['share', *_ERRORS.values()], errors)}"

    def plot(self, path: Path) -> None:
        """Plot F1 by column and method, and the reliability of the entailment probabilities."""
        figure = new_figure(11, 5)
        bars, curve = figure.subplots(1, 2)
        step = 0.8 / len(self.thresholds)
        for place, name in enumerate(self.thresholds):
            heights = [math.nan if (f1 := column.f1[name]) is None else f1 for column in self.columns.values()]
            places = [at + step * (place - (len(self.thresholds) - 1) / 2) for at in range(len(self.columns))]
            bars.bar(places, heights, width=0.95 * step, label=name)
        bars.set_xticks(range(len(self.columns)), list(self.columns))
        bars.set_ylabel("F1 against human verdicts, %")
        bars.legend(ncols=4, loc="lower center", fontsize=8)
        table = self.calibration["reliability"]
        curve.plot([0, 1], [0, 1], color="#d5d8dc")
        points = [bucket["mean_probability"] for bucket in table], [bucket["share_true"] for bucket in table]
        curve.plot(*points, color="#4c9f70")
        areas = [10 + 300 * bucket["n"] / sum(other["n"] for other in table) for bucket in table]
        curve.scatter(*points, s=areas, color="#4c9f70")
        curve.set_xlabel("entailment probability (area: number of responses)")
        curve.set_ylabel("share that people call equivalent")
        curve.set_title(f"expected calibration error {self.calibration['ece']:.3f}", fontsize=10)
        save_figure(figure, path)


def command(config: JudgeEvaluationOptions) -> str:
    """Run ``seper-reward evaluate judge``."""
    verdicts = [
        replace(verdict, column=f"{name}, {verdict.column}") if len(config.file) > 1 else verdict
        for name, file in by_name(config.file).items()
        for verdict in read_verdicts(file)
    ]
    with reporting(_NAME, config) as report:
        judge = Judge(load_judge(config))
        report(equivalence(judge, verdicts, threshold=config.threshold, verbatim=config.verbatim))
    return f"seper-reward label --judge {config.judge} --input QUESTIONS.jsonl"


def read_verdicts(path: str | Path, column_by: str = "system") -> list[Verdict]:
    """Read rows of ``{question, answers, response, equivalent}``, or EVOUNA's rows except ``improper`` ones.

    ``column_by`` is the field with the name of a row's column in the results (default ``response``). Raises
    ``BadRowError`` with file, row and field for an unusable row, ``ValueError`` without verdicts.
    """
    verdicts: list[Verdict] = []
    for where, row in read_valid_rows(path):
        try:
            verdicts += _evouna(row) if "golden_answer" in row else [_own(row, column_by)]
        except BadRowError as error:
            raise BadRowError(f"{where}: {error}") from error
    if not verdicts:
        raise ValueError(f"{path}: expected rows with verdicts, got none")
    return verdicts


def equivalence(
    judge: Judge,
    verdicts: Sequence[Verdict],
    *,
    threshold: float | None = None,
    verbatim: bool = False,
) -> Agreement:
    """Compare scores with human verdicts, column by column (SePer, arXiv:2503.01478, Table 1); processes share them.

    A score is that of the alias that the response entails most; ``verbatim``, its entailment is the model's alone, but
    rewards keep their rules. ``threshold``, in (0, 1], is the least score of an
    equivalent response; ``None`` uses, per method, that with the best F1 over the train split by ``sha1(question)``,
    and reports the test split only. Raises ``ValueError`` if a split has no verdict, or those of the train split are
    all equal.
    """
    fit = [] if threshold is not None else [verdict for verdict in verdicts if split_of(verdict.question) == "train"]
    reported = [verdict for verdict in verdicts if threshold is not None or split_of(verdict.question) == "test"]
    if not reported or (threshold is None and not fit):
        raise ValueError(
            f"expected verdicts in the train and the test split (by sha1 of the question), got {len(fit)} and "
            f"{len(reported)} of {len(verdicts)}; give a fixed threshold to report all of them"
        )
    scores = method_scores(judge, [*fit, *reported], verbatim)
    equivalent = [verdict.equivalent for verdict in fit]
    reported_scores = {name: values[len(fit) :] for name, values in scores.items()}
    thresholds = {
        name: _TWO_VALUES.get(name) or threshold or best_threshold(scores[name][: len(fit)], equivalent)
        for name in reported_scores
    }
    support: dict[bool, list[float]] = {False: [], True: []}
    for verdict, score in zip(reported, reported_scores["entailment"], strict=True):
        support[verdict.equivalent].append(score)
    places = _places(reported)
    return Agreement(
        columns={name: _column(places[name], reported, reported_scores, thresholds) for name in places},
        thresholds={name: round(value, 4) for name, value in thresholds.items()},
        calibration=calibration(reported_scores["entailment"], [verdict.equivalent for verdict in reported]),
        support={name: mean_or_none(support[right]) for name, right in (("wrong", False), ("right", True))},
        errors=error_rates(judge, reported, reported_scores["entailment"]),
    )


#: Fields of ``Agreement.errors`` and their columns.
_ERRORS = {
    "right": "right",
    "missed": "missed by labels",
    "unpaid": "missed by rewards",
    "wrong": "wrong",
    "passed": "passed by labels",
    "paid": "passed by rewards",
}


def error_rates(
    judge: Judge, verdicts: Sequence[Verdict], supported: Sequence[float]
) -> dict[str, dict[str, float | None]]:
    """Return the errors of labels and of rewards by column, and of ``all``; see ``Agreement.errors``.

    Labels use ``supported``, the support of the response, rewards the mutual support of the answer that it states
    last.
    """

    def rewards(chunk: Sequence[Verdict]) -> list[float]:
        return mutual_supports(
            judge, [Stated(verdict.question, extract_answer(verdict.response), verdict.answers) for verdict in chunk]
        )

    paid = measure_shared(verdicts, rewards, "judging rewards", size=_CHUNK, unit="response")
    rates = {}
    for column, places in {"all": range(len(verdicts)), **_places(verdicts)}.items():
        right = [at for at in places if verdicts[at].equivalent]
        wrong = [at for at in places if not verdicts[at].equivalent]
        rates[column] = {
            "right": len(right),
            "missed": mean_or_none([supported[at] < SUPPORTS for at in right]),
            "unpaid": mean_or_none([paid[at] < _HALF_PAID for at in right]),
            "wrong": len(wrong),
            "passed": mean_or_none([supported[at] > SUPPORTS for at in wrong]),
            "paid": mean_or_none([paid[at] > _PAID for at in wrong]),
        }
    return rates


def _places(verdicts: Sequence[Verdict]) -> dict[str, Sequence[int]]:
    """Return the positions of the verdicts in each column."""
    columns: dict[str, list[int]] = {}
    for at, verdict in enumerate(verdicts):
        columns.setdefault(verdict.column, []).append(at)
    return dict(columns)


def method_scores(judge: Judge, verdicts: Sequence[Verdict], verbatim: bool = False) -> dict[str, list[float]]:
    """Return, by method, the score of each response with its best-matching alias, in [0, 1] (cosine: [-1, 1])."""

    def entailment(chunk: Sequence[Verdict]) -> list[float]:
        scores: list[float] = best_alias_probs(judge, chunk, verbatim)[:, 0].tolist()
        return scores

    pairs = [(verdict.response, alias) for verdict in verdicts for alias in verdict.answers]
    by_method = {"entailment": measure_shared(verdicts, entailment, "judging", size=_CHUNK, unit="response")}
    for name in SIMILARITIES:  # fast: each process computes all of them
        similarity = load_similarity(name, judge.model.device)
        scores = itertools.chain.from_iterable(map(similarity, in_batches(pairs, _CHUNK)))
        by_method[name] = [max(next(scores) for _ in verdict.answers) for verdict in verdicts]
    return by_method


def best_alias_probs(judge: Judge, verdicts: Sequence[Verdict], verbatim: bool = False) -> Tensor:
    """Return ``(n, 3)`` probabilities of entailment, neutral and contradiction with the likeliest alias."""
    best: list[Tensor] = []
    for batch in in_batches(verdicts, _CHUNK):
        pairs = [Pair(verdict.question, verdict.response, alias) for verdict in batch for alias in verdict.answers]
        probs = judge.probs(pairs, verbatim=verbatim).rows(pairs)
        groups = torch.split(probs, [len(verdict.answers) for verdict in batch])
        best += [group[group[:, 0].argmax()] for group in groups]
    return torch.stack(best)


def best_threshold(scores: Sequence[float], equivalent: Sequence[bool]) -> float:
    """Return the least score of a response that counts as equivalent with the best F1; ``ValueError`` if all agree."""
    if len(set(equivalent)) < 2:
        raise ValueError(f"a threshold needs verdicts of both kinds, got {len(equivalent)} of one; set the threshold")
    metrics = need("sklearn.metrics", "evaluation")
    precision, recall, thresholds = metrics.precision_recall_curve(equivalent, scores)
    f1 = 2 * precision * recall / (precision + recall).clip(min=1e-12)
    return float(thresholds[f1[:-1].argmax()])


def calibration(probs: Sequence[float], outcomes: Sequence[bool]) -> dict[str, Any]:
    """Return the expected calibration error and the reliability table (Guo et al., arXiv:1706.04599, eq. 3).

    ``ece`` is Σ_b n_b/n · |share of true outcomes − mean probability|; ``reliability`` has ``mean_probability``,
    ``share_true`` and ``n`` of each non-empty bin of ten.
    """
    members: dict[int, list[int]] = {}
    for at, prob in enumerate(probs):
        members.setdefault(min(int(prob * _BINS), _BINS - 1), []).append(at)
    table = [
        {
            "mean_probability": sum(probs[at] for at in places) / len(places),
            "share_true": sum(outcomes[at] for at in places) / len(places),
            "n": len(places),
        }
        for _, places in sorted(members.items())
    ]
    error = sum(bucket["n"] * abs(bucket["share_true"] - bucket["mean_probability"]) for bucket in table) / len(probs)
    return {"ece": round(error, 4), "reliability": [{k: round(v, 4) for k, v in bucket.items()} for bucket in table]}


def _column(
    places: Sequence[int],
    verdicts: Sequence[Verdict],
    scores: Mapping[str, Sequence[float]],
    thresholds: Mapping[str, float],
) -> Column:
    """Return F1 and accuracy of the verdicts at ``places``."""
    metrics = need("sklearn.metrics", "evaluation")
    f1: dict[str, float | None] = {}
    accuracy: dict[str, float | None] = {}
    for method, values in scores.items():
        known = [at for at in places if not math.isnan(values[at])]
        pair = [verdicts[at].equivalent for at in known], [values[at] >= thresholds[method] for at in known]
        f1[method] = round(100 * float(metrics.f1_score(*pair, zero_division=0)), 1) if known else None
        accuracy[method] = round(100 * float(metrics.accuracy_score(*pair)), 1) if known else None
    return Column(len(places), f1, accuracy)


def aliases_of(row: Mapping[str, Any]) -> list[str]:
    """Return the gold answers of a row of EVOUNA."""
    return [alias.strip() for alias in row["golden_answer"].split("/") if alias.strip()]


def _evouna(row: Mapping[str, Any]) -> Iterator[Verdict]:
    if row.get("improper"):
        return
    for name in ("question", "golden_answer"):
        if not isinstance(row.get(name), str) or not row[name].strip(" /"):
            raise BadRowError(f"expected {name!r} as a text, got {row.get(name)!r}; fill it in")
    for system in EVOUNA_SYSTEMS:
        response, verdict = row.get(f"answer_{system}"), row.get(f"judge_{system}")
        if verdict is not None and not isinstance(verdict, bool):
            raise BadRowError(f"expected 'judge_{system}' as true, false or null, got {verdict!r}; repair it")
        if response and verdict is not None:
            yield Verdict(row["question"], tuple(aliases_of(row)), response, verdict, system)


def _own(row: Mapping[str, Any], column_by: str) -> Verdict:
    row = {"equivalent": row.get("right"), "system": row.get("kind"), **row}
    fields = {"question": str, "answers": list, "response": str, "equivalent": bool}
    for name, kind in fields.items():
        if not isinstance(row.get(name), kind):
            raise BadRowError(f"expected {name!r} as {kind.__name__}, got {row.get(name)!r}; fill it in")
    answers = row["answers"]
    if not answers or not all(isinstance(answer, str) and answer.strip() for answer in answers):
        raise BadRowError(f"answers must be a list of at least one text, got {answers!r}; repair or drop it")
    column = "response" if row.get(column_by) is None else str(row[column_by])
    return Verdict(row["question"], tuple(answers), row["response"], row["equivalent"], column)
