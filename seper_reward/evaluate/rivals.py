"""Measures of a passage without a reader, and from the numbers of a label row: pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from seper_reward.data.answers import exact_match, holds_answer
from seper_reward.estimators.utility import QUESTION_WEIGHT
from seper_reward.labels.rows import SUFFIXES, evidence_of
from seper_reward.types import Answers, LabeledQuery


def label_measures(
    labeled: LabeledQuery, bm25: Sequence[float]
) -> tuple[list[dict[str, float]], dict[str, Sequence[float]]]:
    """Return the measures of each passage in a label row of ``delta_seper``, NaN if unknown, and evidence by label.

    ``bm25`` are the BM25 scores of the passages, >= 0.

    - ``retriever``: the score of the retriever that found the passage, the field ``cosine`` of the input;
    - ``bm25``, ``contains``, and ``contains x bm25``: from the texts alone;
    - ``question_gain``: likelihood of the question;
    - ``erag``: exact match of the responses (Salemi and Zamani, arXiv:2404.13781); ``likelihood``: log-probability per
      token of the answer, both with the passage minus without;
    - ``delta_seper``, ``delta_seper_hard``, ``delta_belief``, ``seper_gain``: the labels.

    The evidence (``labels.rows.evidence_of``) is that of labels which all passages have.
    """
    query, bare = labeled.query, labeled.baseline
    measures = []
    for passage, fields, score in zip(query.passages, labeled.details, bm25, strict=True):
        gain, belief = _number(fields["question_gain"]), _number(fields["delta_belief"])
        contains = float(holds_answer(passage.full_text, query.answers))
        measures.append(
            {
                "retriever": _number(passage.metadata.get("cosine")),
                "bm25": score,
                "contains": contains,
                "contains x bm25": contains * score,
                "question_gain": gain,
                "erag": expected_exact_match(fields, query.answers) - expected_exact_match(bare, query.answers),
                "likelihood": _number(fields["answer_log_prob"]) - _number(bare["answer_log_prob"]),
                "delta_belief": belief,
                "delta_seper": fields["delta_seper"],
                "delta_seper_hard": fields["delta_seper_hard"],
                "seper_gain": belief + QUESTION_WEIGHT * gain,
            }
        )
    known = [name for name in SUFFIXES if not any(math.isnan(values[name]) for values in measures)]
    return measures, {
        name: evidence_of(labeled.details, name) or [values[name] for values in measures] for name in known
    }


def expected_exact_match(fields: Mapping[str, Any], answers: Answers) -> float:
    """Return the weighted share of responses in a row's ``baseline`` or passage that match an alias exactly."""
    return math.fsum(response["weight"] * exact_match(response["text"], answers) for response in fields["responses"])


def answered_before(labeled: LabeledQuery) -> bool:
    """Return whether the likeliest sampled response of a row's baseline is an exact match."""
    drawn = [response for response in labeled.baseline["responses"] if response["count"]]
    likeliest = max(drawn, key=lambda response: response["log_prob"])
    return exact_match(likeliest["text"], labeled.query.answers) == 1


def _number(value: float | None) -> float:
    return math.nan if value is None else value
