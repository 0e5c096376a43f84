"""What a run came to, as numbers and as text."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

_ROLES = ("supporting", "relevant", "unrelated", "other", "misleading")


def summarize(labels: Sequence[Mapping[str, Any]], *, rejected: int = 0) -> dict[str, Any]:
    """Return counts and means over label rows, per ``group`` of questions and ``role`` of passages.

    Questions without a ``group`` count as ``"all"``. A passage's role is its ``role``, else ``relevant`` or
    ``other`` by its mark ``relevant``, else ``all``.
    """
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in labels:
        groups[str(row.get("group", "all"))].append(row)
    passages = [passage for row in labels for passage in row["passages"]]
    return {
        "questions": len(labels),
        "passages": len(passages),
        "rejected": rejected,
        "helpful": sum(passage["delta_seper"] > 2 * passage["std_error"] for passage in passages),
        "harmful": sum(passage["delta_seper"] < -2 * passage["std_error"] for passage in passages),
        "groups": {name: _summarize_group(rows) for name, rows in groups.items()},
    }


def summary_table(summary: Mapping[str, Any]) -> str:
    """Lay out [`summarize`]'s groups as a text table."""
    groups = summary["groups"]
    present = {role for group in groups.values() for role in group["delta_seper"]}
    roles = sorted(present, key=lambda role: (_ROLES.index(role) if role in _ROLES else len(_ROLES), role))
    header = ["group", "questions", "baseline SePer", *(f"ΔSePer {role}" for role in roles)]
    lines = [
        [
            name,
            str(group["questions"]),
            f"{group['baseline_seper']:.3f}",
            *(f"{group['delta_seper'][role]:+.3f}" if role in group["delta_seper"] else "-" for role in roles),
        ]
        for name, group in groups.items()
    ]
    widths = [max(len(row[column]) for row in [header, *lines]) for column in range(len(header))]

    def laid_out(row: Sequence[str]) -> str:
        first, *others = zip(row, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])

    return "\n".join([laid_out(header), "  ".join("-" * width for width in widths), *map(laid_out, lines)])


def _summarize_group(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    by_role: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for passage in row["passages"]:
            by_role[_role(passage)].append(passage["delta_seper"])
    return {
        "questions": len(rows),
        "baseline_seper": _mean([row["baseline"]["seper"] for row in rows]),
        "delta_seper": {role: _mean(values) for role, values in sorted(by_role.items())},
        "passages": {role: len(values) for role, values in sorted(by_role.items())},
    }


def _role(passage: Mapping[str, Any]) -> str:
    if "role" in passage:
        return str(passage["role"])
    if isinstance(passage.get("relevant"), bool):
        return "relevant" if passage["relevant"] else "other"
    return "all"


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 6)
