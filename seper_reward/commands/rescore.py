"""Compute labels again with other options of SePer or another judge, without queries to the reader."""

from dataclasses import asdict, dataclass
from pathlib import Path

from seper_reward.command import parse
from seper_reward.commands.label import MARGIN_HELP, after_labels, show_summary
from seper_reward.config import EstimatorConfig, entailment_options
from seper_reward.runtime.settings import check_least, setting


@dataclass
class RescoreConfig(EstimatorConfig):
    """Compute labels again with other options of SePer or another entailment model, without queries to the reader."""

    labels: str = setting("runs/label", "Folder written by `seper-reward label`.")
    output_dir: str = setting("runs/rescored", "Folder of the new labels.")
    margin: float = setting(0.05, MARGIN_HELP)
    cache: str | None = setting(None, "SQLite file that caches entailment scores between runs (default: none).")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, margin=0)


def command(arguments: list[str]) -> str:
    """Run ``seper-reward rescore``."""
    config = parse(RescoreConfig, arguments, "seper-reward rescore")
    from seper_reward.estimators.judge import BeliefJudge
    from seper_reward.judge.entailment import EntailmentScorer
    from seper_reward.labels.rescore import rescore
    from seper_reward.labels.rows import DELTA_SEPER

    entailment = EntailmentScorer.from_pretrained(config.entailment, entailment_options(config))
    judge = BeliefJudge(entailment, config.estimator_options, config.cache or None)
    summary = rescore(config.labels, config.output_dir, judge, asdict(config), config.margin)
    show_summary(summary, DELTA_SEPER, Path(config.output_dir), config.margin)
    return after_labels(Path(config.output_dir), DELTA_SEPER)
