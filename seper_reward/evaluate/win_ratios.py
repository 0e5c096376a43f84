"""How far sources right each other's wrong answers, and where these come from (EoR, arXiv:2405.20680). Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


def relative_win_ratios(right: Any, among: Any = True) -> Any:
    """Return of what each source does wrong the share that each other source does right (eq. 1, and 5 of one error).

    Args:
        right: ``(R, Q)`` whether each of R sources leads to the right answer to each of Q questions, or makes no such
            error.
        among: ``(R, Q)`` which questions count: those that are marked for both sources of a pair; ``True`` takes all.

    Returns:
        ``(R, R)`` array: in row i and column j the share of the questions that j does wrong which i does right, in
        [0, 1]; NaN where j does none wrong, and on the diagonal.
    """
    import numpy as np

    counts = np.broadcast_to(among, np.shape(right)).astype(float)
    rights = np.asarray(right, dtype=float) * counts
    wrongs = counts - rights
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = (rights @ wrongs.T) / (counts @ wrongs.T)
    np.fill_diagonal(ratios, math.nan)
    return ratios


def error_win_ratios(right: Any, held: Any, grounded: Any, short: Any) -> dict[str, Any]:
    """Return of the errors that each source makes the share that each other source does not make, by error (eq. 5).

    Hallucination and extraction are errors of a reader whose passages hold the answer. They are compared on questions
    where the passages of both sources do (Appendix B) and both responses are short, as passages rarely contain a long
    response word for word.

    Args:
        right: ``(R, Q)`` whether each response is right.
        held: ``(R, Q)`` whether the passages shown hold the right answer.
        grounded: ``(R, Q)`` whether they hold the response.
        short: ``(R, Q)`` whether the response is short.

    Returns:
        ``retriever``, ``hallucination`` and ``extraction``: ``(R, R)`` each, as ``relative_win_ratios`` returns it.
    """
    import numpy as np

    rights, helds, groundeds = (np.asarray(each, dtype=bool) for each in (right, held, grounded))
    among = helds & np.asarray(short, dtype=bool)
    return {
        "retriever": relative_win_ratios(helds),
        "hallucination": relative_win_ratios(rights | groundeds, among),
        "extraction": relative_win_ratios(rights | ~groundeds, among),
    }


def upper_bounds(right: Any) -> Any:
    """Return of each question the chance that a random pool of sources has one that is right, by the pool's size.

    Args:
        right: ``(R, Q)`` whether each source leads to the right answer.

    Returns:
        ``(R, Q)`` array, in row k - 1 for pools of k sources: 1 - C(w, k) / C(R, k) where w sources are wrong.
    """
    import numpy as np

    sources, wrong = len(right), (1 - np.asarray(right, dtype=int)).sum(axis=0).tolist()
    return np.array(
        [[1 - math.comb(each, size) / math.comb(sources, size) for each in wrong] for size in range(1, sources + 1)]
    )


def mean_win_and_lose_ratios(right: Any) -> tuple[Any, Any]:
    """Return each source's mean relative win ratio (MRWR) and lose ratio (MRLR) over the others.

    Args:
        right: As in ``relative_win_ratios``.

    Returns:
        ``(R,)`` each, in [0, 1]: how much of what others answer wrong the source answers right, and how much of what
        it answers wrong others answer right. NaN where there is no such question or no other source.
    """
    ratios = relative_win_ratios(right)
    return _mean_of_rows(ratios), _mean_of_rows(ratios.T)


def _mean_of_rows(ratios: Any) -> Any:
    import numpy as np

    known = ~np.isnan(ratios)
    with np.errstate(invalid="ignore"):
        return np.where(known, ratios, 0.0).sum(axis=1) / known.sum(axis=1)


@dataclass(frozen=True)
class Errors:
    """Where a source's wrong answers come from, as shares in [0, 1].

    They fulfil wrong = (1 - retriever) (hallucination + extraction) + retriever (1 - lucky · ungrounded), where a
    share of nothing counts as 0. The paper has one hallucination error in place of ``hallucination`` and
    ``ungrounded``.

    Attributes:
        wrong: Of all questions, those that are answered wrong.
        retriever: Of all questions, those whose passages do not hold the answer.
        hallucination: Where passages hold the answer, wrong responses that passages do not hold.
        extraction: Where passages hold the answer, wrong responses that passages do hold.
        ungrounded: Where passages do not hold the answer, responses that passages do not hold either.
        lucky: Of these, those that are right.
    """

    wrong: float
    retriever: float
    hallucination: float
    extraction: float
    ungrounded: float
    lucky: float


def decompose_errors(right: Sequence[bool], held: Sequence[bool], grounded: Sequence[bool]) -> Errors:
    """Return where wrong answers come from.

    Args:
        right: Of each question whether the response is right.
        held: Whether the passages shown hold the right answer.
        grounded: Whether they hold the response. A right response that they hold makes ``held`` true.

    Raises:
        ValueError: There is no question, the numbers differ, or a response is right and grounded where the answer is
            not held.
    """
    rows = list(zip(right, held, grounded, strict=True))
    if not rows:
        raise ValueError("expected at least one question, got none")
    if any(is_right and is_grounded and not is_held for is_right, is_held, is_grounded in rows):
        raise ValueError("a right response that passages hold is an answer that they hold; judge both alike")
    with_answer = [(is_right, is_grounded) for is_right, is_held, is_grounded in rows if is_held]
    without = [(is_right, is_grounded) for is_right, is_held, is_grounded in rows if not is_held]
    ungrounded = [is_right for is_right, is_grounded in without if not is_grounded]
    return Errors(
        wrong=_share([not is_right for is_right, _, _ in rows]),
        retriever=_share([not is_held for _, is_held, _ in rows]),
        hallucination=_share([not is_right and not is_grounded for is_right, is_grounded in with_answer]),
        extraction=_share([not is_right and is_grounded for is_right, is_grounded in with_answer]),
        ungrounded=_share([not is_grounded for _, is_grounded in without]),
        lucky=_share(ungrounded),
    )


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0
