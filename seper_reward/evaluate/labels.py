"""Compare finished labels, and rivals without a reader, with human relevance labels, question by question."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seper_reward.command import Record, by_name, reporting
from seper_reward.data.marks import relevance_of
from seper_reward.data.splits import split_of
from seper_reward.evaluate.rivals import answered_before, label_measures
from seper_reward.labels.rows import DELTA_SEPER, labeled_queries, labeler_of, read_label_rows, recommended_label
from seper_reward.labels.targets import GRADES, grade
from seper_reward.options import POSITIVE, LabelsOptions
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.runtime.messages import plural
from seper_reward.statistics import Statistic, mean_or_none, mean_over_questions
from seper_reward.types import LabeledQuery, Passage, Query

_NAME = "evaluate labels"
_HUMAN = "human labels"  # the ceiling of any measure
_MARGINS = (0.2, POSITIVE, 0.4, 0.5)  # least evidence of positives, in the table of positives
#: Columns by the key in the JSON file.
_PARTS = {"within": "AUC within a question", "best": "best is relevant", "seper": "SePer of the best"}


@dataclass(frozen=True)
class Agreement(Record):
    """Agreement of measures of passages with human relevance labels, on the label rows of one folder."""

    # by measure, means over questions: the area under the ROC curve `within` a question, the share of questions whose
    # `best` passage is relevant, and with rows of another reader its `seper` with this passage; ties count equally
    measures: Mapping[str, Mapping[str, Statistic]]
    leads: Mapping[str, Mapping[str, Statistic]]  # by measure, that of `against` in the same numbers
    # by label and margin, `precision` and `recall` of the positives that exports choose, and the share of passages
    # without a mark of relevance that get the `highest` grade
    positives: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    against: str  # the measure whose leads these are
    questions: int
    passages: int
    relevant: int
    known_left_out: int = 0  # questions that the reader knows

    def table(self, name: str = "") -> str:
        """Return the measures from the greatest area to the least, with leads, and the positives."""
        known = f", {self.known_left_out} known ones left out" if self.known_left_out else ""
        about = (
            f"{name}: {plural(self.questions, 'question')}{known}, {plural(self.passages, 'passage')} "
            f"({self.relevant} relevant)"
        )
        positives = [
            [label, *(" / ".join(map(cell, rates.values())) for rates in by_margin.values())]
            for label, by_margin in self.positives.items()
        ]
        header = [
            f"precision / recall / other passages of grade {GRADES}",
            *(f"evidence from {margin:g}" for margin in _MARGINS),
        ]
        return "\n\n".join(
            [about, _measures_table(self.measures, self.leads, self.against), markdown_table(header, positives)]
        )


@dataclass(frozen=True)
class AgreementByFolder(Record):
    """The agreement by folder of labels."""

    folders: Mapping[str, Agreement]

    @property
    def means(self) -> "Agreement":
        """Mean over folders of measures that all folders have; intervals assume that folders are independent."""
        folders = list(self.folders.values())
        measures, leads, positives = (
            _merged([getattr(folder, name) for folder in folders]) for name in ("measures", "leads", "positives")
        )
        counts = [sum(getattr(folder, name) for folder in folders) for name in ("questions", "passages", "relevant")]
        return Agreement(measures, leads, positives, folders[0].against, *counts)

    def as_dict(self) -> dict[str, object]:
        """Return the content of the JSON file, with the means over folders."""
        return {**super().as_dict(), "means": self.means.as_dict()}

    def table(self) -> str:
        """Return the tables of each folder, and the means over folders."""
        tables = [folder.table(name) for name, folder in self.folders.items()]
        if len(self.folders) > 1:
            tables.append(self.means.table(f"mean of {len(self.folders)} folders"))
        return "\n\n".join(tables)


@dataclass(frozen=True)
class MarkedRow:
    """The passages of one label row."""

    query: Query
    relevant: tuple[bool, ...]  # by human labels
    measures: tuple[Mapping[str, float], ...]
    evidence: Mapping[str, Sequence[float]]  # by label, the numbers by which exports choose positives
    seper: tuple[float, ...] = ()  # of another reader with each passage, NaN if unknown


def command(config: LabelsOptions) -> str:
    """Run ``seper-reward evaluate labels``."""
    if config.read_by and len(config.read_by) != len(config.labels):
        raise ValueError(f"read_by needs one folder for each of labels, got {config.read_by} for {config.labels}")
    with reporting(_NAME, config) as report:
        agreements = {}
        others: Sequence[str | None] = config.read_by or [None] * len(config.labels)
        for (name, folder), other in zip(by_name(config.labels).items(), others, strict=True):
            rows = read_label_rows(folder)
            if (labeler := labeler_of(rows.values())) != DELTA_SEPER:
                raise ValueError(
                    f"expected labels of {DELTA_SEPER}, got labels of {labeler}; label with --labeler delta_seper"
                )
            answerable = [labeled for labeled in labeled_queries(rows, DELTA_SEPER) if labeled.query.answers]
            in_split = [labeled for labeled in answerable if config.split in ("all", split_of(labeled.query.id))]
            chosen = [labeled for labeled in in_split if not (config.leave_out_known and answered_before(labeled))]
            if not chosen:
                raise ValueError(f"{folder}: expected questions of the split {config.split}, got none")
            marked = marked_rows(chosen, None if other is None else _seper_by_text(other))
            agreements[name] = agreement(marked, recommended_label(rows.values()), len(in_split) - len(chosen))
        report(AgreementByFolder(agreements))
    return f"seper-reward export --labels {config.labels[0]} --output lists.jsonl"


def marked_rows(
    queries: Sequence[LabeledQuery], read: Mapping[tuple[str, str], float] | None = None
) -> list[MarkedRow]:
    """Return the measures and marks of label rows of ``delta_seper``, and another reader's SePer, by id and text."""
    marked = []
    for labeled, bm25 in zip(queries, bm25_scores([labeled.query for labeled in queries]), strict=True):
        measures, evidence = label_measures(labeled, bm25)
        seper = () if read is None else tuple(read.get(key, math.nan) for key in _keys(labeled.query))
        marked.append(MarkedRow(labeled.query, tuple(relevance_of(labeled.query)), tuple(measures), evidence, seper))
    return marked


