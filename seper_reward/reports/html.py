"""The HTML page of labels: a single file, without network access or libraries."""

import base64
import hashlib
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from seper_reward.data.marks import role_order
from seper_reward.data.rows import read_valid_rows
from seper_reward.data.splits import spread
from seper_reward.labels.integrity import PLACEBO, PROVENANCE, label_files
from seper_reward.labels.rows import (
    DELTA_SEPER,
    QUESTION_GAIN,
    label_of,
    label_of_sets,
    labeled_queries,
    labeler_of,
    read_label_rows,
    recommended_label,
)
from seper_reward.labels.summary import placebo_effect, summarize, summary_warnings
from seper_reward.options import MARGIN, POSITIVE
from seper_reward.reports.overview import (
    VERDICTS,
    LabeledPassage,
    by_grade,
    by_group_and_role,
    extremes,
    histogram,
    label_reliability,
    labeled_passages,
    of_positives,
    relevant_by_label,
)
from seper_reward.reports.tables import cluster_segments, placebo_line, sets_line
from seper_reward.runtime.hashing import file_hash
from seper_reward.runtime.json_files import leaves, naming, read_json
from seper_reward.runtime.messages import plural
from seper_reward.types import LabeledQuery

_PAGE = Path(__file__).parent / "page"
_LINES = 250  # maximum number of intervals in a plot
_POINTS = 2000  # maximum number of points in all panels together
_PANELS = 6  # maximum number of roles with a separate panel
_EXAMPLES = 5  # number of most helpful, and of most harmful, passages
_CLUSTERS = 6  # maximum number of named clusters
_LISTED = 20_000  # maximum number of passages in the list
_LEAST_MASS = 0.005  # of a named cluster
_BINS = 20
_MARK_BINS = (-1.0, -0.5, -0.2, -0.05, 0.05, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Axis:
    """A scale from ``low`` to ``high``."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Return the position of a value on the axis, in % of its length."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    @property
    def ticks(self) -> list[float]:
        """Three to nine round numbers on the axis."""
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(step * number, 10) for number in range(first, last + 1)]

    @classmethod
    def around(cls, values: Sequence[float]) -> "Axis":
        """Return an axis between round numbers that includes 0 and all values."""
        low, high = min(0.0, *values), max(0.0, *values)
        if low == high:
            return cls(-1.0, 1.0)
        unit = 10.0 ** math.floor(math.log10((high - low) / 2))
        return cls(math.floor(low / unit) * unit, math.ceil(high / unit) * unit)


def write_page(path: str | Path, labels: str | Path, *, margin: float = MARGIN) -> None:
    """Write a folder of labels as one HTML page; data is always escaped."""
    path, script = Path(path), _asset("report.js")
    # browsers run only this script on the page, and load nothing
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assets = {"style": _asset("report.css"), "script": script, "script_hash": script_hash}
    template = _environment().get_template("report.html.jinja")
    page = template.render(labels=_labels(Path(labels), margin), unit=Axis(0.0, 1.0), **assets)
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        path.write_text(page, encoding="utf-8")


def _labels(folder: Path, margin: float) -> dict[str, object]:
    """Return the page's data for a folder of labels."""
    rows = read_label_rows(folder)
    if not rows:
        raise ValueError(f"{folder}: expected label rows, got none; see rejected.jsonl there")
    column = label_of_sets(rows.values()) or labeler_of(rows.values())
    shown = {where: fields for where, fields in rows.items() if label_of(fields.get("answers", "?"), column) == column}
    if not shown:  # no question has a gold answer
        shown, column = rows, QUESTION_GAIN
    trained, queries = recommended_label(rows.values()), labeled_queries(shown, column)
    exported = queries if trained == column else labeled_queries(shown, trained)
    passages = labeled_passages(queries, column, margin, exported)
    uncertain = any(passage.low < passage.high for passage in passages)
    ends = [end for passage in passages for end in (passage.low, passage.high)]
    axis = Axis(-1.0, 1.0) if column == DELTA_SEPER else Axis.around(ends)
    edges = [axis.low + (axis.high - axis.low) * place / _BINS for place in range(_BINS)] + [axis.high]
    summary = summarize(queries, column, margin=margin)
    baselines = [labeled.baseline_seper for labeled in queries if labeled.baseline_seper is not None]
    provenance = read_json(folder / PROVENANCE) if (folder / PROVENANCE).is_file() else {}
    return {
        "folder": str(folder),
        "name": _name(column),
        "margin": margin,
        "axis": axis,
        "summary": summary,
        "notes": _notes(folder, summary, column, left_out=len(rows) - len(shown)),
        "mean": sum(passage.label for passage in passages) / len(passages),
        "baseline": sum(baselines) / len(baselines) if baselines else None,
        "bins": list(zip(edges, edges[1:], histogram(passages, edges), strict=False)),
        "verdicts": VERDICTS,
        # labelers without errors would give points
        "intervals": spread(sorted(passages, key=lambda passage: passage.label), _LINES) if uncertain else [],
        "trained": _name(trained),
        "positive": POSITIVE,
        "grades": by_grade(passages),
        "positives": of_positives(passages),
        "listed": [
            (passage, query, query.passages[passage.place])
            for passage in passages[:_LISTED]
            for query in [queries[passage.question].query]
        ],
        "groups": by_group_and_role(passages),
        "panels": _panels(passages, queries),
        "examples": [
            (title, [_example(queries[record.question], record) for record in extremes(passages, verdict, _EXAMPLES)])
            for title, verdict in (("helpful", VERDICTS[-1]), ("harmful", VERDICTS[0]))
        ],
        "reliability": label_reliability(queries),
        "marks": relevant_by_label(passages, _MARK_BINS) if column == DELTA_SEPER else [],
        "decides": provenance.get("decides", {}),
        "provenance": _provenance(folder, provenance),
    }


def _name(column: str) -> str:
    return "ΔSePer" if column == DELTA_SEPER else column.replace("_", " ")


def _notes(folder: Path, summary: Mapping[str, Any], column: str, left_out: int) -> list[str]:
    """Return the warnings and notes that come first on the page; ``left_out`` questions have another label."""
    notes = [sets_line(summary["sets"])] if "sets" in summary else []
    if (folder / PLACEBO).is_file():
        values = [fields["passages"][0][column] for _, fields in read_valid_rows(folder / PLACEBO)]
        notes.append(placebo_line(placebo_effect(values, column), column))
        if len(values) > 1:
            notes.append(
                f"labels of that passage vary by {statistics.stdev(values):.3f} (standard deviation) over questions, "
                "and smaller differences between passages may be noise"
            )
    notes += summary_warnings(summary)
    if left_out:
        unanswered = f"not on this page, since they have no gold answers: {plural(left_out, 'question')}"
        notes.append(f"{unanswered}, labelled by {QUESTION_GAIN}")
    return notes


def _panels(passages: Sequence[LabeledPassage], labeled: Sequence[LabeledQuery]) -> list[dict[str, object]]:
    """Return baseline and label of the passages of each role; less frequent roles are merged."""
    known = [passage for passage in passages if passage.baseline is not None]
    by_role: dict[str, list[LabeledPassage]] = {}
    for passage in known:
        by_role.setdefault(passage.role, []).append(passage)
    frequent = sorted(by_role, key=lambda role: -len(by_role[role]))
    roles = frequent if len(frequent) <= _PANELS else frequent[: _PANELS - 1]
    panels = [(role, by_role[role]) for role in sorted(roles, key=role_order)]
    others = [passage for role in frequent if role not in roles for passage in by_role[role]]
    most = _POINTS // max(len(panels) + bool(others), 1)
    return [
        {
            "role": role,
            "passages": len(role_passages),
            "points": [(passage, labeled[passage.question].query) for passage in spread(role_passages, most)],
        }
        for role, role_passages in [*panels, *([("other roles", others)] if others else [])]
    ]


def _example(labeled: LabeledQuery, label: LabeledPassage) -> dict[str, object]:
    query, fields = labeled.query, labeled.details[label.place]
    contexts = (("without", labeled.baseline), ("with", fields))
    return {
        "label": label,
        "question": query.question,
        "answer": query.answers[0] if query.answers else "",
        "passage": query.passages[label.place],
        "question_gain": fields.get("question_gain"),
        "beliefs": [
            {"name": name, "seper": context.get("seper"), **_clusters(context["responses"])}
            for name, context in contexts
            if all("cluster" in response for response in context.get("responses", [{}]))
        ],
    }


def _clusters(responses: Sequence[Mapping[str, object]]) -> dict[str, object]:
    segments = cluster_segments(responses)
    heavy = [segment for segment in segments if segment[0] >= _LEAST_MASS]
    named = sorted(heavy, key=lambda segment: -segment[0])[:_CLUSTERS]
    return {"segments": segments, "named": named, "unnamed": len(segments) - len(named)}


def _provenance(folder: Path, provenance: Mapping[str, object]) -> dict[str, object]:
    others = {name: provenance[name] for name in ("versions", "platform", "processes") if name in provenance}
    return {
        "hashes": [
            ("labels_hash", provenance.get("labels_hash")),
            *((f"SHA-256 of {file.name}", file_hash(file)) for file in label_files(folder)),
        ],
        "tables": [
            (title, [(path, _value(value)) for path, value in leaves(settings)])
            for title, settings in (
                ("Everything that affects a label", provenance.get("decides", {})),
                ("Settings of the command", provenance.get("settings", {})),
                ("Versions and platform", others),
            )
            if settings
        ],
    }


def _value(value: object) -> str:
    """Return a setting as it is in the JSON file, texts without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _environment() -> jinja2.Environment:
    loader, undefined = jinja2.FileSystemLoader(_PAGE), jinja2.StrictUndefined
    environment = jinja2.Environment(
        loader=loader, undefined=undefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    filters: dict[str, Callable[[Any], object]] = {
        "signed": lambda value: f"{value:+.2f}".replace("-", "−"),
        "share": lambda value: f"{100 * value:.0f} %",
        "plain": lambda value: f"{value:g}".replace("-", "−"),
        "whole": lambda value: f"{value:,}",
        "sum_counts": Counter.total,
    }
    environment.filters |= filters
    return environment


def _asset(name: str) -> Any:
    from markupsafe import Markup

    return Markup((_PAGE / name).read_text(encoding="utf-8"))
