"""Report which searches in an agent's log were needed, useless or harmful, and their break-even price."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path

from seper_reward.options import AuditSearchesOptions
from seper_reward.runtime.parser import parse_options

_PASSAGE_TAG = "information"  # of Search-R1's logs


def command(arguments: list[str]) -> str:
    """Run ``seper-reward audit-searches``; a first argument without dashes is the input."""
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--input", *arguments]
    (config,) = parse_options((AuditSearchesOptions,), arguments, "seper-reward audit-searches")
    from seper_reward.command import reporting
    from seper_reward.evaluate.search_audit import audit_searches
    from seper_reward.labels.audit import read_gold_answers
    from seper_reward.reward.logs import read_rollout_log
    from seper_reward.reward.tools import SearchTools, SeveralToolsError, counted
    from seper_reward.runtime.distributed import process_state
    from seper_reward.runtime.json_files import write_lines
    from seper_reward.runtime.messages import say_once
    from seper_reward.scorer import load_scorer
    from seper_reward.types import KNOWN

    answers = None if config.answers is None else read_gold_answers(config.answers)
    tools = SearchTools(config.search_tools or None)
    try:
        logged = read_rollout_log(
            config.input, answers=answers, passage_tag=config.passage_tag or _PASSAGE_TAG, search_tools=tools,
            answer_pattern=config.answer_pattern,
        )  # fmt: skip
    except SeveralToolsError as error:
        most = max(tools.seen, key=lambda name: tools.seen[name])
        results = f"the log has results of tools {counted(tools.seen)}"
        raise ValueError(f"{config.input}: {results}: name the search tools, such as --search_tools {most}") from error
    for name in tools.names or ():
        if name not in tools.seen:
            others = counted(tools.seen) or "no tool results"
            say_once(f"--search_tools {name}: the log has no result of it; it has {others}")
    problems = Counter(each.rollout.problem for each in logged if each.rollout.problem)
    for problem, count in problems.items():
        where = next(each.where for each in logged if each.rollout.problem == problem)
        say_once(f"{count} rows cannot be used; {where}: {problem}")
    rollouts = [each.rollout for each in logged if not each.rollout.problem]
    if not rollouts:
        raise ValueError(f"{config.input}: expected rollouts, got {len(logged)} rows that cannot be used")
    with reporting("audit-searches", config) as report:
        result = audit_searches(load_scorer(config, config.seed), rollouts, needed=KNOWN, margin=config.margin)
        report(result)
    if config.searches and process_state().is_main_process:
        write_lines(Path(config.searches), map(asdict, result.by_search))
    return "seper-reward train policy --config configs/policy/own.yaml --input YOURS.jsonl --corpus CORPUS.jsonl"
