"""``label``: labels the passages of questions in a list, a Dataset or a stream, and returns label rows."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from seper_reward.data.formats import Columns, as_ours, check_columns
from seper_reward.data.queries import as_query
from seper_reward.labels import loop
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.loop import Found
from seper_reward.labels.rows import label_row, passage_lengths
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.messages import say
from seper_reward.runtime.parquet_files import as_dataset
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query, UnscorableError, unwrap

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

D = TypeVar("D", "Dataset", "IterableDataset", list[Any])
_FIRST_ROWS = 20  # read first to check their columns, and again to label them


def label(
    dataset: D,
    labeler: PassageLabeler | SePerScorer,
    *,
    strict: bool = True,
    batch_size: int | None = None,
    columns: Columns = MappingProxyType({}),
) -> D:
    """Label the passages of each question.

    Under ``torchrun`` or ``accelerate launch`` the questions are divided among the processes, and each process gets
    all labels. An ``IterableDataset`` is labelled row by row as it is read, by each process that reads it;
    ``datasets.distributed.split_dataset_by_node`` gives each process its part.

    Args:
        dataset: List, ``Dataset`` or ``IterableDataset`` of rows ``{id?, question, answers, passages}`` or in a layout
            of ``data.formats``; a passage is a text or ``{id?, title?, text}``.
        labeler: The labeler; a scorer stands for the labeler of its ΔSePer.
        strict: Whether a row that cannot be labelled raises an error; otherwise it is left out with a message.
        batch_size: Number of neighbouring rows that are measured side by side, >= 1; ``None`` for the scorer's own.
        columns: Columns that hold ``id``, ``question``, ``answers`` or ``passages``, where they are not recognised;
            several columns are joined.

    Returns:
        The label rows (``label_row``) in the order of the input, in a collection of the same type.

    Raises:
        BadRowError: A row is unusable and ``strict`` is set.
        UnscorableError: A row cannot be scored and ``strict`` is set.
        ValueError: ``batch_size`` is below 1, a needed column is not recognised, or the dataset is a ``DatasetDict``.
    """
    if isinstance(labeler, SePerScorer):
        labeler = DeltaSePerLabeler(labeler)
    size = loop.batch_size(labeler, batch_size)
    if isinstance(dataset, list):
        return _label_rows(dataset, labeler, strict, columns, size)
    if isinstance(dataset, dict):
        raise ValueError(
            f"dataset must be a list, Dataset or IterableDataset, got a dictionary of {', '.join(dataset)}; choose "
            "one of its splits, or give a list of rows"
        )
    if not hasattr(dataset, "take"):
        raise TypeError(f"dataset must be a list, Dataset or IterableDataset, got {type(dataset).__name__}")
    if hasattr(dataset, "__len__"):
        return as_dataset(_label_rows(dataset, labeler, strict, columns, size))
    first = list(dataset.take(_FIRST_ROWS))
    return _label_stream(dataset, first, _RowLabeler(labeler, first, strict, columns), size)


def _label_rows(rows: Any, labeler: PassageLabeler, strict: bool, columns: Columns, size: int) -> list[dict[str, Any]]:
    """Return the label rows of all rows; processes share the work."""
    # every process would report the same rows
    rows_of = _RowLabeler(labeler, rows, strict, columns, silent=not process_state().is_main_process)
    queries = rows_of.queries(enumerate(rows))
    found = loop.label_all(labeler, list(queries.values()), size)
    return list(rows_of.labels(zip(queries, found, strict=True)))


def _label_stream(
    dataset: "IterableDataset", first: Sequence[Mapping[str, Any]], rows_of: "_RowLabeler", size: int
) -> "IterableDataset":
    def label_batch(batch: Mapping[str, Sequence[Any]], places: Sequence[int]) -> dict[str, list[Any]]:
        rows = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
        queries = rows_of.queries(zip(places, rows, strict=True))
        found = loop.label_batches(rows_of.labeler, [list(queries.values())])
        labels = list(rows_of.labels(zip(queries, found, strict=True)))
        names = dict.fromkeys(name for row in labels for name in row)
        return {name: [row.get(name) for row in labels] for name in names}

    names = list(dict.fromkeys(name for row in first for name in row))
    return dataset.map(label_batch, with_indices=True, batched=True, batch_size=size, remove_columns=names)


class _RowLabeler:
    """Converts rows of a dataset to queries, and labels to label rows; ``first`` are rows with all its columns."""

    def __init__(
        self,
        labeler: PassageLabeler,
        first: Any,
        strict: bool,
        columns: Columns,
        *,
        silent: bool = False,
    ) -> None:
        self.labeler, self._strict, self._silent = labeler, strict, silent
        needed = {"question", "passages"} | ({"answers"} if labeler.needs_answers else set())
        self._columns = columns
        check_columns(list(itertools.islice(first, _FIRST_ROWS)), "the dataset", needed, columns)

    def queries(self, rows: Iterable[tuple[int, Any]]) -> dict[int, Query]:
        """Return the usable rows as queries, by position."""
        queries: dict[int, Query] = {}
        for place, row in rows:
            try:
                ours = as_ours(row, self._columns) if isinstance(row, Mapping) else row
                queries[place] = as_query(ours, answers_needed=self.labeler.needs_answers)
            except UnscorableError as error:
                self._left_out(place, error)
        return queries

    def labels(self, found: Iterable[tuple[int, Found]]) -> Iterator[dict[str, Any]]:
        """Yield the label rows of queries, whose ids are their positions."""
        for place, (query, labeled) in found:
            try:
                row = label_row(unwrap(labeled), self.labeler.name, passage_lengths(self.labeler.scorer, query))
            except UnscorableError as error:
                self._left_out(place, error)
            else:
                yield row

    def _left_out(self, place: int, error: UnscorableError) -> None:
        """Raise the error with the row's number in front if ``strict``, else write the message and continue."""
        if self._strict:
            raise type(error)(f"row {place}: {error}") from error
        if not self._silent:
            say(f"row {place} left out: {error}")
