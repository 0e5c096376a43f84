"""Quality of a ranking of passages: by relevance (ir-measures), and by a reader's belief with its top passages."""

from collections.abc import Mapping, Sequence
from typing import Any

from seper_reward.data.answers import exact_match, expected_metric
from seper_reward.data.marks import grade_of
from seper_reward.evaluate.measuring import measured
from seper_reward.runtime.imports import need
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import mean
from seper_reward.types import Passage, Query

# by the names in ir-measures
_NAMES = {
    "ndcg@5": "nDCG@5", "ndcg@10": "nDCG@10", "mrr": "RR", "recall@1": "R@1", "recall@2": "R@2", "recall@5": "R@5",
}  # fmt: skip
MEASURES = tuple(_NAMES)


def gold_relevance(query: Query) -> dict[str, int]:
    """Return human grades >= 0 by passage id: of a question's passages (``grade_of``), and of all judged documents."""
    judged = {name: max(grade, 0) for name, grade in query.judged.items()}
    return judged | {passage.id: grade_of(passage) for passage in query.passages}


def rank_metrics(
    retrieved: Sequence[Sequence[Passage]], relevance: Sequence[Mapping[str, int]]
) -> dict[str, float | None]:
    """Return means of ``MEASURES`` over the questions with a relevant passage; ``None`` each without such a question.

    nDCG (Järvelin and Kekäläinen, 2002) has linear gains. Arguments are those of ``rank_values``.
    """
    rows = [row for row in rank_values(retrieved, relevance, _NAMES) if row is not None]
    if not rows:
        return dict.fromkeys(MEASURES)
    return {name: mean([row[name] for row in rows]) for name in MEASURES}


def rank_values(
    retrieved: Sequence[Sequence[Passage]],
    relevance: Sequence[Mapping[str, int]],
    measures: Mapping[str, str],
    relevant_from: int = 1,
) -> list[dict[str, float] | None]:
    """Return measures of each question's ranking, each in [0, 1]; ``None`` for a question without a relevant passage.

    ``relevance`` has gains by passage id, 0 by default, ``measures`` the names in ir-measures, such as ``"nDCG@5"``,
    by name in the result, and ``relevant_from`` >= 1 is the least gain of a relevant passage; nDCG counts all gains.
    """
    library = need("ir_measures", "retrieval")
    parsed = {}
    for name, theirs in measures.items():
        measure = library.parse_measure(theirs)  # nDCG uses grades unchanged
        parsed[measure(rel=relevant_from) if "rel" in measure.SUPPORTED_PARAMS else measure] = name
    marked = [any(gain >= relevant_from for gain in gains.values()) for gains in relevance]
    if not any(marked):
        return [None] * len(marked)
    qrels = [
        library.Qrel(str(number), name, gain)
        for number, gains in enumerate(relevance)
        if marked[number]
        for name, gain in gains.items()
    ]
    run = [
        library.ScoredDoc(str(number), passage.id, -float(place))
        for number, passages in enumerate(retrieved)
        for place, passage in enumerate(passages)
    ]
    rows: list[dict[str, float] | None] = [{} if relevant else None for relevant in marked]
    for metric in library.iter_calc(list(parsed), qrels, run):
        row = rows[int(metric.query_id)]
        if row is not None:
            row[parsed[metric.measure]] = float(metric.value)
    return rows


def downstream(
    scorer: SePerScorer, queries: Sequence[Query], retrieved: Sequence[Sequence[Passage]], top_k: int = 1
) -> list[dict[str, Any]]:
    """Measure a reader that sees each question's ``top_k`` best passages together; processes share the questions.

    A question without a gold answer has ``None`` as its measures.
    """
    tops = [tuple(passages[:top_k]) for passages in retrieved]
    contexts = [[top] if query.answers else [] for query, top in zip(queries, tops, strict=True)]
    beliefs = measured(scorer, queries, contexts, title="reading")
    return [
        {
            "id": query.id,
            "question": query.question,
            "passages": [passage.id for passage in top],
            "seper": round(result[top].seper, 6) if result else None,
            "exact_match": round(expected_metric(result[top], query.answers, exact_match), 6) if result else None,
        }
        for query, top, result in zip(queries, tops, beliefs, strict=True)
    ]
