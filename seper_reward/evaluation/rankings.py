"""How good is a ranking of passages? By relevance (ir-measures), and by what a reader makes of its top."""

from collections.abc import Mapping, Sequence
from typing import Any

from tqdm.auto import tqdm

from seper_reward.data.answers import exact_match, expected_metric
from seper_reward.data.marks import is_relevant
from seper_reward.labels.targets import grade
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.imports import need
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Passage, Query, UnscorableError

MEASURES = ("ndcg@5", "ndcg@10", "mrr", "recall@1", "recall@5")


def gold_relevance(query: Query) -> dict[str, int]:
    """Return 1 or 0 by passage id, from people's marks."""
    return {passage.id: int(is_relevant(passage)) for passage in query.passages}


def graded_relevance(labeled: LabeledQuery, margin: float = 0.1) -> dict[str, int]:
    """Return the gain of each judged passage by id: its grade, with harm as 0 (nDCG has no negative gains)."""
    return {
        passage.id: max(grade(label, margin), 0)
        for passage, label in zip(labeled.query.passages, labeled.labels, strict=True)
    }


def rank_metrics(
    retrieved: Sequence[Sequence[Passage]], relevance: Sequence[Mapping[str, int]]
) -> dict[str, float | None]:
    """Return mean measures over questions, each in [0, 1].

    Args:
        retrieved: per question, passages best first.
        relevance: per question, gain by passage id (0 = not relevant); passages that are not named count as 0.

    Returns:
        ``ndcg@5``, ``ndcg@10`` (Järvelin and Kekäläinen, 2002; gains as they are), ``mrr``, ``recall@1`` and
        ``recall@5`` over the questions that have a relevant passage; ``None`` where no question has one.

    Raises:
        OSError: ir-measures is not installed.
    """
    library = need("ir_measures", "retrieval")
    wanted = dict(zip(MEASURES, map(library.parse_measure, ("nDCG@5", "nDCG@10", "RR", "R@1", "R@5")), strict=True))
    qrels = [
        library.Qrel(str(number), name, gain)
        for number, gains in enumerate(relevance)
        if any(gain > 0 for gain in gains.values())
        for name, gain in gains.items()
    ]
    run = [
        library.ScoredDoc(str(number), passage.id, -float(place))
        for number, passages in enumerate(retrieved)
        for place, passage in enumerate(passages)
    ]
    if not qrels:
        return dict.fromkeys(MEASURES)
    found = library.calc_aggregate(list(wanted.values()), qrels, run)
    return {name: round(float(found[measure]), 4) for name, measure in wanted.items()}


def downstream(
    scorer: SePerScorer, queries: Sequence[Query], retrieved: Sequence[Sequence[Passage]], top_k: int = 1
) -> list[dict[str, Any]]:
    """Measure the reader with each question's best passages together; processes share the work.

    Args:
        scorer: of the reader.
        queries: with gold answers.
        retrieved: per question, passages best first.
        top_k: how many of them the reader sees.

    Returns:
        Per question ``id``, ``question``, ``passages`` (ids), ``seper`` and ``exact_match`` in [0, 1]; both ``None``
        where the question cannot be scored.
    """
    rows = []
    work = shard(list(zip(queries, retrieved, strict=True)))
    for query, passages in tqdm(work, desc="reading", unit="question", disable=not process_state().is_main_process):
        shown = tuple(passages[:top_k])
        row = {"id": query.id, "question": query.question, "passages": [passage.id for passage in shown]}
        rows.append(row | _read(scorer, query, shown))
    return gather_in_order(rows)


def _read(scorer: SePerScorer, query: Query, shown: tuple[Passage, ...]) -> dict[str, float | None]:
    try:
        (belief,) = scorer.beliefs(query.question, query.answers, [shown])
    except UnscorableError as error:
        tqdm.write(f"question id={query.id!r} is left out: {error}")
        return {"seper": None, "exact_match": None}
    return {
        "seper": round(belief.seper, 6),
        "exact_match": round(expected_metric(belief, query.answers, exact_match), 6),
    }
