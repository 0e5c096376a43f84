"""Do metrics of retrieved lists tell how well a reader answers with them (eRAG, arXiv:2404.13781)?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from seper_reward.data.marks import relevance_of
from seper_reward.data.rows import BadRowError
from seper_reward.evaluate.list_metrics import LIST_METRICS, ListMetric, list_metric
from seper_reward.evaluate.neighbours.labelled import Labelled, label_all
from seper_reward.labels.labelers import ERAGLabeler, GoldLabeler
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.retrieval import Retriever
from seper_reward.statistics import mean, mean_over_questions, rank_correlation
from seper_reward.types import Asked, LabeledQuery, Passage, Query, UnscorableError


def erag(
    queries: Sequence[Query],
    retrievers: Mapping[str, Retriever],
    labelers: Mapping[str, PassageLabeler],
    answering: ERAGLabeler,
    *,
    depths: Sequence[int],
    margin: float = 0.05,
) -> dict[str, Any]:
    """Correlate retrieval metrics by labels of single passages with the reader's score on the whole list.

    Each retriever's best passages are labelled one by one. Metrics at depth k are made of these labels, and compared
    over questions with the reader's ``score`` when it sees the k best passages together, and with its ``gain``, the
    score less that without a passage: labels that subtract a baseline tell the one, the others the other.

    Args:
        queries: Questions with gold answers. Passages that come with them lend their metadata, such as marks, to those
            of the same id that are retrieved; people's marks are of these only.
        retrievers: Retrievers by name.
        labelers: Labelers by name.
        answering: Labeler whose metric of the reader's responses is the score of a list; of another seed than the
            labelers, as labels of the same draws share their noise with it.
        depths: Numbers of passages that the reader sees, each >= 1.
        margin: Label above which a passage is relevant for MAP and MRR. Recall and nDCG take labels below 0 as 0.

    Returns:
        ``metric``, the name of the reader's score, and by retriever: ``end_to_end``, its mean by depth (0: without a
        passage); ``labels``, by labeler how many ``questions`` have labels, ``left_out`` (why others have none, one
        reason each), the mean ``label``, and the costs ``per_label``; and ``correlation`` with ``score`` and ``gain``,
        by labeler, depth and metric: what ``rank_correlation`` returns. Questions that a labeler or the reader cannot
        do are left out of its row.

    Raises:
        BadRowError: People's marks are among the labelers, and a question has none.
        ValueError: There is no depth, or one is below 1.
    """
    if not depths or min(depths) < 1:
        raise ValueError(f"depths must be numbers of passages, each at least 1, got {list(depths)}")
    if any(isinstance(labeler, GoldLabeler) for labeler in labelers.values()):
        for query in queries:
            try:
                relevance_of(query)  # of a question without marks all labels would be 0
            except BadRowError as error:
                raise BadRowError(f"{error}; or leave gold out of the labelers") from error
    return {
        "metric": answering.name.removeprefix("erag_"),
        "questions": len(queries),
        "retrievers": {
            name: _of_lists(retrieved(queries, retriever, max(depths)), labelers, answering, depths, margin)
            for name, retriever in retrievers.items()
        },
    }


def retrieved(queries: Sequence[Query], retriever: Retriever, top_k: int) -> list[Query]:
    """Return the queries with what was retrieved in place of their passages; their own keep their metadata."""
    found = retriever.retrieve([query.question for query in queries], top_k)
    return [_with(query, passages) for query, passages in zip(queries, found, strict=True)]


def _with(query: Query, passages: Sequence[Passage]) -> Query:
    own = {passage.id: passage for passage in query.passages}
    return replace(query, passages=tuple(own.get(passage.id, passage) for passage in passages))


def _of_lists(
    queries: Sequence[Query],
    labelers: Mapping[str, PassageLabeler],
    answering: ERAGLabeler,
    depths: Sequence[int],
    margin: float,
) -> dict[str, Any]:
    scores = end_to_end(queries, answering, [0, *depths])
    labelled = {name: label_all(labeler, queries) for name, labeler in labelers.items()}
    targets = {"score": scores, "gain": [row and {k: row[k] - row[0] for k in row} for row in scores]}
    return {
        "end_to_end": {
            str(depth): mean_over_questions([row[depth] for row in scores if row]) for depth in (0, *depths)
        },
        "labels": {name: _described(found) for name, found in labelled.items()},
        "correlation": {
            target: {
                name: {str(depth): _correlations(found, rows, depth, margin) for depth in depths}
                for name, found in labelled.items()
            }
            for target, rows in targets.items()
        },
    }


def end_to_end(
    queries: Sequence[Query], answering: ERAGLabeler, depths: Sequence[int]
) -> list[dict[int, float] | None]:
    """Return the reader's score with the first passages of each list together, by their number.

    Args:
        queries: Q questions whose passages are the list, best first.
        answering: Labeler whose metric of the reader's responses is the score.
        depths: Numbers of passages, 0 for none.

    Returns:
        Per question the score by depth; ``None`` where the reader cannot be asked.
    """
    asked = [
        Asked(query.question, query.answers, tuple(query.passages[:depth] for depth in depths)) for query in queries
    ]
    return [
        None
        if isinstance(row, UnscorableError)
        else {depth: reading.mean.value for depth, reading in zip(depths, row, strict=True)}
        for row in answering.read(asked, answering.scorer.batch_size)
    ]


def _correlations(
    labelled: Labelled, ends: Sequence[Mapping[int, float] | None], depth: int, margin: float
) -> dict[str, dict[str, Any]]:
    both = [
        (row.labels, end[depth])
        for row, end in zip(labelled.rows, ends, strict=True)
        if isinstance(row, LabeledQuery) and end
    ]
    lists, targets = [labels for labels, _ in both], [target for _, target in both]
    return {
        name: rank_correlation(list_metric(name, [_taken(name, labels, margin) for labels in lists], depth), targets)
        for name in LIST_METRICS
    }


def _taken(metric: ListMetric, labels: Sequence[float], margin: float) -> Sequence[float]:
    """Return labels as a metric takes them."""
    if metric in ("map", "mrr"):
        return [float(label > margin) for label in labels]
    return [max(label, 0.0) for label in labels] if metric in ("recall", "ndcg") else labels


def _described(labelled: Labelled) -> dict[str, Any]:
    labels = [label for row in labelled.rows if isinstance(row, LabeledQuery) for label in row.labels]
    return {
        "questions": len(labelled.rows) - len(labelled.reasons),
        "left_out": labelled.reasons,
        "label": mean(labels) if labels else None,
        "per_label": labelled.per(len(labels)),
    }
