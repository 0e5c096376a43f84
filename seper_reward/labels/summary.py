"""Counts and means over labels."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from seper_reward.data.marks import group_of, role_of
from seper_reward.labels.integrity import PLACEBO, REJECTED, SUMMARY, label_files, written_hashes
from seper_reward.labels.rows import DELTA_SEPER, DIGITS, label_intervals, label_of, labeled_query
from seper_reward.options import MARGIN
from seper_reward.runtime.json_files import read_json, read_lines
from seper_reward.runtime.messages import plural
from seper_reward.types import KNOWN, LabeledQuery

Verdict = Literal["harmful", "unsure", "helpful"]
#: Counts by name, and counts and sums of groups by (group, name) and (group, name, role); those of parts can be added.
Sums = Counter[tuple[str, ...]]

_WARN_FROM = 0.1  # share of contexts with unfinished or empty responses from which a run warns


def summarize(labeled: Iterable[LabeledQuery], column: str = DELTA_SEPER, *, margin: float = MARGIN) -> dict[str, Any]:
    """Return counts and means over the labels of ``labeled_query``, per ``group`` of questions and role of passages.

    Passages are ``helpful`` (``harmful``) if their whole 95 % interval is above ``margin`` (below ``-margin``). No
    passage helps ``unmoved`` questions, nor can the reader answer ``uncovered`` ones without a passage (for ΔSePer
    only). Of the ``contexts`` with responses, ``unfinished`` ones have at least half cut at the maximum length,
    ``empty`` ones half of them empty, and ``all_equal`` ones a single text. ``long_answers`` are questions without a
    gold answer as short as a response. Questions ``without_answers``, whose label is another one, are only counted.
    """
    return summary_of(sum_labels(labeled, column, margin), column, rejected=0)


def folder_summary(folder: Path, sums: Sums, column: str, hashes: Mapping[str, object]) -> dict[str, Any]:
    """Return the content of ``summary.json`` for the sums over a folder's labels and the hashes of its files."""
    rejected = sum(1 for _ in read_lines(folder / REJECTED))
    summary = {"label": column, "margin": MARGIN, **summary_of(sums, column, rejected)}
    if (folder / PLACEBO).is_file():
        values = [line["passages"][0][column] for line in read_lines(folder / PLACEBO)]
        summary["placebo"] = placebo_effect(values, column)
    return {**summary, "sha256": dict(hashes)}


def read_summary(folder: Path, column: str) -> dict[str, Any]:
    """Return the summary of a finished folder, of other labels of its rows than before if they are asked for."""
    before = read_json(folder / SUMMARY)
    if before.get("label") == column:
        return before
    rows = (line for file in label_files(folder) for line in read_lines(file))
    return folder_summary(folder, sum_rows(rows, column), column, written_hashes(folder))


def sum_rows(rows: Iterable[Mapping[str, Any]], column: str) -> Sums:
    """Return the counts and sums over the labels ``column`` of label rows."""
    return sum_labels((labeled_query(fields, column) for fields in rows), column)


def sum_labels(queries: Iterable[LabeledQuery], column: str, margin: float = MARGIN) -> Sums:
    """Return the counts and sums over the labels of ``labeled_query`` that ``summary_of`` needs."""
    sums: Sums = Counter()
    for labeled in queries:
        truncated = sum(fields.get("truncated", False) for fields in labeled.details)
        if label_of(labeled.query.answers, column) != column:
            counts = {"questions": 1, "without_answers": 1, "passages": len(labeled.labels), "truncated": truncated}
            sums.update({(name,): count for name, count in counts.items()})
            continue
        intervals = label_intervals(labeled, column)
        verdicts = [verdict(low, high, margin) for low, high in intervals]
        unmoved = all(high <= margin for _, high in intervals)
        counts = {
            "questions": 1,
            "passages": len(intervals),
            "truncated": truncated,
            "helpful": verdicts.count("helpful"),
            "harmful": verdicts.count("harmful"),
            "unmoved": unmoved,
            "uncovered": unmoved and labeled.baseline_seper is not None and labeled.baseline_seper < KNOWN,
            "sets": len(labeled.sets),
            "reader_calls": labeled.fields.get("reader_calls", 0),
            **_response_counts(labeled),
        }
        sums.update({(name,): int(count) for name, count in counts.items()})
        group = group_of(labeled.query)
        sums[group, "questions"] += 1
        if labeled.baseline_seper is not None:
            sums[group, "baselines"] += 1
            sums[group, "baseline_seper"] += labeled.baseline_seper  # type: ignore[assignment]
        for passage, label in zip(labeled.query.passages, labeled.labels, strict=True):
            sums[group, "passages", role_of(passage)] += 1
            sums[group, "labels", role_of(passage)] += label  # type: ignore[assignment]
    return sums


