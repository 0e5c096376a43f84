"""Compare judgments of useful passages with human labels, and by the resulting answers (ITEM, arXiv:2406.11290)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from seper_reward.baselines.labelled import Costs, Labelled, costs_per, costs_table, label_all
from seper_reward.baselines.list_metrics import list_metric
from seper_reward.baselines.options import ItemOptions
from seper_reward.command import Record, marked_questions, reporting
from seper_reward.data.answers import exact_match, token_f1
from seper_reward.data.marks import grades_of
from seper_reward.evaluate.rankings import gold_relevance
from seper_reward.labels.labelers import GoldLabeler, load_labeler, needs_answers, parse_labeler
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import GREEDY
from seper_reward.reports.tables import cell, text_table
from seper_reward.runtime.messages import say
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import Statistic, mean_over_questions, pearson, rounded, statistic_over_questions
from seper_reward.types import Asked, LabeledQuery, Passage, Query, UnscorableError

DEPTHS = (1, 3, 5, 10, 20)


@dataclass(frozen=True)
class JudgeResult:
    """Results of one judge."""

    questions: int  # with labels
    left_out: list[str]  # one reason for each of the remaining questions
    chosen: Statistic  # number of passages
    mean_precision: Statistic  # over questions; 0 if nothing is chosen
    mean_recall: Statistic
    precision: float | None  # over the passages of all questions (micro), as the next two; None without a question
    recall: float | None
    f1: float | None
    f1_of_means: float | None  # harmonic mean of the two means over questions, as reported by ITEM's authors
    ndcg: dict[str, Statistic]  # of the order by utility ("ndcg@5", ...) and by relevance ("relevance_ndcg@5", ...)
    answers: dict[str, Statistic]  # "exact_match" and "token_f1" of the reader's answers with the chosen passages
    agreement: dict[str, Statistic]  # Pearson's r of the labels with "marks" and "reference"
    per_question: Costs


@dataclass(frozen=True)
class ItemResult(Record):
    """Results of all judges."""

    questions: int
    without_relevant: int  # questions without a relevant passage, which are left out
    answers: dict[str, dict[str, Statistic]]  # with "all passages", "relevant passages" and "no passage"
    given_order: dict[str, Statistic]  # nDCG of the order of the input, such as a retriever's
    judges: dict[str, JudgeResult]

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON-able mappings."""
        result = asdict(self)
        for name, judge in result["judges"].items():
            parts = [value if key == "ndcg" else {key: value} for key, value in judge.items()]
            result["judges"][name] = {key: value for part in parts for key, value in part.items()}
        return result

    def table(self) -> str:
        """Return the results of judges as text: by marks, answers and agreement, and the costs of a question."""
        judges = self.judges
        names = ["precision", "recall", "f1", "f1_of_means"]
        depths, unscored = list(self.given_order), [cell(None)] * len(names)
        by_marks = [["given order", str(self.questions), *unscored, *_cells(self.given_order)]]
        for name, judge in judges.items():
            count, means = str(judge.questions), _cells(judge.ndcg)
            by_marks.append(
                [name, count, *(cell(getattr(judge, measure)) for measure in names), *means[: len(depths)]]
            )
            if by_relevance := means[len(depths) :]:
                by_marks.append([f"{name}, by relevance", count, *unscored, *by_relevance])
        answers = {**self.answers, **{name: judge.answers for name, judge in judges.items()}}
        metrics = list(next(iter(answers.values())))
        by_answers = [[name, *(by_metric[metric] for metric in metrics)] for name, by_metric in answers.items()]
        against = list(dict.fromkeys(name for judge in judges.values() for name in judge.agreement))
        agreement = [[name, *(judge.agreement[reference] for reference in against)] for name, judge in judges.items()]
        return "\n\n".join(
            [
                text_table(["judge", "questions", *names, *depths], by_marks),
                text_table(["answers with", *metrics], by_answers),
                text_table(["Pearson of labels with", *against], agreement),
                costs_table({name: judge.per_question for name, judge in judges.items()}, "a question costs"),
            ]
        )


class _Judged(NamedTuple):
    """A labelled question: grades and marks of its passages, positions of the chosen ones, and the orders of all."""

    labeled: LabeledQuery
    grades: list[int]
    marks: list[bool]
    chosen: list[int]
    orders: dict[str, list[int]]


