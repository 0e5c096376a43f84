"""Tables of labelers side by side, and of votes among retrievers."""

from collections.abc import Mapping
from typing import Any

from seper_reward.reports.tables import cell, interval_cell, lead_text, markdown_table, text_table


def compare_markdown(results: Mapping[str, Any]) -> str:
    """Return labelers side by side as Markdown: all data sets in one table, then each by itself.

    Args:
        results: What ``CompareRun.run`` returned.
    """
    used = {name: found for name, found in results.items() if "skipped" not in found}
    parts = []
    if len(used) > 1:
        parts += ["r with marks / τ with the reader's score:", _overview(used)]
    for name, found in used.items():
        parts += [_title(name, found), _labelers(found), _types(found)]
    parts += [f"`{name}` is skipped: {found['skipped']}" for name, found in results.items() if "skipped" in found]
    return "\n\n".join(parts)


def ensemble_tables(result: Mapping[str, Any]) -> str:
    """Return how often votes and single retrievers are right, and the weights of votes, as text.

    Args:
        result: What ``ensemble`` returned.
    """
    voters = result["voters"]
    best = result["best_single"]
    chosen = ", ".join(f"{name} in {count}" for name, count in best["chosen"].items())
    single = [[name, interval_cell(row["accuracy"])] for name, row in result["retrievers"].items()]
    votes = [
        [name, interval_cell(row["accuracy"]), cell(row["mrlr"]), lead_text(row["lead"])]
        for name, row in voters.items()
    ]
    names = list(dict.fromkeys(each for row in voters.values() for kind in row["weights"].values() for each in kind))
    weights = [
        [name, *(cell((row["weights"]["similarities"] | row["weights"]["retrievers"]).get(each)) for each in names)]
        for name, row in voters.items()
    ]
    return "\n\n".join(
        [
            text_table(["retriever", "accuracy"], single),
            f"best retriever of the other folds ({chosen} of {result['folds']}): {interval_cell(best['accuracy'])}",
            text_table(["vote", "accuracy", "MRLR", "lead over the best retriever"], votes),
            f"right by at least one: {interval_cell(result['upper_bound'])}",
            text_table(["mean weight of", *names], weights),
        ]
    )


def _overview(used: Mapping[str, Any]) -> str:
    labelers = dict.fromkeys(labeler for found in used.values() for labeler in found["labelers"])
    return markdown_table(
        ["labeler", *used],
        [[f"`{each}`", *(_both(found["labelers"].get(each)) for found in used.values())] for each in labelers],
    )


def _both(row: Mapping[str, Any] | None) -> str:
    return "–" if row is None else f"{cell(row['marks']['pearson'])} / {cell(row['score']['kendall']['value'])}"


def _title(name: str, found: Mapping[str, Any]) -> str:
    alone, together = found["end_to_end"].values()
    return (
        f"**{name}**: {found['questions']} questions, {found['passages']} passages; {found['metric']} without a "
        f"passage {interval_cell(alone)}, with the {found['depth']} nearest {interval_cell(together)}"
    )


def _labelers(found: Mapping[str, Any]) -> str:
    header = [
        "labeler", "gold answer", "questions", "r with marks", "τ with the score", "τ with the gain", "calls a label",
        "tokens a label", "seconds a label",
    ]  # fmt: skip
    return markdown_table(header, [[f"`{name}`", *_labeler(row)] for name, row in found["labelers"].items()])


def _labeler(row: Mapping[str, Any]) -> list[str]:
    costs = row["per_label"]
    tokens = None if costs["prompt_tokens"] is None else costs["prompt_tokens"] + costs["response_tokens"]
    return [
        "needed" if row["needs_answers"] else "not needed",
        str(row["questions"]),
        interval_cell({"mean": row["marks"]["pearson"], "interval": row["marks"]["interval"]}),
        *(interval_cell({**row[end]["kendall"], "mean": row[end]["kendall"]["value"]}) for end in ("score", "gain")),
        *(cell(value) for value in (costs["calls"], tokens, costs["seconds"])),
    ]


def _types(found: Mapping[str, Any]) -> str:
    """Return labels by type of passage, and their correlation with marks where only one other type is compared."""
    labelled = [row["types"] for row in found["labelers"].values()]
    types = list(dict.fromkeys(each for row in labelled for each in row))
    against = [each for each in types if any("pearson" in row.get(each, {}) for row in labelled)]
    header = ["labeler", *(f"mean label, {each}" for each in types), *(f"r, relevant and {each}" for each in against)]
    rows = [
        [
            f"`{name}`",
            *(cell(row["types"].get(each, {}).get("label")) for each in types),
            *(cell(row["types"].get(each, {}).get("pearson")) for each in against),
        ]
        for name, row in found["labelers"].items()
    ]
    return markdown_table(header, rows)