def summary_of(sums: Sums, column: str, rejected: int) -> dict[str, Any]:
    """Return the summary of counts and sums, see ``summarize``."""

    def counted(*names: str) -> dict[str, object]:
        return {name: sums[(name,)] for name in names}

    groups: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
    for (first, *rest), value in sums.items():
        if rest:
            groups[first][tuple(rest)] = value
    return {
        **counted("questions", "passages", "truncated"),
        **(counted("without_answers") if sums["without_answers",] else {}),
        "rejected": rejected,
        **counted("helpful", "harmful", "unmoved", *(["uncovered"] if column == DELTA_SEPER else [])),
        **(counted("contexts", "unfinished", "empty", "all_equal", "long_answers") if sums["contexts",] else {}),
        **({"sets": {"labels": sums["sets",], "reader_calls": sums["reader_calls",]}} if sums["sets",] else {}),
        "groups": {name: _group(group_sums, column) for name, group_sums in groups.items()},
    }


def _group(sums: Mapping[tuple[str, ...], float], column: str) -> dict[str, object]:
    counts = {role: sums["passages", role] for name, *roles in sorted(sums) if name == "passages" for role in roles}
    seper = {"baseline_seper": sums["baseline_seper",] / sums["baselines",]} if ("baselines",) in sums else {}
    return {
        "questions": sums["questions",],
        **{name: round(mean, DIGITS) for name, mean in seper.items()},
        column: {role: round(sums["labels", role] / count, DIGITS) for role, count in counts.items()},
        "passages": counts,
    }


def summary_warnings(summary: Mapping[str, Any]) -> list[str]:
    """Return warnings that users should read before they trust the labels, from the result of ``summarize``."""
    warnings = []
    if summary["truncated"]:
        warnings.append(
            f"longer than the reader's window or max_passage_tokens: {plural(summary['truncated'], 'passage')}; "
            "labels cover the beginning only, and rows have 'truncated': true"
        )
    contexts = summary.get("contexts", 0)
    for name, says in (
        ("unfinished", "responses were cut at max_new_tokens; raise it, or give the reader's end to stop"),
        ("empty", "responses are blank or abstain; check the prompt and stop"),
    ):
        if summary.get(name, 0) > _WARN_FROM * contexts:
            warnings.append(f"in {summary[name]} of {contexts} contexts half of the {says}")
    if summary.get("long_answers", 0) > _WARN_FROM * summary["questions"]:
        warnings.append(
            f"the answers of {plural(summary['long_answers'], 'question')} are longer than a response can be, so "
            "responses state less than the answers and ΔSePer is low; train on seper_gain, as exports and trainers do "
            "where it is known, or raise max_new_tokens"
        )
    if contexts and summary["all_equal"] == contexts:
        warnings.append("in every context all responses are equal; check the temperature (0?) and the reader")
    return warnings


def placebo_effect(values: Sequence[float], column: str = DELTA_SEPER) -> dict[str, Any]:
    """Return the mean label of the placebo passage, one per question: the part of labels that is not due to content.

    Its 95 % ``interval`` over questions is Student's t; ``None`` if there are too few questions.
    """
    from scipy.special import stdtrit  # scipy.stats takes seconds to load

    if len(values) < 2:
        return {"questions": len(values), column: values[0] if values else None, "interval": None}
    half = float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    interval = [round(mean - half, DIGITS), round(mean + half, DIGITS)]
    return {"questions": len(values), column: round(mean, DIGITS), "interval": interval}


def verdict(low: float, high: float, margin: float) -> Verdict:
    """Return ``"helpful"`` (``"harmful"``) if a label's whole interval is above ``margin`` (below ``-margin``)."""
    return "helpful" if low > margin else "harmful" if high < -margin else "unsure"


def _response_counts(labeled: LabeledQuery) -> dict[str, int]:
    contexts = [
        context["responses"]
        for context in (labeled.baseline, *labeled.details)
        if all("finished" in response for response in context.get("responses", [{}]))
    ]
    leaves = labeled.baseline.get("known_leaves", ())  # without a probability, an answer is no response
    return {
        "contexts": len(contexts),
        "unfinished": sum(_half(responses, lambda response: not response["finished"]) for responses in contexts),
        "empty": sum(_half(responses, lambda response: not response["text"]) for responses in contexts),
        "all_equal": sum(
            len({response["text"] for response in responses if response["count"]}) == 1 for responses in contexts
        ),
        "long_answers": bool(leaves) and all(leaf["log_prob"] is None for leaf in leaves),
    }


def _half(responses: Sequence[Mapping[str, Any]], condition: Callable[[Mapping[str, object]], bool]) -> bool:
    """Return whether at least half of the drawn responses meet a condition."""
    return bool(
        2 * sum(response["count"] for response in responses if condition(response))
        >= sum(response["count"] for response in responses)
    )
