"""Label rows: one JSON object per question, in ``labels.jsonl``."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seper_reward.data.answers import read_answers
from seper_reward.data.rows import METADATA, read_valid_rows, shown
from seper_reward.estimators.utility import answer_evidence, question_evidence
from seper_reward.labels.integrity import LABELS, check_finished, check_labels, label_files
from seper_reward.runtime.codec import to_json
from seper_reward.types import (
    UTILITY_BELIEF,
    Belief,
    Estimate,
    LabeledQuery,
    Passage,
    Query,
    SetLabel,
    UnscorableError,
    Utility,
)

if TYPE_CHECKING:
    from seper_reward.scorer import SePerScorer

LABELS_PARQUET = "labels.parquet"
DELTA_SEPER = "delta_seper"
QUESTION_GAIN = "question_gain"
#: Labels in the rows of ΔSePer, and the suffixes of their standard errors and intervals.
SUFFIXES = {
    DELTA_SEPER: "",
    "delta_seper_hard": "_hard",
    "delta_belief": "_belief",
    "seper_gain": "_gain",
    QUESTION_GAIN: "_question_gain",  # of no field: a likelihood has no error
}
_TRAINED = ("seper_gain", "delta_belief")  # labels to train on, best first
DIGITS = 6  # more than the numbers' own precision; rounding keeps files small
_ENDS = ("std_error", "low", "high")
_OF_ROWS = {"id", "question", "answers", METADATA, "labeler", "baseline", "passages", "sets"}  # fields of all labelers
_OF_PASSAGES = {"passage_id", "title", "text", METADATA}


def label_row(
    labeled: LabeledQuery, labeler: str = DELTA_SEPER, lengths: Sequence[Mapping[str, object]] = ()
) -> dict[str, object]:
    """Return the label row of one question, JSON-able, with numbers rounded to 6 digits.

    docs/labelling.md has a table of the fields; the input's own fields are in ``metadata``. ``lengths`` is the result
    of ``passage_lengths``. Raises ``UnscorableError`` if a number of the labeler is NaN or infinite.
    """
    query = labeled.query
    nothing: list[Mapping[str, object]] = [{}] * len(labeled.labels)
    labeler = label_of(query.answers, labeler)
    # the details of ΔSePer include its labels
    other_labeler = not labeled.details or labeler not in labeled.details[0]
    scores = [
        {labeler: rounded(label), "std_error": rounded(error)} if other_labeler else {}
        for label, error in zip(labeled.labels, labeled.std_errors, strict=True)
    ]
    columns = zip(query.passages, lengths or nothing, scores, labeled.details or nothing, strict=True)
    row: dict[str, object] = {"id": query.id, "question": query.question, "answers": list(query.answers)}
    row |= _metadata(query)
    if other_labeler:
        row["labeler"] = labeler
    if labeled.baseline:
        row["baseline"] = rounded(labeled.baseline)
    row |= rounded(labeled.fields)
    row["passages"] = [
        {"passage_id": passage.id, "title": passage.title, "text": passage.text}
        | _metadata(passage) | dict(length) | score | rounded(detail)
        for passage, length, score, detail in columns
    ]  # fmt: skip
    if labeled.sets:
        row["sets"] = [_set_row(query, set_label, labeler) for set_label in labeled.sets]
    return row


def _metadata(record: Query | Passage) -> dict[str, object]:
    return {METADATA: dict(record.metadata)} if record.metadata else {}


def passage_lengths(scorer: "SePerScorer | None", query: Query) -> list[dict[str, object]]:
    """Return each passage's ``tokens``, with the title, and whether it was ``truncated``; none without a scorer."""
    if scorer is None:
        return []
    prompts = scorer.reader.prompts
    return [
        {"truncated": prompts.cuts(query.question, [passage]), "tokens": prompts.token_count(passage)}
        for passage in query.passages
    ]


