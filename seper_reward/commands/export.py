"""Hand labels and models on: ``export``, ``push``, ``audit-negatives``."""

from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from seper_reward.commands.base import parse
from seper_reward.config import LEARN_FROM_HELP, CommandConfig, LearnFrom, load_scorer
from seper_reward.runtime.settings import check_types, setting


@dataclass
class ExportConfig:
    """Write labels in the format of another trainer or of an evaluation tool."""

    labels: str = setting("runs/label", "Folder written by `seper-reward label`.")
    format: str = setting(
        "sentence-transformers",
        "sentence-transformers (query, docs, labels: listwise losses), sentence-transformers-triplets (anchor, "
        "positive, negative, label: MarginMSE), sentence-transformers-pairs (anchor, positive: in-batch negatives), "
        "sentence-transformers-flat (query, passage, label: CoSENT, MSE), tevatron, flagembedding (with distillation "
        "scores), or trec (qrels).",
    )
    output: str = setting("", "File to write, Parquet if its name ends in .parquet. Required.")
    label: str | None = setting(
        None,
        "Field of the rows that contains the labels; not given: the labeler's own, of the labeler delta_seper "
        "delta_seper (its rows also contain delta_seper_hard and delta_belief).",
    )
    margin: float = setting(
        0.1, "Least label of a positive passage, and least distance of a negative below the positives."
    )
    max_std_error: float | None = setting(
        None, "Greatest standard error of a label; passages above it are left out; not given: all are kept."
    )
    heterogeneity: float = setting(
        1.0,
        "Greatest probability (p-value), in (0, 1], of labels that differ so much where passages are equally good; "
        "questions above it are left out; 0.1 suits training; 1 keeps all.",
    )
    shrink: bool = setting(
        False,
        "Whether a question's labels are drawn to their mean by the part of their differences that is noise, for "
        "listwise losses.",
    )
    helpful: bool = setting(False, "Whether questions without a passage that helps by margin are left out.")
    learn_from: LearnFrom = setting("singles", LEARN_FROM_HELP)

    def __post_init__(self) -> None:
        check_types(self)
        if not self.output:
            raise ValueError("output is required: the file to write")
        if not 0 < self.heterogeneity <= 1:
            raise ValueError(f"heterogeneity must be in (0, 1], got {self.heterogeneity}")


@dataclass
class PushConfig:
    """Upload a label folder, as a dataset with a card, or a model's folder to the Hugging Face hub."""

    folder: str = setting("", "Folder written by `seper-reward label`, or of a model, such as a trainer's. Required.")
    repo_id: str = setting("", "Repository on the hub, org/name; made if absent. Required.")
    private: bool = setting(True, "Whether a new repository is private; false shows it to everyone.")
    revision: str | None = setting(None, "Branch, made if absent; not given: the main one.")
    margin: float = setting(
        0.1, "Least label of a positive passage, and least distance of a negative below it, in pairs and triplets."
    )

    def __post_init__(self) -> None:
        check_types(self)
        if not self.folder or not self.repo_id:
            raise ValueError("folder and repo_id are required: what to upload, and where to")


