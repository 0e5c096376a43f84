"""Labels of sets: the gain of a passage next to given passages, for any labeler with a reader."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Generic

from seper_reward.estimators.draws import difference
from seper_reward.labels.labelers.base import PassageLabeler, R, ReaderLabeler
from seper_reward.labels.plans import Context, Labelled, SetOptions, plan_sets, smallest_sufficient
from seper_reward.types import Asked, Estimate, LabeledQuery, Passage, Query, SetLabel, UnscorableError


class SetLabeler(PassageLabeler):
    """Labels each passage alone, and by its gain next to other passages.

    Each set of passages is measured once, in one order: v(ab) is the same number for the label of b next to a and of a
    next to b. Contexts of a plan's group that begin with the same passages are one batch of the reader, which reads
    the shared passages once if questions are measured one by one (``SePerScorer.batch_size``).

    Args:
        singles: Labeler of single passages, whose measure is used for sets as well.
        options: Which sets are measured.
    """

    whole = True

    def __init__(self, singles: ReaderLabeler[Any], options: SetOptions) -> None:
        self.singles, self.options = singles, options
        self.name, self.scorer = singles.name, singles.scorer
        self.samples, self.needs_answers = singles.samples, singles.needs_answers

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything that affects a label, JSON-able; rows of sets have the label of this name only."""
        return {**self.singles.fingerprint, "label": self.name, "sets": asdict(self.options)}

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries; each round of their plans is one batch."""
        found: list[_Question[Any] | UnscorableError] = [
            _Question(self.singles, self.options, query) for query in queries
        ]
        while waiting := {at: each for at, each in enumerate(found) if isinstance(each, _Question) and each.wanted}:
            asked = [each.asked(group) for each in waiting.values() for group in each.wanted]
            readings = iter(self.singles.read(asked, len(queries)))
            for at, each in waiting.items():
                found[at] = each.after([next(readings) for _ in each.wanted])
        return [each.labeled() if isinstance(each, _Question) else each for each in found]


class _Question(Generic[R]):
    """State of one question while its sets are measured; ``wanted`` are the groups of contexts to measure next."""

    def __init__(self, labeler: ReaderLabeler[R], options: SetOptions, query: Query) -> None:
        self._labeler, self._options, self._query = labeler, options, query
        self._readings: dict[Context, R] = {}
        self._utilities: dict[Context, Estimate] = {}  # utility of each context over no passage
        self._known: dict[frozenset[int], Context] = {}  # the order in which passages were measured together
        self._labelled: Labelled = []
        self._plan = self._steps()
        self.wanted = next(self._plan)

    def asked(self, group: Sequence[Context]) -> Asked:
        """Return the request to the reader for a group of contexts."""
        return Asked(self._query.question, self._query.answers, tuple(map(self._passages, group)))

    def after(self, readings: Sequence[list[R] | UnscorableError]) -> "_Question[R] | UnscorableError":
        """Store the measures of the wanted groups, and advance; return this object, or the error without labels."""
        for group, row in zip(self.wanted, readings, strict=True):
            if isinstance(row, UnscorableError):
                return row
            try:
                self._take(group, row)
            except UnscorableError as error:
                return error
        rounds = ([group for group in groups if group] for groups in self._plan)
        self.wanted = next(filter(None, rounds), [])
        return self

    def _steps(self) -> Iterator[list[list[Context]]]:
        places = range(len(self._query.passages))
        yield [[(), *((place,) for place in places)]]
        self._labelled = yield from plan_sets(self._options, len(places), self._utilities)

    def _take(self, group: Sequence[Context], readings: Sequence[R]) -> None:
        for context, reading in zip(group, readings, strict=True):
            self._known[frozenset(context)] = context
            self._readings[context] = reading
            self._utilities[context] = self._labeler.gain(reading, self._readings[()])

    def labeled(self) -> LabeledQuery:
        """Return all labels."""
        singles = [self._readings[context] for context in self._readings if len(context) < 2]
        labeled = self._labeler.labeled(self._query, singles)
        sufficient = smallest_sufficient(self._utilities, self._error)
        return replace(
            labeled,
            sets=tuple(self._set_label(given, passage) for given, passage in self._labelled),
            fields={
                "sufficient_set": {
                    "passage_ids": [self._query.passages[place].id for place in sufficient],
                    "utility": self._utilities[sufficient].value,
                },
                "reader_calls": len(self._readings),
            },
        )

    def _set_label(self, given: Context, passage: int) -> SetLabel:
        shown, before = (self._known[frozenset(each)] for each in ((*given, passage), given))
        gain = self._labeler.gain(self._readings[shown], self._readings[before])
        return SetLabel(
            shown,
            passage,
            gain=gain,
            utility=self._utilities[shown],
            interaction=difference(gain, self._utilities[passage,]),
            details={
                "given_std_error": self._error(before),
                **self._cut_fields(shown),
                **self._labeler.set_fields(self._readings[shown]),
            },
        )

    def _error(self, context: Context) -> float:
        return self._labeler.error(self._readings[context])

    def _cut_fields(self, shown: Context) -> dict[str, bool]:
        prompts = self._labeler.scorer.reader.prompts
        return {"truncated": True} if prompts.cuts(self._query.question, self._passages(shown)) else {}

    def _passages(self, context: Context) -> tuple[Passage, ...]:
        return tuple(self._query.passages[place] for place in context)
