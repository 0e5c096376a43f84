"""ΔSePer towards the reader's own answer from all passages: labels that need no gold answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seper_reward.data.answers import abstains
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.reader.sampler import GREEDY
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query, UnscorableError


class PseudoAnswerLabeler(PassageLabeler):
    """Labels a passage by how far it moves the reader's belief in what it answers from all passages, in [-1, 1].

    The pseudo-answer is that of ITEM's first round (arXiv:2406.11290): the likeliest response with all passages of the
    question. A wrong one makes wrong labels: those passages are good that led to it.

    Args:
        scorer: Scorer that measures the beliefs.
    """

    name = "delta_seper_pseudo"
    samples = side_by_side = whole = True
    needs_answers = False

    def __init__(self, scorer: SePerScorer) -> None:
        self.scorer: SePerScorer = scorer

    def label(self, query: Query) -> LabeledQuery:
        """Return the label of each passage.

        Raises:
            UnscorableError: The question has no room in the reader's window, or the reader does not know an answer.
        """
        (labeled,) = self.label_block([query])
        if isinstance(labeled, UnscorableError):
            raise labeled
        return labeled

    def label_block(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries, sampled side by side and judged in one batch."""
        answers = self._pseudo_answers(queries)
        answered = [
            replace(query, answers=(answer,))
            for query, answer in zip(queries, answers, strict=True)
            if isinstance(answer, str)
        ]
        labeled = iter(DeltaSePerLabeler(self.scorer).label_block(answered) if answered else [])
        return [
            answer if isinstance(answer, UnscorableError) else _as_own(query, answer, next(labeled))
            for query, answer in zip(queries, answers, strict=True)
        ]

    def _pseudo_answers(self, queries: Sequence[Query]) -> list[str | UnscorableError]:
        reader = self.scorer.with_sampling(**GREEDY).reader
        try:
            prompts = [reader.build_prompts(query.question, [query.passages])[0] for query in queries]
            sampled = reader.sample(sorted(set(prompts)))
        except UnscorableError as error:  # one query's fault; by themselves the others can be asked
            return [error] if len(queries) == 1 else [self._pseudo_answers([query])[0] for query in queries]
        return [_stated(sampled[prompt].texts[0]) for prompt in prompts]


def _stated(text: str) -> str | UnscorableError:
    if not text.strip() or abstains(text):
        return UnscorableError(f"the reader knows no answer from all passages, it says {text!r}")
    return text


def _as_own(query: Query, answer: str, labeled: LabeledQuery | UnscorableError) -> LabeledQuery | UnscorableError:
    """Return the labels as this labeler's: nothing in the row passes for a belief in the gold answer."""
    if isinstance(labeled, UnscorableError):
        return labeled
    baseline, *passages = (_fields(each) for each in (labeled.baseline, *labeled.details))
    return replace(labeled, query=query, fields={"pseudo_answer": answer}, baseline=baseline, details=tuple(passages))


def _fields(row: Any) -> dict[str, Any]:
    kept = {name: row[name] for name in ("seper", "std_error", "low", "high")}
    responses = [{name: said[name] for name in ("text", "count", "weight", "support")} for said in row["responses"]]
    return {**kept, "responses": responses}
