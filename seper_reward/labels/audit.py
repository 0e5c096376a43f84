"""False negatives: mined hard negatives that help the reader to answer. They are listed or dropped.

A passage that was mined as a negative can contain the answer without being marked. A retriever trained on it learns to
rank answers low (RocketQA, arXiv:2010.08191). Such a passage has a high ΔSePer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from seper_reward.data.queries import Rejected, as_query
from seper_reward.data.rows import BadRowError, read_valid_rows
from seper_reward.data.splits import spread
from seper_reward.labels.integrity import label_files
from seper_reward.labels.mined_negatives import MinedNegatives
from seper_reward.labels.rows import DELTA_SEPER, SUFFIXES, labeled_query
from seper_reward.options import MARGIN
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import read_lines, write_json, write_lines
from seper_reward.types import LabeledQuery, Query

Action = Literal["list", "drop"]
Label = Literal["delta_seper", "delta_seper_hard"]
FALSE_NEGATIVES, AUDIT, AUDITED = "false_negatives.jsonl", "audit.json", "audited.jsonl"
HARD: Label = "delta_seper_hard"
_SIGMAS = 2.0  # number of standard errors
_LABEL_FIELDS = (DELTA_SEPER, "std_error", "low", "high", HARD, "std_error_hard", "low_hard", "high_hard")
_QUESTIONS = ("question", "query", "anchor")


@dataclass(frozen=True)
class ToAudit:
    """The questions of mined negatives."""

    queries: tuple[Query, ...]  # with answers, each with its negatives as passages
    unanswered: tuple[str, ...]  # questions without answers, which cannot be audited
    rejected: tuple[Rejected, ...]  # unusable questions, with the reasons


def read_gold_answers(path: str | Path) -> dict[str, Any]:
    """Read gold answers by question, the first of each; ``BadRowError`` if a row has no question or no answers."""
    answers: dict[str, object] = {}
    for where, row in read_valid_rows(path):
        question = next((row[name] for name in _QUESTIONS if isinstance(row.get(name), str)), None)
        if question is None or row.get("answers") is None:
            lacking = f"a text in one of {', '.join(_QUESTIONS)}" if question is None else "'answers'"
            raise BadRowError(f"{where}: expected {lacking}, got fields {', '.join(row)}; name the field, or add it")
        answers.setdefault(question.strip(), row["answers"])
    return answers


def questions_to_audit(
    mined: MinedNegatives, answers: Mapping[str, object] | None = None, *, limit: int | None = None
) -> ToAudit:
    """Return the questions of mined negatives with all their negatives; ``answers`` by question (default: own)."""
    if answers is None:
        answers = {mined.question(row): row["answers"] for row in reversed(mined.rows) if row.get("answers")}
    negatives = mined.by_question()
    answered = [question for question in negatives if answers.get(question)]
    if not answered:
        raise ValueError(
            f"{mined.path}: ΔSePer compares the reader's responses with gold answers, and none of {len(negatives)} "
            "questions has any in 'answers'; add the column, or name a file of questions and answers (answers)"
        )
    queries, rejected = [], []
    for question in spread(answered, limit):
        gold = answers[question]
        passages = [{"id": content_key(text)[:16], "text": text} for text in negatives[question]]
        row = {"id": content_key(question)[:16], "question": question, "answers": gold, "passages": passages}
        try:
            queries.append(as_query(row))
        except BadRowError as error:
            rejected.append(Rejected(f"{mined.path}, question {question!r}", str(error), {"question": question}))
    known = set(answered)
    unanswered = [question for question in negatives if question not in known]
    return ToAudit(tuple(queries), tuple(unanswered), tuple(rejected))


def false_negatives(labeled: LabeledQuery, margin: float = MARGIN) -> list[int]:
    """Return the places of negatives that surely help: the label exceeds the margin, >= 0, and two standard errors.

    An entailment model that sees some support in a wrong answer moves ``delta_seper``, but not ``delta_seper_hard``.
    """
    pairs = zip(labeled.labels, labeled.std_errors, strict=True)
    return [place for place, (label, error) in enumerate(pairs) if label > max(margin, _SIGMAS * error)]


def write_audit(
    mined: MinedNegatives,
    asked: ToAudit,
    folder: str | Path,
    *,
    action: Action = "list",
    label: Label = HARD,
    margin: float = MARGIN,
    settings: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """List or drop the false negatives that a folder of labels shows, and return the content of ``audit.json``."""
    check_action(mined, action)
    folder = Path(folder)
    labels = [labeled_query(row, label) for file in label_files(folder) for row in read_lines(file)]
    found = [
        {
            "question": row.query.question,
            "answers": list(row.query.answers),
            "negative": row.query.passages[place].text,
            **{name: row.details[place][name] for name in _LABEL_FIELDS},
            "baseline_seper": row.baseline_seper,
        }
        for row in labels
        for place in false_negatives(row, margin)
    ]
    write_lines(folder / FALSE_NEGATIVES, sorted(found, key=lambda row: -float(row[f"low{SUFFIXES[label]}"])))
    false: dict[str, set[str]] = {}
    for row in found:
        false.setdefault(row["question"], set()).add(row["negative"])
    negatives, audited = mined.by_question(), sum(len(row.labels) for row in labels)
    summary = {
        "layout": mined.layout.name,
        "rows": len(mined.rows),
        "questions": len(negatives),
        "negatives": sum(map(len, negatives.values())),
        "audited_questions": len(labels),
        "audited_negatives": audited,
        "unanswered": len(asked.unanswered),
        "false_negatives": len(found),
        "share": round(len(found) / audited, 4) if audited else None,
        "by_question": len(false),
        "action": action,
        **({} if action == "list" else _write_repaired(mined, false, folder)),
    }
    write_json(folder / AUDIT, {**summary, "settings": dict(settings or {})})
    return summary


def check_action(mined: MinedNegatives, action: Action) -> None:
    """Raise ``ValueError`` if the rows have scores that the action would make wrong."""
    if action != "list" and (reason := mined.layout.refusal()):
        raise ValueError(f"{mined.path}: {reason}")


def _write_repaired(mined: MinedNegatives, false: Mapping[str, set[str]], folder: Path) -> dict[str, object]:
    repaired = list(mined.repaired(false))
    rows = [row for row in repaired if row is not None]
    pairs = zip(mined.rows, repaired, strict=True)
    write_lines(folder / AUDITED, rows)
    return {
        "output": str(folder / AUDITED),
        "rows_written": len(rows),
        "rows_changed": sum(after is not None and after != before for before, after in pairs),
        "rows_dropped": len(repaired) - len(rows),
    }
