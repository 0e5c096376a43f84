"""Tables of results, as text for the terminal and as Markdown for documents."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tabulate import tabulate

from seper_reward.data.marks import role_order
from seper_reward.estimators.clustering import heaviest_clusters
from seper_reward.labels.forecast import Forecast
from seper_reward.labels.rows import DELTA_SEPER
from seper_reward.runtime.messages import plural
from seper_reward.runtime.profiling import Profile
from seper_reward.statistics import Statistic
from seper_reward.types import KNOWN

_DELTA_SEPER = (DELTA_SEPER, f"{DELTA_SEPER}_hard")  # labels that tables call ΔSePer


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as plain text, the first column aligned left, all others right; cells are written by ``str``."""
    return _layout(header, rows, "simple", "right")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; cells are written by ``str``."""
    return _layout(header, rows, "github", "left")


def cell(value: object) -> str:
    """Return a number with 3 decimals, ``None`` as a dash."""
    return "–" if value is None else f"{value:.3f}"


def lead_text(lead: Statistic | None) -> str:
    """Return a lead with its sign, and a note if its interval contains 0 (no difference seen); a dash for none.

    >>> lead_text(Statistic(-0.002, [-0.02, 0.02]))
    'no difference seen: -0.002 [-0.020, 0.020]'
    """
    if lead is None or lead.value is None:
        return "–"
    if lead.interval is None:
        return f"{lead.value:+.3f} (no interval)"
    low, high = lead.interval
    text = f"{lead.value:+.3f} [{low:.3f}, {high:.3f}]"
    return f"no difference seen: {text}" if low <= 0 <= high else text


def questions_text(questions: int, left_out: int) -> str:
    """Return the number of questions used, and of questions left out if there are any."""
    return plural(questions, "question") + (f", {left_out} left out" if left_out else "")


def summary_table(summary: Mapping[str, Any], column: str = DELTA_SEPER) -> str:
    """Return a run's mean labels as text, one row per group of questions and one column per role of passages."""
    groups, name = summary["groups"], "ΔSePer" if column in _DELTA_SEPER else column
    roles = sorted({role for group in groups.values() for role in group[column]}, key=role_order)
    baseline = any("baseline_seper" in group for group in groups.values())
    header = ["group", "questions", *(["baseline SePer"] if baseline else []), *(f"{name} {role}" for role in roles)]
    rows = [
        [
            title,
            str(group["questions"]),
            *([f"{group['baseline_seper']:.3f}"] if baseline else []),
            *(f"{group[column][role]:+.3f}" if role in group[column] else "-" for role in roles),
        ]
        for title, group in groups.items()
    ]
    return text_table(header, rows)


def sets_line(sets: Mapping[str, Any]) -> str:
    """Return a line on labels of sets from a summary."""
    labels, contexts = plural(sets["labels"], "label"), plural(sets["reader_calls"], "context")
    return f"{labels} next to given passages, {contexts} measured"


def coverage_line(summary: Mapping[str, Any]) -> str:
    """Return the number of questions that no passage helps, and its consequence for rankings of these passages."""
    line = f"no passage helps in {summary['unmoved']} of {plural(summary['questions'], 'question')}"
    if "uncovered" in summary:
        line += (
            f"; {summary['uncovered']} of these stay unanswered under any ranking of the passages (SePer without a "
            f"passage is below {KNOWN:g})"
        )
    return line


def placebo_line(effect: Mapping[str, Any], column: str = DELTA_SEPER) -> str:
    """Return a line on the label of a passage that contains no answer, from the result of ``placebo_effect``."""
    if not effect["questions"]:
        return "placebo: no question could be measured with it"
    name = "ΔSePer" if column in _DELTA_SEPER else column
    interval = "" if effect["interval"] is None else " (95 %: {:+.3f} to {:+.3f})".format(*effect["interval"])
    label = f"{name} {effect[column]:+.3f}{interval}"
    return f"placebo, a passage that answers nothing: {label}, {plural(effect['questions'], 'question')}"


def forecast_lines(total: Forecast, processes: int = 1) -> str:
    """Return the estimates of a dry run, one line each."""
    left = total.questions - total.finished
    lines = [
        f"questions: {total.questions}, in {plural(total.contexts, 'context')}; {total.finished} finished, {left} left"
    ]
    if total.measured:
        on = f" on {processes} processes" if processes > 1 else ""
        on_gpu = "" if total.device_peak_bytes is None else f", {total.device_peak_bytes / 2**30:.1f} GB on its GPU"
        lines += [
            f"time: about {duration(total.seconds)}{on}, estimated from {plural(total.measured, 'question')}",
            f"tokens: about {total.prompt_tokens} in prompts and {total.response_tokens} in responses",
            f"memory: {total.peak_bytes / 2**30:.1f} GB per process{on_gpu}",
        ]
    if total.unscorable:
        lines.append(f"{len(total.unscorable)} of the measured questions cannot be scored: {total.unscorable[0]}")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Return seconds in a readable unit.

    >>> [duration(each) for each in (0.4, 89, 91, 5400, 7300, 200000)]
    ['1 s', '89 s', '2 min', '90 min', '2 h', '2.3 d']
    """
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    if seconds <= 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} d"


def clusters_text(responses: Sequence[Mapping[str, Any]]) -> str:
    """Return a label row's responses by cluster, heaviest first: ``0.70 Paris = The capital is Paris | 0.30 Lyon``."""
    return " | ".join(
        f"{mass:.2f} " + " = ".join(dict.fromkeys(responses[place]["text"] for place in places))
        for mass, places in clusters_of(responses)
    )


def clusters_of(responses: Sequence[Mapping[str, Any]]) -> list[tuple[float, list[int]]]:
    """Return (mass, positions of its responses) per cluster of a label row's responses, heaviest first."""
    return heaviest_clusters(
        [response["cluster"] for response in responses], [response["weight"] for response in responses]
    )


def cluster_segments(responses: Sequence[Mapping[str, Any]]) -> list[tuple[float, str, float]]:
    """Return (mass, shortest text, mean support) per cluster; clusters that support the answer first, then by mass."""
    segments = []
    for mass, places in clusters_of(responses):
        members = [responses[place] for place in places]
        support = sum(response["support"] for response in members) / len(members)
        segments.append((mass, min((str(response["text"]) for response in members), key=len), support))
    return sorted(segments, key=lambda segment: segment[2] < 0.5)


def _layout(header: Sequence[str], rows: Iterable[Sequence[object]], style: str, align: str) -> str:
    alignment = ["left", *[align] * (len(header) - 1)]
    texts = [list(map(str, cells)) for cells in rows]
    return tabulate(
        texts, list(header), tablefmt=style, disable_numparse=True, colalign=alignment, headersalign=alignment
    )


def stages_line(profile: Profile) -> str:
    """Return the seconds of this process by stage."""
    other = max(profile.total_seconds - sum(profile.seconds.values()), 0.0)
    stages = sorted(profile.seconds.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{stage} {spent:.1f}" for stage, spent in [*stages, ("other", other)])
    return f"seconds of this process: {listed}"
