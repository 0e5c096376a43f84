"""Markdown tables of the parts of a RAG system: components and workflows."""

from collections.abc import Mapping
from typing import Any

from seper_reward.reports.tables import cell, interval_cell, lead_text, markdown_table


def components_tables(result: Mapping[str, Any]) -> str:
    """Return ΔSePer by depth, reranker and compression as Markdown, one table per reader.

    Args:
        result: What ``components`` returned.
    """
    header = ["k", "reranker", "compression", "ΔSePer", "what the compression, else the reranker adds"]
    header += ["exact match", "harm rate", "passages", "tokens"]
    parts = []
    for name, found in result["readers"].items():
        rows = [
            [
                str(row["k"]),
                row["reranker"],
                row["compression"],
                interval_cell(row["delta_seper"]),
                "–" if row["lead"] is None else lead_text(row["lead"]),
                cell(row["exact_match"]["mean"]),
                cell(row["harm_rate"]["mean"]),
                f"{row['passages']:.1f}",
                f"{row['tokens']:.0f}",
            ]
            for row in sorted(found["variants"], key=lambda row: int(row["k"]))
        ]
        title = f"Reader {name}: {_questions(found)}, SePer without a passage {found['baseline_seper']:.3f}"
        parts.append(f"{title}\n\n{markdown_table(header, rows)}")
    return "\n\n".join(parts)


def workflows_tables(result: Mapping[str, Any]) -> str:
    """Return what workflows reach and cost, and what each of their steps gains, as Markdown.

    Args:
        result: What ``compare_workflows`` returned.
    """
    found = result["workflows"]
    longest = max(len(row["steps"]) for row in found.values())
    reached = [
        [
            name,
            *(interval_cell(row[each]) for each in ("accuracy", "delta_seper")),
            "–" if row["lead"] is None else lead_text(row["lead"]["accuracy"]),
            f"{row['searches']['mean']:.2f}",
            f"{row['tokens']['mean']:.0f}",
            cell(row["per_search"]),
        ]
        for name, row in found.items()
    ]
    steps = [
        [name, *(_step(row["steps"][place]) if place < len(row["steps"]) else "" for place in range(longest))]
        for name, row in found.items()
    ]
    header = [
        "workflow",
        "accuracy",
        "ΔSePer",
        "lead in accuracy over retrieve",
        "searches",
        "tokens",
        "ΔSePer a search",
    ]
    parts = [
        f"{_questions(result)}, SePer without a passage {result['baseline_seper']:.3f}",
        markdown_table(header, reached),
    ]
    if longest:
        parts += [
            "ΔSePer by step, over all questions, with the share of questions that have the step",
            markdown_table(["workflow", *(f"step {place + 1}" for place in range(longest))], steps),
        ]
    return "\n\n".join(parts)


def _questions(row: Mapping[str, Any]) -> str:
    left_out = f", {row['left_out']} left out" if row["left_out"] else ""
    return f"{row['questions']} questions{left_out}"


def _step(row: Mapping[str, Any]) -> str:
    refused = f", {row['refused']:.0%} of them refusals" if row["refused"] else ""
    return f"{interval_cell(row['gain'])} ({row['share']:.0%}{refused})"
