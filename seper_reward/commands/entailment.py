"""Is the entailment model right? ``evaluate equivalence|stress``."""

from dataclasses import dataclass
from pathlib import Path

from seper_reward.commands.base import ResultConfig, parse, write_result
from seper_reward.config import JudgeConfig, entailment_options
from seper_reward.runtime.settings import setting


@dataclass
class EquivalenceConfig(ResultConfig, JudgeConfig):
    """Compare entailment with people's verdicts on whether a response states the gold answer."""

    file: str = setting(
        "",
        "Verdicts: EVOUNA's JSON, or JSON, JSONL or Parquet of {question, answers, response, equivalent}. Required.",
    )
    column_by: str = setting("system", "Field of a row that names its column in the results; not used for EVOUNA.")
    threshold: float | None = setting(
        None,
        "Score, in (0, 1], from which a response counts as equivalent, for all rows; not given: the one with the best "
        "F1 on a train split by SHA-1 of the question, and results on the test split only.",
    )
    plot: str | None = setting(None, "Image file to plot F1 by method and the reliability of probabilities into.")


@dataclass
class StressConfig(ResultConfig, JudgeConfig):
    """Measure the entailment model on traps: texts that say nothing, and questions put in other words."""


def equivalence_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate equivalence``."""
    config = parse(EquivalenceConfig, arguments, "seper-reward evaluate equivalence")
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.evaluation.validity.equivalence import equivalence, read_verdicts
    from seper_reward.reports.figures import plot_equivalence
    from seper_reward.reports.tables import equivalence_table

    if not config.file:
        raise ValueError("--file is required: questions, answers, responses and human verdicts")
    verdicts = read_verdicts(config.file, config.column_by)
    judge = EntailmentScorer.from_pretrained(config.entailment, entailment_options(config))
    result = equivalence(judge, verdicts, threshold=config.threshold)
    print(equivalence_table(result))
    write_result(result, config)
    if config.plot:
        plot_equivalence(result, Path(config.plot))
    return f"seper-reward evaluate stress --entailment {config.entailment}"


def stress_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate stress``."""
    config = parse(StressConfig, arguments, "seper-reward evaluate stress")
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.evaluation.validity.stress import stress
    from seper_reward.reports.tables import stress_table

    result = stress(EntailmentScorer.from_pretrained(config.entailment, entailment_options(config)))
    print(stress_table(result))
    write_result(result, config)
    return f"seper-reward label --entailment {config.entailment} --input QUESTIONS.jsonl"