def judgments(
    scorer: SePerScorer,
    queries: Sequence[Query],
    judges: Mapping[str, PassageLabeler],
    *,
    reference: PassageLabeler | None = None,
    margin: float = 0.05,
    relevant_from: int = 1,
) -> ItemResult:
    """Compare judgments of passages with human labels, and by the answers given the chosen passages.

    Questions without a relevant passage are left out, and answers are scored on those with gold answers. Judges are
    labelers by name, and choose passages whose label is above ``margin``; ``reference`` is a labeler to compare with.
    ``relevant_from`` is the least grade of a relevant passage; nDCG, over all judged documents, and Pearson's r use
    the grades.
    """
    grades = {query.id: grades_of(query) for query in queries}
    marks = {name: [grade >= relevant_from for grade in query_grades] for name, query_grades in grades.items()}
    used = [query for query in queries if any(marks[query.id])]
    if not used:
        least = f" with grade {relevant_from} or more" if relevant_from > 1 else ""
        raise ValueError(
            f"expected questions with a passage that is marked relevant{least}, got none of {len(queries)}"
        )
    # of all relevant documents of such a question, none was retrieved
    missed = sum(not any(grades[query.id]) and any(gold_relevance(query).values()) for query in queries)
    reader = scorer.with_sampling(**GREEDY).reader
    labelled = [] if reference is None else label_all(reference, used).labeled
    compared = {labeled.query.id: labeled for labeled in labelled}
    shown: dict[str, list[tuple[Passage, ...]]] = {
        "all passages": [query.passages for query in used],
        "relevant passages": [_at(query, [at for at, mark in enumerate(marks[query.id]) if mark]) for query in used],
        "no passage": [() for _ in used],
    }
    return ItemResult(
        len(used),
        len(queries) - len(used),
        {name: _answers(reader, used, passages) for name, passages in shown.items()},
        _ndcg("ndcg", [grades[query.id] for query in used], used, missed),
        {
            # grades are not on the scale of margin: gold chooses the relevant passages
            name: _judge_result(
                reader,
                label_all(judge, used),
                grades,
                marks,
                compared,
                relevant_from - 0.5 if isinstance(judge, GoldLabeler) else margin,
                missed,
            )
            for name, judge in judges.items()
        },
    )


def _judge_result(
    reader: PromptedReader,
    labelled: Labelled,
    grades: Mapping[str, list[int]],
    marks: Mapping[str, list[bool]],
    compared: Mapping[str, LabeledQuery],
    margin: float,
    missed: int,
) -> JudgeResult:
    judged = [
        _judged_query(labeled, grades[labeled.query.id], marks[labeled.query.id], margin)
        for labeled in labelled.labeled
    ]
    chosen = [_at(verdict.labeled.query, verdict.chosen) for verdict in judged]
    ndcg: dict[str, Statistic] = {}
    for name in judged[0].orders if judged else ("ndcg",):
        orders = [[verdict.grades[place] for place in verdict.orders[name]] for verdict in judged]
        ndcg |= _ndcg(name, orders, [verdict.labeled.query for verdict in judged], missed)
    return JudgeResult(
        questions=len(judged),
        left_out=labelled.reasons,
        chosen=mean_over_questions(list(map(len, chosen))),
        **_precision_and_recall(judged),
        ndcg=ndcg,
        answers=_answers(reader, [verdict.labeled.query for verdict in judged], chosen),
        agreement=_agreement(judged, compared),
        per_question=costs_per(labelled.costs, len(labelled.results)),
    )


def _ndcg(name: str, lists: Sequence[Sequence[float]], queries: Sequence[Query], missed: int) -> dict[str, Statistic]:
    """Return nDCG as trec_eval does: the ideal list has all judged documents, and ``missed`` questions count 0."""
    judged = [list(gold_relevance(query).values()) for query in queries]
    return {
        f"{name}@{k}": mean_over_questions([*list_metric("ndcg", lists, k, judged), *[0.0] * missed]) for k in DEPTHS
    }


def _cells(by_measure: Mapping[str, Statistic]) -> list[str]:
    return [cell(statistic.value) for statistic in by_measure.values()]


