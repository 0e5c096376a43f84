"""Measures of a passage without a reader, and candidates for a label from the numbers of a label row: pure."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from seper_reward.data.answers import exact_match, holds_answer
from seper_reward.estimators.utility import QUESTION_WEIGHT
from seper_reward.types import Answers, LabeledQuery

_LEAST_BELIEF = 0.02  # keeps a logarithm finite, as in the log-odds of a belief


def question_words(question: str, text: str) -> float:
    """Return the share of a question's distinct words that a text contains, in [0, 1], whatever their case.

    >>> question_words("Who built the mill?", "Ida Voss built a mill.")
    0.5
    """
    words, found = (set(re.findall(r"\w+", each.casefold())) for each in (question, text))
    return len(words & found) / len(words) if words else 0.0


def label_measures(labeled: LabeledQuery, weights: Sequence[float], bm25: Sequence[float]) -> list[dict[str, float]]:
    """Return the measures of each passage in a label row of ``delta_seper``, NaN if unknown.

    ``bm25`` are the BM25 scores of the passages, >= 0, and ``weights`` those of candidates that are sums.

    - ``bm25``, ``contains``, ``question_words``, and ``contains x bm25``: from the texts alone;
    - ``question_gain``, ``question_log_prob``: likelihood of the question;
    - ``erag``: exact match of the responses (Salemi and Zamani, arXiv:2404.13781); ``likelihood``: log-probability per
      token of the answer, both with the passage minus without;
    - ``delta_seper``, ``delta_seper_hard``, ``delta_belief``, ``seper_gain``: the labels;
    - ``delta_seper + w gain`` and ``delta_belief + w gain`` for each weight w of the question's gain;
    - ``contains x gain``: product with the question's gain;
    - ``log chain rule``: change of log P(question, answer) per token, the answer's probability being SePer.
    """
    query, bare = labeled.query, labeled.baseline
    found = []
    for passage, fields, score in zip(query.passages, labeled.details, bm25, strict=True):
        gain, soft, hard = _number(fields["question_gain"]), fields["delta_seper"], fields["delta_seper_hard"]
        likelihood = _number(fields["answer_log_prob"]) - _number(bare["answer_log_prob"])
        contains, seper = float(holds_answer(passage.full_text, query.answers)), fields["seper"]
        belief = _number(fields["delta_belief"])
        belief_gain = math.log((seper + _LEAST_BELIEF) / (bare["seper"] + _LEAST_BELIEF))
        found.append(
            {
                "bm25": score,
                "contains": contains,
                "contains x bm25": contains * score,
                "question_words": question_words(query.question, passage.full_text),
                "question_log_prob": _number(fields["question_log_prob"]),
                "question_gain": gain,
                "erag": expected_exact_match(fields, query.answers) - expected_exact_match(bare, query.answers),
                "likelihood": likelihood,
                "delta_belief": belief,
                "delta_seper": soft,
                "delta_seper_hard": hard,
                "seper_gain": belief + QUESTION_WEIGHT * gain,
                **{
                    f"{label} + {weight:g} gain": value + weight * gain
                    for weight in weights
                    for label, value in (("delta_seper", soft), ("delta_belief", belief))
                    if (label, weight) != ("delta_belief", QUESTION_WEIGHT)  # this is seper_gain
                },
                "contains x gain": contains * gain,
                "log chain rule": belief_gain + gain,
            }
        )
    return found


def expected_exact_match(fields: Mapping[str, Any], answers: Answers) -> float:
    """Return the weighted share of responses in a row's ``baseline`` or passage that match an alias exactly."""
    return math.fsum(each["weight"] * exact_match(each["text"], answers) for each in fields["responses"])


def answered_before(labeled: LabeledQuery) -> bool:
    """Return whether the likeliest sampled response of a row's baseline is an exact match."""
    drawn = [each for each in labeled.baseline["responses"] if each["count"]]
    likeliest = max(drawn, key=lambda each: each["log_prob"])
    return exact_match(likeliest["text"], labeled.query.answers) == 1


def _number(value: float | None) -> float:
    return math.nan if value is None else value
