"""``load_labels``: loads finished labels as training datasets or tables."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seper_reward.data.rows import read_valid_rows, shown
from seper_reward.labels.export import Form, form_rows
from seper_reward.labels.integrity import LABELS, PROVENANCE, SUMMARY, check_finished, check_labels, label_files
from seper_reward.labels.rows import LABELS_PARQUET, labeled_queries, recommended_label
from seper_reward.options import POSITIVE
from seper_reward.runtime.json_files import read_json
from seper_reward.runtime.messages import plural
from seper_reward.runtime.parquet_files import as_dataset, without_none
from seper_reward.types import LabeledQuery, excerpt, html_table

if TYPE_CHECKING:
    from datasets import Dataset


_SHOWN = 10  # passages in the notebook view


@dataclass(frozen=True, repr=False)
class Labels:
    """Label rows of a run, or of ``label``.

    Attributes:
        rows: Label rows as ``label_row`` makes them.
        provenance: Content of ``provenance.json``; empty if unknown.
        summary: Content of ``summary.json``; empty if unknown.
    """

    rows: Sequence[Mapping[str, Any]]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, object]]) -> "Labels":
        """Return the labels in the rows of a dataset, such as the result of ``label``."""
        return cls([without_none(row) for row in rows])

    def __len__(self) -> int:
        """Return the number of questions."""
        return len(self.rows)

    def __repr__(self) -> str:
        """Return the numbers of questions and passages, and the range and mean of the labels of ``to_dataset``."""
        column = recommended_label(self.rows)
        passages = [passage for row in self.rows for passage in row["passages"]]
        labels = [passage[column] for passage in passages if isinstance(passage.get(column), (int, float))]
        text = f"{plural(len(self), 'question')}, {plural(len(passages), 'passage')}"
        if labels:
            mean = sum(labels) / len(labels)
            text += f"; {column} from {min(labels):.3f} to {max(labels):.3f}, mean {mean:.3f}"
        return f"Labels({text})"

    def _repr_html_(self) -> str:
        column = recommended_label(self.rows)
        pairs = ((row, passage) for row in self.rows for passage in row["passages"])
        rows = []
        for row, passage in itertools.islice(pairs, _SHOWN):
            texts = (row["question"], (row["answers"] or [""])[0], passage["text"])
            label = passage.get(column)
            rows.append([*map(excerpt, texts), "" if label is None else f"{label:.3f}"])
        return html_table(repr(self), ("question", "answer", "passage", column), rows)

    def labeled(self, label: str | None = None) -> list[LabeledQuery]:
        """Return the labelled queries, for ``write_labels`` and the functions of ``labels.targets``.

        ``label`` is that of ``to_dataset``.

        Raises:
            ValueError: The rows have no such label.
        """
        return labeled_queries({f"row {number}": row for number, row in enumerate(self.rows, 1)}, label)

    def to_dataset(self, form: Form | None = None, *, label: str | None = None, margin: float = POSITIVE) -> "Dataset":
        """Return a dataset that sentence-transformers' trainers accept without changes.

        Args:
            form: ``"pairs"`` (anchor, positive), ``"triplets"`` (anchor, positive, negative, label), ``"lists"``
                (query, docs, labels) or ``"flat"`` (query, passage, label), see ``FORMS`` of ``labels.export``;
                ``None`` for the label rows themselves.
            label: Field of the labels; ``None`` for the recommended one (``recommended_label``).
            margin: Least evidence of a positive passage, and least distance of a negative below the positive.

        Raises:
            ValueError: The rows have no such label, the form is unknown, or no question gives a row.
        """
        if form is None:
            return as_dataset(self.rows)
        return as_dataset(form_rows(self.labeled(label), form, margin))


def load_labels(source: str | Path) -> Labels:
    """Load finished labels.

    Args:
        source: Folder written by ``seper-reward label`` or a trainer; a file of label rows; or the name of a dataset
            of label rows on the hub.

    Raises:
        OSError: No labels are found.
        ValueError: A row is not an object, or a file changed after the run ended; the message names it.
    """
    folder = Path(source)
    lines, table = label_files(folder), folder / LABELS_PARQUET
    if not lines and not table.is_file():
        check_finished(folder)
    files: list[str | Path] = [*lines] or [table if table.is_file() else source]
    told = [read_json(folder / name) if (folder / name).is_file() else {} for name in (PROVENANCE, SUMMARY)]
    if Path(files[0]).is_file():
        check_labels(Path(files[0]).parent)
    rows = [dict(row) for file in files for _, row in read_valid_rows(file)]
    if rows and not all(isinstance(item, Mapping) for item in rows[0].get("passages") or [rows[0].get("passages")]):
        raise ValueError(f"{source}: expected label rows, whose passages are objects, got {shown(rows[0])}")
    # tabular formats need the same columns in every row; JSON lines do not
    return Labels(rows if lines or str(source).endswith(LABELS) else list(map(without_none, rows)), *told)