def belief_fields(belief: Belief) -> dict[str, object]:
    """Return the fields of a label row for the belief in one context."""
    return {
        "seper": belief.seper,
        "seper_hard": belief.seper_hard,
        **interval_fields(belief.soft),
        **interval_fields(belief.hard, "_hard"),
        "answer_log_prob": belief.answer_log_prob,
        "question_log_prob": belief.question_log_prob,
        **_response_rows(belief),
    }


def utility_fields(utility: Utility) -> dict[str, object]:
    """Return the fields of a label row for the change of the belief by a passage."""
    return {
        "seper": utility.seper,
        "seper_hard": utility.belief.seper_hard,
        "delta_seper": utility.delta_seper,
        "delta_seper_hard": utility.delta_seper_hard,
        "delta_belief": None if utility.delta_belief is None else utility.delta_belief.value,
        "seper_gain": None if utility.seper_gain is None else utility.seper_gain.value,
        **interval_fields(utility.soft),
        **interval_fields(utility.hard, "_hard"),
        **interval_fields(utility.delta_belief, "_belief"),
        **interval_fields(utility.seper_gain, "_gain"),
        "answer_log_prob": utility.belief.answer_log_prob,
        "question_log_prob": utility.belief.question_log_prob,
        "question_gain": utility.question_gain,
        **_response_rows(utility.belief),
    }


def read_label_rows(folder: str | Path) -> dict[str, Mapping[str, Any]]:
    """Read the rows of a folder written by ``seper-reward label`` or by a trainer, by their place in the file.

    The path of ``labels.jsonl`` stands for its folder. An id that is there twice raises ``ValueError``.
    """
    folder = Path(folder).parent if Path(folder).name == LABELS else Path(folder)
    check_finished(folder)
    check_labels(folder)
    rows = dict(row for file in label_files(folder) or [folder / LABELS] for row in read_valid_rows(file))
    ids: set[str] = set()
    for where, row in rows.items():
        if (identity := str(row.get("id"))) in ids:
            raise ValueError(f"{where}: expected an id that no other row has, got {identity!r}; drop one row")
        ids.add(identity)
    return rows


def labeled_queries(rows: Mapping[str, Mapping[str, object]], label: str | None = None) -> list[LabeledQuery]:
    """Return the labelled queries of label rows, by ``label`` (default: the recommended one); errors name the row.

    Raises ``ValueError`` if a row lacks a field, or a number is not finite.
    """
    label = label or recommended_label(rows.values())
    labeled = []
    for where, row in rows.items():
        try:
            labeled.append(labeled_query(row, label))
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{where}: expected a row written by `seper-reward label` of this version, but {error} is missing; "
                "label again into another folder, or name another label"
            ) from error
        _check_edited(where, row, label)
    return labeled


def _check_edited(where: str, row: Mapping[str, Any], label: str) -> None:
    """Raise ``ValueError`` if a row has wrong numbers, or ids that are there twice, as edited files can have."""
    ids = [passage["passage_id"] for passage in row["passages"]]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{where}: expected different passage ids, got {ids}; rename or drop one")
    optional = ["seper", *(f"{end}{SUFFIXES.get(label, '')}" for end in _ENDS)]
    places = {f", passage id={name!r}": passage for name, passage in zip(ids, row["passages"], strict=True)}
    for place, fields in {"": row.get("baseline") or {}, **places}.items():
        numbers = {name: fields[name] for name in (label, *optional) if fields.get(name) is not None}
        for name, value in numbers.items():
            if type(value) not in (int, float) or not math.isfinite(value):
                raise ValueError(
                    f"{where}{place}: expected a finite number in {name}, got {shown(value)}; restore the file, or "
                    "label again"
                )


