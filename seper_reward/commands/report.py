"""Write a page of labels (.html), or a plot of the beliefs in one question."""

from pathlib import Path

from seper_reward.options import ReportOptions


def command(config: ReportOptions) -> str:
    """Run ``seper-reward report``."""
    if config.page:
        from seper_reward.reports.html import write_page

        write_page(config.output, config.labels, margin=config.margin)
        print(f"{config.output}: open it in a browser")
        return f"seper-reward export --labels {config.labels} --output lists.jsonl"
    from seper_reward.labels.rows import DELTA_SEPER, labeler_of, read_label_rows
    from seper_reward.reports.figures import plot_belief

    rows = {row["id"]: row for row in read_label_rows(config.labels).values()}
    if (labeler := labeler_of(rows.values())) != DELTA_SEPER:
        raise ValueError(f"{config.labels} has labels of {labeler!r}; a figure of beliefs needs labels of ΔSePer")
    if not rows:
        raise ValueError(f"{config.labels}: expected label rows, got none; see rejected.jsonl")
    if config.question is not None and config.question not in rows:
        raise ValueError(
            f"question={config.question!r} is not in {config.labels}; ids are {', '.join(list(rows)[:5])}, …"
        )
    deltas = {name: [passage["delta_seper"] for passage in row["passages"]] for name, row in rows.items()}
    chosen = config.question or max(deltas, key=lambda name: max(deltas[name]) - min(deltas[name]))
    plot_belief(rows[chosen], Path(config.output))
    print(f"question {chosen}: {config.output}")
    return f"seper-reward export --labels {config.labels} --output lists.jsonl"
