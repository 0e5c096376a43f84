"""What docs/results.md shows of labels: scores of the retriever, candidates for a label, and the tables.

python -m tests.benchmarks.labels score ../shared/data/qa/popqa.jsonl.gz runs/marks/popqa.jsonl
python -m tests.benchmarks.labels candidates runs/marks/embedded-dev/hard_*
python -m tests.benchmarks.labels positives runs/marks/embedded-dev/*
python -m tests.benchmarks.labels table runs/marks/embedded-test-hard.json
"""

import argparse
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seper_reward.data.answers import abstains, normalize_answer
from seper_reward.data.marks import relevance_of
from seper_reward.data.rows import read_valid_rows
from seper_reward.estimators.utility import answer_evidence, question_evidence
from seper_reward.evaluate.labels import area, of_best
from seper_reward.labels.rows import DELTA_SEPER, labeled_queries, read_label_rows
from seper_reward.labels.targets import GRADES, grade, split_by_help
from seper_reward.options import POSITIVE
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.runtime.json_files import read_json, write_lines
from seper_reward.statistics import Statistic, rounded
from seper_reward.types import LabeledQuery, Passage, Query

_WEIGHTS = (0.1, 0.25, 0.35, 0.5, 0.75, 1.0)
_DEFAULT, _EVIDENCE = "delta_belief + 0.5 gain", "evidence of seper_gain"
_MARGINS = (0.2, 0.3, 0.4, 0.5)
_TOKENS = 128  # of a passage, as in the hard candidates
Label = Callable[[Mapping[str, np.ndarray]], np.ndarray]


def candidates() -> dict[str, Label]:
    """Return candidates for a label: functions of the belief b, ΔSePer d, gain q, SePer s and log-probability a.

    Those of the reader's own answers, p, need no gold answer (``pooled_answers``).
    """
    return {
        "delta_belief": lambda row: row["b"],
        "question_gain": lambda row: row["q"],
        "pooled answers": lambda row: row["p"],
        **{f"pooled answers + {w:g} gain": lambda row, w=w: row["p"] + w * row["q"] for w in (0.25, 0.5)},
        **{f"delta_belief + {w:g} gain": lambda row, w=w: row["b"] + w * row["q"] for w in _WEIGHTS},
        **{f"delta_seper + {w:g} gain": lambda row, w=w: row["d"] + w * row["q"] for w in (0.25, 0.5)},
        "log(SePer + .01) + 2 gain": lambda row: np.log(row["s"] + 0.01) + 2 * row["q"],
        **{
            f"(log(SePer + .03) + log p(answer)) / 2 + {w:g} gain": lambda row, w=w: (
                (np.log(row["s"] + 0.03) + row["a"]) / 2 + w * row["q"]
            )
            for w in (1, 2)
        },
        "(1.05 + delta_belief) · exp(gain / 2)": lambda row: (1.05 + row["b"]) * np.exp(row["q"] / 2),
        "evidence of seper_gain": lambda row: np.array(answer_evidence(row["b"], row["q"])),
        "delta_belief + .5 tanh(gain - mean gain)": lambda row: row["b"] + 0.5 * np.tanh(row["q"] - row["q"].mean()),
        "delta_belief + .5 gain / range of gains": lambda row: row["b"] + 0.5 * row["q"] / max(np.ptp(row["q"]), 0.3),
        "delta_belief + posterior of 2 gain": lambda row: row["b"] + _softmax(2 * row["q"]),
    }


def choices() -> dict[str, Label]:
    """Return numbers by which positives can be chosen; the first product was the evidence before."""
    return {
        "delta_seper": lambda row: row["d"],
        "delta_belief": lambda row: row["b"],
        "delta_belief + .25 gain": lambda row: row["b"] + 0.25 * row["q"],
        "delta_belief · exp((gain - best gain) / 2)": lambda row: row["b"] * np.exp((row["q"] - row["q"].max()) / 2),
        "delta_belief · exp(gain - best gain)": lambda row: row["b"] * np.exp(row["q"] - row["q"].max()),
        _EVIDENCE: lambda row: np.array(answer_evidence(row["b"], row["q"])),
        "the same with a posterior, at most delta_belief": lambda row: np.minimum(
            row["b"], _softmax(np.log1p(20 * np.maximum(row["b"], 0)) + 2 * row["q"])
        ),
        "posterior of (log(SePer + .03) + log p(answer)) / 2 + 2 gain": lambda row: _softmax(
            (np.log(row["s"] + 0.03) + row["a"]) / 2 + 2 * row["q"]
        ),
        "evidence of question_gain": lambda row: np.array(question_evidence(row["q"])),
    }


def rows_of(folder: str) -> list[tuple[dict[str, np.ndarray], list[bool]]]:
    """Return the columns and the marks of the questions in a folder of labels."""

    def columns(row: LabeledQuery) -> dict[str, np.ndarray]:
        names = {"b": "delta_belief", "d": DELTA_SEPER, "q": "question_gain", "s": "seper", "a": "answer_log_prob"}
        numbers = {key: np.array([passage[name] for passage in row.details]) for key, name in names.items()}
        return {**numbers, "p": pooled_answers(row)}

    return [(columns(row), relevance_of(row.query)) for row in labeled_queries(read_label_rows(folder), DELTA_SEPER)]