def bm25_scores(queries: Sequence[Query]) -> list[list[float]]:
    """Return the BM25 score of each passage of each question, in a corpus of all their passages."""
    numbers: dict[Passage, int] = {}
    for query in queries:
        for passage in query.passages:
            numbers.setdefault(_content(passage), len(numbers))
    retriever = BM25Retriever({str(number): passage for passage, number in numbers.items()})
    by_query = []
    for query in queries:
        scores = retriever.scores(query.question)
        by_query.append([scores[numbers[_content(passage)]] for passage in query.passages])
    return by_query


def agreement(marked: Sequence[MarkedRow], against: str, known_left_out: int = 0) -> Agreement:
    """Compare the measures of ``marked_rows`` with the marks, and the measure ``against`` with all others."""
    names = [
        name
        for name in marked[0].measures[0]
        if not all(math.isnan(measures[name]) for query in marked for measures in query.measures)
    ]
    if against not in names:
        raise ValueError(f"against must be one of {', '.join(names)}, got {against!r}")
    values = {name: [[measures[name] for measures in query.measures] for query in marked] for name in names}
    values[_HUMAN] = [[float(mark) for mark in query.relevant] for query in marked]
    scores = {name: _scores(by_query, marked) for name, by_query in values.items()}
    marks = [mark for query in marked for mark in query.relevant]
    labels = [label for label in marked[0].evidence if all(label in query.evidence for query in marked)]
    return Agreement(
        measures={name: {part: _known(numbers) for part, numbers in parts.items()} for name, parts in scores.items()},
        leads={
            name: {part: _known(scores[against][part] - numbers) for part, numbers in parts.items()}
            for name, parts in scores.items()
            if name != against
        },
        positives={
            label: _positives([value for query in marked for value in query.evidence[label]], marks)
            for label in labels
        },
        against=against,
        questions=len(marked),
        passages=len(marks),
        relevant=sum(marks),
        known_left_out=known_left_out,
    )


def area(values: Sequence[float], relevant: Sequence[bool]) -> float:
    """Return the share of pairs of a relevant and another passage in which the relevant one is ahead; NaN if unknown.

    Ties count half; it is the area under the ROC curve.

    >>> area([0.9, 0.5, 0.5], [False, True, False])
    0.25
    """
    # sums in different order differ in the last digits; without rounding, equal numbers would not be ties
    score, marks = np.array(values, dtype=float).round(9), np.array(relevant, dtype=bool)
    margins = score[marks][:, None] - score[~marks]
    return float((np.sign(margins).mean() + 1) / 2) if margins.size else math.nan


