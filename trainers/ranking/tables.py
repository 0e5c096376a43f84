"""Tables, plots and logs of runs of retriever and reranker."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seper_reward.labels.targets import evidence
from seper_reward.reports.figures import new_figure, save_figure
from seper_reward.reports.tables import cell, lead_text, markdown_table
from seper_reward.statistics import Statistic
from seper_reward.types import LabeledQuery


def measures_table(columns: Mapping[str, Mapping[str, object]]) -> str:
    """Return a Markdown table with one row per number of the first name, and one column per name."""
    first = next(iter(columns.values()))
    keys = [key for key, value in first.items() if value is None or isinstance(value, (int, float))]
    return markdown_table(
        ["", *columns], [[key, *(_cell(column.get(key)) for column in columns.values())] for key in keys]
    )


def plot_ranking(rankings: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Plot measures by ranking and name as bars side by side."""
    first = next(iter(rankings.values()))
    measures = [name for name, value in first.items() if isinstance(value, (int, float))]
    figure = new_figure(2 + 0.9 * len(measures), 4)
    axes = figure.subplots()
    width = 0.8 / len(rankings)
    for number, (name, means) in enumerate(rankings.items()):
        places = [at + width * (number - (len(rankings) - 1) / 2) for at in range(len(measures))]
        axes.bar(places, [means[key] or 0.0 for key in measures], width=0.95 * width, label=name)
    axes.set_xticks(range(len(measures)), measures, rotation=30, ha="right", fontsize=8)
    axes.set_ylim(0, 1)
    axes.legend(ncols=len(rankings), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1))
    save_figure(figure, path)


def label_statistics(queries: Sequence[LabeledQuery], margin: float) -> dict[str, float]:
    """Return counts, means and shares of labels, for logs; a passage with evidence of at least ``margin`` helps."""
    values = [label for labeled in queries for label in labeled.labels]
    errors = [error for labeled in queries for error in labeled.std_errors]
    return {
        "questions": len(queries),
        "passages": len(values),
        "mean": _share(values),
        "share_helpful": _share([value >= margin for labeled in queries for value in evidence(labeled)]),
        "share_harmful": _share([value <= -margin for labeled in queries for value in evidence(labeled)]),
        "share_questions_helped": _share([max(evidence(labeled), default=0) >= margin for labeled in queries]),
        "mean_std_error": _share(errors),
    }


def _cell(value: object) -> str:
    return lead_text(value) if isinstance(value, Statistic) else cell(value)


def _share(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4) if values else 0.0
