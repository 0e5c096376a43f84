"""Labels on the Hugging Face hub: one dataset with a configuration per form, and a card from the provenance."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seper_reward.labels.export import FORMS
from seper_reward.labels.integrity import PROVENANCE, SUMMARY
from seper_reward.labels.rows import LABELS, LABELS_PARQUET, labeled_queries, recommended_label
from seper_reward.runtime.hub import upload
from seper_reward.runtime.json_files import write_json
from seper_reward.runtime.parquet_files import write_parquet

_CARD = Path(__file__).with_name("label_card.md")
_ROWS = {
    "labels": "a question with its passages, all labels and the responses behind them",
    "pairs": "`anchor`, `positive`",
    "triplets": "`anchor`, `positive`, `negative`, `label` (the difference of labels)",
    "lists": "`query`, `docs`, `labels`",
    "flat": "`query`, `passage`, `label`",
}
# parts of the provenance that are listed on the card; the file has all of them
_ON_CARD = (
    "labeler",
    "reader",
    "reader_weights",
    "entailment",
    "entailment_weights",
    "device",
    "seper-reward",
    "torch",
)
_PRIVATE = ("settings", "platform")  # paths and addresses of the machine, which do not affect labels


def push_labels(
    rows: Sequence[Mapping[str, Any]],
    repo_id: str,
    *,
    provenance: Mapping[str, Any],
    summary: Mapping[str, Any],
    label: str | None = None,
    margin: float = 0.1,
    private: bool = True,
    token: str | None = None,
    revision: str | None = None,
) -> str:
    """Upload labels as a dataset: their rows, each form of ``labels.export.FORMS``, provenance, summary and a card.

    Settings and platform are removed from the provenance, since they can contain paths and addresses.

    Args:
        rows: Label rows.
        repo_id: ``org/name``, or ``name`` for a repository of the logged-in user.
        provenance: Content of ``provenance.json``, or empty.
        summary: Content of ``summary.json``, or empty.
        label: Field of the labels in the forms; ``None`` for the recommended one (``recommended_label``).
        margin: Least label of a positive passage, and least distance of a negative below the positive.
        private: Whether a new repository is private.
        token: Token that may write there; ``None`` takes ``$HF_TOKEN`` or the token of ``hf auth login``.
        revision: Branch, made if absent; ``None`` for the main branch.

    Returns:
        The address of the dataset.

    Raises:
        OSError: The hub cannot be reached or rejects the upload.
        ValueError: There are no labels.
    """
    if not rows:
        raise ValueError("expected labels to upload, got no rows")
    label = label or recommended_label(rows)
    labeled = labeled_queries({f"row {number}": row for number, row in enumerate(rows, 1)}, label)
    tables: dict[str, Sequence[Mapping[str, Any]]] = {"labels": rows}
    tables |= {form: list(make(labeled, margin)) for form, make in FORMS.items()}
    counts = {name: len(table) for name, table in tables.items() if table}
    message = f"Labels by seper-reward, {provenance.get('labels_hash', 'of unknown provenance')[:12]}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for form in counts:
            write_parquet(folder / f"{form}.parquet", tables[form])
        if provenance:
            write_json(folder / PROVENANCE, {key: provenance[key] for key in provenance if key not in _PRIVATE})
        if summary:
            write_json(folder / SUMMARY, summary)
        card = _label_card(label, repo_id, counts, provenance, summary)
        (folder / "README.md").write_text(card, encoding="utf-8")
        return upload(folder, repo_id, message=message, private=private, token=token, revision=revision)


def _label_card(
    labeler: str, repo_id: str, rows: Mapping[str, int], provenance: Mapping[str, Any], summary: Mapping[str, Any]
) -> str:
    """Return a dataset card; ``rows`` are the numbers of rows by configuration."""
    from huggingface_hub import DatasetCardData

    data = DatasetCardData(
        pretty_name=f"Passages labelled by {labeler}",
        tags=["seper-reward", "retrieval", "reranking", "sentence-transformers"],
        task_categories=["text-ranking"],
        configs=[
            {"config_name": name, "data_files": f"{name}.parquet", **({"default": True} if name == "labels" else {})}
            for name in rows
        ],
    )
    body = _CARD.read_text(encoding="utf-8").format(
        labeler=labeler,
        repo_id=repo_id,
        counts=_counts(summary, rows["labels"]),
        forms="\n".join(f"| `{name}` | {count} | {_ROWS[name]} |" for name, count in rows.items()),
        example="triplets" if "triplets" in rows else "flat",
        settings=_settings(provenance),
    )
    return f"---\n{data.to_yaml()}\n---\n{body}"


def _counts(summary: Mapping[str, Any], questions: int) -> str:
    if not summary:
        return f"{questions} questions."
    return (
        f"{summary['questions']} questions, {summary['passages']} passages, of which {summary['helpful']} help and "
        f"{summary['harmful']} harm by their 95 % intervals; {summary['rejected']} rows of the input could not be "
        "labelled."
    )


def _settings(provenance: Mapping[str, Any]) -> str:
    decides = provenance.get("decides")
    if not decides:
        return "Not recorded."
    told = {name: decides[name] for name in _ON_CARD if name in decides}
    told |= {name: decides["sampling"][name] for name in ("num_samples", "temperature") if "sampling" in decides}
    told["labels_hash"] = provenance["labels_hash"]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | `{value}` |" for name, value in told.items())])


def is_label_folder(folder: Path) -> bool:
    """Return whether a folder contains the labels of a finished run."""
    return any((folder / name).is_file() for name in (LABELS, LABELS_PARQUET))
