"""Overview of a folder of labels: their distribution, their reliability, and the most extreme passages."""

import bisect
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from seper_reward.data.marks import group_of, is_marked, is_relevant, role_of, role_order
from seper_reward.labels.heterogeneity import heterogeneity_p_value
from seper_reward.labels.rows import label_intervals
from seper_reward.labels.summary import Verdict, verdict
from seper_reward.labels.targets import gains, pairs, split_by_help
from seper_reward.options import MARGIN
from seper_reward.statistics import ratio_over_questions, rounded
from seper_reward.types import LabeledQuery

VERDICTS: tuple[Verdict, ...] = ("harmful", "unsure", "helpful")  # from left to right
_SIGMAS = 2.0  # number of standard errors between the labels of a sure pair
_P_VALUE = 0.1  # below it, passages of a question differ by more than chance


@dataclass(frozen=True)
class LabeledPassage:
    """A passage in the overview."""

    question: int  # position of its question in the folder, from 0
    place: int  # position among the question's passages, from 0
    label: float
    low: float  # lower end of the label's 95 % interval; the label itself for labelers without errors
    high: float
    verdict: Verdict  # "helpful" or "harmful" if the whole interval is beyond the margin
    group: str  # of its question, "all" if it has none
    role: str  # by human labels (`role_of`)
    relevant: bool | None  # whether people marked it; None if no passage of its question has a mark
    baseline: float | None  # SePer without a passage, in [0, 1]; None for labelers that do not measure it
    exported: float  # label of exports and trainers
    grade: int  # of that label in qrels (`gains`)
    positive: bool  # whether exports take it for a positive (`split_by_help`)


def labeled_passages(
    queries: Sequence[LabeledQuery],
    column: str,
    margin: float = MARGIN,
    exported: Sequence[LabeledQuery] | None = None,
) -> list[LabeledPassage]:
    """Return the passages of labelled queries, read by ``labeled_query`` with the labels ``column``.

    ``exported`` are the same queries with the labels of exports and trainers (default: the same labels).
    """
    records = []
    for number, (labeled, trained) in enumerate(zip(queries, exported or queries, strict=True)):
        passages = labeled.query.passages
        marked = any(map(is_marked, passages))
        grades, positives = gains(trained), set(split_by_help(trained)[0])
        for place, (low, high) in enumerate(label_intervals(labeled, column)):
            records.append(
                LabeledPassage(
                    number, place, labeled.labels[place], low, high, verdict(low, high, margin),
                    group=group_of(labeled.query), role=role_of(passages[place]),
                    relevant=is_relevant(passages[place]) if marked else None, baseline=labeled.baseline_seper,
                    exported=trained.labels[place], grade=grades[place], positive=place in positives,
                )
            )  # fmt: skip
    return records


def histogram(passages: Sequence[LabeledPassage], edges: Sequence[float]) -> list[Counter[str]]:
    """Return the number of labels in each bin, from its lower edge on, by verdict."""
    bins: list[Counter[str]] = [Counter() for _ in edges[1:]]
    for passage in passages:
        bins[min(bisect.bisect_right(edges, passage.label), len(bins)) - 1][passage.verdict] += 1
    return bins


def by_group_and_role(passages: Sequence[LabeledPassage]) -> list[dict[str, object]]:
    """Return the mean label of each group of questions and role of passages, with its bootstrap over questions."""
    groups = list(dict.fromkeys(passage.group for passage in passages))
    cells: dict[tuple[str, str], list[LabeledPassage]] = {}
    for passage in passages:
        cells.setdefault((passage.group, passage.role), []).append(passage)
    order = sorted(cells, key=lambda cell: (groups.index(cell[0]), role_order(cell[1])))
    return [
        {
            "group": group,
            "role": role,
            "questions": len({passage.question for passage in cell}),
            "passages": len(cell),
            "mean": ratio_over_questions(
                [passage.question for passage in cell], [(passage.label, 1.0) for passage in cell]
            ),
            "helpful": rounded(statistics.fmean(passage.verdict == "helpful" for passage in cell)),
            "harmful": rounded(statistics.fmean(passage.verdict == "harmful" for passage in cell)),
        }
        for group, role in order
        for cell in [cells[group, role]]
    ]


