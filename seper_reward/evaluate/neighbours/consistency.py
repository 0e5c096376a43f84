"""Do retrievers fail on the same questions, and why (EoR, arXiv:2405.20680)?"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from seper_reward.data.answers import abstains, exact_match, share_held, stated_parts
from seper_reward.evaluate.win_ratios import decompose_errors, mean_win_and_lose_ratios, relative_win_ratios
from seper_reward.reader.sampler import GREEDY
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import (
    interval_over_questions,
    mean_over_questions,
    rounded,
    rounded_or_none,
)
from seper_reward.types import Asked, Passage, Query, UnscorableError

_RESAMPLES = 1000


class _Answered(NamedTuple):
    """What the reader answers with one source's passages: its text, and whether it is right, held and grounded."""

    text: str
    right: bool
    held: bool
    grounded: bool


def consistency(
    scorer: SePerScorer, queries: Sequence[Query], sources: Mapping[str, Sequence[Sequence[Passage]]]
) -> dict[str, Any]:
    """Compare the reader's greedy answers with the passages of several sources, question by question.

    An answer is right by exact match, of a list if all items are stated. Passages hold it, or a response, if they hold
    it as words (``share_held``); of a list, all of it.

    Args:
        scorer: Scorer whose reader answers.
        queries: Q questions with gold answers.
        sources: By name, the passages of each question; empty ones for a reader that retrieves nothing.

    Returns:
        ``questions``, and how many are ``left_out`` because the reader cannot be asked; ``win_ratio``, by two names
        the share of the second's wrong answers that the first has right (``None`` where there is none); by name in
        ``sources``: ``accuracy``, ``mrwr`` and ``mrlr`` (``mean_win_and_lose_ratios``), each with ``mean`` and a 95 %
        bootstrap ``interval`` over questions, ``errors`` (``Errors``) and the share ``abstained``; and
        ``upper_bound``, the share of questions that some source leads to the right answer to.

    Raises:
        ValueError: There is no source, or no question that the reader can be asked.
    """
    import numpy as np

    reader = scorer.with_sampling(**GREEDY).reader
    answered: list[list[_Answered]] = []  # by question, then source
    for number, query in enumerate(tqdm(queries, desc="answering", unit="question")):
        shown = [tuple(passages[number]) for passages in sources.values()]
        (responses,) = reader.responses([Asked(query.question, (), tuple(shown))])
        if isinstance(responses, UnscorableError):
            tell_left_out(query.id, responses)
            continue
        texts = [row.texts[0] for row in responses]
        answered.append([_answered(query, *each) for each in zip(texts, shown, strict=True)])
    if not sources or not answered:
        raise ValueError(f"expected sources and questions, got {len(sources)} and {len(answered)} that can be asked")
    right = np.array([[each.right for each in row] for row in answered]).T  # (R, Q)
    ratios = relative_win_ratios(right)
    names = list(sources)
    return {
        "questions": len(answered),
        "left_out": len(queries) - len(answered),
        "sources": {name: _described(at, right, [row[at] for row in answered]) for at, name in enumerate(names)},
        "win_ratio": {
            one: {other: rounded_or_none(float(ratios[i, j])) for j, other in enumerate(names)}
            for i, one in enumerate(names)
        },
        "upper_bound": mean_over_questions(right.any(axis=0)),
    }


def _answered(query: Query, text: str, passages: Sequence[Passage]) -> _Answered:
    read = "\n".join(passage.full_text for passage in passages)
    parts = [(part,) for part in stated_parts(text, query.answers)]
    return _Answered(
        text,
        right=exact_match(text, query.answers) == 1,
        held=share_held(read, query.answers) == 1,
        grounded=bool(text) and share_held(read, parts) == 1,
    )


def _mean_ratio(right: Any, which: int, at: int, numbers: Any) -> float:
    """Return one source's MRWR (0) or MRLR (1) over some questions."""
    return float(mean_win_and_lose_ratios(right[:, numbers])[which][at])


def _described(at: int, right: Any, answered: Sequence[_Answered]) -> dict[str, Any]:
    errors = decompose_errors(*([getattr(each, name) for each in answered] for name in ("right", "held", "grounded")))
    ratios = {
        name: {
            "mean": rounded_or_none(float(mean_win_and_lose_ratios(right)[which][at])),
            "interval": interval_over_questions(
                functools.partial(_mean_ratio, right, which, at), right.shape[1], resamples=_RESAMPLES
            ),
        }
        for which, name in enumerate(("mrwr", "mrlr"))
    }
    return {
        "accuracy": mean_over_questions(right[at]),
        **ratios,
        "errors": {name: rounded(value) for name, value in asdict(errors).items()},
        "abstained": rounded(sum(abstains(each.text) for each in answered) / len(answered)),
    }