def labeled_query(row: Mapping[str, Any], column: str) -> LabeledQuery:
    """Return the labelled query of a label row, with the labels ``column`` and the row's other fields in ``details``.

    A row without gold answers has the label of ``label_of``. If ``column`` is not the label of the row's sets, the
    query has no sets. A missing field raises ``KeyError``.
    """
    labeler, column = labeler_of([row]), label_of(row["answers"], column)
    if any(passage[column] is None for passage in row["passages"]):
        raise KeyError(column)
    # other fields have no known error
    std_error = f"std_error{SUFFIXES.get(column, '')}" if column in {*SUFFIXES, labeler} else None
    passages = tuple(
        Passage(passage["text"], passage["title"], passage["passage_id"], passage.get(METADATA) or {})
        for passage in row["passages"]
    )
    answers = read_answers(row["answers"], lambda alias, _: str(alias))
    return LabeledQuery(
        Query(row["id"], row["question"], answers, passages, row.get(METADATA) or {}),
        labels=tuple(passage[column] for passage in row["passages"]),
        std_errors=tuple(passage.get(std_error, 0.0) if std_error else 0.0 for passage in row["passages"]),
        baseline_error=baseline_error(row.get("baseline") or {}, column) if std_error else 0.0,
        graded=column == labeler == "gold",
        evidence=evidence_of(row["passages"], column),
        # sets have one label: the label of the named labeler
        sets=_set_labels([set_row for set_row in row.get("sets") or () if column in set_row], passages, column),
        fields={name: value for name, value in row.items() if name not in _OF_ROWS},
        baseline=row.get("baseline") or {},
        details=tuple(
            {name: value for name, value in passage.items() if name not in _OF_PASSAGES} for passage in row["passages"]
        ),
    )


def label_of(answers: Sequence[str], label: str) -> str:
    """Return the label of a row: of those of ΔSePer, a row without gold answers has ``question_gain`` alone."""
    return label if answers or label not in SUFFIXES else QUESTION_GAIN


def evidence_of(passages: Sequence[Mapping[str, Any]], column: str) -> tuple[float, ...]:
    """Return the evidence that passages hold the answer, for labels ``column`` that are none themselves; else nothing.

    ``seper_gain`` is high for each passage with a name that the reader does not know; its evidence is
    ``answer_evidence`` of ``delta_belief`` and ``question_gain``. For ``question_gain``, which knows no answer, it is
    ``question_evidence``.
    """
    if column not in ("seper_gain", QUESTION_GAIN) or not passages:
        return ()
    gains = [passage[QUESTION_GAIN] for passage in passages]
    if column == "seper_gain":
        return answer_evidence([passage["delta_belief"] for passage in passages], gains)
    return question_evidence(gains)


def baseline_error(baseline: Mapping[str, Any], label: str) -> float:
    """Return the standard error of a label's baseline from a row's ``baseline``; 0 if there is none."""
    if label in ("delta_belief", "seper_gain"):  # half of ΔSePer, and likelihoods, which have no error
        return float(baseline.get("std_error", 0.0)) / 2
    return float(baseline.get(f"std_error{SUFFIXES.get(label, '')}", 0.0))


def label_intervals(labeled: LabeledQuery, column: str) -> list[tuple[float, float]]:
    """Return the 95 % intervals of the labels ``column``; the labels themselves for labelers without errors."""
    low, high = (f"{end}{SUFFIXES.get(column, '')}" for end in ("low", "high"))
    pairs = zip(labeled.labels, labeled.details, strict=True)
    return [(fields.get(low, label), fields.get(high, label)) for label, fields in pairs]


def labeler_of(rows: Iterable[Mapping[str, object]]) -> str:
    """Return the name of the labeler that wrote the rows; it is also the field of their labels."""
    return str(next(iter(rows), {}).get("labeler", DELTA_SEPER))


