"""Report which searches in an agent's log were needed, useless or harmful, and their break-even price."""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from seper_reward.command import ResultConfig, parse, reporting
from seper_reward.config import CommandConfig, load_scorer
from seper_reward.judge.extract import ANSWER_PATTERN_HELP, compile_answer_pattern
from seper_reward.labels.summary import MARGIN
from seper_reward.runtime.messages import say_once
from seper_reward.runtime.settings import check_least, setting
from seper_reward.types import KNOWN


@dataclass
class SearchAuditConfig(ResultConfig, CommandConfig):
    """Report useful searches in an agent's log, and their break-even price: `seper-reward audit-searches FILE`."""

    input: str = setting(
        "",
        "Log of rollouts: JSON, JSONL (also .gz), CSV or Parquet. Rows {question, answers, searches: [{query, "
        "passages}], answer}, or prompt and completion (or all in messages) as messages (TRL, verifiers, prime-rl, "
        "OpenAI), or as text with tags (Search-R1). Required; --input can be omitted in front of the first argument.",
    )
    answers: str | None = setting(
        None, "File with gold answers (rows of question and answers), for logs without answers, such as TRL's tables."
    )
    passage_tag: str = setting("information", "Name of the tag around search results, in logs of plain text.")
    tools: list[str] = setting(
        [], "Names of the tools whose results are searches, in logs of messages (default: the only tool in the log)."
    )
    answer_pattern: str | None = setting(None, ANSWER_PATTERN_HELP)
    needed: float = setting(KNOWN, "Value of SePer without a passage below which a question needs a search.")
    margin: float = setting(MARGIN, "Value above which ΔSePer means a helpful search (harmful: below -margin), >= 0.")
    searches: str | None = setting(None, "JSONL file for searches: query, ΔSePer, interval, kind; not given: none.")
    plot: str | None = setting(None, "File to plot gains and prices into: svg, png or pdf; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.input:
            raise ValueError("input is required: seper-reward audit-searches rollouts.jsonl")
        if self.plot and self.plot.lower().endswith((".html", ".htm")):
            raise ValueError(
                f"plot must be svg, png or pdf, got {self.plot!r}; the measures are printed as tables, and --searches "
                "FILE.jsonl writes all searches"
            )
        check_least(self, margin=0)
        compile_answer_pattern(self.answer_pattern)


def command(arguments: list[str]) -> str:
    """Run ``seper-reward audit-searches``; a first argument without dashes is the input."""
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--input", *arguments]
    config = parse(SearchAuditConfig, arguments, "seper-reward audit-searches")
    from seper_reward.evaluate.search_audit import audit_searches
    from seper_reward.labels.audit import read_gold_answers
    from seper_reward.reward.logs import read_rollout_log
    from seper_reward.reward.tools import SearchTools, SeveralToolsError, counted
    from seper_reward.runtime.distributed import process_state
    from seper_reward.runtime.json_files import write_lines

    answers = None if config.answers is None else read_gold_answers(config.answers)
    tools = SearchTools(config.tools or None)
    try:
        logged = read_rollout_log(
            config.input, answers=answers, passage_tag=config.passage_tag, search_tools=tools,
            answer_pattern=config.answer_pattern,
        )  # fmt: skip
    except SeveralToolsError as error:
        most = max(tools.seen, key=lambda name: tools.seen[name])
        results = f"the log has results of tools {counted(tools.seen)}"
        raise ValueError(f"{config.input}: {results}: name the search tools, such as --tools {most}") from error
    for name in tools.names or ():
        if name not in tools.seen:
            say_once(f"--tools {name}: the log has no result of it; it has {counted(tools.seen) or 'no tool results'}")
    problems = Counter(each.rollout.problem for each in logged if each.rollout.problem)
    for problem, count in problems.items():
        where = next(each.where for each in logged if each.rollout.problem == problem)
        say_once(f"{count} rows cannot be used; {where}: {problem}")
    rollouts = [each.rollout for each in logged if not each.rollout.problem]
    if not rollouts:
        raise ValueError(f"{config.input}: expected rollouts, got {len(logged)} rows that cannot be used")
    with reporting("audit-searches", config) as report:
        result = audit_searches(load_scorer(config, config.seed), rollouts, needed=config.needed, margin=config.margin)
        report(result)
    if config.searches and process_state().is_main_process:
        write_lines(Path(config.searches), map(asdict, result.by_search))
    return "seper-reward train policy --config configs/policy/own.yaml --input YOURS.jsonl --corpus CORPUS.jsonl"
