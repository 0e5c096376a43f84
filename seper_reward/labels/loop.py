"""The loop over questions to label: runs write its results to a folder, other callers collect them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tqdm.auto import tqdm

from seper_reward.batching import query_cost
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.rows import label_row, passage_lengths
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.memory import in_batches
from seper_reward.types import LabeledQuery, Query, UnscorableError, unwrap

Found = tuple[Query, LabeledQuery | UnscorableError]


def batch_size(labeler: PassageLabeler, wanted: int | None = None) -> int:
    """Return the number of queries in one batch: ``wanted`` >= 1, or the default of the labeler's scorer.

    It is 1 if batches save nothing: without a reader, and for engines, which build their own batches.
    """
    if wanted is not None and wanted < 1:
        raise ValueError(f"batch_size must be at least 1, got {wanted}")
    if labeler.scorer is None or reads_ahead(labeler):
        return 1
    return wanted or labeler.scorer.batch_size


def reads_ahead(labeler: PassageLabeler) -> bool:
    """Return whether the labeler announces queries to an engine ahead, for which it needs many of them at once."""
    return labeler.samples and labeler.scorer is not None and bool(labeler.scorer.sampler.prompts_ahead)


def label_batches(labeler: PassageLabeler, batches: Iterable[Sequence[Query]]) -> Iterator[Found]:
    """Label this process's batches, and yield each query with its labels or its error."""
    for batch in labeler.ahead(filter(None, batches)):
        yield from zip(batch, labeler.label_batch(batch), strict=True)


def row_of(labeler: PassageLabeler, query: Query, labeled: LabeledQuery | UnscorableError) -> dict[str, Any]:
    """Return the label row of a question; raise its error if it has no labels."""
    return label_row(unwrap(labeled), labeler.name, passage_lengths(labeler.scorer, query))


def label_all(labeler: PassageLabeler, queries: Sequence[Query], size: int | None = None) -> Iterator[Found]:
    """Label queries, and yield each in order with its labels or its error, identically on each process.

    All processes must call this together: they share the batches, and each gets all labels.
    """
    batches = in_batches(queries, batch_size(labeler, size))
    costs = [sum(map(query_cost, batch)) for batch in batches]
    mine, state = shard(batches, costs), process_state()
    bar = tqdm(
        label_batches(labeler, mine),
        total=sum(map(len, mine)),
        desc=f"labelling by {labeler.name}",
        unit="question",
        disable=not state.is_main_process,
    )
    if state.num_processes == 1:
        yield from bar
        return
    found = iter([labeled for _, labeled in bar])
    shares = gather_in_order([list(itertools.islice(found, len(batch))) for batch in mine])
    yield from zip(queries, itertools.chain(*shares), strict=True)
