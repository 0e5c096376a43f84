"""Which way to join the two measures of a passage agrees best with people: ΔSePer and the likelihood of the answer?

    python -m tests.benchmarks.experiments.joined --rows_dir runs/joined --split dev --reader READER --file SET1 SET2
    python -m tests.benchmarks.experiments.joined --rows_dir runs/joined --split test ...

Each run measures the sets that its folder lacks for this reader and split, and prints Pearson's r of every way with
people's marks for all readers and sets in the folder: on dev to choose a way, on test to report it once, with the
difference to ``delta_belief``. If two readers measured a set, it also prints how much the passages that are best by
one reader's labels move the other reader. The ways to join s, the belief by the samples (SePer), and p, the geometric
mean of the probabilities of the answer's tokens, are in ``WAYS``.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from seper_reward.batching import measure_shared
from seper_reward.cli import run
from seper_reward.command import MARKED_HELP, EvaluationConfig, Record, by_name, marked_questions, parse, reporting
from seper_reward.config import load_scorer
from seper_reward.evaluate.contexts import PASSAGES_HELP, baseline_and_contexts, contexts_of, with_passages
from seper_reward.evaluate.measures import Measures
from seper_reward.reports.tables import cell, interval_cell, lead_text, markdown_table
from seper_reward.runtime.json_files import write_lines
from seper_reward.runtime.messages import tell_left_out
from seper_reward.runtime.settings import setting
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import PooledPearson, lead_over_questions, mean, mean_over_questions, rounded_or_none
from seper_reward.types import Query, UnscorableError

_NAME = "tests.benchmarks.experiments.joined"
_DELTA_BELIEF = "half of each (delta_belief)"
_MARKS = "people's marks"
#: Labels that choose contexts; exact match of the responses is eRAG's.
CHOICES = ("delta_belief", "delta_seper_soft", "delta_seper_hard", "answer_log_prob", "exact_match")
_LEAST = 1e-6  # keeps a logit finite


class Reading(NamedTuple):
    """The reader's two beliefs in the answer, each in [0, 1]."""

    s: float
    p: float


def _logit(belief: float) -> float:
    belief = min(max(belief, _LEAST), 1 - _LEAST)
    return math.log(belief / (1 - belief))


def _pooled(reading: Reading) -> float:
    """Return the logarithmic opinion pool of both beliefs, a product of experts with equal weights."""
    return 1 / (1 + math.exp(-(_logit(reading.s) + _logit(reading.p)) / 2))


def _weighted(share: float, moved: Reading, given: Reading) -> float:
    total = moved.p + given.p
    change = (moved.p - given.p) / total if total else 0.0
    return share * (moved.s - given.s) + (1 - share) * change


def _difference(belief: Callable[[Reading], float], moved: Reading, given: Reading) -> float:
    return belief(moved) - belief(given)


#: Gain of a passage from the readings with it and without it.
WAYS: Mapping[str, Callable[[Reading, Reading], float]] = {
    _DELTA_BELIEF: partial(_weighted, 0.5),
    "a quarter of ΔSePer": partial(_weighted, 0.25),
    "three quarters of ΔSePer": partial(_weighted, 0.75),
    "relative change of p alone": partial(_weighted, 0.0),
    "mean of s and p": partial(_difference, lambda reading: (reading.s + reading.p) / 2),
    "s or p": partial(_difference, lambda reading: 1 - (1 - reading.s) * (1 - reading.p)),
    "geometric mean": partial(_difference, lambda reading: math.sqrt(reading.s * reading.p)),
    "product of experts": partial(_difference, _pooled),
    "mean log-odds": partial(_difference, lambda reading: (_logit(reading.s) + _logit(reading.p)) / 2),
    "larger of both": partial(_difference, max),
}


@dataclass
class JoinedConfig(EvaluationConfig):
    """Compare ways to join ΔSePer and the likelihood of the answer by people's marks."""

    file: list[str] = setting([], f"One file or several. {MARKED_HELP}")
    passages_per_question: int | None = setting(4, PASSAGES_HELP)
    rows_dir: str = setting("runs/joined", "Folder of the measurements, a file for each split, reader and set.")


