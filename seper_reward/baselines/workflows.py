"""Compare workflows that search, reason and refuse, with ΔSePer credited to each step (SePer, Table 12).

A workflow decides when to search, with which query, and when not to use the passages found. Each workflow is the loop
of its paper around a reader of short answers, without the paper's trained parts.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from seper_reward.baselines.iterative import WORKFLOWS, Tools, Trace, WorkflowOptions, run_workflow
from seper_reward.baselines.labelled import each_scorable
from seper_reward.baselines.options import WorkflowsOptions
from seper_reward.command import Record, corpus_flag, questions_and_corpus, reporting
from seper_reward.data.answers import exact_match
from seper_reward.evaluate.measuring import measured
from seper_reward.options import pick
from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import cell, lead_text, markdown_table, questions_text
from seper_reward.retrieval import Retriever, load_retriever
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import Statistic, lead_over_questions, mean, mean_over_questions, rounded
from seper_reward.types import Query

REFERENCE = "retrieve"  # the workflow that other workflows are compared with


@dataclass(frozen=True)
class StepResult:
    """Results of one step of a workflow: of the first, the second and so on."""

    share: float  # share of questions with this step
    refused: float  # share of these steps that are refusals
    gain: Statistic  # ΔSePer over all questions, 0 without the step; gains add up to the ΔSePer of the last context


@dataclass(frozen=True)
class WorkflowResult:
    """Results and costs of a workflow."""

    accuracy: Statistic  # exact match of the answer
    delta_seper: Statistic  # of the last context
    searches: Statistic
    tokens: Statistic  # of prompts and responses
    per_search: float | None  # ΔSePer divided by searches; None without a search
    steps: list[StepResult]
    lead: dict[str, Statistic] | None  # in accuracy and ΔSePer over `retrieve`; None for itself or without it


@dataclass(frozen=True)
class WorkflowsResult(Record):
    """Workflows on the same questions."""

    questions: int
    left_out: int  # questions that are too long for the reader
    baseline_seper: float  # mean without a passage
    workflows: dict[str, WorkflowResult]
    traces: list[dict[str, Any]]  # by question and workflow: the answer, and query, passages and gain of each step

    def table(self) -> str:
        """Return accuracy, ΔSePer and costs of workflows, and the gain of each of their steps, as Markdown."""
        workflows = self.workflows
        longest = max(len(workflow.steps) for workflow in workflows.values())
        header = ["workflow", "accuracy", "ΔSePer", "lead in accuracy over retrieve", "searches", "tokens"]
        reached = [
            [
                name,
                workflow.accuracy,
                workflow.delta_seper,
                lead_text(None if workflow.lead is None else workflow.lead["accuracy"]),
                f"{workflow.searches.value:.2f}",
                f"{workflow.tokens.value:.0f}",
                cell(workflow.per_search),
            ]
            for name, workflow in workflows.items()
        ]
        parts = [
            f"{questions_text(self.questions, self.left_out)}, SePer without a passage {self.baseline_seper:.3f}",
            markdown_table([*header, "ΔSePer a search"], reached),
        ]
        if longest:
            steps = [
                [name, *map(_step_cell, workflow.steps), *[""] * (longest - len(workflow.steps))]
                for name, workflow in workflows.items()
            ]
            parts += [
                "ΔSePer by step, over all questions, with the share of questions that have the step",
                markdown_table(["workflow", *(f"step {place + 1}" for place in range(longest))], steps),
            ]
        return "\n\n".join(parts)

    def plot(self, path: Path) -> None:
        """Plot accuracy over searches; the path's extension sets the format (svg, png, pdf)."""
        points = {
            name: (workflow.searches.value or 0.0, workflow.accuracy.value or 0.0)
            for name, workflow in self.workflows.items()
        }
        plot_tradeoff(points, path)


class Answered(NamedTuple):
    """A workflow's trace, whether its answer is right, in [0, 1], and SePer in each of the trace's ``contexts``."""

    trace: Trace
    right: float
    beliefs: tuple[float, ...]

    @property
    def gains(self) -> list[float]:
        """Change of SePer by each step; they add up to ``delta_seper``."""
        return [after - before for before, after in itertools.pairwise(self.beliefs)]

    @property
    def delta_seper(self) -> float:
        """ΔSePer of the last context."""
        return self.beliefs[-1] - self.beliefs[0]


