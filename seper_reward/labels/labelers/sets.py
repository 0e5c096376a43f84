"""Labels of sets: the gain of a passage next to given passages, for any labeler with a reader."""

import itertools
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from seper_reward.estimators.draws import difference
from seper_reward.labels.labelers.base import PassageLabeler, ReaderLabeler
from seper_reward.labels.plans import Context, run_plans, sets_to_label, smallest_sufficient
from seper_reward.options import SetOptions
from seper_reward.types import Asked, Estimate, LabeledQuery, Passage, Query, SetLabel, UnscorableError


class SetLabeler(PassageLabeler):
    """Labels each passage alone, and by its gain next to other passages, by the measure of ``singles``.

    Each set is measured once, in one order: v(ab) is the same number for the label of b next to a and of a next to b.
    Contexts next to the same given passages are one request, which shares the prefix if questions are measured one by
    one.
    """

    def __init__(self, singles: ReaderLabeler[object], options: SetOptions) -> None:
        self.singles, self.options = singles, options
        self.name, self.scorer = singles.name, singles.scorer
        self.samples = singles.samples

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything that affects a label, JSON-able; rows of sets have the label of this name only."""
        return {**self.singles.fingerprint, "label": self.name, "sets": asdict(self.options)}

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries; sets of one size are one batch."""
        plans = (_SetsOf(query, self.singles).labeled(self.options) for query in queries)
        return run_plans(plans, lambda requests: self.singles.read(requests, len(queries)))


class _SetsOf:
    """The sets of one question's passages and their measures."""

    def __init__(self, query: Query, labeler: ReaderLabeler[object]) -> None:
        self._query, self._labeler = query, labeler
        self._readings: dict[Context, object] = {}
        self._utilities: dict[Context, Estimate] = {}  # of each context, over no passage
        self._orders: dict[frozenset[int], Context] = {}  # the order in which a set was measured

    def labeled(self, options: SetOptions) -> Generator[list[Asked], list[list[Any]], LabeledQuery]:
        """Yield the requests to the reader, and return all labels."""
        yield from self._measure([[(), *((place,) for place in range(len(self._query.passages)))]])
        labeled = self._labeler.labeled(self._query, list(self._readings.values()))
        pairs: list[tuple[Context, int]] = []
        for size in range(1, options.depth):
            new = sets_to_label(self._utilities, size, options.given_top)
            by_given = itertools.groupby(new, key=lambda pair: pair[0])
            yield from self._measure([(*context, passage) for context, passage in group] for _, group in by_given)
            pairs += new
        sufficient = smallest_sufficient(self._utilities, self._error)
        return replace(
            labeled,
            sets=tuple(self._set_label(context, passage) for context, passage in pairs),
            fields={
                "sufficient_set": {
                    "passage_ids": [passage.id for passage in self._passages(sufficient)],
                    "utility": self._utilities[sufficient].value,
                },
                "reader_calls": len(self._readings),
            },
        )

    def _measure(self, groups: Iterable[Sequence[Context]]) -> Generator[list[Asked], list[list[object]], None]:
        """Measure the sets of each group that were not measured before in any order."""
        new: list[list[Context]] = []
        for group in groups:
            new.append([context for context in group if frozenset(context) not in self._orders])
            self._orders |= {frozenset(context): context for context in new[-1]}
        new = list(filter(None, new))
        query = self._query
        readings = yield [Asked(query.question, query.answers, tuple(map(self._passages, group))) for group in new]
        for context, reading in zip(itertools.chain(*new), itertools.chain(*readings), strict=True):
            self._readings[context] = reading
            self._utilities[context] = self._labeler.gain(reading, self._readings[()])

    def _set_label(self, context: Context, passage: int) -> SetLabel:
        shown, before = (self._orders[frozenset(places)] for places in ((*context, passage), context))
        gain = self._labeler.gain(self._readings[shown], self._readings[before])
        cut = self._labeler.scorer.reader.prompts.cuts(self._query.question, self._passages(shown))
        return SetLabel(
            shown,
            passage,
            gain=gain,
            utility=self._utilities[shown],
            interaction=difference(gain, self._utilities[passage,]),
            details={
                "given_std_error": self._error(before),
                **({"truncated": True} if cut else {}),
                **self._labeler.set_fields(self._readings[shown], self._readings[()]),
            },
        )

    def _error(self, context: Context) -> float:
        return self._labeler.error(self._readings[context])

    def _passages(self, context: Context) -> tuple[Passage, ...]:
        return tuple(self._query.passages[place] for place in context)
