"""Tables and figure of an agent's searches: what they gained, and at which price they pay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import interval_cell, markdown_table

_TITLES = {
    "accuracy": "accuracy of the answers (exact match)",
    "searches_per_rollout": "searches a rollout",
    "failed_calls_per_rollout": "failed calls a rollout",
    "needed": "questions that need a search",
    "search_rate_needed": "of these searched",
    "search_rate_not_needed": "of the others searched",
    "decision_f1": "F1 of the decision to search",
    "unsure_before": "searches before which the reader was unsure",
    "break_even_price": "price at which the searches break even (mean ΔSePer)",
    "break_even_price_needed": "the same where a search is needed",
    "break_even_price_not_needed": "the same where none is needed",
}
_COLORS = {"helpful": "#4c9f70", "useless": "#b0b7bd", "harmful": "#c0392b"}


def search_audit_tables(result: Mapping[str, Any]) -> str:
    """Return what ``audit_searches`` returned as Markdown."""
    measures = [[_TITLES[name], interval_cell(row)] for name, row in result["measures"].items()]
    kinds = [
        [kind, str(row["searches"]), interval_cell(row), str(row.get("surely", "–"))]
        for kind, row in result["kinds"].items()
    ]
    counts = f"{result['rollouts']} rollouts of {result['questions']} questions, {result['searches']} searches"
    if result["left_out"]:
        counts += f"; {result['left_out']} rollouts left out"
    return "\n\n".join(
        [
            counts,
            markdown_table(["", "mean and 95 % interval"], measures),
            markdown_table(["searches", "number", "share", "surely so"], kinds),
            f"A question needs a search if SePer without one is below {result['needed_below']}, and a reader is "
            "unsure if it is below that before a search. A search is useless "
            f"if |ΔSePer| is at most {result['margin']}, and surely helpful or harmful if its whole interval is on "
            "that side of 0.",
        ]
    )


def plot_search_audit(result: Mapping[str, Any], path: Path) -> None:
    """Plot how much searches gained, and what a rollout nets by the price of a search.

    Args:
        result: What ``audit_searches`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    rows, rollouts = result["by_search"], result["rollouts"]
    figure = new_figure(10, 3.8)
    gains, net = figure.subplots(1, 2)
    edges = [number / 10 for number in range(-10, 11)]
    by_kind = {kind: [row["delta_seper"] for row in rows if row["kind"] == kind] for kind in _COLORS}
    gains.hist(list(by_kind.values()), bins=edges, stacked=True, color=list(_COLORS.values()), label=list(_COLORS))
    gains.set_xlabel("ΔSePer of a search")
    gains.set_ylabel("searches")
    gains.legend(fontsize=8)
    prices = [number / 50 for number in range(51)]
    chosen = {"all searches": rows, "where one is needed": [row for row in rows if row["needed"]]}
    for name, own in chosen.items():
        total = sum(row["delta_seper"] for row in own)
        net.plot(prices, [(total - price * len(own)) / rollouts for price in prices], label=name)
    net.axhline(0, color="#7f8c8d", linewidth=0.8)
    price = result["measures"]["break_even_price"]["mean"]
    if price is not None and 0 <= price <= 1:
        net.axvline(price, color="#7f8c8d", linewidth=0.8, linestyle="--")
        net.annotate(f"break-even {price:.2f}", (price, 0), (5, 5), textcoords="offset points", fontsize=8)
    net.set_xlabel("price of a search")
    net.set_ylabel("ΔSePer less price, a rollout")
    legend_beside(net)
    for axes in (gains, net):
        axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
