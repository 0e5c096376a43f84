"""What each kind of label chooses, and how good the choice is: the ceiling of what training on the label can reach.

Each labeler chooses passages from the same candidates, and readers judge them on responses that made no labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sentence_transformers import SentenceTransformer

from seper_reward.evaluate.rankings import downstream, gold_relevance
from seper_reward.labels.labelers import PassageLabeler
from seper_reward.reports.tables import markdown_table
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.runtime.distributed import gather_in_order, shard
from seper_reward.statistics import Statistic, lead_over_questions, mean_over_questions
from seper_reward.types import LabeledQuery, Passage, Query
from trainers.ranking.evaluation import RankingReaders, Rankings
from trainers.ranking.labelling import label

UNTRAINED = "untrained"  # name of the retriever before training, and of what it ranks first among the candidates


class Choices(NamedTuple):
    """What was chosen for Q questions.

    Attributes:
        queries: The questions, with their candidates.
        passages: By name of who chose, the passages for each question, in the order in which a reader sees them.
    """

    queries: list[Query]
    passages: dict[str, Rankings]


def as_ranked(encoder: SentenceTransformer, pools: Sequence[Query], cache_dir: Path | None = None) -> list[Query]:
    """Return the questions with their candidates in the order in which a bi-encoder ranks them.

    So equal labels choose what the retriever ranks first, and not what a file gives first, which is often marked.
    ``cache_dir`` keeps the candidates' embeddings, as in ``DenseRetriever``. All processes must call this together.
    """
    texts = list(dict.fromkeys(passage.full_text for query in pools for passage in query.passages))
    embedder = Embedder(encoder)
    vectors = dict(zip(texts, embedder.passages(texts, cache_dir, share=True), strict=True))
    mine = [query.question for query in shard(pools)]
    asked = gather_in_order(list(embedder.questions(mine)) if mine else [])
    ordered = []
    for query, question in zip(pools, asked, strict=True):
        near = [float(vectors[passage.full_text] @ question) for passage in query.passages]
        places = sorted(range(len(near)), key=lambda place: -near[place])
        ordered.append(replace(query, passages=tuple(query.passages[place] for place in places)))
    return ordered


def choose(pools: Sequence[Query], labelers: Mapping[str, PassageLabeler], top_k: int) -> Choices:
    """Label all candidates and return what each labeler chooses; all processes must call this together."""
    found = {name: label(each, pools, each.name)[0] for name, each in labelers.items()}
    labeled = {name: {row.query.id: row for row in rows} for name, rows in found.items()}
    queries = [query for query in pools if all(query.id in rows for rows in labeled.values())]
    passages: dict[str, Rankings] = {UNTRAINED: [query.passages[:top_k] for query in queries]}
    for name, rows in labeled.items():
        passages[name] = [tuple(query.passages[at] for at in chosen(rows[query.id], top_k)) for query in queries]
    return Choices(queries, passages)


def chosen(labeled: LabeledQuery, k: int) -> list[int]:
    """Return the positions of the ``k`` >= 1 best passages by a query's labels, in the order for the reader.

    These are the measured set of ``k`` passages with the greatest utility. If no such set was measured, the passages
    with the best labels are chosen, best first. For several passages, a label counts as the greatest gain of the
    passage in any measured set, if that is greater and above 0. Passages with equal labels keep the query's order.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    measured = [each for each in labeled.sets if len(each.shown) == k]
    if measured:
        return list(max(measured, key=lambda each: each.utility.value).shown)
    labels = list(labeled.labels)
    for each in labeled.sets if k > 1 else ():
        if each.given and each.gain.value > max(labels[each.passage], 0.0):
            labels[each.passage] = each.gain.value
    return sorted(range(len(labels)), key=lambda at: -labels[at])[:k]


def measure_choices(
    choices: Choices, relevance: Mapping[str, Mapping[str, int]], judges: RankingReaders
) -> dict[str, dict[str, list[float | None]]]:
    """Return what the choices are worth, question by question; all processes must call this together."""
    found: dict[str, dict[str, list[float | None]]] = {name: {} for name in choices.passages}
    for reader, scorer in judges.scorers.items():
        for name, passages in choices.passages.items():
            rows = downstream(scorer, choices.queries, passages, judges.top_k)
            for measure in ("seper", "exact_match"):
                found[name][measure + judges.suffix(reader)] = [row[measure] for row in rows]
    for name, passages in choices.passages.items():
        found[name][f"recall@{judges.top_k}"] = [
            _recall(relevance[query.id], row) for query, row in zip(choices.queries, passages, strict=True)
        ]
    return found


def _recall(gains: Mapping[str, int], passages: Sequence[Passage]) -> float | None:
    """Return the share of a question's relevant passages that are among the given ones."""
    relevant = {name for name, gain in gains.items() if gain > 0}
    return len(relevant & {passage.id for passage in passages}) / len(relevant) if relevant else None


def label_table(
    questions: Sequence[Query],
    pools: Sequence[Query],
    labelers: Mapping[str, PassageLabeler],
    judges: RankingReaders,
) -> dict[str, Any]:
    """Return how well each labeler chooses among the candidates; all processes must call this together."""
    choices = choose(pools, labelers, judges.top_k)
    asked = {query.id: query for query in questions}
    choices = choices._replace(queries=[asked[query.id] for query in choices.queries])
    found = measure_choices(choices, {query.id: gold_relevance(query) for query in questions}, judges)
    first = next(iter(labelers))
    measures: dict[str, dict[str, Any]] = {name: {} for name in found}
    leads: dict[str, dict[str, Any]] = {name: {} for name in found if name != first}
    for measure in found[first]:
        rows = np.array([row[measure] for row in found.values()], dtype=float)  # (N, Q), None as NaN
        by_name = dict(zip(found, rows[:, ~np.isnan(rows).any(axis=0)], strict=True))
        for name, values in by_name.items():
            measures[name][measure] = vars(mean_over_questions(values))
            if name != first:
                leads[name][measure] = vars(lead_over_questions(by_name[first], values))
    return {"questions": len(choices.queries), "measures": measures, "leads": leads}


def table_lines(table: Mapping[str, Any]) -> list[str]:
    """Return a Markdown table of what ``label_table`` returned: a row per choice, a column per measure."""
    columns = list(next(iter(table["measures"].values())))
    rows = [[name, *(Statistic(**row[key]) for key in columns)] for name, row in table["measures"].items()]
    return markdown_table(["chosen by", *columns], rows).splitlines()
