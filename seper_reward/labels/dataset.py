"""Label passages by ΔSePer: queries in, one plain row per question out."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from seper_reward.data.queries import BadRowError, as_query, read_valid_rows
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, LabeledQuery, Passage, Query, UnscorableError, Utility

if TYPE_CHECKING:
    from datasets import Dataset

_DECODING = 50  # tokens to read that cost as much as the responses to one prompt, about
_DIGITS = 6  # beyond the numbers' own precision; keeps files small and equal


def label_dataset(dataset: "Dataset", scorer: SePerScorer, *, strict: bool = True, block: int = 1) -> "Dataset":
    """Label the passages of each question by ΔSePer.

    Under ``torchrun`` or ``accelerate launch`` the questions are shared among the processes, and each gets all
    labels.

    Args:
        dataset: rows ``{id?, question, answers, passages}``; a passage is a text or ``{id?, title?, text}``.
        scorer: measures the beliefs.
        strict: raise at a row that cannot be labelled; else leave it out and warn.
        block: neighbouring rows measured side by side; more fill a large device.

    Returns:
        A dataset with the columns of ``label_row``, in the order of the input.

    Raises:
        BadRowError: a row is unusable (``strict``).
        UnscorableError: a row cannot be scored (``strict``).
        ValueError: ``block`` is below 1, or above 1 with ``enough_std_error``.
    """
    from datasets import Dataset

    block = scorer.block_size(block)
    blocks = [range(len(dataset))[start : start + block] for start in range(0, len(dataset), block)]
    lengths = [len(str(row)) for row in dataset]
    costs = [sum(lengths[index] for index in rows) for rows in blocks]
    labels = gather_in_order(_label_shard(dataset, scorer, strict, shard(blocks, costs)), costs)
    return Dataset.from_list([label for rows in labels for label in rows])


def query_cost(query: Query) -> float:
    """Estimate the work that labelling a question is, in tokens: a prompt per passage and one without."""
    characters = sum(len(passage.title) + len(passage.text) for passage in query.passages)
    return characters / 4 + (len(query.passages) + 1) * (len(query.question) / 4 + _DECODING)


def label_row(query: Query, utilities: Sequence[Utility]) -> dict[str, Any]:
    """Return the label row of one question: JSON-able, numbers rounded to 6 digits.

    Keys: ``id``, ``question``, ``answers``, the query's metadata, ``baseline`` (``seper``, ``seper_hard``,
    ``std_error``, ``responses``) and ``passages``, each with ``passage_id``, ``title``, ``text``, its metadata,
    ``seper``, ``delta_seper``, ``delta_seper_hard``, ``std_error`` (of ``delta_seper``) and ``responses``. A response
    has its ``text``, ``weight``, ``cluster`` and ``support`` (how far it entails the answer it fits best).
    """
    baseline = utilities[0].baseline
    return {
        "id": query.id,
        "question": query.question,
        "answers": list(query.answers),
        **query.metadata,
        "baseline": {
            "seper": _rounded(baseline.seper),
            "seper_hard": _rounded(baseline.seper_hard),
            "std_error": _rounded(baseline.std_error),
            "responses": _responses(baseline),
        },
        "passages": [
            {
                "passage_id": passage.id,
                "title": passage.title,
                "text": passage.text,
                **{key: value for key, value in passage.metadata.items() if key != "passage_id"},
                "seper": _rounded(judged.seper),
                "delta_seper": _rounded(judged.delta_seper),
                "delta_seper_hard": _rounded(judged.delta_seper_hard),
                "std_error": _rounded(judged.std_error),
                "responses": _responses(judged.belief),
            }
            for passage, judged in zip(query.passages, utilities, strict=True)
        ],
    }


def read_labels(folder: str | Path, label: str = "delta_seper") -> list[LabeledQuery]:
    """Read the labels of a folder written by ``seper-reward label``.

    Args:
        folder: with ``labels.jsonl``.
        label: ``"delta_seper"`` or ``"delta_seper_hard"``.

    Raises:
        OSError: there is no such file.
        ValueError: a row is no label row, with file and row.
    """
    labeled = []
    for where, row in read_valid_rows(Path(folder) / "labels.jsonl"):
        try:
            labeled.append(_labeled_query(row, label))
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{where}: expected a row written by `seper-reward label` of this version, but {error} is missing; "
                "label again into another folder"
            ) from error
    return labeled


def _labeled_query(row: Mapping[str, Any], label: str) -> LabeledQuery:
    judged = {"passage_id", "title", "text", "seper", "delta_seper", "delta_seper_hard", "std_error", "responses"}
    passages = tuple(
        Passage(
            passage["text"],
            passage["title"],
            passage["passage_id"],
            {key: value for key, value in passage.items() if key not in judged},
        )
        for passage in row["passages"]
    )
    metadata = {key: row[key] for key in row if key not in {"id", "question", "answers", "baseline", "passages"}}
    return LabeledQuery(
        Query(row["id"], row["question"], tuple(row["answers"]), passages, metadata),
        labels=tuple(passage[label] for passage in row["passages"]),
        std_errors=tuple(passage["std_error"] for passage in row["passages"]),
    )


def _label_shard(
    dataset: "Dataset", scorer: SePerScorer, strict: bool, blocks: Sequence[Sequence[int]]
) -> list[list[dict[str, Any]]]:
    """Return the labels of each block."""
    queries: dict[int, Query] = {}
    for index in itertools.chain(*blocks):
        with _bad_rows(index, strict):
            queries[index] = as_query(dataset[index])
    usable = [[index for index in rows if index in queries] for rows in blocks]
    bar = tqdm(
        zip(queries, scorer.measured([queries[index] for index in rows] for rows in usable), strict=True),
        total=len(queries),
        desc="labelling",
        unit="question",
        disable=not process_state().is_main_process,
    )
    labels: dict[int, dict[str, Any]] = {}
    for index, (query, judged) in bar:
        with _bad_rows(index, strict):
            if isinstance(judged, UnscorableError):
                raise judged
            labels[index] = label_row(query, judged)
    return [[labels[index] for index in rows if index in labels] for rows in usable]


@contextmanager
def _bad_rows(index: int, strict: bool) -> Iterator[None]:
    """Name the row of an error, or tell of it and go on."""
    try:
        yield
    except (BadRowError, UnscorableError) as error:
        if strict:
            raise type(error)(f"row {index}: {error}") from error
        tqdm.write(f"row {index} left out: {error}")


def _rounded(value: float) -> float:
    return round(value, _DIGITS) + 0.0  # no -0.0


def _responses(belief: Belief) -> list[dict[str, Any]]:
    columns = (belief.responses, belief.weights, belief.cluster_ids, belief.support)
    return [
        {"text": text, "weight": _rounded(weight), "cluster": cluster, "support": _rounded(max(support))}
        for text, weight, cluster, support in zip(*columns, strict=True)
    ]
