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
    from seper_reward.labels.rows import DELTA_SEPER, labeled_queries, labeler_of, read_label_rows
    from seper_reward.reports.figures import plot_belief

    rows = read_label_rows(config.labels)
    if (labeler := labeler_of(rows.values())) != DELTA_SEPER:
        raise ValueError(f"{config.labels} has labels of {labeler!r}; a figure of beliefs needs labels of ΔSePer")
    if not rows:
        raise ValueError(f"{config.labels}: expected label rows, got none; see rejected.jsonl")
    by_id = {labeled.query.id: labeled for labeled in labeled_queries(rows, DELTA_SEPER) if labeled.query.answers}
    if not by_id:
        raise ValueError(f"{config.labels}: no question has a gold answer, so there is no belief; write an .html page")
    if config.question is not None and config.question not in by_id:
        raise ValueError(
            f"question={config.question!r} is not in {config.labels}; ids are {', '.join(list(by_id)[:5])}, …"
        )
    chosen = config.question or max(by_id, key=lambda name: max(by_id[name].labels) - min(by_id[name].labels))
    path = Path(config.output)
    path = path if path.suffix else path.with_suffix(".png")
    plot_belief(by_id[chosen], path)
    print(f"question {chosen}: {path}")
    return f"seper-reward export --labels {config.labels} --output lists.jsonl"
