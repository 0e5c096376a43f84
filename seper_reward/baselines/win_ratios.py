"""How often sources correct each other's wrong answers, and kinds of errors (EoR, arXiv:2405.20680). Pure."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def relative_win_ratios(right: np.ndarray, among: ArrayLike = True) -> np.ndarray:
    """Return the share of each source's wrong answers that each other source answers right (eq. 1; 5 for one error).

    ``right`` is ``(R, Q)``: whether each source leads to the right answer, or avoids an error; ``among``, ``(R, Q)``,
    marks questions that count if marked for both sources of a pair. Row i, column j of the ``(R, R)`` result is the
    share of the questions wrong by j that are right by i; NaN if j has no wrong answer, and on the diagonal.
    """
    counts = np.broadcast_to(among, np.shape(right)).astype(float)
    rights = np.asarray(right, dtype=float) * counts
    wrongs = counts - rights
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = (rights @ wrongs.T) / (counts @ wrongs.T)
    np.fill_diagonal(ratios, math.nan)
    return ratios


def error_win_ratios(right: np.ndarray, held: np.ndarray, grounded: np.ndarray, short: np.ndarray) -> dict[str, Any]:
    """Return the share of each source's errors that each other source does not make, by kind of error (eq. 5).

    A question with a long response of any source is left out for all of them (Appendix B), since passages rarely
    contain a long response word for word. Retriever errors (the passages lack the answer) and hallucinations (they
    lack the response) are compared on all other questions, extraction errors on those for which the passages of both
    sources contain the answer. Lucky guesses, right responses without support, are compared on those for which the
    passages of both contain neither. All arguments are ``(R, Q)``: whether a response is right, the passages hold the
    answer, they hold the response, and the response is short.
    """
    rights, helds, groundeds = (np.asarray(flags, dtype=bool) for flags in (right, held, grounded))
    compared = np.asarray(short, dtype=bool).all(axis=0)  # (Q,)
    return {
        "retriever error": relative_win_ratios(helds, compared),
        "hallucination": relative_win_ratios(groundeds, compared),
        "extraction error": relative_win_ratios(rights | ~groundeds, helds & compared),
        "lucky guess": relative_win_ratios(~rights, ~helds & ~groundeds & compared),
    }


def upper_bounds(right: np.ndarray) -> np.ndarray:
    """Return the probability that a random pool of sources has a right one: ``(R, Q)``, in row k - 1 for k sources.

    It is 1 - C(w, k) / C(R, k) if w of the R sources are wrong; ``right`` is ``(R, Q)``.
    """
    sources, wrong = len(right), (1 - np.asarray(right, dtype=int)).sum(axis=0).tolist()
    return np.array(
        [[1 - math.comb(count, size) / math.comb(sources, size) for count in wrong] for size in range(1, sources + 1)]
    )


def mean_win_and_lose_ratios(right: np.ndarray) -> tuple[Any, Any]:
    """Return each source's mean relative win ratio (MRWR) and lose ratio (MRLR) over all other sources, ``(R,)`` each.

    These are the shares of the others' wrong answers that it answers right, and of its wrong answers that others do.
    """
    ratios = relative_win_ratios(right)
    return _mean_of_rows(ratios), _mean_of_rows(ratios.T)


def _mean_of_rows(ratios: np.ndarray) -> np.ndarray:
    known = ~np.isnan(ratios)
    with np.errstate(invalid="ignore"):
        return np.where(known, ratios, 0.0).sum(axis=1) / known.sum(axis=1)


@dataclass(frozen=True)
class Errors:
    """Sources of a retriever's wrong answers, as shares in [0, 1].

    They satisfy wrong = (1 - retriever) (hallucination + extraction) + retriever (1 - lucky · ungrounded), where an
    undefined share counts as 0. The paper has one hallucination error in place of ``hallucination`` and
    ``ungrounded``.
    """

    wrong: float  # questions with a wrong answer
    retriever: float  # questions whose passages do not contain the answer
    hallucination: float  # if passages contain the answer: wrong responses that are not in the passages
    extraction: float  # if passages contain the answer: wrong responses that are in the passages
    ungrounded: float  # if passages do not contain the answer: responses that are not in the passages
    lucky: float  # share of these responses that are right


def decompose_errors(right: np.ndarray, held: np.ndarray, grounded: np.ndarray) -> Errors:
    """Return the shares of errors of one source over ``(Q,)`` questions; right, grounded responses are ``held``."""
    rights, helds, groundeds = (np.array(flags, dtype=bool) for flags in (right, held, grounded))

    def share(marked: np.ndarray, among: np.ndarray) -> float:
        return float(marked[among].mean()) if among.any() else 0.0

    return Errors(
        wrong=float((~rights).mean()),
        retriever=float((~helds).mean()),
        hallucination=share(~rights & ~groundeds, helds),
        extraction=share(~rights & groundeds, helds),
        ungrounded=share(~groundeds, ~helds),
        lucky=share(rights, ~helds & ~groundeds),
    )