def by_grade(passages: Sequence[LabeledPassage]) -> list[dict[str, object]]:
    """Return for each grade of exports, best first, the number of passages, and of those that people judged."""
    by_value: dict[int, list[LabeledPassage]] = {}
    for passage in passages:
        by_value.setdefault(passage.grade, []).append(passage)
    return [{"grade": grade, **_marks(graded)} for grade, graded in sorted(by_value.items(), reverse=True)]


def of_positives(passages: Sequence[LabeledPassage]) -> dict[str, int]:
    """Return the number of positives of exports, of the judged and the relevant among them, and of their questions."""
    positives = [passage for passage in passages if passage.positive]
    return {**_marks(positives), "questions": len({passage.question for passage in positives})}


def _marks(passages: Sequence[LabeledPassage]) -> dict[str, int]:
    marks = [passage.relevant for passage in passages if passage.relevant is not None]
    return {"passages": len(passages), "judged": len(marks), "relevant": sum(marks)}


def extremes(passages: Sequence[LabeledPassage], verdict: Verdict, count: int) -> list[LabeledPassage]:
    """Return at most ``count`` passages that help most, or harm most: at most one per question.

    They are ordered by the end of the interval that is nearer to 0, so noisy labels do not come first.
    """
    chosen: dict[int, LabeledPassage] = {}
    candidates = [passage for passage in passages if passage.verdict == verdict]
    for passage in sorted(candidates, key=lambda passage: -passage.low if verdict == "helpful" else passage.high):
        chosen.setdefault(passage.question, passage)
    return list(chosen.values())[:count]


def label_reliability(queries: Sequence[LabeledQuery]) -> dict[str, object]:
    """Return how much of the variance of labels within questions is not chance.

    The number of ``questions`` with at least two passages, and over these, ``None`` if labels have no errors:
    ``reliability``, 1 - mean squared error / variance, in [0, 1], without the baseline's error, which cancels (Lord
    and Novick, Statistical Theories of Mental Test Scores, 1968); ``sure_pairs``, the share of the pairs of passages
    whose labels differ by more than two standard errors; ``differing``, the share of questions whose passages differ
    by more than chance (``heterogeneity_p_value`` of at most .1); and ``std_error``, the median.
    """
    several = [labeled for labeled in queries if len(labeled.labels) > 1]
    if not several or not any(error for labeled in several for error in labeled.passage_errors):
        unknown = ("reliability", "sure_pairs", "differing", "std_error")
        return {"questions": len(several), **dict.fromkeys(unknown)}
    freedom = sum(len(labeled.labels) - 1 for labeled in several)
    variance = sum(statistics.variance(labeled.labels) * (len(labeled.labels) - 1) for labeled in several) / freedom
    noise = statistics.fmean(error**2 for labeled in several for error in labeled.passage_errors)
    in_all = sum(len(labeled.labels) * (len(labeled.labels) - 1) // 2 for labeled in several)
    sure = sum(len(pairs(labeled, sigmas=_SIGMAS)) for labeled in several)
    return {
        "questions": len(several),
        "reliability": rounded(max(0.0, 1 - noise / variance)) if variance else None,
        "sure_pairs": rounded(sure / in_all),
        "differing": rounded(statistics.fmean(heterogeneity_p_value(labeled) <= _P_VALUE for labeled in several)),
        "std_error": rounded(statistics.median(error for labeled in several for error in labeled.std_errors)),
    }


def relevant_by_label(passages: Sequence[LabeledPassage], edges: Sequence[float]) -> list[dict[str, object]]:
    """Return the share of passages in each bin of labels that people marked relevant; bins are as for ``histogram``.

    Passages of unmarked questions are left out. The 95 % interval (Wilson, JASA 22, 1927) assumes independent
    passages.
    """
    bins: dict[int, list[bool]] = {}
    for passage in passages:
        if passage.relevant is not None:
            place = min(bisect.bisect_right(edges, passage.label), len(edges) - 1) - 1
            bins.setdefault(place, []).append(passage.relevant)
    shares = []
    for place, marks in sorted(bins.items()):
        test = binomtest(sum(marks), len(marks))
        interval = [rounded(float(end)) for end in test.proportion_ci(method="wilson")]
        share = {"n": len(marks), "share": rounded(float(test.statistic)), "interval": interval}
        shares.append({"low": edges[place], "high": edges[place + 1], **share})
    return shares
