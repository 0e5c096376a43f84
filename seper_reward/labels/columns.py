"""``Labeler``: labels batches of columns, for data engines that run it in their own processes."""

import functools
from collections.abc import Mapping
from typing import Any

from seper_reward.data.formats import parse_columns
from seper_reward.labels.dataset import check_row_columns, label_rows
from seper_reward.labels.labelers import PassageLabeler, load_labeler
from seper_reward.labels.loop import batch_size, label_batches
from seper_reward.labels.rows import SUFFIXES
from seper_reward.options import LabelOptions
from seper_reward.runtime.json_files import json_line
from seper_reward.runtime.memory import in_batches
from seper_reward.scorer import load_scorer
from seper_reward.types import UnscorableError

_ADDED = ("labels", "std_errors", "label_row", "label_error")


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
        labeler, options = self._labeler, self._options
        columns = {name: list(batch[name]) for name in batch}
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        check_row_columns(rows, labeler, self._columns)
        size = batch_size(labeler, options.block)
        found = label_rows(
            enumerate(rows), labeler, lambda queries: label_batches(labeler, in_batches(queries, size)), self._columns
        )
        added = [_added(row, labeler.name) for _, row in sorted(found, key=lambda each: each[0])]
        new = {name: [row[at] for row in added] for at, name in enumerate(_ADDED)}
        return batch.assign(**new) if hasattr(batch, "assign") else {**{name: batch[name] for name in batch}, **new}

    @functools.cached_property
    def _labeler(self) -> PassageLabeler:
        options = self._options
        load = functools.partial(load_scorer, options, options.seed)
        return load_labeler(options.labeler, load, options.set_options, options.label)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the models."""
        return {name: value for name, value in vars(self).items() if name != "_labeler"}


def _added(row: Mapping[str, Any] | UnscorableError, label: str) -> tuple[list[float], list[float], str, str]:
    if isinstance(row, UnscorableError):
        return [], [], "", str(row)
    error = f"std_error{SUFFIXES.get(label, '')}"
    labels = [float(passage[label]) for passage in row["passages"]]
    errors = [float(passage.get(error, 0.0)) for passage in row["passages"]]
    return labels, errors, json_line(row, default=str, allow_nan=False).rstrip("\n"), ""
