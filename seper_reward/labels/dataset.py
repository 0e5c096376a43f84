"""``label``: labels the passages of questions in a list or a ``Dataset``, and returns label rows."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from seper_reward.data.formats import Columns, as_ours, check_columns
from seper_reward.data.queries import as_query
from seper_reward.labels import loop
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.loop import Found, row_of
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.messages import say
from seper_reward.runtime.parquet_files import as_dataset
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query, UnscorableError, attempt

if TYPE_CHECKING:
    from datasets import Dataset

D = TypeVar("D", "Dataset", list[Any])
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
    all labels. A stream is labelled by ``stream.map(Labeler(options), batched=True)`` (``labels.columns``).

    Args:
        dataset: List or ``Dataset`` of rows ``{id?, question, answers, passages}`` or in a layout
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
    if isinstance(dataset, dict):
        raise ValueError(
            f"dataset must be a list or Dataset, got a dictionary of {', '.join(dataset)}; choose one of its splits, "
            "or give a list of rows"
        )
    if not (isinstance(dataset, list) or (hasattr(dataset, "take") and hasattr(dataset, "__len__"))):
        raise TypeError(
            f"dataset must be a list or Dataset, got {type(dataset).__name__}; for a stream, use "
            "stream.map(seper_reward.labels.columns.Labeler(options), batched=True)"
        )
    check_row_columns(dataset, labeler, columns)
    found = label_rows(enumerate(dataset), labeler, partial(loop.label_all, labeler, size=size), columns)
    # every process would report the same rows
    rows = list(_labels(found, strict, silent=not process_state().is_main_process))
    return rows if isinstance(dataset, list) else as_dataset(rows)


def label_rows(
    rows: Iterable[tuple[int, Any]],
    labeler: PassageLabeler,
    label_queries: Callable[[list[Query]], Iterator[Found]],
    columns: Columns = MappingProxyType({}),
) -> Iterator[tuple[int, dict[str, Any] | UnscorableError]]:
    """Label rows, given by their places; yield the errors of unusable ones first, then label rows or errors in order.

    ``label_queries`` yields queries with their labels.
    """
    queries: dict[int, Query] = {}
    for place, row in rows:
        try:
            ours = as_ours(row, columns) if isinstance(row, Mapping) else row
            queries[place] = as_query(ours, answers_needed=labeler.needs_answers)
        except UnscorableError as error:
            yield place, error
    for place, (query, labeled) in zip(queries, label_queries(list(queries.values())), strict=True):
        yield place, attempt(partial(row_of, labeler, query, labeled))


def check_row_columns(rows: Iterable[Any], labeler: PassageLabeler, columns: Columns) -> None:
    """Raise ``ValueError`` if the first rows have no column that the labeler needs."""
    needed = {"question", "passages"} | ({"answers"} if labeler.needs_answers else set())
    check_columns(list(itertools.islice(rows, _FIRST_ROWS)), "the dataset", needed, columns)


def _labels(
    found: Iterable[tuple[int, dict[str, Any] | UnscorableError]], strict: bool, *, silent: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the label rows; an error is raised with the row's number if ``strict``, else written."""
    for place, row in found:
        if not isinstance(row, UnscorableError):
            yield row
        elif strict:
            raise type(row)(f"row {place}: {row}") from row
        elif not silent:
            say(f"row {place} left out: {row}")