def pooled_answers(row: LabeledQuery) -> np.ndarray:
    """Return by how much each passage raises the reader's belief in its own answers, in place of the gold ones.

    An answer's share is its mean probability with the passages, which have weights of exp(2 · question gain); answers
    are equal by ``normalize_answer``, and abstentions are none.
    """
    beliefs = [_beliefs(read["responses"]) for read in (*row.details, row.baseline)]
    answers = sorted({answer for belief in beliefs for answer in belief})
    probabilities = np.array([[belief[answer] for answer in answers] for belief in beliefs])
    with_passages, without = probabilities[:-1], probabilities[-1]
    pool = _softmax(2 * np.array([passage["question_gain"] for passage in row.details])) @ with_passages
    rises: np.ndarray = (with_passages - without) @ pool / max(pool.sum(), 1e-9)
    return rises


def candidates_table(*folders: str) -> str:
    """Return AUC within a question / share of best passages that are relevant, by candidate and folder, and leads."""
    sets = [rows_of(folder) for folder in folders]
    scores = {name: [_scores(label, rows) for rows in sets] for name, label in candidates().items()}
    lines = []
    for name, by_set in scores.items():
        means = [np.nanmean(of_set, axis=0) for of_set in by_set]
        leads = [of_set - default for of_set, default in zip(by_set, scores[_DEFAULT], strict=True)]
        cells = [f"{one:.3f} / {other:.3f}" for one, other in [*means, np.mean(means, axis=0)]]
        intervals = (
            []
            if name == _DEFAULT
            else [_mean_ratio([_with_counts(lead[:, part]) for lead in leads]) for part in (0, 1)]
        )
        lines.append([name, *cells, *intervals])
    header = [f"{Path(folder).name} ({len(rows)})" for folder, rows in zip(folders, sets, strict=True)]
    leads_over = [f"lead over {_DEFAULT}: {part}" for part in ("AUC", "best")]
    return markdown_table(["candidate", *header, "mean", *leads_over], lines)


def positives_table(*folders: str) -> str:
    """Return precision / recall of positives / share of other passages of the highest grade, means over folders.

    The last columns are of the default margin: the lead in precision of the evidence of ``seper_gain``, the share of
    exported negatives that are relevant, and the share of lists that have a positive when their relevant passages are
    taken out.
    """
    sets = [rows_of(folder) for folder in folders]
    without_relevant = [[_without_relevant(row, marks) for row, marks in rows if not all(marks)] for rows in sets]
    labels = choices()
    positives = {name: [_positives(label, rows) for rows in sets] for name, label in labels.items()}
    lines = []
    for name, label in labels.items():
        cells = []
        for margin in _MARGINS:
            counts = [_counts([(label(row), marks) for row, marks in rows], margin) for rows in sets]
            cells.append(" / ".join(f"{np.nanmean(column):.3f}" for column in zip(*counts, strict=True)))
        lead = "" if name == _EVIDENCE else _mean_ratio(positives[_EVIDENCE], positives[name])
        negatives = _mean_ratio([_negatives(label, rows) for rows in sets])
        alarms = [np.array([[(label(row) >= POSITIVE).any(), 1] for row in rows]) for rows in without_relevant]
        lines.append([name, *cells, lead, negatives, _mean_ratio(alarms)])
    header = [f"from {margin:g}" for margin in _MARGINS]
    of_default = ["lead in precision", "relevant negatives", "lists without a relevant passage"]
    return markdown_table(["precision / recall / others of grade 3", *header, *of_default], lines)


def agreement_table(path: str, *shown: str) -> str:
    """Return a table from the JSON file of ``evaluate labels``; of the measures ``shown`` it has no leads."""
    agreement = read_json(Path(path))
    folders, means = agreement["folders"], agreement["means"]
    names = [name for name in shown or means["measures"] if name in means["measures"]]
    parts = {"within": "AUC", "best": "best"} | ({"seper": "SePer"} if "seper" in means["measures"][names[0]] else {})
    lines = [
        [
            f"**`{name}`**" if name == means["against"] else name,
            *(
                " / ".join(cell(of_set["measures"][name][part]["value"]) for part in parts)
                for of_set in folders.values()
            ),
            *(str(Statistic(**means["measures"][name][part])) for part in parts),
            *(str(Statistic(**means["leads"][name][part])) if name in means["leads"] else "" for part in parts),
        ]
        for name in sorted(names, key=lambda name: -means["measures"][name]["within"]["value"])
    ]
    sets = [f"{name} (n={of_set['questions']})" for name, of_set in folders.items()]
    header = ["measure", *sets, *(f"mean {part}" for part in parts.values())]
    leads = [f"lead in {part}" for part in parts.values()]
    if shown:
        return markdown_table(header, [line[: len(header)] for line in lines])
    return markdown_table([*header, *leads], lines)


