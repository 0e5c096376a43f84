"""Traps for a judge: does it say "right" to texts that say nothing, and "wrong" because of how a question is put?"""

from collections.abc import Iterable
from typing import Any

from seper_reward.data.demo import EQUIVALENCE
from seper_reward.data.rows import read_valid_rows
from seper_reward.estimators.entailment import EntailmentScorer
from seper_reward.evaluation.statistics import mean
from seper_reward.evaluation.validity.equivalence import Verdict, best_alias_probs

_BY_LENGTH = "unrelated"
_SUPPORT = ("gibberish", "echo", "shotgun", "not_gold")
_SHIFT = ("politeness", "question_mark")


def stress(scorer: EntailmentScorer) -> dict[str, Any]:
    """Measure an entailment model on the trap kinds of ``seper_reward/data/demo/equivalence.jsonl``.

    Args:
        scorer: Entailment model.

    Returns:
        ``unrelated``: mean support of the gold answer by prose that has nothing to do with the question, by its
        length in tokens. ``gibberish``, ``echo`` (words of the question given back), ``shotgun`` (the gold answer
        among many others) and ``not_gold`` (its denial): mean support. ``politeness_shift`` and
        ``question_mark_shift``: mean absolute change of SePer when the same response is judged by the same question
        with politeness around it, or with and without its question mark. All these should be 0. ``stated``: mean
        support of the gold answer by responses that state it, which should be 1. All lie in [0, 1].
    """
    rows = [row for _, row in read_valid_rows(EQUIVALENCE)]
    traps: dict[str, Any] = {
        _BY_LENGTH: {
            str(tokens): mean(_support(scorer, (row for row in rows if row.get("tokens") == tokens)))
            for tokens in sorted({row["tokens"] for row in rows if row["kind"] == _BY_LENGTH})
        }
    }
    traps |= {kind: mean(_support(scorer, (row for row in rows if row["kind"] == kind))) for kind in _SUPPORT}
    for kind in _SHIFT:
        changed = [row for row in rows if row["kind"] == kind]
        plain = [{**row, "question": row["plain_question"]} for row in changed]
        pairs = zip(_support(scorer, changed), _support(scorer, plain), strict=True)
        traps[f"{kind}_shift"] = mean([abs(one - other) for one, other in pairs])
    stated = [row for row in rows if row["kind"] in _SHIFT and row["equivalent"]]
    return traps | {"stated": mean(_support(scorer, [{**row, "question": row["plain_question"]} for row in stated]))}


def _support(scorer: EntailmentScorer, rows: Iterable[Any]) -> list[float]:
    """Return each response's support of the alias that it entails most: SePer of a reader that says nothing else."""
    verdicts = [Verdict(row["question"], tuple(row["answers"]), row["response"], row["equivalent"]) for row in rows]
    entailed: list[float] = best_alias_probs(scorer, verdicts)[:, 0].tolist()
    return entailed
