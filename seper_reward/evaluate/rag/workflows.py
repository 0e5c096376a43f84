"""What workflows gain, step by step, and what they cost (SePer, arXiv:2503.01478, Table 12)."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from seper_reward.baselines.iterative import check_workflow, run_workflow
from seper_reward.baselines.session import Tools, Trace, WorkflowOptions
from seper_reward.data.answers import exact_match
from seper_reward.evaluate.measuring import Context, measured
from seper_reward.evaluate.statistics import lead_over_questions, mean, mean_over_questions, rounded
from seper_reward.retrieval import Retriever
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Query, UnscorableError

REFERENCE = "retrieve"  # the workflow that leads are over


class Answered(NamedTuple):
    """How a workflow came to its answer to a question, and SePer in each of its ``contexts``.

    Attributes:
        trace: How it came to the answer.
        right: Exact match of the answer, in [0, 1].
        beliefs: SePer before the first step and after each one, in [0, 1].
    """

    trace: Trace
    right: float
    beliefs: tuple[float, ...]

    @property
    def gains(self) -> list[float]:
        """What each step earned: SePer after it less that before. The sum is ΔSePer of the last context."""
        return [after - before for before, after in itertools.pairwise(self.beliefs)]

    @property
    def delta_seper(self) -> float:
        """ΔSePer of what the reader sees in the end."""
        return self.beliefs[-1] - self.beliefs[0]


def compare_workflows(
    scorer: SePerScorer,
    queries: Sequence[Query],
    retriever: Retriever,
    names: Sequence[str],
    options: WorkflowOptions = WorkflowOptions(),
) -> dict[str, Any]:
    """Run workflows on questions, and credit ΔSePer to their steps.

    The credit telescopes: a step earns SePer with what the reader sees after it, less that with what it saw before.

    Args:
        scorer: Scorer that measures the beliefs, and whose reader the workflows ask.
        queries: Questions with gold answers.
        retriever: Where passages come from.
        names: Names of the workflows (``WORKFLOWS``).
        options: Settings of the workflows.

    Returns:
        ``questions``, and how many are ``left_out`` because the reader cannot be asked; ``baseline_seper``;
        ``workflows``: by name ``accuracy`` (exact match of the answer), ``delta_seper`` (of what the reader sees in
        the end), ``searches`` and ``tokens``, each with ``mean`` and a 95 % bootstrap ``interval`` over questions;
        ``per_search``, ΔSePer divided by searches; ``steps``: for the first, second and so on, the ``share`` of
        questions that have it, the share of these that ``refused``, and the ``gain`` over all questions, 0 where there
        is none, so that the gains add up to ``delta_seper``; and ``lead``, in ``accuracy`` and ``delta_seper`` over
        ``retrieve`` (``lead_over_questions``; ``None`` for itself, and where it was not run). ``traces``: by question
        what each workflow answered, and the query, passages and gain of each of its steps.

    Raises:
        ValueError: There is no workflow, none of such a name, or no question can be asked.
    """
    for name in names:
        check_workflow(name)
    kept, traces = _run(queries, Tools(scorer, retriever, options), names)
    contexts: list[list[Context]] = [
        [context for trace in row.values() for context in trace.contexts] for row in traces
    ]
    beliefs = measured(scorer, kept, contexts)
    rows = [
        (query, {name: _answered(query, trace, row) for name, trace in own.items()})
        for query, own, row in zip(kept, traces, beliefs, strict=True)
        if row is not None
    ]
    if not rows or not names:
        raise ValueError(f"expected workflows and questions, got {len(names)} and {len(rows)} that can be asked")
    by_name = {name: [row[name] for _, row in rows] for name in names}
    return {
        "questions": len(rows),
        "left_out": len(queries) - len(rows),
        "baseline_seper": mean([each.beliefs[0] for each in by_name[names[0]]]),
        "workflows": {
            name: _described(own, None if name == REFERENCE else by_name.get(REFERENCE))
            for name, own in by_name.items()
        },
        "traces": [{"id": query.id, **{name: _told(each) for name, each in row.items()}} for query, row in rows],
    }


def _run(queries: Sequence[Query], tools: Tools, names: Sequence[str]) -> tuple[list[Query], list[dict[str, Trace]]]:
    kept, traces = [], []
    for query in tqdm(queries, desc="running workflows", unit="question"):
        try:
            traces.append({name: run_workflow(name, tools, query.question) for name in names})
        except UnscorableError as error:
            tell_left_out(query.id, error)
        else:
            kept.append(query)
    return kept, traces


def _answered(query: Query, trace: Trace, beliefs: Mapping[Context, Belief]) -> Answered:
    return Answered(
        trace, exact_match(trace.answer, query.answers), tuple(beliefs[context].seper for context in trace.contexts)
    )


def _described(rows: Sequence[Answered], reference: Sequence[Answered] | None) -> dict[str, Any]:
    columns: dict[str, list[float]] = {
        "accuracy": [row.right for row in rows],
        "delta_seper": [row.delta_seper for row in rows],
        "searches": [row.trace.searches for row in rows],
        "tokens": [row.trace.tokens for row in rows],
    }
    searches = sum(columns["searches"])
    longest = max(len(row.trace.steps) for row in rows)
    return {
        **{name: mean_over_questions(values) for name, values in columns.items()},
        "per_search": rounded(sum(columns["delta_seper"]) / searches) if searches else None,
        "steps": [_step(rows, place) for place in range(longest)],
        "lead": None
        if reference is None
        else {
            "accuracy": lead_over_questions(columns["accuracy"], [row.right for row in reference]),
            "delta_seper": lead_over_questions(columns["delta_seper"], [row.delta_seper for row in reference]),
        },
    }


def _step(rows: Sequence[Answered], place: int) -> dict[str, Any]:
    done = [row.trace.steps[place].did for row in rows if len(row.trace.steps) > place]
    return {
        "share": rounded(len(done) / len(rows)),
        "refused": rounded(done.count("refuse") / len(done)),
        "gain": mean_over_questions([row.gains[place] if len(row.gains) > place else 0.0 for row in rows]),
    }


def _told(answered: Answered) -> dict[str, Any]:
    trace = answered.trace
    return {
        "answer": trace.answer,
        "right": answered.right,
        "thoughts": list(trace.thoughts),
        "steps": [
            {
                "did": step.did,
                "query": step.query,
                "passages": [passage.id for passage in step.passages],
                "gain": rounded(gain),
            }
            for step, gain in zip(trace.steps, answered.gains, strict=True)
        ],
    }
