"""Is the entailment model right? ``evaluate judge``."""

from dataclasses import dataclass
from pathlib import Path

from seper_reward.command import ResultConfig, parse, write_result
from seper_reward.config import JudgeConfig, entailment_options
from seper_reward.runtime.settings import setting


@dataclass
class JudgeEvaluationConfig(ResultConfig, JudgeConfig):
    """Measure how often the judge supports or pays wrong answers and refuses right ones, by kind of text."""

    file: str | None = setting(
        None,
        "People's verdicts to compare with, too: EVOUNA's JSON, or JSON, JSONL or Parquet of {question, answers, "
        "response, equivalent}; not given: none.",
    )
    column_by: str = setting("system", "Field of a row that names its column in the results; not used for EVOUNA.")
    threshold: float | None = setting(
        None,
        "Score, in (0, 1], from which a response counts as equivalent, for all verdicts; not given: the one with the "
        "best F1 on a train split by SHA-1 of the question, and results on the test split only.",
    )
    seed: int = setting(0, "Seed of the values near gold answers.")
    plot: str | None = setting(
        None, "Image file to plot near values, and F1 and reliability if there are verdicts, into; not given: none."
    )


def judge_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate judge``."""
    config = parse(JudgeEvaluationConfig, arguments, "seper-reward evaluate judge")
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.estimators.judge import BeliefJudge
    from seper_reward.estimators.seper import Estimator
    from seper_reward.evaluate.equivalence import equivalence, read_verdicts
    from seper_reward.evaluate.judge import measure_judge
    from seper_reward.reports.validity_figures import plot_judge
    from seper_reward.reports.validity_tables import judge_tables

    verdicts = read_verdicts(config.file, config.column_by) if config.file else []
    scorer = EntailmentScorer.from_pretrained(config.entailment, entailment_options(config))
    result = {"people": equivalence(scorer, verdicts, threshold=config.threshold)} if verdicts else {}
    result |= measure_judge(BeliefJudge(scorer, Estimator(), cache=None), seed=config.seed)
    print(judge_tables(result))
    write_result(result, config)
    if config.plot:
        plot_judge(result, Path(config.plot))
    return f"seper-reward label --entailment {config.entailment} --input QUESTIONS.jsonl"
