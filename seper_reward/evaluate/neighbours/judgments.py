"""How good are judgments of which passages are useful, by people's marks and by the answers they lead to?"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seper_reward.data.answers import exact_match, token_f1
from seper_reward.data.marks import relevance_of
from seper_reward.evaluate.list_metrics import list_metric
from seper_reward.evaluate.neighbours.labelled import Labelled, label_all
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import GREEDY
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import PooledPearson, mean_over_questions, rounded
from seper_reward.types import Asked, LabeledQuery, Passage, Query, UnscorableError

DEPTHS = (1, 3, 5, 10, 20)


class _Judged(NamedTuple):
    """A labelled question: its marks, the places of the chosen passages, and all places, the best first."""

    labeled: LabeledQuery
    marks: list[bool]
    chosen: list[int]
    order: list[int]


def judgments(
    scorer: SePerScorer,
    queries: Sequence[Query],
    judges: Mapping[str, PassageLabeler],
    *,
    reference: PassageLabeler | None = None,
    margin: float = 0.05,
) -> dict[str, Any]:
    """Compare judgments of passages with people's marks, and by the answers with the chosen passages.

    Args:
        scorer: Scorer whose reader answers, once and greedily.
        queries: Questions with gold answers whose passages are marked; those without a relevant passage are left out.
        judges: Labelers by name. They choose passages whose label is above the margin.
        reference: Labeler whose labels are compared with the judges'; ``None`` for none.
        margin: Label above which a passage is chosen.

    Returns:
        ``questions`` and ``without_relevant``, how many are used and left out; ``answers`` with ``all passages``, with
        the ``relevant passages`` and with ``no passage``; and ``judges``, by name: ``questions`` that have labels,
        ``left_out`` (why others have none, one reason each), ``chosen`` (mean number of passages), ``precision``,
        ``recall`` and ``f1`` over the passages of all questions (micro), ``mean_precision`` and ``mean_recall`` over
        questions (0 where none was chosen) with ``f1_of_means``, the harmonic mean of the two, which ITEM's authors
        report; ``ndcg@k`` of the judged order; ``answers`` with the chosen passages; ``agreement`` of labels with
        ``marks``, and with ``reference``; and the costs ``per_question``. Answers have ``exact_match`` and
        ``token_f1``. A mean has ``mean`` and a 95 % bootstrap ``interval`` over questions.

    Raises:
        ValueError: No question has a relevant passage, or one has no mark at all.
    """
    marks = {query.id: relevance_of(query) for query in queries}
    used = [query for query in queries if any(marks[query.id])]
    if not used:
        raise ValueError(f"expected questions with a passage that is marked relevant, got none of {len(queries)}")
    reader = scorer.with_sampling(**GREEDY).reader
    compared = {} if reference is None else _by_id(label_all(reference, used))
    shown: dict[str, list[tuple[Passage, ...]]] = {
        "all passages": [query.passages for query in used],
        "relevant passages": [_at(query, [at for at, mark in enumerate(marks[query.id]) if mark]) for query in used],
        "no passage": [() for _ in used],
    }
    return {
        "questions": len(used),
        "without_relevant": len(queries) - len(used),
        "answers": {name: _answers(reader, used, passages) for name, passages in shown.items()},
        "judges": {
            name: _described(reader, label_all(judge, used), marks, compared, margin) for name, judge in judges.items()
        },
    }


def _described(
    reader: PromptedReader,
    labelled: Labelled,
    marks: Mapping[str, list[bool]],
    compared: Mapping[str, LabeledQuery],
    margin: float,
) -> dict[str, Any]:
    judged = [_judged(row, marks[row.query.id], margin) for row in labelled.rows if isinstance(row, LabeledQuery)]
    queries = [each.labeled.query for each in judged]
    lists = [[float(each.marks[place]) for place in each.order] for each in judged]
    return {
        "questions": len(judged),
        "left_out": labelled.reasons,
        "chosen": mean_over_questions([len(each.chosen) for each in judged]),
        **_precision_and_recall(judged),
        **{f"ndcg@{k}": mean_over_questions(list_metric("ndcg", lists, k)) for k in DEPTHS},
        "answers": _answers(reader, queries, [_at(each.labeled.query, each.chosen) for each in judged]),
        "agreement": _agreement(judged, compared),
        "per_question": labelled.per(len(labelled.rows)),
    }


def _judged(labeled: LabeledQuery, marks: list[bool], margin: float) -> _Judged:
    places = range(len(labeled.labels))
    ranks = [detail.get("judged_rank", 0) for detail in labeled.details] or [0] * len(places)
    # a judge of ranks has an order of its own among passages whose labels are equal
    order = sorted(places, key=lambda place: (ranks[place], -labeled.labels[place]))
    return _Judged(labeled, marks, [place for place in order if labeled.labels[place] > margin], order)


def _precision_and_recall(judged: Sequence[_Judged]) -> dict[str, Any]:
    """Return both over the passages of all questions, and their means over questions; ``None`` without a question."""
    hits = [sum(each.marks[place] for place in each.chosen) for each in judged]
    chosen, relevant = [len(each.chosen) for each in judged], [sum(each.marks) for each in judged]
    precision, recall = _ratio(sum(hits), sum(chosen)), _ratio(sum(hits), sum(relevant))
    means = {
        "mean_precision": mean_over_questions([_ratio(*row) for row in zip(hits, chosen, strict=True)]),
        "mean_recall": mean_over_questions([_ratio(*row) for row in zip(hits, relevant, strict=True)]),
    }
    found = {
        "precision": precision,
        "recall": recall,
        "f1": _harmonic(precision, recall),
        "f1_of_means": _harmonic(*(row["mean"] or 0.0 for row in means.values())),
    }
    return {**means, **{name: rounded(value) if judged else None for name, value in found.items()}}


def _answers(
    reader: PromptedReader, queries: Sequence[Query], shown: Sequence[Sequence[Passage]]
) -> dict[str, dict[str, Any]]:
    """Return how right the reader's greedy answers are, where it can be asked."""
    texts: list[str | None] = []
    for query, passages in zip(queries, shown, strict=True):
        (found,) = reader.responses([Asked(query.question, (), (tuple(passages),))])
        texts.append(None if isinstance(found, UnscorableError) else found[0].texts[0])
    return {
        name: mean_over_questions(
            [metric(text, query.answers) for text, query in zip(texts, queries, strict=True) if text is not None]
        )
        for name, metric in (("exact_match", exact_match), ("token_f1", token_f1))
    }


def _agreement(judged: Sequence[_Judged], compared: Mapping[str, LabeledQuery]) -> dict[str, Any]:
    """Return Pearson's r of the labels with marks and, where both label a question, with the reference."""
    found = {"marks": _pooled(judged, [each.marks for each in judged])}
    if compared:
        both = [each for each in judged if each.labeled.query.id in compared]
        found["reference"] = _pooled(both, [compared[each.labeled.query.id].labels for each in both])
    return found


def _pooled(judged: Sequence[_Judged], targets: Sequence[Sequence[float]]) -> dict[str, Any]:
    labels = [label for each in judged for label in each.labeled.labels]
    owner = [number for number, each in enumerate(judged) for _ in each.labeled.labels]
    return PooledPearson({"labels": labels}, [value for row in targets for value in row], owner).described("labels")


def _by_id(labelled: Labelled) -> dict[str, LabeledQuery]:
    return {row.query.id: row for row in labelled.rows if isinstance(row, LabeledQuery)}


def _at(query: Query, places: Sequence[int]) -> tuple[Passage, ...]:
    return tuple(query.passages[place] for place in places)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _harmonic(one: float, other: float) -> float:
    return 2 * one * other / (one + other) if one + other else 0.0