@dataclass(frozen=True)
class Joined(Record):
    """Pearson's r with people's marks.

    Attributes:
        sets: By reader and set, by way or rival: ``pearson``, its ``interval`` over questions, and ``lead``, the
            difference of ``delta_belief`` to it with its interval.
        questions: Number of questions by reader and set.
        mean: Mean of Pearson's r over readers and sets, by way or rival.
        choices: By reader, judging reader and set, what ``choices`` returns.
    """

    sets: Mapping[str, Mapping[str, Mapping[str, Any]]]
    questions: Mapping[str, int]
    mean: Mapping[str, float]
    choices: Mapping[str, Mapping[str, Mapping[str, Any]]]

    def table(self) -> str:
        """Return r by way and set, and the lead of ``delta_belief`` over each."""
        titles = [f"{name} ({count} questions)" for name, count in self.questions.items()]
        order = sorted(self.mean, key=self.mean.__getitem__, reverse=True)
        values = [
            [way, cell(self.mean[way]), *(interval_cell(found[way]) for found in self.sets.values())] for way in order
        ]
        leads = [
            [way, *(interval_cell(found[way]["lead"]) for found in self.sets.values())]
            for way in order
            if way != _DELTA_BELIEF
        ]
        tables = [
            markdown_table(["Pearson with marks", "mean", *titles], values),
            markdown_table(["lead of delta_belief over", *titles], leads),
        ]
        for title, found in self.choices.items():
            rows = [
                [label, interval_cell(row), lead_text(row["lead"]) if "lead" in row else ""]
                for label, row in found.items()
            ]
            tables.append(
                markdown_table([f"ΔSePer of the best passage: {title}", "mean", "lead of delta_belief"], rows)
            )
        return "\n\n".join(tables)


def measured_rows(scorer: SePerScorer, queries: Sequence[Query]) -> list[dict[str, Any]]:
    """Return a row for each context: its relevance, the gains by ``Measures``, and both readings."""
    measures, rows = Measures(scorer, None), []
    measured = measure_shared(
        queries,
        lambda batch: measures.gains(list(map(baseline_and_contexts, batch))),
        "measuring",
        size=scorer.batch_size,
        reader=scorer.reader,
    )
    for number, (query, found) in enumerate(zip(queries, measured, strict=True)):
        if isinstance(found, UnscorableError):
            tell_left_out(query.id, found)
            continue
        given, *moved = (_reading(belief.seper, belief.answer_log_prob) for belief in found.beliefs)
        rows += [
            {"question": number, "relevance": context.relevance, "gains": row, "moved": each, "given": given}
            for context, row, each in zip(contexts_of(query), found.rows, moved, strict=True)
        ]
    return rows


def _reading(seper: float, answer_log_prob: float | None) -> Reading:
    if answer_log_prob is None:
        raise ValueError("the reader must know the probability of the gold answer; take one in this process")
    return Reading(seper, math.exp(answer_log_prob))


def joined(rows_by_name: Mapping[str, Sequence[Mapping[str, Any]]]) -> Joined:
    """Correlate every way, and every rival, with people's marks.

    Args:
        rows_by_name: Rows of ``measured_rows`` by reader and set.
    """
    sets, questions = {}, {}
    for name, rows in rows_by_name.items():
        columns = {
            way: [join(Reading(*row["moved"]), Reading(*row["given"])) for row in rows] for way, join in WAYS.items()
        }
        rivals = [each for each in rows[0]["gains"] if each != "delta_belief"]
        columns |= {rival: [row["gains"].get(rival, math.nan) for row in rows] for rival in rivals}
        numbers = {number: at for at, number in enumerate(dict.fromkeys(row["question"] for row in rows))}
        owner = [numbers[row["question"]] for row in rows]
        pooled = PooledPearson(columns, [row["relevance"] for row in rows], owner)
        questions[name] = len(numbers)
        sets[name] = {way: {**pooled.described(way), "lead": _lead(pooled, way, len(numbers))} for way in columns}
    shared = [way for way in next(iter(sets.values())) if all(way in found for found in sets.values())]
    means = {way: mean([_known(found[way]["pearson"]) for found in sets.values()]) for way in shared}
    readers = [(name, *name.split(", ", 1)) for name in rows_by_name]
    pairs = [
        (f"labels of {reader}, judged by {judge}, {data}", choices(rows_by_name[name], rows_by_name[other]))
        for name, reader, data in readers
        for other, judge, same in readers
        if data == same and reader != judge
    ]
    return Joined(sets, questions, means, dict(pairs))


