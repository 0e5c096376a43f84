"""``label_dataset``: a Dataset of questions in, a Dataset of label rows out; a stream in, a stream out."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm.auto import tqdm

from seper_reward.data.formats.recognise import Reading, recognise
from seper_reward.data.queries import as_query
from seper_reward.labels.blocks import block_size, cut, label_blocks
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.rows import label_row, passage_lengths
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.messages import say
from seper_reward.runtime.parquet_files import as_dataset
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query, UnscorableError

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

D = TypeVar("D", "Dataset", "IterableDataset")
_FIRST_ROWS = 20  # of a stream, to recognise its layout; they are read again when it is labelled


def label_dataset(
    dataset: D,
    labeler: PassageLabeler | SePerScorer,
    *,
    strict: bool = True,
    block: int = 1,
    columns: Mapping[str, str] = MappingProxyType({}),
) -> D:
    """Label the passages of each question.

    Under ``torchrun`` or ``accelerate launch`` the questions of a ``Dataset`` are shared among the processes, and each
    gets all labels. An ``IterableDataset`` is labelled row by row as it is read, by each process that reads it;
    ``datasets.distributed.split_dataset_by_node`` gives each its part.

    Args:
        dataset: Rows ``{id?, question, answers, passages}`` or in one of the layouts that ``recognise`` knows; a
            passage is a text or ``{id?, title?, text}``.
        labeler: The labeler; a scorer stands for the labeler of its ΔSePer.
        strict: Whether a row that cannot be labelled raises an error; otherwise it is left out with a message.
        block: How many neighbouring rows are measured side by side, >= 1; more fill a large device.
        columns: Columns that hold ``id``, ``question``, ``answers`` or ``passages``, where they are not recognised.

    Returns:
        A dataset, or a stream, with the columns of ``label_row``, in the order of the input.

    Raises:
        BadRowError: A row is unusable, and ``strict``.
        UnscorableError: A row cannot be scored, and ``strict``.
        ValueError: ``block`` is below 1, or above 1 with ``enough_std_error``; no column is known to hold what is
            needed; or the dataset is a ``DatasetDict``.
    """
    from datasets import IterableDataset

    if isinstance(dataset, dict):
        raise ValueError(f"expected a Dataset, got a DatasetDict; take one of its splits, {', '.join(dataset)}")
    if isinstance(labeler, SePerScorer):
        labeler = DeltaSePerLabeler(labeler)
    block = block_size(labeler, block)
    if isinstance(dataset, IterableDataset):
        return _labelled_stream(dataset, labeler, strict, block, columns)
    work = _RowLabeler(labeler, _recognised(dataset, labeler, columns), strict)
    blocks = cut(range(len(dataset)), block)
    lengths = [len(str(row)) for row in dataset]
    costs = [sum(lengths[index] for index in rows) for rows in blocks]
    labels = gather_in_order(work.label_blocks(dataset, shard(blocks, costs), show=True), costs)
    return as_dataset([label for rows in labels for label in rows])


def _labelled_stream(
    dataset: "IterableDataset", labeler: PassageLabeler, strict: bool, block: int, columns: Mapping[str, str]
) -> "IterableDataset":
    first = list(dataset.take(_FIRST_ROWS))
    work = _RowLabeler(labeler, _recognised(first, labeler, columns), strict)

    def label(batch: Mapping[str, Sequence[Any]], places: Sequence[int]) -> dict[str, list[Any]]:
        rows = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
        (labels,) = work.label_blocks(dict(zip(places, rows, strict=True)), [places], show=False)
        names = dict.fromkeys(name for row in labels for name in row)
        return {name: [row.get(name) for row in labels] for name in names}

    names = list(dict.fromkeys(name for row in first for name in row))
    return dataset.map(label, with_indices=True, batched=True, batch_size=block, remove_columns=names)


def _recognised(rows: Any, labeler: PassageLabeler, columns: Mapping[str, str]) -> Reading:
    needed = {"question", "passages"} | ({"answers"} if labeler.needs_answers else set())
    return recognise((("", row) for row in rows), "the dataset", needed, columns)[0]


@dataclass(frozen=True)
class _RowLabeler:
    """Labels rows as they are laid out in a dataset."""

    labeler: PassageLabeler
    reading: Reading
    strict: bool

    def label_blocks(self, rows: Any, blocks: Sequence[Sequence[int]], *, show: bool) -> list[list[dict[str, Any]]]:
        """Label blocks of ``rows``, which are named by their places; return the label rows of each block."""
        answers_needed = self.labeler.needs_answers
        queries: dict[int, Query] = {}
        for place in itertools.chain(*blocks):
            with self._errors_of(place):
                queries[place] = as_query(self.reading.convert(rows[place]), answers_needed=answers_needed)
        usable = [[place for place in block if place in queries] for block in blocks]
        found = label_blocks(self.labeler, ([queries[place] for place in block] for block in usable))
        bar = tqdm(
            zip(queries, found, strict=True),
            total=len(queries),
            desc="labelling",
            unit="question",
            disable=not (show and process_state().is_main_process),
        )
        labels: dict[int, dict[str, Any]] = {}
        for place, (query, labeled) in bar:
            with self._errors_of(place):
                if isinstance(labeled, UnscorableError):
                    raise labeled
                labels[place] = label_row(labeled, self.labeler.name, passage_lengths(self.labeler.scorer, query))
        return [[labels[place] for place in block if place in labels] for block in usable]

    @contextmanager
    def _errors_of(self, place: int) -> Iterator[None]:
        """Put the row's number in front of an error; if not ``strict``, write the message and go on."""
        try:
            yield
        except UnscorableError as error:
            if self.strict:
                raise type(error)(f"row {place}: {error}") from error
            say(f"row {place} left out: {error}")
