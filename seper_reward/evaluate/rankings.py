"""Quality of a ranking of passages by relevance (ir-measures)."""

from collections.abc import Mapping, Sequence

from seper_reward.data.marks import grade_of
from seper_reward.runtime.imports import need
from seper_reward.types import Passage, Query


def gold_relevance(query: Query) -> dict[str, int]:
    """Return human grades >= 0 by passage id: of a question's passages (``grade_of``), and of all judged documents."""
    judged = {name: max(grade, 0) for name, grade in query.judged.items()}
    return judged | {passage.id: grade_of(passage) for passage in query.passages}


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
    values: list[dict[str, float] | None] = [{} if relevant else None for relevant in marked]
    for metric in library.iter_calc(list(parsed), qrels, run):
        by_name = values[int(metric.query_id)]
        if by_name is not None:
            by_name[parsed[metric.measure]] = float(metric.value)
    return values
