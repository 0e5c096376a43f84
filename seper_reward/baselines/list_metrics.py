"""Retrieval metrics of ranked lists from labels of their passages, binary or graded (eRAG, arXiv:2404.13781). Pure.

Labels of 0 and 1 give the numbers of trec_eval, and of the package ``erag`` on PyPI if all relevant passages were
retrieved.
"""

import math
from collections.abc import Sequence
from typing import Literal, get_args

ListMetric = Literal["p", "hit", "recall", "map", "mrr", "ndcg"]
LIST_METRICS: tuple[ListMetric, ...] = get_args(ListMetric)


def list_metric(
    name: ListMetric,
    lists: Sequence[Sequence[float]],
    k: int | None = None,
    judged: Sequence[Sequence[float]] | None = None,
) -> list[float]:
    """Return a retrieval metric of each question's labels, best ranked first, at the first ``k`` (default: all).

    ``"p"``, the mean label of the first k (precision), and ``"hit"``, the greatest (success), accept any labels;
    ``"recall"`` (sum of the first k over the sum of all) and ``"ndcg"`` (Järvelin and Kekäläinen, 2002, labels as
    gains) labels >= 0; ``"map"``, average precision over all relevant passages, and ``"mrr"`` labels of 0 and 1.
    ``judged`` has for each question the labels of all judged passages, which make the best possible nDCG (default: the
    labels in the list). Missing ranks count 0, and so does a question without a relevant passage. Other labels or
    names raise ``ValueError``.
    """
    if name not in LIST_METRICS:
        raise ValueError(f"metric must be one of {', '.join(LIST_METRICS)}, got {name!r}")
    if k is not None and k < 1:
        raise ValueError(f"k must be at least 1, or None for all, got {k}")
    for question, labels in enumerate(lists):
        for rank, label in enumerate(labels, 1):
            problem = None
            if not math.isfinite(label):
                problem = "must be finite numbers; leave out questions without labels"
            elif name in ("map", "mrr") and label not in (0, 1):
                problem = (
                    f"must be 0 or 1 for {name}; set the label from which a passage is relevant, or use p, hit or ndcg"
                )
            elif name in ("recall", "ndcg") and label < 0:
                problem = f"must be at least 0 for {name}; raise negative labels to 0, or use p or hit"
            if problem:
                raise ValueError(f"question {question}, rank {rank}: labels {problem}, got {label}")
    return [
        _metric(name, labels, k or len(labels), known) for labels, known in zip(lists, judged or lists, strict=True)
    ]


def _metric(name: ListMetric, labels: Sequence[float], k: int, judged: Sequence[float] = ()) -> float:
    first = labels[:k]
    match name:
        case "p":
            return math.fsum(first) / k if k else 0.0
        case "hit":
            return float(max([*first, *([0.0] if len(labels) < k else [])], default=0.0))
        case "recall":
            part, whole = math.fsum(first), math.fsum(labels)
        case "map":
            part = math.fsum(_metric("p", labels, rank) for rank, label in enumerate(first, 1) if label)
            whole = sum(map(bool, labels))
        case "mrr":
            return next((1 / rank for rank, label in enumerate(first, 1) if label), 0.0)
        case "ndcg":
            part, whole = _gain(first), _gain(sorted(judged, reverse=True)[:k])
    return part / whole if whole else 0.0


def _gain(labels: Sequence[float]) -> float:
    return math.fsum(label / math.log2(rank + 1) for rank, label in enumerate(labels, 1))
