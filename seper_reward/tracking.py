"""Weights & Biases: what a label run did, and the examples behind its numbers. Works offline."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .cache import Cache
from .extras import need

_EXAMPLES = 50


class Tracker:
    """Logs one label run to W&B.

    Args:
        config: settings of the run.
        job_type: of the W&B run.

    Raises:
        OSError: wandb is not installed.
    """

    def __init__(self, config: Mapping[str, Any], job_type: str = "label") -> None:
        wandb = need("wandb", "wandb")
        self._wandb = wandb
        self._run = wandb.init(project="seper-reward", job_type=job_type, config=dict(config))
        self._questions = 0

    def progress(self, label: Mapping[str, Any], cache: Cache | None) -> None:
        """Log one labelled question."""
        self._questions += 1
        deltas = [passage["delta_seper"] for passage in label["passages"]]
        record = {
            "questions": self._questions,
            "baseline_seper": label["baseline"]["seper"],
            "delta_seper/best": max(deltas),
            "delta_seper/mean": sum(deltas) / len(deltas),
        }
        if cache is not None:
            record |= {"cache/hits": cache.hits, "cache/misses": cache.misses}
        self._run.log(record)

    def finish(self, labels: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], folder: Path) -> None:
        """Log histograms, a table of examples with clusters and the label file, and end the run."""
        passages = [passage for row in labels for passage in row["passages"]]
        table = self._wandb.Table(
            columns=[
                "id",
                "question",
                "answers",
                "passage",
                "baseline",
                "seper",
                "delta_seper",
                "std_error",
                "clusters",
            ]
        )
        for row in labels[:_EXAMPLES]:
            for passage in row["passages"]:
                table.add_data(
                    row["id"],
                    row["question"],
                    " | ".join(row["answers"]),
                    passage["passage_id"],
                    row["baseline"]["seper"],
                    *(passage[key] for key in ("seper", "delta_seper", "std_error")),
                    clusters(passage["responses"]),
                )
        self._run.log(
            {
                "histogram/baseline_seper": self._wandb.Histogram([row["baseline"]["seper"] for row in labels]),
                "histogram/delta_seper": self._wandb.Histogram([passage["delta_seper"] for passage in passages]),
                "examples": table,
            }
        )
        self._run.summary.update(dict(summary))
        artifact = self._wandb.Artifact("labels", type="dataset", metadata=dict(summary))
        for name in ("labels.jsonl", "provenance.json", "rejected.jsonl", "summary.json"):
            artifact.add_file(str(folder / name))
        self._run.log_artifact(artifact)
        self._run.finish()


def clusters(responses: Sequence[Mapping[str, Any]]) -> str:
    """Show sampled responses by cluster, heaviest first: ``.70 Paris = The capital is Paris | .30 Lyon``."""
    members: dict[int, list[Mapping[str, Any]]] = {}
    for response in responses:
        members.setdefault(response["cluster"], []).append(response)
    mass = {cluster: sum(row["weight"] for row in rows) for cluster, rows in members.items()}
    return " | ".join(
        f"{mass[cluster]:.2f} " + " = ".join(dict.fromkeys(row["text"] for row in members[cluster]))
        for cluster in sorted(members, key=lambda cluster: -mass[cluster])
    )