def choices(
    labelled: Sequence[Mapping[str, Any]], judged: Sequence[Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Let one reader's labels choose a context of each question, and another reader judge it.

    Args:
        labelled: Rows of ``measured_rows`` by the reader that labels.
        judged: Rows of the same contexts by the reader that judges; questions that only one has are left out.

    Returns:
        By label, the ``mean`` ΔSePer of the chosen contexts for the judging reader, with its ``interval`` over
        questions, and the ``lead`` of ``delta_belief``; of equally good contexts, their mean counts. People's marks
        choose as well.
    """
    by_label: dict[str, list[float]] = {label: [] for label in (*CHOICES, _MARKS)}
    judging = _by_question(judged)
    for number, rows in _by_question(labelled).items():
        if number not in judging:
            continue
        gains = [row["gains"]["delta_seper_soft"] for row in judging[number]]
        for label in by_label:
            values = [row["relevance"] if label == _MARKS else row["gains"][label] for row in rows]
            best = [gain for value, gain in zip(values, gains, strict=True) if value == max(values)]
            by_label[label].append(mean(best))
    ours = by_label["delta_belief"]
    return {
        label: {
            **mean_over_questions(values),
            **({} if label == "delta_belief" else {"lead": lead_over_questions(ours, values)}),
        }
        for label, values in by_label.items()
    }


def _by_question(rows: Sequence[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["question"], []).append(row)
    return found


def _known(pearson: float | None) -> float:
    return 0.0 if pearson is None else pearson  # a constant says nothing


def _lead(pooled: PooledPearson, way: str, questions: int) -> dict[str, Any]:
    lead = partial(pooled.lead, _DELTA_BELIEF, way)
    return {"pearson": rounded_or_none(float(lead(range(questions)))), "interval": pooled.interval(lead)}


def command(arguments: list[str]) -> str:
    """Run ``python -m tests.benchmarks.experiments.joined``."""
    config = parse(JoinedConfig, arguments, f"python -m {_NAME}")
    folder = Path(config.rows_dir)
    reader = Path(config.reader).name
    paths = {file: folder / f"{config.split}, {reader}, {name}.jsonl" for name, file in by_name(config.file).items()}
    missing = {file: path for file, path in paths.items() if not path.is_file()}
    with reporting("joined", config) as report:
        scorer = load_scorer(config, config.seed) if missing else None
        for file, path in missing.items():
            assert scorer is not None
            queries = with_passages(marked_questions(config, file), config.passages_per_question)
            folder.mkdir(parents=True, exist_ok=True)
            write_lines(path, measured_rows(scorer, queries))
        found = {path.stem.partition(", ")[2]: path for path in sorted(folder.glob(f"{config.split}, *.jsonl"))}
        if not found:
            raise ValueError(f"{folder}: expected rows of the split {config.split}, got none; give --file")
        report(joined({name: list(map(json.loads, path.read_text().splitlines())) for name, path in found.items()}))
    return "seper-reward label --input QUESTIONS.jsonl --set labeler.label=delta_belief"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return 0, or 2 after a message if the input or a setting is at fault."""
    return run("joined", command, sys.argv[1:] if argv is None else list(argv))


if __name__ == "__main__":
    sys.exit(main())
