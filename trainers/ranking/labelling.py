"""Candidate passages, from the questions or from the retriever in training, and their labels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from seper_reward.data.rows import BadRowError
from seper_reward.labels.labelers import PassageLabeler
from seper_reward.labels.loop import label_all
from seper_reward.labels.rows import label_row, labeled_query, recommended_label
from seper_reward.retrieval import Retriever, retrieve_hops
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.json_files import write_lines
from seper_reward.runtime.messages import say_once
from seper_reward.types import LabeledQuery, Passage, Query, UnscorableError, attempt

from ..options import RankingConfig


def propose(config: RankingConfig, queries: Sequence[Query], load: Callable[[], Retriever]) -> list[Query]:
    """Return the queries with the passages to label; all processes must call this together."""
    retriever = None if config.candidates == "given" else load()
    return candidates(queries, retriever, config.top_k, config.candidates != "retrieved", config.hops)


def candidates(
    queries: Sequence[Query], retriever: Retriever | None, top_k: int, keep_own: bool, hops: int = 1
) -> list[Query]:
    """Return the queries with their own passages if ``keep_own``, then those that ``retrieve_hops`` finds."""
    mine = shard(queries)
    retrieved: Sequence[tuple[Passage, ...]] = [()] * len(mine)
    if retriever is not None:
        retrieved = retrieve_hops(retriever, [query.question for query in mine], hops, top_k)
    return gather_in_order([_with(query, passages, keep_own) for query, passages in zip(mine, retrieved, strict=True)])


def _with(query: Query, retrieved: Sequence[Passage], keep_own: bool) -> Query:
    by_id = {passage.id: passage for passage in query.passages}
    # only a query's own passages have this query's metadata, such as marks
    chosen = {passage.id: by_id.get(passage.id, passage) for passage in retrieved}
    return replace(query, passages=tuple((by_id | chosen if keep_own else chosen).values()))


def label(
    labeler: PassageLabeler, queries: Sequence[Query], column: str | None, path: Path
) -> tuple[list[LabeledQuery], str]:
    """Return the queries with labels, without those that cannot be labelled, and the labels' field in the rows.

    The scorer's cache has the reader's work of earlier rounds and of a killed run. ``column`` is the field to learn
    from (``None``: ``recommended_label``); the rows are written to ``path``. All processes must call this together.
    """
    row_queries, rows = [], []
    for query, labeled in label_all(labeler, [query for query in queries if query.passages]):
        if isinstance(labeled, BadRowError):  # the input is invalid, and can be repaired
            raise labeled
        result = (
            labeled if isinstance(labeled, UnscorableError) else attempt(partial(label_row, labeled, labeler.name))
        )
        if isinstance(result, UnscorableError):
            say_once(f"question id={query.id!r} left out: {result}")
        else:
            row_queries.append(query)
            rows.append(result)
    if process_state().is_main_process:
        write_lines(path, rows, default=str)
    column = column or recommended_label(rows)
    # from the rows, whose labels are rounded; the responses would fill the memory
    read = [labeled_query(written, column) for written in rows]
    bare = [replace(labeled, baseline={}, fields={}, details=()) for labeled in read]
    return [replace(labeled, query=query) for labeled, query in zip(bare, row_queries, strict=True)], column
