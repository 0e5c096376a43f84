"""Does ΔSePer see harm? Passages with a planted wrong answer against supporting ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tqdm.auto import tqdm

from seper_reward.data.marks import is_counterfactual, relevance_of
from seper_reward.evaluate.statistics import mean
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query, UnscorableError

_KNOWN = 0.5  # least baseline SePer of a reader that counts as knowing the answer


def counterfactual(scorer: SePerScorer, queries: Sequence[Query]) -> dict[str, Any]:
    """Compare passages with a planted wrong answer with supporting ones (RGB, Chen et al., arXiv:2309.01431).

    Args:
        scorer: Scorer that measures the beliefs.
        queries: Questions whose passages have ``relevant`` in their metadata, and ``counterfactual: true`` where an
            answer was planted; passages with neither mark true are left out.

    Returns:
        ``share_lower``: share of questions whose planted passages have a lower mean ΔSePer than their supporting ones.
        ``delta_seper``: ΔSePer, averaged per question and then over questions, of ``supporting`` and
        ``counterfactual`` passages, and ``counterfactual_known`` for the ``known_questions``, whose baseline SePer is
        at least 0.5. ``questions``: how many were measured; ``left_out``: how many lack one of the two kinds, or
        cannot be asked.

    Raises:
        ValueError: No question has passages of both kinds.
        BadRowError: A question has no mark, or a mark is neither true nor false.
    """
    supporting: list[float] = []
    planted: list[float] = []
    baselines: list[float] = []
    for query in tqdm(queries, desc="measuring", unit="question"):
        kinds = [
            "counterfactual" if is_counterfactual(passage) else "supporting" if relevant else None
            for passage, relevant in zip(query.passages, relevance_of(query), strict=True)
        ]
        if not {"supporting", "counterfactual"} <= set(kinds):
            continue
        kept = [position for position, kind in enumerate(kinds) if kind]
        try:
            (utilities,) = scorer.utilities([replace(query, passages=tuple(query.passages[at] for at in kept))])
        except UnscorableError as error:
            tell_left_out(query.id, error)
            continue
        by_kind = {
            kind: mean([utility.delta_seper for at, utility in zip(kept, utilities, strict=True) if kinds[at] == kind])
            for kind in ("supporting", "counterfactual")
        }
        supporting.append(by_kind["supporting"])
        planted.append(by_kind["counterfactual"])
        baselines.append(utilities[0].baseline_seper)
    if not planted:
        raise ValueError("expected questions with passages marked 'relevant' and passages marked 'counterfactual'")
    known = [value for value, baseline in zip(planted, baselines, strict=True) if baseline >= _KNOWN]
    return {
        "share_lower": mean([float(wrong < right) for wrong, right in zip(planted, supporting, strict=True)]),
        "delta_seper": {
            "supporting": mean(supporting),
            "counterfactual": mean(planted),
            "counterfactual_known": mean(known) if known else None,
        },
        "baseline_seper": mean(baselines),
        "known_questions": len(known),
        "questions": len(planted),
        "left_out": len(queries) - len(planted),
    }
