"""The labels of one reader, with what they would be on halves of its responses."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from seper_reward.estimators.belief import weigh
from seper_reward.estimators.seper import Estimator
from seper_reward.labels.integrity import PROVENANCE
from seper_reward.labels.rows import DELTA_SEPER, labeler_of, read_label_rows, sampled_responses
from seper_reward.runtime.json_files import read_json
from tests.benchmarks.experiments.agreement import NoisyLabels

Key = tuple[str, str]  # id of the question, id of the passage


@dataclass(frozen=True)
class ReaderLabels:
    """The label rows of one reader.

    Attributes:
        name: Name of the folder.
        rows: Rows by id of the question.
        estimator: The options of SePer that the labels were made with.
        reader: Name of the reader.
        prompt: How it was asked, as provenance tells it.
        seed: Seed of sampling.
    """

    name: str
    rows: Mapping[str, Mapping[str, Any]]
    estimator: Estimator
    reader: str
    prompt: Mapping[str, Any]
    seed: int

    @functools.cached_property
    def texts(self) -> dict[Key, tuple[str, str]]:
        """The texts of question and passage of each label."""
        return {
            (row["id"], passage["passage_id"]): (row["question"], passage["text"])
            for row in self.rows.values()
            for passage in row["passages"]
        }

    def passage(self, key: Key) -> Mapping[str, Any]:
        """Return the row of a passage."""
        question, identity = key
        return next(row for row in self.rows[question]["passages"] if row["passage_id"] == identity)

    def noisy(self, keys: Sequence[Key], *, splits: int, seed: Sequence[int]) -> tuple[NoisyLabels, NoisyLabels]:
        """Return the labels with those on halves of the responses.

        Args:
            keys: Ids of n questions and passages; those of one question stand side by side.
            splits: K, how often the responses of a context are split at random.
            seed: Seed of the splits.

        Returns:
            The labels, and the same with the errors that the passages' own responses have, for differences between
            labels that share a baseline.

        Raises:
            ValueError: A context has a single response.
        """
        import numpy as np

        random = np.random.default_rng(seed)
        values, errors, own_errors, halves = [], [], [], []
        groups = [list(group) for _, group in itertools.groupby(keys, key=lambda key: key[0])]
        for group in tqdm(groups, desc=f"halves of {self.name}", unit="question"):
            baseline = self.rows[group[0][0]]["baseline"]
            without = self._half_sepers(baseline, splits, random, f"question id={group[0][0]!r}")
            for key in group:
                row = self.passage(key)
                values.append(row[DELTA_SEPER])
                errors.append(row["std_error"])
                own_errors.append(math.sqrt(max(row["std_error"] ** 2 - baseline["std_error"] ** 2, 0.0)))
                halves.append(self._half_sepers(row, splits, random, f"question, passage ids={key}") - without)
        columns = np.array(values), np.moveaxis(np.array(halves), 0, -1)  # (n,) and (K, 2, n)
        labels, alone = (NoisyLabels(columns[0], np.array(each), columns[1]) for each in (errors, own_errors))
        return labels, alone

    def _half_sepers(self, context: Mapping[str, Any], splits: int, random: Any, where: str) -> Any:
        """Return ``(K, 2)``: SePer on both halves of a context's responses, for each split."""
        import numpy as np

        sampled = sampled_responses(context)
        support = {row["text"]: row["support"] for row in context["responses"]}
        if len(sampled.texts) < 2:
            raise ValueError(f"{self.name}, {where}: one response has no halves; label with more --num_samples")
        found = []
        for _ in range(splits):
            first, other = np.array_split(random.permutation(len(sampled.texts)), 2)
            halves = [weigh(self.estimator, sampled.at(half.tolist())) for half in (first, other)]
            found.append(
                [
                    sum(
                        weight * support[text]
                        for weight, text in zip(half.weights.tolist(), half.responses.texts, strict=True)
                    )
                    for half in halves
                ]
            )
        return np.array(found)


def read_reader(folder: str | Path, name: str) -> ReaderLabels:
    """Read a folder written by ``seper-reward label``.

    Args:
        folder: Folder with ``labels.jsonl`` and ``provenance.json``.
        name: Name of the reader in results.

    Raises:
        OSError: One of the files is missing.
        ValueError: The labels are not those of ΔSePer, or do not count for each response the answer that it fits best;
            or a file is damaged.
    """
    rows = {row["id"]: row for row in read_label_rows(folder).values()}
    if (labeler := labeler_of(rows.values())) != DELTA_SEPER:
        raise ValueError(f"{folder} has labels of {labeler!r}; only labels of ΔSePer keep their responses")
    decides = read_json(Path(folder) / PROVENANCE)["decides"]
    estimator, sampling = Estimator(**decides["estimator"]), decides["sampling"]
    if estimator.aliases != "any":
        raise ValueError(
            f"{folder}: labels with aliases={estimator.aliases!r} cannot be computed on half of the responses from "
            "what rows keep; label again with `--estimator default`"
        )
    return ReaderLabels(name, rows, estimator, decides["reader"], decides["prompt"], sampling["seed"])
