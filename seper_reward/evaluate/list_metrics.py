"""Retrieval metrics of ranked lists from labels of their passages, binary or graded (eRAG, arXiv:2404.13781). Pure.

Labels of 0 and 1 give the numbers of trec_eval, and of the package ``erag`` on PyPI if all relevant passages were
retrieved.
"""

import math
from collections.abc import Sequence
from typing import Literal, get_args

ListMetric = Literal["p", "hit", "recall", "map", "mrr", "ndcg"]
LIST_METRICS: tuple[ListMetric, ...] = get_args(ListMetric)


def list_metric(name: ListMetric, lists: Sequence[Sequence[float]], k: int | None = None) -> list[float]:
    """Return a retrieval metric of each question's labels, best ranked first, at the first ``k`` (default: all).

    ``"p"``, the mean label of the first k (precision), and ``"hit"``, the greatest (success), accept any labels;
    ``"recall"`` (sum of the first k over the sum of all) and ``"ndcg"`` (Järvelin and Kekäläinen, 2002, labels as
    gains) labels >= 0; ``"map"``, average precision over all relevant passages, and ``"mrr"`` labels of 0 and 1.
    Missing ranks count 0, and so does a question without a relevant passage. Other labels or names raise
    ``ValueError``.
    """
    if name not in LIST_METRICS:
        raise ValueError(f"metric must be one of {', '.join(LIST_METRICS)}, got {name!r}")
    if k is not None and k < 1:
        raise ValueError(f"k must be at least 1, or None for all, got {k}")
    for question, labels in enumerate(lists):
        for rank, label in enumerate(labels, 1):
            if problem := _problem(name, label):
                raise ValueError(f"question {question}, rank {rank}: {problem}, got {label}")
    return [_METRICS[name](labels, k or len(labels)) for labels in lists]


def _problem(name: ListMetric, label: float) -> str | None:
    if not math.isfinite(label):
        return "labels must be finite numbers; leave out questions without labels"
    if name in ("map", "mrr") and label not in (0, 1):
        return (
            f"labels must be 0 or 1 for {name}; set the label from which a passage is relevant, or use p, hit or ndcg"
        )
    if name in ("recall", "ndcg") and label < 0:
        return f"labels must be at least 0 for {name}; raise negative labels to 0, or use p or hit"
    return None


def _precision(labels: Sequence[float], k: int) -> float:
    return math.fsum(labels[:k]) / k if k else 0.0


def _hit(labels: Sequence[float], k: int) -> float:
    return float(max([*labels[:k], *([0.0] if len(labels) < k else [])], default=0.0))


def _recall(labels: Sequence[float], k: int) -> float:
    total = math.fsum(labels)
    return math.fsum(labels[:k]) / total if total else 0.0


def _average_precision(labels: Sequence[float], k: int) -> float:
    precisions = (_precision(labels, rank) for rank, label in enumerate(labels[:k], 1) if label)
    relevant = sum(map(bool, labels))
    return math.fsum(precisions) / relevant if relevant else 0.0


def _reciprocal_rank(labels: Sequence[float], k: int) -> float:
    return next((1 / rank for rank, label in enumerate(labels[:k], 1) if label), 0.0)


def _ndcg(labels: Sequence[float], k: int) -> float:
    ideal = _gain(sorted(labels, reverse=True)[:k])
    return _gain(labels[:k]) / ideal if ideal else 0.0


def _gain(labels: Sequence[float]) -> float:
    return math.fsum(label / math.log2(rank + 1) for rank, label in enumerate(labels, 1))


_METRICS = {
    "p": _precision, "hit": _hit, "recall": _recall, "map": _average_precision, "mrr": _reciprocal_rank, "ndcg": _ndcg,
}  # fmt: skip
