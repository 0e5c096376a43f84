"""Convert passage labels to inputs of ranking losses: grades, pairs, triplets, filters. Pure functions."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from seper_reward.estimators.utility import QUESTION_WEIGHT, answer_evidence, question_evidence
from seper_reward.options import POSITIVE
from seper_reward.types import UTILITY_BELIEF, LabeledQuery, Passage, Query

GRADES = 3  # grades of helpful passages: 1 to 3
HARMFUL = -1  # grade of a passage that misleads


@dataclass(frozen=True)
class Hop:
    """The labels of one hop: which passage helps a reader that was given other passages before."""

    context: tuple[Passage, ...]  # in the order in which the reader sees them; empty in the first hop
    # the question with the passages that were labelled next to the given ones; each label is a gain
    labeled: LabeledQuery


def lists_to_learn(
    queries: Sequence[LabeledQuery], learn_from: str, next_hop: Callable[[Query, Sequence[Passage]], Query]
) -> list[LabeledQuery]:
    """Return the lists of labels that a retriever is trained on, one query for each list.

    ``learn_from`` is ``"singles"`` or ``"paths"`` (hop by hop, ``by_path`` or ``by_marks``), and ``next_hop`` returns
    the query to search with after the given passages. Raises ``ValueError`` if ``"paths"`` finds no labels of sets.
    """
    if learn_from == "singles":
        return list(queries)
    if any(labeled.labels for labeled in queries) and not any(labeled.sets or labeled.graded for labeled in queries):
        raise ValueError(
            f"expected labels of passages next to given ones for learn_from={learn_from}, got none of {len(queries)} "
            "questions; label sets, too, or set learn_from to singles"
        )
    hops = [hop for labeled in queries for hop in (by_marks if labeled.graded else by_path)(labeled)]
    return [replace(hop.labeled, query=next_hop(hop.labeled.query, hop.context)) for hop in hops]


def by_path(labeled: LabeledQuery) -> list[Hop]:
    """Return the best reachable utility of each passage, hop by hop, along the best measured set of passages.

    A passage's label is the utility of the best measured set that contains the given passages and this one, less the
    utility of the given passages alone: a passage that finds the answer only with a second one has the label of both
    in the first hop. The error of the given passages' measure replaces that of the baseline, and cancels in
    differences. If a set was measured in several orders, the first counts. The maximum of noisy measures is biased
    upwards.
    """
    singles = zip(labeled.labels, labeled.passage_errors, strict=True)
    # by positions: the utility of a set over no passage, and the error of its measure
    worth = {frozenset([at]): single for at, single in enumerate(singles)}
    for label in labeled.sets:
        error = math.sqrt(max(label.utility.std_error**2 - labeled.baseline_error**2, 0.0))
        worth.setdefault(frozenset(label.shown), (label.utility.value, error))
        if label.given:
            given_error = float(label.details.get("given_std_error", 0.0))
            worth.setdefault(frozenset(label.given), (label.utility.value - label.gain.value, given_error))
    best = max((label.shown for label in labeled.sets), key=lambda shown: worth[frozenset(shown)][0], default=())
    begun = [tuple(at for at in best if at in places) for places in worth if places < set(best)]
    sure = _evidence_of_sets(labeled, {places: value for places, (value, _) in worth.items()})
    worth[frozenset()] = (0.0, labeled.baseline_error)
    return [_hop_of_path(labeled, worth, sure, path) for path in ((), *begun)]


def by_marks(labeled: LabeledQuery) -> list[Hop]:
    """Return human labels hop by hop: next to each supporting passage, all other passages have their marks."""
    places = range(len(labeled.labels))
    return [
        Hop((), labeled),
        *(
            Hop((labeled.query.passages[place],), labeled.keep([at for at in places if at != place]))
            for place in places
            if labeled.labels[place] > 0
        ),
    ]


def grade(label: float, margin: float = POSITIVE) -> int:
    """Return the graded relevance of a label, for qrels: harm and uselessness have different grades.

    It is -1 for a passage that harms (``label <= -margin``), 0 for one that neither harms nor helps, else 1 to 3 by
    thirds of [margin, 1], and 3 above 1. A label nearer to 0 than ``margin``, in [0, 1), neither harms nor helps.

    >>> [grade(label, margin=0.1) for label in (-0.4, -0.05, 0.0, 0.1, 0.4, 0.9)]
    [-1, 0, 0, 1, 2, 3]
    """
    if abs(label) < margin or label == 0:
        return 0
    # label rows are rounded to 6 digits
    return HARMFUL if label < 0 else min(1 + int(round((label - margin) / (1 - margin) * GRADES, 4)), GRADES)


def gains(labeled: LabeledQuery, margin: float = POSITIVE) -> list[int]:
    """Return the graded relevance of each passage, for qrels: the grade that people gave it, or of the evidence."""
    return [int(value) if labeled.graded else grade(value, margin) for value in evidence(labeled)]


def pairs(labeled: LabeledQuery, *, margin: float = 0.0, sigmas: float = 0.0) -> list[tuple[int, int]]:
    """Return the positions (better, worse) of passages whose labels differ by more than chance.

    The difference exceeds the margin and ``sigmas`` of its standard errors, in which the error of the baseline
    cancels. Best ``better`` come first and, for each, worst ``worse``.
    """
    order = sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])
    errors = labeled.passage_errors
    return [
        (better, worse)
        for place, better in enumerate(order)
        for worse in reversed(order[place + 1 :])
        if labeled.labels[better] - labeled.labels[worse]
        > max(margin, sigmas * math.hypot(errors[better], errors[worse]))
    ]


def triplets(labeled: LabeledQuery, *, margin: float = POSITIVE) -> Iterator[tuple[Passage, Passage, float]]:
    """Yield (positive, negative, difference of labels).

    A positive has evidence of at least ``margin``; its evidence and its label exceed those of the negative by more
    than ``margin``.
    """
    passages, labels, sure = labeled.query.passages, labeled.labels, evidence(labeled)
    for better, worse in pairs(labeled, margin=margin):
        if _helps(sure[better], margin) and sure[better] - sure[worse] > margin:
            yield passages[better], passages[worse], labels[better] - labels[worse]


def split_by_help(labeled: LabeledQuery, margin: float = POSITIVE) -> tuple[list[int], list[int]]:
    """Return the positions of positives and of negatives, best first; passages in between are in neither list.

    A positive has evidence of at least ``margin``. A negative has at least ``margin`` less evidence than every
    positive, and a label that is lower by as much.
    """
    labels, sure = labeled.labels, evidence(labeled)
    order = sorted(range(len(labels)), key=lambda at: -labels[at])
    positives = [at for at in order if _helps(sure[at], margin)]
    if not positives:
        return [], []
    ceiling, floor = min(sure[at] for at in positives) - margin, labels[positives[-1]] - margin
    return positives, [at for at in order if at not in positives and sure[at] <= ceiling and labels[at] <= floor]


def evidence(labeled: LabeledQuery) -> tuple[float, ...]:
    """Return the evidence that each passage holds the answer: the labels themselves, unless there is another."""
    return labeled.evidence or labeled.labels


def _helps(label: float, margin: float) -> bool:
    return label > 0 and label >= margin


def _evidence_of_sets(labeled: LabeledQuery, utilities: Mapping[frozenset[int], float]) -> dict[frozenset[int], float]:
    """Return the evidence of sets as ``evidence_of`` has it for passages; nothing if labels are evidence themselves.

    The utility of a set by ``seper_gain`` is its belief plus the weighted gain of the question's likelihood; by
    ``question_gain`` it is this gain.
    """
    if not labeled.evidence or not labeled.sets:
        return {frozenset([at]): one for at, one in enumerate(labeled.evidence)}
    beliefs = {frozenset(label.shown): label.details.get(UTILITY_BELIEF) for label in reversed(labeled.sets)}
    if None in beliefs.values():
        return dict(zip(utilities, question_evidence(list(utilities.values())), strict=True))
    beliefs |= {frozenset([at]): fields.get("delta_belief") for at, fields in enumerate(labeled.details)}
    sets = {places: belief for places, belief in beliefs.items() if belief is not None}
    gains = [(utilities[places] - belief) / QUESTION_WEIGHT for places, belief in sets.items()]
    return dict(zip(sets, answer_evidence(list(sets.values()), gains), strict=True))


def _hop_of_path(
    labeled: LabeledQuery,
    worth: Mapping[frozenset[int], tuple[float, float]],
    sure: Mapping[frozenset[int], float],
    path: tuple[int, ...],
) -> Hop:
    """Return the labels next to given passages, from the utilities of sets over no passage, errors and evidence."""
    leads = {
        at: max(options, key=lambda places: worth[places])
        for at in range(len(labeled.labels))
        if at not in path and (options := [places for places in worth if places >= {*path, at}])
    }
    passages, (worth_given, given_error) = labeled.query.passages, worth[frozenset(path)]
    sure_given = sure.get(frozenset(path), 0.0)
    return Hop(
        tuple(passages[at] for at in path),
        LabeledQuery(
            replace(labeled.query, passages=tuple(passages[at] for at in leads)),
            labels=tuple(worth[places][0] - worth_given for places in leads.values()),
            std_errors=tuple(math.hypot(worth[places][1], given_error) for places in leads.values()),
            baseline_error=given_error,
            evidence=tuple(sure.get(places, 0.0) - sure_given for places in leads.values() if sure),
        ),
    )
