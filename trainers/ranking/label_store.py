"""Labels shared by all rounds, stored as label rows like those of `seper-reward label`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from seper_reward.data.rows import BadRowError
from seper_reward.labels.labelers import PassageLabeler
from seper_reward.labels.loop import label_all
from seper_reward.labels.rows import label_row, labeled_query, recommended_label
from seper_reward.runtime.distributed import process_state, together
from seper_reward.runtime.json_files import read_lines, write_lines
from seper_reward.runtime.messages import say
from seper_reward.types import LabeledQuery, Query, UnscorableError, attempt


class LabelStore:
    """Labels by question and passage in a JSONL file of label rows; no passage is labelled twice.

    If labels depend on a question's other passages (``PassageLabeler.whole``), all passages of a question are labelled
    again as soon as any of them changes, since the labels of sets depend on all members. All processes must create a
    store together. ``label`` is the field to learn from (default: ``recommended_label``).
    """

    def __init__(self, path: Path, labeler: PassageLabeler, label: str | None = None) -> None:
        self._path, self._labeler, self._label = path, labeler, label
        # the main process reads and broadcasts the rows: other processes may see an old file on a network disk
        self._rows: dict[str, dict[str, Any]] = together(
            lambda: {row["id"]: row for row in read_lines(path)} if path.is_file() else {}
        )

    def __len__(self) -> int:
        return sum(len(row["passages"]) for row in self._rows.values())

    def label(self, queries: Sequence[Query]) -> list[LabeledQuery]:
        """Return the queries with labels; passages without a label are labelled. Processes share the work.

        A query that cannot be labelled is left out with a message.
        """
        unlabeled = [query for query in map(self._missing, queries) if query.passages]
        main_process = process_state().is_main_process
        for query, labeled in label_all(self._labeler, unlabeled):
            if isinstance(labeled, BadRowError):  # the input is invalid, and can be repaired
                raise labeled
            name = self._labeler.name
            row = labeled if isinstance(labeled, UnscorableError) else attempt(partial(label_row, labeled, name))
            if not isinstance(row, UnscorableError):
                self._add(row)
            elif main_process:
                say(f"question id={query.id!r} left out: {row}")
        if main_process and unlabeled:
            write_lines(self._path, self._rows.values(), default=str)
        column = self._label or recommended_label(self._rows.values())
        return [self._labeled(query, column) for query in queries if not self._missing(query).passages]

    def _add(self, row: dict[str, Any]) -> None:
        if self._labeler.whole or row["id"] not in self._rows:
            self._rows[row["id"]] = row
        else:
            self._rows[row["id"]]["passages"] += row["passages"]

    def _missing(self, query: Query) -> Query:
        """Return the query with the passages to label: those without a label, or all if labels are interdependent."""
        row = self._rows.get(query.id, {"passages": []})
        known = {passage["passage_id"] for passage in row["passages"]}
        if self._labeler.whole:
            same = known == {passage.id for passage in query.passages}
            return replace(query, passages=() if same else query.passages)
        return replace(query, passages=tuple(passage for passage in query.passages if passage.id not in known))

    def _labeled(self, query: Query, column: str) -> LabeledQuery:
        """Return the query's passages with their labels, whatever else the store has of the question."""
        if not query.passages and query.id not in self._rows:
            return LabeledQuery(query, (), ())
        known = labeled_query(self._rows[query.id], column)
        places = {passage.id: place for place, passage in enumerate(known.query.passages)}
        return replace(known.keep([places[passage.id] for passage in query.passages]), query=query)