def compare_workflows(
    scorer: SePerScorer,
    queries: Sequence[Query],
    retriever: Retriever,
    names: Sequence[str],
    options: WorkflowOptions = WorkflowOptions(),
) -> WorkflowsResult:
    """Run workflows by name on questions with gold answers, and credit the change of SePer to each step."""
    for name in names:
        if name not in WORKFLOWS:
            raise ValueError(f"workflows must be of {', '.join(WORKFLOWS)}, got {name!r}")
    tools = Tools(scorer, retriever, options)
    run = each_scorable(
        queries,
        lambda query: {name: run_workflow(name, tools, query.question) for name in names},
        title="running workflows",
    )
    contexts = [[context for trace in traces.values() for context in trace.contexts] for _, traces in run]
    beliefs = measured(scorer, [query for query, _ in run], contexts)
    compared = []
    for (query, traces), by_context in zip(run, beliefs, strict=True):
        if by_context is not None:
            sepers = {
                name: tuple(by_context[context].seper for context in trace.contexts) for name, trace in traces.items()
            }
            right = {name: exact_match(trace.answer, query.answers) for name, trace in traces.items()}
            compared.append((query, {name: Answered(traces[name], right[name], sepers[name]) for name in names}))
    if not compared or not names:
        raise ValueError(f"expected workflows and questions, got {len(names)} and {len(compared)} short enough")
    by_name = {name: [by_workflow[name] for _, by_workflow in compared] for name in names}
    return WorkflowsResult(
        len(compared),
        len(queries) - len(compared),
        mean([answered.beliefs[0] for answered in by_name[names[0]]]),
        {
            name: _workflow_result(runs, None if name == REFERENCE else by_name.get(REFERENCE))
            for name, runs in by_name.items()
        },
        [
            {"id": query.id, **{name: _trace_row(answered) for name, answered in by_workflow.items()}}
            for query, by_workflow in compared
        ],
    )


def _workflow_result(runs: Sequence[Answered], reference: Sequence[Answered] | None) -> WorkflowResult:
    right, gained = [run.right for run in runs], [run.delta_seper for run in runs]
    searches = [run.trace.searches for run in runs]
    lead = None
    if reference is not None:
        lead = {
            "accuracy": lead_over_questions(right, [run.right for run in reference]),
            "delta_seper": lead_over_questions(gained, [run.delta_seper for run in reference]),
        }
    return WorkflowResult(
        accuracy=mean_over_questions(right),
        delta_seper=mean_over_questions(gained),
        searches=mean_over_questions(searches),
        tokens=mean_over_questions([run.trace.tokens for run in runs]),
        per_search=rounded(sum(gained) / sum(searches)) if any(searches) else None,
        steps=[_step_result(runs, place) for place in range(max(len(run.trace.steps) for run in runs))],
        lead=lead,
    )


def _step_result(runs: Sequence[Answered], place: int) -> StepResult:
    done = [run.trace.steps[place].did for run in runs if len(run.trace.steps) > place]
    return StepResult(
        rounded(len(done) / len(runs)),
        rounded(done.count("refuse") / len(done)),
        mean_over_questions([run.gains[place] if len(run.gains) > place else 0.0 for run in runs]),
    )


def _trace_row(answered: Answered) -> dict[str, object]:
    trace = answered.trace
    steps = [
        {
            "did": step.did,
            "query": step.query,
            "passages": [passage.id for passage in step.passages],
            "gain": rounded(gain),
        }
        for step, gain in zip(trace.steps, answered.gains, strict=True)
    ]
    return {"answer": trace.answer, "right": answered.right, "thoughts": list(trace.thoughts), "steps": steps}


def _step_cell(step: StepResult) -> str:
    refused = f", {step.refused:.0%} of them refusals" if step.refused else ""
    return f"{step.gain} ({step.share:.0%}{refused})"


def command(config: WorkflowsOptions) -> str:
    """Run ``seper-reward baseline workflows``."""
    with reporting("baseline workflows", config) as report:
        options = pick(WorkflowOptions, config)
        queries, corpus = questions_and_corpus(config)
        retriever = load_retriever(config.retriever, corpus)
        result = compare_workflows(SePerScorer.from_pretrained(config), queries, retriever, config.workflows, options)
        report(result)
    return f"seper-reward baseline compression --file {config.file}{corpus_flag(config.corpus)}"


def plot_tradeoff(points: Mapping[str, tuple[float, float]], path: Path) -> None:
    """Plot points of (searches per question, accuracy), by name."""
    figure = new_figure(7.5, 4)
    axes = figure.subplots()
    # points may coincide: names are in a legend, and hollow markers of different sizes show each other
    markers = itertools.cycle([("s", 10), ("D", 8), ("^", 12), ("v", 12), ("p", 6)])
    hollow = {"linestyle": "none", "markerfacecolor": "none", "clip_on": False}
    for (name, point), (marker, size) in zip(points.items(), markers, strict=False):
        axes.plot(*point, marker, label=name.replace("_", " "), markersize=size, color="#7f8c8d", **hollow)
    legend_beside(axes)
    axes.set_xlabel("searches per question")
    axes.set_ylabel("accuracy (exact match)")
    axes.set_ylim(0, 1)
    save_figure(figure, path)
