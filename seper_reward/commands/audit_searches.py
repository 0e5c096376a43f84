"""Report which searches in an agent's log were needed, useless or harmful, and their break-even price."""

from dataclasses import asdict
from pathlib import Path

from seper_reward.options import AuditSearchesOptions
from seper_reward.runtime.parser import parse_options, refuse_missing_files


def command(arguments: list[str]) -> str:
    """Run ``seper-reward audit-searches``; a first argument without dashes is the input."""
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--input", *arguments]
    (config,) = parse_options((AuditSearchesOptions,), arguments, "seper-reward audit-searches")
    refuse_missing_files(config)
    from seper_reward.command import reporting
    from seper_reward.evaluate.logs import read_gold_answers, read_usable_rollouts
    from seper_reward.evaluate.search_audit import audit_searches
    from seper_reward.runtime.distributed import process_state
    from seper_reward.runtime.json_files import write_lines
    from seper_reward.scorer import SePerScorer

    answers = None if config.answers is None else read_gold_answers(config.answers)
    rollouts = read_usable_rollouts(config.input, config, answers)
    with reporting("audit-searches", config) as report:
        result = audit_searches(SePerScorer.from_pretrained(config), rollouts, margin=config.margin)
        report(result)
    if config.searches and process_state().is_main_process:
        write_lines(Path(config.searches), map(asdict, result.by_search))
    return "seper-reward train policy --config configs/policy/own.yaml --input YOURS.jsonl --corpus CORPUS.jsonl"
