"""Find mined hard negatives that contain an answer, and list or drop them."""

from dataclasses import asdict

from seper_reward.options import AuditNegativesOptions
from seper_reward.scorer import SePerScorer


def command(config: AuditNegativesOptions) -> str:
    """Run ``seper-reward audit-negatives``."""
    from seper_reward.labels.audit import check_action, questions_to_audit, read_gold_answers, write_audit
    from seper_reward.labels.labelers import load_labeler
    from seper_reward.labels.mined_negatives import read_mined
    from seper_reward.labels.run import LabelRun
    from seper_reward.reports.tables import audit_lines
    from seper_reward.runtime.distributed import process_state

    mined = read_mined(config.input)
    check_action(mined, config.action)
    answers = None if config.answers is None else read_gold_answers(config.answers)
    asked = questions_to_audit(mined, answers, limit=config.limit)
    labeler = load_labeler("delta_seper", lambda: SePerScorer.from_pretrained(config))
    settings = asdict(config)
    run = LabelRun(config.output_dir, labeler, asked.queries, asked.rejected, settings, margin=config.margin)
    run.run()
    if process_state().is_main_process:
        rule = {name: getattr(config, name) for name in ("label", "margin")}
        found = write_audit(mined, asked, run.folder, action=config.action, settings=settings, **rule)
        print(audit_lines(found, run.folder))
    return f"seper-reward report --labels {config.output_dir} --output audit.html"
