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


def labeler_batch_size(labeler: PassageLabeler, wanted: int | None = None) -> int:
    """Return the number of queries in a batch: ``wanted`` >= 1, or the scorer's; 1 if batches save nothing."""
    if wanted is not None and wanted < 1:
        raise ValueError(f"batch_size must be at least 1, got {wanted}")
    if labeler.scorer is None or (labeler.samples and labeler.scorer.sampler.prompts_ahead):
        return 1
    return wanted or labeler.scorer.batch_size


def label_batches(labeler: PassageLabeler, batches: Iterable[Sequence[Query]]) -> Iterator[Found]:
    """Label this process's batches, and yield each query with its labels or its error."""
    for batch in labeler.ahead(filter(None, batches)):
        yield from zip(batch, labeler.label_batch(batch), strict=True)


def row_of(labeler: PassageLabeler, query: Query, labeled: LabeledQuery | UnscorableError) -> dict[str, Any]:
    """Return the label row of a question; raise its error if it has no labels."""
    return label_row(unwrap(labeled), labeler.name, passage_lengths(labeler.scorer, query))


def label_all(labeler: PassageLabeler, queries: Sequence[Query], size: int | None = None) -> Iterator[Found]:
    """Label queries, which processes share, and yield each in order with its labels or its error, on each process."""
    batches = in_batches(queries, labeler_batch_size(labeler, size))
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
    results = iter([labeled for _, labeled in bar])
    shares = gather_in_order([list(itertools.islice(results, len(batch))) for batch in mine])
    yield from zip(queries, itertools.chain(*shares), strict=True)