def score(source: str, output: str) -> str:
    """Write the rows of a file with the retriever's cosine of question and passage, all-MiniLM-L6-v2, untrained."""
    from seper_reward.retrieval.embeddings import Embedder
    from trainers.models import load_encoder

    embedder = Embedder(load_encoder("embedded", _TOKENS))
    rows = [dict(row) for _, row in read_valid_rows(source)]
    for row in rows:
        texts = [f"{each.get('title', '')} {each['text']}".strip() for each in row["passages"]]
        cosines = embedder.passages(texts) @ embedder.questions([row["question"]])[0]
        row["passages"] = [
            {**each, "cosine": round(float(cosine), 6)} for each, cosine in zip(row["passages"], cosines, strict=True)
        ]
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    write_lines(Path(output), rows)
    return f"{output}: {len(rows)} questions"


def _beliefs(responses: Sequence[Mapping[str, Any]]) -> Counter[str]:
    beliefs = Counter[str]()
    for response in responses:
        if response["count"] and not abstains(response["text"]):  # gold answers that were not drawn have 0
            beliefs[normalize_answer(response["text"])] += response["weight"]
    return beliefs


def _counts(rows: Sequence[tuple[np.ndarray, Sequence[bool]]], margin: float) -> tuple[float, float, float]:
    pairs = [(value, mark) for values, marks in rows for value, mark in zip(values, marks, strict=True)]
    chosen = [mark for value, mark in pairs if value >= margin]
    highest = [grade(value, margin) == GRADES for value, mark in pairs if not mark]
    precision = sum(chosen) / len(chosen) if chosen else math.nan
    return precision, sum(chosen) / sum(mark for _, mark in pairs), sum(highest) / len(highest)


def _scores(label: Label, rows: Sequence[tuple[Mapping[str, np.ndarray], Sequence[bool]]]) -> np.ndarray:
    """Return AUC within a question and whether its best passage is relevant, (Q, 2), NaN if undefined."""
    pairs = [(label(row), marks) for row, marks in rows]
    return np.array(
        [(area(values, marks), of_best(values, marks) if any(marks) else math.nan) for values, marks in pairs]
    )


def _with_counts(values: np.ndarray) -> np.ndarray:
    known = values[~np.isnan(values)]
    return np.stack([known, np.ones_like(known)], axis=1)


def _mean_ratio(sets: Sequence[np.ndarray], others: Sequence[np.ndarray] = (), resamples: int = 2000) -> Statistic:
    """Return the mean over sets of a ratio of sums over their questions, (Q, 2), with its bootstrap interval.

    With ``others``, ratios of the same questions, it is the lead over their mean.
    """

    def mean(places: Sequence[np.ndarray]) -> float:
        sums = np.array(
            [[one[at].sum(0) for one, at in zip(of, places, strict=True)] for of in (sets, others or sets)]
        )
        ratios = sums[:, (sums[..., 1] > 0).all(0)]  # of sets in which both are defined
        means = (ratios[..., 0] / ratios[..., 1]).mean(1)
        return float(means[0] - means[1] if others else means[0])

    random = np.random.default_rng(0)
    sizes = [len(one) for one in sets]
    values = [mean([random.integers(size, size=size) for size in sizes]) for _ in range(resamples)]
    ends = np.quantile(values, [0.025, 0.975])
    return Statistic(rounded(mean([np.arange(size) for size in sizes])), [rounded(float(end)) for end in ends])


def _positives(label: Label, rows: Sequence[tuple[Mapping[str, np.ndarray], Sequence[bool]]]) -> np.ndarray:
    """Return the numbers of each question's relevant and of all its positives, (Q, 2)."""
    chosen = [(np.array(marks), label(row) >= POSITIVE) for row, marks in rows]
    return np.array([[(marks & positive).sum(), positive.sum()] for marks, positive in chosen])


def _negatives(label: Label, rows: Sequence[tuple[Mapping[str, np.ndarray], Sequence[bool]]]) -> np.ndarray:
    """Return the numbers of each question's relevant and of all its negatives in exports, (Q, 2)."""
    default, counts = candidates()[_DEFAULT], []
    for row, marks in rows:
        query = Query("", "", (), tuple(Passage(str(at)) for at in range(len(marks))))
        labeled = LabeledQuery(
            query, tuple(default(row).tolist()), (0.0,) * len(marks), evidence=tuple(label(row).tolist())
        )
        _, negatives = split_by_help(labeled)
        counts.append([sum(marks[at] for at in negatives), len(negatives)])
    return np.array(counts)


def _without_relevant(row: Mapping[str, np.ndarray], marks: Sequence[bool]) -> dict[str, np.ndarray]:
    return {name: column[~np.array(marks, dtype=bool)] for name, column in row.items()}


def _softmax(values: np.ndarray) -> np.ndarray:
    weights: np.ndarray = np.exp(values - values.max())
    return weights / weights.sum()


def main(argv: Sequence[str] | None = None) -> None:
    """Print what the first word names."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    acts = {"score": score, "candidates": candidates_table, "positives": positives_table, "table": agreement_table}
    made.add_argument("act", choices=acts)
    made.add_argument("paths", nargs="+")
    words = made.parse_args(argv)
    print(acts[words.act](*words.paths))


if __name__ == "__main__":
    main()
