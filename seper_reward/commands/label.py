"""Label how much each passage helps to answer its question."""

import gc
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from seper_reward.data.inputs import Field, Needs, Search, load_input
from seper_reward.labels.integrity import REJECTED, label_files
from seper_reward.labels.labelers import PassageLabeler, load_labeler, needs_answers, parse_labeler
from seper_reward.labels.rows import DELTA_SEPER, QUESTION_GAIN, SUFFIXES, recommended_label
from seper_reward.labels.run import LabelRun
from seper_reward.labels.summary import summary_warnings
from seper_reward.options import MARGIN, LabelOptions
from seper_reward.reports import tables
from seper_reward.reports.tracking import LabelTracker, Run
from seper_reward.retrieval import has_own_passages, load_retriever
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import read_lines
from seper_reward.runtime.messages import plural, say_once
from seper_reward.runtime.profiling import profiling
from seper_reward.scorer import SePerScorer


def command(config: LabelOptions) -> str:
    """Run ``seper-reward label``."""
    # fail early: loading the corpus is slow
    parse_labeler(config.labeler)
    folder = Path(config.output_dir)
    embeddings = None if config.dry_run else folder / "embeddings"
    fields: list[Field] = ["passages", "relevance"] if config.labeler == "gold" else ["passages"]
    if needs_answers(config.labeler, by_question=not (config.on_servers or config.set_options)):
        fields.append("answers")
    retriever = partial(load_retriever, config.retriever, embeddings_dir=embeddings)
    needs = Needs(
        fields,
        Search(retriever, needs_corpus=not has_own_passages(config.retriever)),
        top_k=config.top_k,
        split=config.split,
        limit=config.limit,
        strict=config.strict,
        on_disk=True,
    )
    # without a cache: it would be written to, and cached responses make the estimate of a dry run too small
    scored = replace(config, cache=None) if config.dry_run else config
    own_scorer = partial(SePerScorer.from_pretrained, scored)
    read = load_input(config, needs)
    queries, rejected = read.queries, read.rejected
    if not queries:
        first = f"; the first: {rejected[0].where}: {rejected[0].reason}" if rejected else ""
        raise ValueError(f"{config.input}: expected at least one usable question, got none{first}")
    if rejected and process_state().is_main_process:
        left_out = f"{plural(len(rejected), 'row')} cannot be used, see rejected.jsonl"
        print(f"{left_out}; {rejected[0].where}: {rejected[0].reason}")
    settings = {name: value for name, value in asdict(config).items() if name != "dry_run"}
    labeler = load_labeler(config.labeler, own_scorer, config.set_options, config.label)
    run = LabelRun(folder, labeler, queries, rejected, settings, batch_size=config.batch_size, dry_run=config.dry_run)
    say_once(
        f"{plural(len(queries), 'question')} with {plural(run.passages, 'passage')} from {config.input}, "
        f"{run.finished} finished; labels by {config.label or config.labeler} into {config.output_dir}"
    )
    if config.dry_run:
        forecast = run.forecast()
        if process_state().is_main_process:
            print(tables.forecast_lines(forecast, process_state().num_processes))
        return "the same command without --dry_run"
    return after_labels(_label(run, labeler, config, settings), folder, labeler.name)


def _label(
    run: LabelRun, labeler: PassageLabeler, config: LabelOptions, settings: Mapping[str, object]
) -> dict[str, object]:
    """Finish a labelling run, and report the results to trackers and the user; return the summary."""
    main_process = process_state().is_main_process
    report_to = "none" if run.complete else config.report_to
    with Run(report_to, "label", {**settings, "provenance": run.provenance}, run.folder) as tracked:
        cache = labeler.scorer.cache if labeler.scorer is not None else None
        tracker = LabelTracker(tracked, labeler.name, cache, run.finished)
        gc.freeze()  # collections otherwise look through the objects of all libraries
        try:
            with profiling() as profile:
                summary = run.run(strict=config.strict, on_label=tracker.progress)
        finally:
            gc.unfreeze()
        if main_process and report_to != "none":
            tracker.finish(summary, run.folder)
    if main_process:
        show_summary(summary, labeler.name, run.folder)
        if profile.seconds:
            print(tables.stages_line(profile))
    return summary


def after_labels(summary: Mapping[str, object], folder: Path, labeler: str) -> str:
    """Return the next command for a label folder: a page if labels are of beliefs, else an export.

    Raises ``ValueError`` if no question has labels.
    """
    if not summary["questions"]:
        raise ValueError(f"{folder}: no question could be labelled; {REJECTED} there has the reasons")
    if labeler == DELTA_SEPER:
        return f"seper-reward report --labels {folder} --output report.html"
    # rows of ΔSePer have all its labels
    named = f" --label {labeler}" if labeler in SUFFIXES else ""
    return f"seper-reward export --labels {folder}{named} --output lists.jsonl"


def show_summary(summary: Mapping[str, Any], labeler: str, folder: Path) -> None:
    """Print the summary of a label folder, and its warnings."""
    first, *others = label_files(folder)
    # none if all questions were rejected, or have no gold answers
    rows = list(islice((line for line in read_lines(first) if line["answers"] or labeler not in SUFFIXES), 1))
    intervals = any(f"low{SUFFIXES.get(labeler, '')}" in passage for line in rows for passage in line["passages"])
    print(f"\n{tables.summary_table(summary, labeler)}\n")
    print(
        f"{plural(summary['questions'], 'question')}, {plural(summary['passages'], 'passage')}: "
        f"{summary['helpful']} help and {summary['harmful']} harm, "
        f"their {'95 % intervals' if intervals else 'labels'} beyond ±{MARGIN:g}; "
        f"{plural(summary['rejected'], 'row')} rejected"
    )
    if summary["rejected"]:
        reason = next(iter(read_lines(folder / REJECTED)))
        print(f"the first of {folder / REJECTED}: {reason['where']}: {reason['reason']}")
    if "without_answers" in summary:
        print(f"without gold answers, labelled by {QUESTION_GAIN}: {plural(summary['without_answers'], 'question')}")
    if summary["unmoved"]:
        print(tables.coverage_line(summary))
    if "sets" in summary:
        print(tables.sets_line(summary["sets"]))
    if "placebo" in summary:
        print(tables.placebo_line(summary["placebo"], labeler))
    print(f"labels: {first}" + (f" and {plural(len(others), 'more file')}" if others else ""))
    if rows and (trained := recommended_label(rows)) != labeler:
        print(f"exports and trainers learn from {trained}")
    for warning in summary_warnings(summary):
        print(f"warning: {warning}", file=sys.stderr)