def of_best(values: Sequence[float], gains: Sequence[float]) -> float:
    """Return the mean gain of the passages with the greatest value; NaN if a value or gain is unknown.

    >>> of_best([0.5, 0.9, 0.9], [0, 1, 0])
    0.5
    """
    score = np.array(values, dtype=float).round(9)
    return math.nan if np.isnan(score).any() else float(np.array(gains, dtype=float)[score == score.max()].mean())


def _scores(values: Sequence[Sequence[float]], marked: Sequence[MarkedRow]) -> dict[str, np.ndarray]:
    """Return the numbers of ``_PARTS`` of one measure for each question, NaN if undefined."""
    pairs = list(zip(values, marked, strict=True))
    parts = {
        "within": [area(numbers, query.relevant) for numbers, query in pairs],
        "best": [of_best(numbers, query.relevant) if any(query.relevant) else math.nan for numbers, query in pairs],
        **({"seper": [of_best(numbers, query.seper) for numbers, query in pairs]} if marked[0].seper else {}),
    }
    return {part: np.array(numbers) for part, numbers in parts.items()}


def _measures_table(
    measures: Mapping[str, Mapping[str, Statistic]], leads: Mapping[str, Mapping[str, Statistic]], against: str
) -> str:
    order = sorted(measures, key=lambda name: -(measures[name]["within"].value or 0.0))
    parts = list(measures[order[0]])
    rows = [
        [
            name,
            *(measures[name][part] for part in parts),
            *(leads[name][part] if name in leads else "" for part in parts),
        ]
        for name in order
    ]
    columns = [_PARTS[part] for part in parts]
    return markdown_table(["measure", *columns, *(f"lead of {against}: {column}" for column in columns)], rows)


def _positives(evidence: Sequence[float], relevant: Sequence[bool]) -> dict[str, dict[str, float | None]]:
    """Return precision and recall of the positives from each of ``_MARGINS`` on, and the wrong ones' best grades."""
    by_margin = {}
    for margin in _MARGINS:
        chosen = [mark for value, mark in zip(evidence, relevant, strict=True) if value >= margin]
        others = [grade(value, margin) == GRADES for value, mark in zip(evidence, relevant, strict=True) if not mark]
        by_margin[f"{margin:g}"] = {
            "precision": mean_or_none(chosen),
            "recall": sum(chosen) / sum(relevant) if any(relevant) else None,
            "highest": mean_or_none(others),
        }
    return by_margin


def _known(values: np.ndarray) -> Statistic:
    return mean_over_questions(values[~np.isnan(values)])


def _merged(values: Sequence[Any]) -> Any:
    """Return the means of equal nested mappings, of the keys that all have."""
    if isinstance(values[0], Mapping):
        shared = [key for key in values[0] if all(key in value for value in values)]
        return {key: _merged([value[key] for value in values]) for key in shared}
    return _mean(values) if isinstance(values[0], Statistic) else mean_or_none(values)


def _mean(numbers: Sequence[Statistic]) -> Statistic:
    """Return the mean of independent numbers; half its interval is the root mean square of theirs, over √n."""
    value = mean_or_none(number.value for number in numbers)
    halves = [0.0 if number.interval is None else (number.interval[1] - number.interval[0]) / 2 for number in numbers]
    half = math.hypot(*halves) / len(numbers)
    if value is None or not half:
        return Statistic(value)
    return Statistic(value, [max(-1.0, round(value - half, 4)), min(1.0, round(value + half, 4))])


def _keys(query: Query) -> list[tuple[str, str]]:
    return [(query.id, passage.full_text) for passage in query.passages]


def _seper_by_text(folder: str) -> dict[tuple[str, str], float]:
    """Return the reader's SePer with each passage of a label folder, by the id of the question and the text."""
    queries = labeled_queries(read_label_rows(folder), DELTA_SEPER)
    return {
        key: fields["seper"]
        for labeled in queries
        if labeled.query.answers
        for key, fields in zip(_keys(labeled.query), labeled.details, strict=True)
    }


def _content(passage: Passage) -> Passage:
    """Return a passage by its texts alone: ids of different questions can be equal."""
    return Passage(passage.text, passage.title)
