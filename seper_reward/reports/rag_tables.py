"""Markdown tables of the parts of a RAG system: components, retrievers and workflows."""

from collections.abc import Mapping
from typing import Any

from seper_reward.reports.tables import interval_cell, markdown_table

_TITLES = {
    "ndcg": "nDCG",
    "recall": "recall",
    "delta_seper": "ΔSePer of a passage",
    "delta_seper_list": "ΔSePer of the list",
    "harm_rate": "harm rate",
    "accuracy": "accuracy",
}


def retrievers_tables(result: Mapping[str, Any]) -> str:
    """Return measures of retrievers, and how well they tell the reader's accuracy, as Markdown.

    Args:
        result: What ``compare_retrievers`` returned.
    """
    rows = result["retrievers"]
    measures = list(rows[0]["measures"])
    judged = list(rows[0]["kendall"])
    values = [
        [row["retriever"], str(row["k"]), *(interval_cell(row["measures"][each]) for each in measures)] for row in rows
    ]
    taus = [[row["retriever"], str(row["k"]), *(_tau(row["kendall"][each]) for each in judged)] for row in rows]
    taus += [
        ["order of all retrievers", k, *(_tau(row[each]) for each in judged)] for k, row in result["order"].items()
    ]
    return "\n\n".join(
        [
            _questions(result),
            markdown_table(["retriever", "k", *(_TITLES[each] for each in measures)], values),
            "Kendall's tau with the reader's accuracy, over questions",
            markdown_table(["retriever", "k", *(_TITLES[each] for each in judged)], taus),
        ]
    )


def _questions(row: Mapping[str, Any]) -> str:
    left_out = f", {row['left_out']} left out" if row["left_out"] else ""
    return f"{row['questions']} questions{left_out}"


def _tau(row: Mapping[str, Any]) -> str:
    return interval_cell({"mean": row["value"], "interval": row["interval"]})
