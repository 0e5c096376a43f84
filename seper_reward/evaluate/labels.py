"""Compare finished labels, candidates for a label, and rivals without a reader with human relevance marks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from seper_reward.command import Record, by_name, reporting
from seper_reward.data.marks import relevance_of
from seper_reward.data.splits import split_of
from seper_reward.evaluate.rivals import answered_before, label_measures
from seper_reward.labels.rows import (
    DELTA_SEPER,
    SUFFIXES,
    labeled_queries,
    labeler_of,
    read_label_rows,
    recommended_label,
)
from seper_reward.options import LabelsOptions
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.runtime.messages import plural
from seper_reward.statistics import PooledAuc, PooledPearson, Statistic, mean_or_none
from seper_reward.types import LabeledQuery, Passage, Query

_NAME = "evaluate labels"
_KIND_FIELDS = ("type", "kind")  # of passages, by whose values passages that are not relevant are distinguished
_MARGINS = (0.1, 0.3, 0.5)  # least labels of positives, in the table of positives
_PARTS = ("r", "all", "in", "out", "within")
_HEADER = ("Pearson", "AUC", "AUC, string in", "AUC, string out", "AUC within a question")


@dataclass(frozen=True)
class Agreement(Record):
    """Agreement of measures of passages with human relevance marks, on the label rows of one folder."""

    # by measure, `r` (Pearson), areas under the ROC curve over `all` passages, and over those that hold an answer
    # string (`in`) or do not (`out`), and `within` a question, mean over questions
    measures: Mapping[str, Mapping[str, Statistic]]
    leads: Mapping[str, Mapping[str, Statistic]]  # by measure, that of `against` in `r` and in `all`
    # by kind of passages that are not relevant and measure, the area of relevant ones against these
    kinds: Mapping[str, Mapping[str, Statistic]]
    # by label and margin, `precision` and `recall` of the passages from this label on, as exports choose positives
    positives: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    against: str  # the measure whose leads these are
    questions: int
    passages: Mapping[str, int]  # by `all`, `relevant`, `in` and `relevant in`
    known_left_out: int = 0  # questions that the reader knows

    def table(self, name: str = "") -> str:
        """Return the measures from the greatest area to the least, the leads, and the areas by kind."""
        order = sorted(self.measures, key=lambda each: -(self.measures[each]["all"].value or 0.0))
        rows: list[list[object]] = []
        for each in order:
            leads = self.leads.get(each, {})
            rows.append(
                [each, *(self.measures[each][part] for part in _PARTS), leads.get("r", ""), leads.get("all", "")]
            )
        lead = f"lead of {self.against}"
        known = f", {self.known_left_out} known ones left out" if self.known_left_out else ""
        count = self.passages
        about = (
            f"{name}: {plural(self.questions, 'question')}{known}, {plural(count['all'], 'passage')} "
            f"({count['relevant']} relevant), {count['in']} with an answer string ({count['relevant in']} relevant)"
        )
        tables = [about, markdown_table(["measure", *_HEADER, f"{lead}: Pearson", f"{lead}: AUC"], rows)]
        if self.kinds:
            values = [[each, *(found[each] for found in self.kinds.values())] for each in order]
            tables.append(markdown_table(["AUC of relevant passages against", *self.kinds], values))
        margins = [
            [label, *(f"{cell(each['precision'])} / {cell(each['recall'])}" for each in found.values())]
            for label, found in self.positives.items()
        ]
        header = ["precision / recall of positives", *(f"label from {margin:g}" for margin in _MARGINS)]
        tables.append(markdown_table(header, margins))
        return "\n\n".join(tables)


@dataclass(frozen=True)
class AgreementByFolder(Record):
    """The agreement by folder of labels."""

    folders: Mapping[str, Agreement]

    @property
    def means(self) -> dict[str, dict[str, float | None]]:
        """Mean over folders by measure and part, of measures that all folders have; 0.5 or 0 if undefined."""
        found = [folder.measures for folder in self.folders.values()]
        shared = [measure for measure in found[0] if all(measure in each for each in found)]
        return {
            measure: {part: mean_or_none(each[measure][part].value for each in found) for part in _PARTS}
            for measure in shared
        }

    def as_dict(self) -> dict[str, object]:
        """Return the content of the JSON file, with the means over folders."""
        return {**super().as_dict(), "means": self.means}

    def table(self) -> str:
        """Return the tables of each folder, and the means over folders."""
        tables = [found.table(name) for name, found in self.folders.items()]
        if len(self.folders) > 1:
            means = self.means
            order = sorted(means, key=lambda each: -(means[each]["all"] or 0.0))
            rows = [[measure, *(cell(means[measure][part]) for part in _PARTS)] for measure in order]
            tables.append(markdown_table([f"mean of {len(self.folders)} folders", *_HEADER], rows))
        return "\n\n".join(tables)


@dataclass(frozen=True)
class MarkedRow:
    """The passages of one label row."""

    query: Query
    relevant: tuple[bool, ...]  # by people's marks
    kinds: tuple[str, ...]  # empty for passages without a kind
    measures: tuple[Mapping[str, float], ...]


def command(config: LabelsOptions) -> str:
    """Run ``seper-reward evaluate labels``."""
    with reporting(_NAME, config) as report:
        agreements = {}
        for name, folder in by_name(config.labels).items():
            rows = read_label_rows(folder)
            if (labeler := labeler_of(rows.values())) != DELTA_SEPER:
                raise ValueError(
                    f"expected labels of {DELTA_SEPER}, got labels of {labeler}; label with --labeler delta_seper"
                )
            labeled = labeled_queries(rows, DELTA_SEPER)
            own = [row for row in labeled if config.split in ("all", split_of(row.query.id))]
            asked = [row for row in own if not (config.leave_out_known and answered_before(row))]
            if not asked:
                raise ValueError(f"{folder}: expected questions of the split {config.split}, got none")
            marked = marked_rows(asked, config.weights, _KIND_FIELDS)
            agreements[name] = agreement(marked, recommended_label(rows.values()), len(own) - len(asked))
        report(AgreementByFolder(agreements))
    return f"seper-reward export --labels {config.labels[0]} --output lists.jsonl"


def marked_rows(
    labeled: Sequence[LabeledQuery], weights: Sequence[float], kind_fields: Sequence[str] = ()
) -> list[MarkedRow]:
    """Return the measures, marks and kinds (by the first of ``kind_fields``) of label rows of ``delta_seper``."""
    found = []
    for row, own in zip(labeled, bm25_scores([row.query for row in labeled]), strict=True):
        kinds = (
            next((str(passage.metadata[name]) for name in kind_fields if name in passage.metadata), "")
            for passage in row.query.passages
        )
        measures = tuple(label_measures(row, weights, own))
        found.append(MarkedRow(row.query, tuple(relevance_of(row.query)), tuple(kinds), measures))
    return found


def bm25_scores(queries: Sequence[Query]) -> list[list[float]]:
    """Return the BM25 score of each passage of each question, in a corpus of all their passages."""
    numbers: dict[Passage, int] = {}
    for query in queries:
        for passage in query.passages:
            numbers.setdefault(_content(passage), len(numbers))
    retriever = BM25Retriever({str(number): passage for passage, number in numbers.items()})
    found = []
    for query in queries:
        scores = retriever.scores(query.question)
        found.append([scores[numbers[_content(passage)]] for passage in query.passages])
    return found


def agreement(rows: Sequence[MarkedRow], against: str, known_left_out: int = 0) -> Agreement:
    """Compare the measures of ``marked_rows`` with the marks, and the measure ``against`` with all others."""
    items = [
        (number, relevant, kind, measures)
        for number, row in enumerate(rows)
        for relevant, kind, measures in zip(row.relevant, row.kinds, row.measures, strict=True)
    ]
    owner, target, kinds, measured = (list(column) for column in zip(*items, strict=True))
    names = [name for name in measured[0] if not all(math.isnan(each[name]) for each in measured)]
    if against not in names:
        raise ValueError(f"against must be one of {', '.join(names)}, got {against!r}")
    columns = {name: [each[name] for each in measured] for name in names}
    holds = [each["contains"] > 0 for each in measured]

    def area(chosen: Sequence[bool]) -> PooledAuc:
        places = [place for place, wanted in enumerate(chosen) if wanted]
        own = {name: [values[place] for place in places] for name, values in columns.items()}
        return PooledAuc(own, [target[at] for at in places], [owner[at] for at in places], len(rows))

    whole = area([True] * len(items))
    parts = {"all": whole, "in": area(holds), "out": area([not held for held in holds])}
    pearson = PooledPearson(columns, list(map(float, target)), owner)
    by_kind = {
        kind: area([relevant or other == kind for relevant, other in zip(target, kinds, strict=True)])
        for kind in sorted({kind for relevant, kind in zip(target, kinds, strict=True) if kind and not relevant})
    }
    return Agreement(
        measures={
            name: {
                "r": pearson.described(partial(pearson.pearson, name)),
                **{part: found.described(partial(found.auc, name)) for part, found in parts.items()},
                "within": whole.within(name),
            }
            for name in names
        },
        leads={
            name: {
                "r": whole.described(partial(pearson.lead, against, name)),
                "all": whole.described(partial(whole.lead, against, name)),
            }
            for name in names
            if name != against
        },
        kinds={
            kind: {name: found.described(partial(found.auc, name)) for name in names}
            for kind, found in by_kind.items()
        },
        positives={name: _positives(columns[name], target) for name in SUFFIXES if name in columns},
        against=against,
        questions=len(rows),
        passages={
            "all": len(items),
            "relevant": sum(target),
            "in": sum(holds),
            "relevant in": sum(relevant and held for relevant, held in zip(target, holds, strict=True)),
        },
        known_left_out=known_left_out,
    )


def _positives(labels: Sequence[float], relevant: Sequence[bool]) -> dict[str, dict[str, float | None]]:
    """Return precision and recall of the passages from each of ``_MARGINS`` on."""
    found = {}
    for margin in _MARGINS:
        chosen = [mark for label, mark in zip(labels, relevant, strict=True) if label >= margin]
        found[f"{margin:g}"] = {
            "precision": mean_or_none(chosen),
            "recall": sum(chosen) / sum(relevant) if any(relevant) else None,
        }
    return found


def _content(passage: Passage) -> Passage:
    """Return a passage by its texts alone: ids of different questions can be equal."""
    return Passage(passage.text, passage.title)
