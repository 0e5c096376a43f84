"""Write labels for sentence-transformers, Tevatron, FlagEmbedding or TREC tools."""

from dataclasses import dataclass

from seper_reward.command import parse
from seper_reward.config import LEARN_FROM_HELP, LearnFrom
from seper_reward.runtime.settings import check_types, setting


@dataclass
class ExportConfig:
    """Write labels in the format of another trainer or an evaluation tool."""

    labels: str = setting("runs/label", "Folder written by `seper-reward label`.")
    format: str = setting(
        "sentence-transformers",
        "sentence-transformers (query, docs, labels: listwise losses), sentence-transformers-triplets (anchor, "
        "positive, negative, label: MarginMSE), sentence-transformers-pairs (anchor, positive: in-batch negatives), "
        "sentence-transformers-flat (query, passage, label: CoSENT, MSE), tevatron, flagembedding (with distillation "
        "scores), or trec (qrels).",
    )
    output: str = setting("", "File to write, Parquet if its name ends in .parquet, CSV if in .csv or .tsv. Required.")
    label: str | None = setting(
        None,
        "Field of the labels, such as delta_seper, delta_seper_hard, delta_belief or seper_gain (default: "
        "delta_belief if the labeler is delta_seper, without sets, and all rows have it; else the labeler's name, or "
        "the sets' label).",
    )
    margin: float = setting(
        0.1, "Least label of a positive passage, and least distance of a negative below the positives."
    )
    heterogeneity: float = setting(
        1.0,
        "Largest p-value, in (0, 1], of the test that all passages of a question are equally good; questions above it "
        "are dropped; 0.1 suits training; 1 keeps all questions.",
    )
    shrink: bool = setting(
        False,
        "Whether a question's labels are shrunk to their mean by the share of their variance that is noise, for "
        "listwise losses.",
    )
    learn_from: LearnFrom = setting("singles", LEARN_FROM_HELP)

    def __post_init__(self) -> None:
        check_types(self)
        if not self.output:
            raise ValueError("output is required: the file to write")
        if not 0 < self.heterogeneity <= 1:
            raise ValueError(f"heterogeneity must be in (0, 1], got {self.heterogeneity}")


_WITHOUT_GRADES = {"likelihood", "cross_encoder", "seper_gain"}  # labels without bounds

_AFTER_EXPORT = {
    "tevatron": "python -m tevatron.retriever.driver.train --dataset_name json --dataset_path {output} ...",
    "flagembedding": "torchrun -m FlagEmbedding.finetune.embedder.encoder_only.base --train_data {output} ...",
    "trec": "ir_measures {output} RUN.trec nDCG@10",
}


def command(arguments: list[str]) -> str:
    """Run ``seper-reward export``."""
    config = parse(ExportConfig, arguments, "seper-reward export")
    from seper_reward.labels.export import write_labels
    from seper_reward.labels.heterogeneity import beyond_chance
    from seper_reward.labels.rows import labeled_queries, labeler_of, read_label_rows, recommended_label
    from seper_reward.labels.targets import lists_to_learn
    from seper_reward.retrieval import next_hop

    rows = read_label_rows(config.labels)
    label = config.label or recommended_label(rows.values())
    unbounded = _WITHOUT_GRADES & {label, labeler_of(rows.values())}
    if config.format == "trec" and unbounded:
        raise ValueError(
            f"format='trec' needs labels in [-1, 1], got labels of {unbounded.pop()!r}; set --format to "
            "sentence-transformers"
        )
    labeled = lists_to_learn(labeled_queries(rows, label), config.learn_from, next_hop)
    kept = beyond_chance(labeled, heterogeneity=config.heterogeneity, shrink=config.shrink)
    kept = [row for row in kept if row.labels]
    if config.heterogeneity < 1 and labeled and not kept:
        raise ValueError(
            f"expected questions whose labels differ by more than chance (heterogeneity={config.heterogeneity}), got "
            f"none of {len(labeled)}; raise heterogeneity or leave it out"
        )
    lines = write_labels(kept, config.output, config.format, config.margin)
    asked = "questions by hop" if config.learn_from == "paths" else "questions"
    print(f"{config.output}: {lines} lines from {len(kept)} of {len(labeled)} {asked}, labels {label}")
    return _AFTER_EXPORT.get(config.format, "").format(output=config.output)