@dataclass
class AuditConfig(CommandConfig):
    """Find mined hard negatives that help the reader to answer, and list, relabel or drop them."""

    input: str = setting(
        "",
        "Mined negatives: JSON, JSONL (also .gz), Parquet or a folder saved by datasets, of sentence-transformers "
        "(anchor, positive, negative or negative_1, ...) or FlagEmbedding (query, pos, neg). Required.",
    )
    answers: str | None = setting(
        None,
        "File with the gold answers, rows of a question (question, query or anchor) and answers, such as the one "
        "that the negatives were mined for; not given: they are in the input's rows.",
    )
    answers_column: str = setting("answers", "Field that holds a question's gold answers, a text or a list.")
    action: Literal["list", "relabel", "drop"] = setting(
        "list",
        "What to do with false negatives: list (write them to false_negatives.jsonl), drop (also write the input "
        "without them) or relabel (also write the input with them as positives).",
    )
    label: Literal["delta_seper", "delta_seper_hard"] = setting(
        "delta_seper_hard",
        "Label that tells a false negative: delta_seper_hard (surer) or delta_seper (finds more, and flags more that "
        "hold no answer).",
    )
    sigmas: float = setting(2.0, "Standard errors that the label of a false negative exceeds, >= 0.")
    margin: float = setting(0.05, "What the label of a false negative exceeds, too, >= 0.")
    limit: int | None = setting(
        None, "Number of questions to audit, evenly spread over the input; others stay as they are. Not given: all."
    )
    output_dir: str = setting("runs/audit", "Folder of labels and results; the same command resumes there.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.input:
            raise ValueError("input is required: the file of mined negatives")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")
        for name in ("sigmas", "margin"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")


_AFTER_EXPORT = {
    "sentence-transformers": 'in Python: load_dataset("{kind}", data_files="{output}"), for losses such as LambdaLoss',
    "sentence-transformers-triplets": 'in Python: load_dataset("{kind}", data_files="{output}"), for MarginMSELoss',
    "tevatron": "python -m tevatron.retriever.driver.train --dataset_name json --dataset_path {output} ...",
    "flagembedding": "torchrun -m FlagEmbedding.finetune.embedder.encoder_only.base --train_data {output} ...",
    "trec": "ir_measures {output} RUN.trec nDCG@10",
}


def export_command(arguments: list[str]) -> str:
    """Run ``seper-reward export``."""
    config = parse(ExportConfig, arguments, "seper-reward export")
    from seper_reward.labels.export import write_labels
    from seper_reward.labels.heterogeneity import beyond_chance
    from seper_reward.labels.rows import read_labels
    from seper_reward.labels.targets import helped, lists_to_learn, sure
    from seper_reward.retrieval import next_hop

    labeled = lists_to_learn(read_labels(config.labels, config.label), config.learn_from, next_hop)
    kept = labeled if config.max_std_error is None else [sure(row, config.max_std_error) for row in labeled]
    kept = beyond_chance(kept, heterogeneity=config.heterogeneity, shrink=config.shrink)
    kept = [row for row in kept if row.labels and (not config.helpful or helped(row, config.margin))]
    lines = write_labels(kept, config.output, config.format, config.margin)
    asked = "questions by hop" if config.learn_from == "paths" else "questions"
    print(f"{config.output}: {lines} lines from {len(kept)} of {len(labeled)} {asked}")
    kind = "parquet" if config.output.endswith(".parquet") else "json"
    return _AFTER_EXPORT.get(config.format, "").format(output=config.output, kind=kind)


def push_command(arguments: list[str]) -> str:
    """Run ``seper-reward push``."""
    config = parse(PushConfig, arguments, "seper-reward push")
    from seper_reward.labels.hub import is_label_folder
    from seper_reward.labels.load import load_labels
    from seper_reward.runtime.hub import is_model_folder, upload

    folder = Path(config.folder)
    if is_label_folder(folder):
        address = load_labels(folder).push_to_hub(
            config.repo_id, margin=config.margin, private=config.private, revision=config.revision
        )
    elif is_model_folder(folder):
        message = f"Model by seper-reward {version('seper-reward')}"
        address = upload(
            folder, config.repo_id, "model", message=message, private=config.private, revision=config.revision
        )
    else:
        raise ValueError(
            f"{folder}: expected labels.jsonl of a finished run, or a model's config.json, modules.json or "
            "adapter_config.json; name the folder that holds them"
        )
    print(address)
    return f'in Python: {"load_dataset" if is_label_folder(folder) else "from_pretrained"}("{config.repo_id}")'


def audit_negatives_command(arguments: list[str]) -> str:
    """Run ``seper-reward audit-negatives``."""
    config = parse(AuditConfig, arguments, "seper-reward audit-negatives")
    from seper_reward.labels.audit import check_action, questions_to_audit, read_gold_answers, write_audit
    from seper_reward.labels.labelers import load_labeler
    from seper_reward.labels.mined_negatives import read_mined
    from seper_reward.labels.run import LabelRun
    from seper_reward.reports.tables import audit_lines
    from seper_reward.runtime.distributed import process_state

    mined = read_mined(config.input)
    check_action(mined, config.action)
    answers = None if config.answers is None else read_gold_answers(config.answers, config.answers_column)
    asked = questions_to_audit(mined, answers, column=config.answers_column, limit=config.limit)
    labeler = load_labeler("delta_seper", lambda: load_scorer(config, config.seed))
    settings = asdict(config)
    run = LabelRun(config.output_dir, labeler, asked.queries, asked.rejected, settings, margin=config.margin)
    run.run()
    if process_state().is_main_process:
        rule = {name: getattr(config, name) for name in ("label", "sigmas", "margin")}
        found = write_audit(mined, asked, run.folder, action=config.action, settings=settings, **rule)
        print(audit_lines(found, run.folder))
    return f"seper-reward report --labels {config.output_dir} --output audit.html"