def _judged_query(labeled: LabeledQuery, grades: list[int], marks: list[bool], margin: float) -> _Judged:
    places = range(len(labeled.labels))
    details: Sequence[Mapping[str, Any]] = labeled.details or [{} for _ in places]
    # judges of ranks also order passages with equal labels
    order = sorted(places, key=lambda place: (details[place].get("judged_rank", 0), -labeled.labels[place]))
    orders = {"ndcg": order}
    if all("relevance_rank" in detail for detail in details):
        orders["relevance_ndcg"] = sorted(places, key=lambda place: details[place]["relevance_rank"])
    return _Judged(labeled, grades, marks, [place for place in order if labeled.labels[place] > margin], orders)


def _precision_and_recall(judged: Sequence[_Judged]) -> dict[str, Any]:
    """Return micro-averaged precision and recall, and their means over questions; ``None`` without a question."""
    hits = [sum(verdict.marks[place] for place in verdict.chosen) for verdict in judged]
    chosen, relevant = [len(verdict.chosen) for verdict in judged], [sum(verdict.marks) for verdict in judged]
    precision, recall = _ratio(sum(hits), sum(chosen)), _ratio(sum(hits), sum(relevant))
    means = {
        "mean_precision": mean_over_questions([_ratio(*counts) for counts in zip(hits, chosen, strict=True)]),
        "mean_recall": mean_over_questions([_ratio(*counts) for counts in zip(hits, relevant, strict=True)]),
    }
    scores = {
        "precision": precision,
        "recall": recall,
        "f1": _harmonic(precision, recall),
        "f1_of_means": _harmonic(*(statistic.value or 0.0 for statistic in means.values())),
    }
    return {**means, **{name: rounded(value) if judged else None for name, value in scores.items()}}


def _answers(
    reader: PromptedReader, queries: Sequence[Query], shown: Sequence[Sequence[Passage]]
) -> dict[str, Statistic]:
    """Return the scores of the reader's greedy answers, over questions with gold answers that fit into its window."""
    texts: list[tuple[str, Query]] = []
    for query, passages in zip(queries, shown, strict=True):
        if query.answers:
            (responses,) = reader.responses([Asked(query.question, (), (tuple(passages),))])
            if not isinstance(responses, UnscorableError):
                texts.append((responses[0].texts[0], query))
    return {
        name: mean_over_questions([metric(text, query.answers) for text, query in texts])
        for name, metric in (("exact_match", exact_match), ("token_f1", token_f1))
    }


def _agreement(judged: Sequence[_Judged], compared: Mapping[str, LabeledQuery]) -> dict[str, Statistic]:
    """Return Pearson's r of the labels with marks, and with the reference on questions that both label."""
    correlations = {"marks": _pooled_correlation(judged, [verdict.grades for verdict in judged])}
    if compared:
        both = [verdict for verdict in judged if verdict.labeled.query.id in compared]
        correlations["reference"] = _pooled_correlation(
            both, [compared[verdict.labeled.query.id].labels for verdict in both]
        )
    return correlations


def _pooled_correlation(judged: Sequence[_Judged], targets: Sequence[Sequence[float]]) -> Statistic:
    labels = np.array([label for verdict in judged for label in verdict.labeled.labels], dtype=float)
    target = np.array([value for values in targets for value in values], dtype=float)
    owner = [number for number, verdict in enumerate(judged) for _ in verdict.labeled.labels]
    return statistic_over_questions(owner, lambda at: pearson(labels[at], target[at]))


def _at(query: Query, places: Sequence[int]) -> tuple[Passage, ...]:
    return tuple(query.passages[place] for place in places)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _harmonic(one: float, other: float) -> float:
    return 2 * one * other / (one + other) if one + other else 0.0


def command(config: ItemOptions) -> str:
    """Run ``seper-reward baseline item``."""
    with reporting("baseline item", config) as report:
        for name in {*config.judges, config.reference} - {"none"}:
            parse_labeler(name)
        queries = marked_questions(config, config.file, answers_needed=False)
        reference = config.reference
        lacking = sum(not query.answers for query in queries)
        if lacking and reference != "none" and needs_answers(reference):
            reference = "none"
            lack = f"{lacking} of {len(queries)} questions have no gold answer"
            say(f"{lack}: labels are not compared with {config.reference}")
        scorer = SePerScorer.from_pretrained(config)
        result = judgments(
            scorer,
            queries,
            {name: load_labeler(name, lambda: scorer) for name in config.judges},
            reference=None if reference == "none" else load_labeler(reference, lambda: scorer),
            margin=config.margin,
            relevant_from=config.relevant_from,
        )
        report(result)
    return f"seper-reward label --input {config.file} --labeler item --output_dir runs/item"
