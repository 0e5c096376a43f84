"""Find mined hard negatives that contain an answer, and list or drop them."""

from dataclasses import asdict, dataclass
from typing import Literal

from seper_reward.command import parse
from seper_reward.config import CommandConfig, load_scorer
from seper_reward.runtime.settings import check_least, setting


@dataclass
class AuditConfig(CommandConfig):
    """Find mined hard negatives that help the reader to answer, and list or drop them."""

    input: str = setting(
        "",
        "Mined negatives: JSON, JSONL (also .gz), Parquet or a folder saved by datasets, of sentence-transformers "
        "(anchor, positive, negative or negative_1, ...) or FlagEmbedding (query, pos, neg). Required.",
    )
    answers: str | None = setting(
        None,
        "File with the gold answers, rows of a question (question, query or anchor) and answers, such as the file "
        "that the negatives were mined for (default: the answers are in the input's rows).",
    )
    answers_column: str = setting("answers", "Field of a question's gold answers, a text or a list.")
    action: Literal["list", "drop"] = setting(
        "list",
        "Action on false negatives: list (write them to false_negatives.jsonl) or drop (also write the input "
        "without them).",
    )
    label: Literal["delta_seper", "delta_seper_hard"] = setting(
        "delta_seper_hard",
        "Label that marks a false negative: delta_seper_hard (more certain) or delta_seper (finds more, but also "
        "flags more passages without an answer).",
    )
    margin: float = setting(
        0.05, "Value that the label of a false negative exceeds, in addition to two standard errors, >= 0."
    )
    limit: int | None = setting(
        None, "Number of questions to audit, evenly spread over the input; the rest does not change (default: all)."
    )
    output_dir: str = setting("runs/audit", "Folder of labels and results; the same command resumes there.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.input:
            raise ValueError("input is required: the file of mined negatives")
        check_least(self, limit=1, margin=0)


def command(arguments: list[str]) -> str:
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
        rule = {name: getattr(config, name) for name in ("label", "margin")}
        found = write_audit(mined, asked, run.folder, action=config.action, settings=settings, **rule)
        print(audit_lines(found, run.folder))
    return f"seper-reward report --labels {config.output_dir} --output audit.html"
