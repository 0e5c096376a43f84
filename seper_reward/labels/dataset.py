"""``label_dataset``: a Dataset of questions in, a Dataset of label rows out."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from seper_reward.data.queries import as_query
from seper_reward.labels.blocks import block_size, label_blocks
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.labels.rows import cut_passages, label_row
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query, UnscorableError

if TYPE_CHECKING:
    from datasets import Dataset


def label_dataset(
    dataset: "Dataset", labeler: PassageLabeler | SePerScorer, *, strict: bool = True, block: int = 1
) -> "Dataset":
    """Label the passages of each question.

    Under ``torchrun`` or ``accelerate launch`` the questions are shared among the processes, and each gets all
    labels.

    Args:
        dataset: Rows ``{id?, question, answers, passages}``; a passage is a text or ``{id?, title?, text}``.
        labeler: The labeler; a scorer stands for the labeler of its ΔSePer.
        strict: Whether a row that cannot be labelled raises an error; otherwise it is left out with a message.
        block: How many neighbouring rows are measured side by side, >= 1; more fill a large device.

    Returns:
        A dataset with the columns of ``label_row``, in the order of the input.

    Raises:
        BadRowError: A row is unusable, and ``strict``.
        UnscorableError: A row cannot be scored, and ``strict``.
        ValueError: ``block`` is below 1, or above 1 with ``enough_std_error``.
    """
    from datasets import Dataset

    if isinstance(labeler, SePerScorer):
        labeler = DeltaSePerLabeler(labeler)
    block = block_size(labeler, block)
    blocks = [range(len(dataset))[start : start + block] for start in range(0, len(dataset), block)]
    lengths = [len(str(row)) for row in dataset]
    costs = [sum(lengths[index] for index in rows) for rows in blocks]
    labels = gather_in_order(_label_shard(dataset, labeler, strict, shard(blocks, costs)), costs)
    return Dataset.from_list([label for rows in labels for label in rows])


def _label_shard(
    dataset: "Dataset", labeler: PassageLabeler, strict: bool, blocks: Sequence[Sequence[int]]
) -> list[list[dict[str, Any]]]:
    """Label this process's blocks of row numbers; return the label rows of each block."""
    queries: dict[int, Query] = {}
    for index in itertools.chain(*blocks):
        with _row_errors(index, strict):
            queries[index] = as_query(dataset[index])
    usable = [[index for index in rows if index in queries] for rows in blocks]
    bar = tqdm(
        zip(queries, label_blocks(labeler, ([queries[index] for index in rows] for rows in usable)), strict=True),
        total=len(queries),
        desc="labelling",
        unit="question",
        disable=not process_state().is_main_process,
    )
    labels: dict[int, dict[str, Any]] = {}
    for index, (query, labeled) in bar:
        with _row_errors(index, strict):
            if isinstance(labeled, UnscorableError):
                raise labeled
            labels[index] = label_row(labeled, labeler.name, cut_passages(labeler, query))
    return [[labels[index] for index in rows if index in labels] for rows in usable]


@contextmanager
def _row_errors(index: int, strict: bool) -> Iterator[None]:
    """Put the row's number in front of an error; if not ``strict``, write the message and go on."""
    try:
        yield
    except UnscorableError as error:
        if strict:
            raise type(error)(f"row {index}: {error}") from error
        tqdm.write(f"row {index} left out: {error}")