def recommended_label(rows: Collection[Mapping[str, Any]]) -> str:
    """Return the field of label rows to train on: the labeler's, or for ``delta_seper`` the best that all rows have.

    That is the first of ``seper_gain``, ``delta_belief`` and ``delta_seper`` (docs/results.md), or the label of the
    sets. Rows without gold answers have ``question_gain`` (``label_of``), and do not count unless all rows are such.
    """
    labeler = labeler_of(rows)
    if labeler != DELTA_SEPER:
        return labeler
    if any("sufficient_set" in row for row in rows):
        return label_of_sets(rows) or labeler
    answered = [row for row in rows if row.get("answers")]
    if rows and not answered:
        return QUESTION_GAIN
    passages = [passage for row in answered for passage in row.get("passages", ())]
    best = (name for name in _TRAINED if rows and all(passage.get(name) is not None for passage in passages))
    return next(best, labeler)


def label_of_sets(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the field of the labels of sets, of which there is one; ``None`` without labels of sets."""
    sets = (set_row for row in rows for set_row in row.get("sets") or ())
    return next((name for set_row in sets for name in SUFFIXES if name in set_row), None)


def _set_row(query: Query, label: SetLabel, labeler: str) -> dict[str, object]:
    ids = [passage.id for passage in query.passages]
    given_ids, shown_ids = ([ids[place] for place in places] for places in (label.given, label.shown))
    numbers: dict[str, object] = {}
    columns = ((labeler, label.gain, ""), ("utility", label.utility, "_utility"))
    for name, estimate, suffix in (*columns, ("interaction", label.interaction, "_interaction")):
        numbers |= {name: estimate.value, **interval_fields(estimate, suffix)}
    return {
        "given": given_ids, "passage_id": ids[label.passage], "shown": shown_ids,
        **rounded({**numbers, **label.details}),
    }  # fmt: skip


def _set_labels(rows: Sequence[Mapping[str, Any]], passages: Sequence[Passage], column: str) -> tuple[SetLabel, ...]:
    places = {passage.id: place for place, passage in enumerate(passages)}

    def ends(row: Mapping[str, Any], name: str, suffix: str) -> Estimate:
        return Estimate(row[name], *(row[f"{end}{suffix}"] for end in _ENDS))

    return tuple(
        SetLabel(
            tuple(places[passage_id] for passage_id in row["shown"]),
            places[row["passage_id"]],
            gain=ends(row, column, ""),
            utility=ends(row, "utility", "_utility"),
            interaction=ends(row, "interaction", "_interaction"),
            details={name: row[name] for name in ("given_std_error", UTILITY_BELIEF) if name in row},
        )
        for row in rows
    )


def interval_fields(estimate: Estimate | None, suffix: str = "") -> dict[str, float | None]:
    """Return the fields of a label row for the error and the 95 % interval of a number, ``None`` if unknown."""
    return {f"{name}{suffix}": None if estimate is None else getattr(estimate, name) for name in _ENDS}


def _response_rows(belief: Belief) -> dict[str, object]:
    """Return the fields of the sampled responses in a context; values that a server did not return are left out."""
    sampled, log_probs = belief.sampled, belief.sampled.log_probs
    responses = [
        {
            "text": text,
            "count": belief.counts[at],
            "weight": belief.weights[at],
            "cluster": belief.cluster_ids[at],
            "support": belief.best_support[at],
            "log_prob": log_probs[at],
            **({"draw_log_prob": sampled.draw_log_probs[at]} if sampled.draw_log_probs else {}),
            "finished": sampled.finished[at],
            **({"token_ids": list(sampled.token_ids[at])} if sampled.token_ids else {}),
            # for answers that were not sampled only the total is known
            "token_log_probs": sampled.token_log_probs[at].tolist() if belief.counts[at] else None,
        }
        for at, text in enumerate(belief.responses)
    ]
    return {
        "unseen_mass": belief.unseen_mass,
        "known_leaves": [to_json(leaf) for leaf in sampled.known_leaves],
        "responses": responses,
    }


def rounded(value: object) -> Any:
    """Round the floats in a JSON-able value; tuples become lists; ``UnscorableError`` for NaN and infinity."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnscorableError(
                f"the labeler returned {value}, expected a finite number; check its models and settings"
            )
        return round(value, DIGITS) + 0.0  # turns -0.0 into 0.0
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value
