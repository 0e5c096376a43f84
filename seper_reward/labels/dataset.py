"""``label`` labels the rows of a list or a ``Dataset``, and ``Labeler`` batches of columns in a data engine."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from seper_reward.data.formats import Columns, as_ours, check_columns, parse_columns
from seper_reward.data.queries import parse_query
from seper_reward.data.rows import read_rows
from seper_reward.labels import loop
from seper_reward.labels.labelers import DeltaSePerLabeler, PassageLabeler, load_labeler
from seper_reward.labels.rows import labeled_query
from seper_reward.options import LabelOptions
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import json_line
from seper_reward.runtime.memory import in_batches
from seper_reward.runtime.messages import say
from seper_reward.runtime.parquet_files import as_dataset
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query, UnscorableError, attempt

if TYPE_CHECKING:
    from datasets import Dataset

D = TypeVar("D", "Dataset", list[Any])
Row = dict[str, object] | UnscorableError
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
    all labels. A stream is labelled by ``stream.map(Labeler(options), batched=True)``.

    Args:
        dataset: List or ``Dataset`` of rows ``{id?, question, answers, passages}`` or in a layout of ``data.formats``;
            a passage is a text or ``{id?, title?, text}``.
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
    size = loop.labeler_batch_size(labeler, batch_size)
    if isinstance(dataset, dict):
        raise ValueError(
            f"dataset must be a list or Dataset, got a dictionary of {', '.join(dataset)}; choose one of its splits, "
            "or give a list of rows"
        )
    if not (isinstance(dataset, list) or (hasattr(dataset, "take") and hasattr(dataset, "__len__"))):
        raise TypeError(
            f"dataset must be a list or Dataset, got {type(dataset).__name__}; for a stream, use "
            "stream.map(seper_reward.labels.dataset.Labeler(options), batched=True)"
        )
    rows = []
    for place, row in enumerate(_label_rows(dataset, labeler, partial(loop.label_all, size=size), columns, strict)):
        if not isinstance(row, UnscorableError):
            rows.append(row)
        elif process_state().is_main_process:  # every process would report the same rows
            say(f"row {place} left out: {row}")
    return rows if isinstance(dataset, list) else as_dataset(rows)


class Labeler:
    """A function from a batch of columns to the same columns and those of the labels; it can be pickled.

    The models are loaded in the process that labels, by its first batch. It is the function of ``datasets.map`` with
    ``batched=True``, of Ray's ``map_batches`` (as a class with its options) and, by ``map``, of Spark's
    ``mapInPandas``. Further columns, of equal types in all batches:

    - ``labels``, ``std_errors``: lists with a number per passage, empty if the row cannot be labelled
    - ``label_row``: the row's line in ``labels.jsonl`` without line break, empty if the row cannot be labelled
    - ``label_error``: the reason why the row cannot be labelled, else empty

    Args:
        options: Settings of the command ``label``; those of its input and output folder are not used.

    Raises:
        OSError: A model cannot be loaded.
        ValueError: An option is not allowed, or the batch has no column that the labeler needs.
    """

    def __init__(self, options: LabelOptions) -> None:
        self._options = options
        self._columns = parse_columns(options.columns)

    def __call__(self, batch: Any) -> Any:
        """Label a mapping of columns, such as NumPy arrays or lists, or a pandas table; return the same kind."""
        columns = {name: list(batch[name]) for name in batch}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of a batch must have equal lengths, got {lengths}")
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        size = loop.labeler_batch_size(self._labeler, self._options.batch_size)

        def label_all(labeler: PassageLabeler, queries: list[Query]) -> Iterator[loop.Found]:
            return loop.label_batches(labeler, in_batches(queries, size))

        new: dict[str, list[object]] = {name: [] for name in ("labels", "std_errors", "label_row", "label_error")}
        for row in _label_rows(rows, self._labeler, label_all, self._columns, whole=True):
            added: tuple[object, ...]
            if isinstance(row, UnscorableError):
                added = [], [], "", str(row)
            else:
                labeled = labeled_query(row, self._labeler.name)
                line = json_line(row, default=str, allow_nan=False).rstrip("\n")
                added = list(map(float, labeled.labels)), list(map(float, labeled.std_errors)), line, ""
            for name, value in zip(new, added, strict=True):
                new[name].append(value)
        return batch.assign(**new) if hasattr(batch, "assign") else {**{name: batch[name] for name in batch}, **new}

    @functools.cached_property
    def _labeler(self) -> PassageLabeler:
        options = self._options
        load = partial(SePerScorer.from_pretrained, options)
        return load_labeler(options.labeler, load, options.set_options, options.label)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the models."""
        return {name: value for name, value in vars(self).items() if name != "_labeler"}


def _label_rows(
    rows: Iterable[object],
    labeler: PassageLabeler,
    label_all: Callable[[PassageLabeler, list[Query]], Iterator[loop.Found]],
    columns: Columns,
    strict: bool = False,
    whole: bool = False,
) -> list[Row]:
    """Return the label row of each row, or its error; if ``strict``, raise the first one, of unusable rows early.

    With ``whole``, a row with an empty passage is unusable.
    """
    needed = {"question", "passages"} | ({"answers"} if labeler.needs_answers else set())
    first = [row for _, row in itertools.islice(read_rows(rows), _FIRST_ROWS)]
    check_columns(first, "the dataset", needed, columns)

    def parse(row: object) -> Query:
        parsed = parse_query(as_ours(row, columns), answers_needed=labeler.needs_answers)
        return parsed.whole if whole else parsed.query

    def checked(place: int, act: Callable[[], object]) -> Any:
        value = attempt(act)
        if strict and isinstance(value, UnscorableError):
            raise type(value)(f"row {place}: {value}") from value
        return value

    labeled = [checked(place, partial(parse, row)) for place, (_, row) in enumerate(read_rows(rows))]
    queries = {place: query for place, query in enumerate(labeled) if isinstance(query, Query)}
    for place, pair in zip(queries, label_all(labeler, list(queries.values())), strict=True):
        labeled[place] = checked(place, partial(loop.row_of, labeler, *pair))
    return labeled
