"""Retrievers side by side: by relevance, by what their passages do to the reader, and by its answers (SePer)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from seper_reward.data.answers import exact_match
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.list_metrics import list_metric
from seper_reward.evaluate.measuring import Context, measured
from seper_reward.evaluate.rankings import gold_relevance, rank_values
from seper_reward.evaluate.statistics import mean_over_questions, order_correlation, rank_correlation
from seper_reward.reader.sampler import GREEDY
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Query, UnscorableError, Utility

#: Measures of a retriever's lists that are compared with the reader's accuracy.
MEASURES = ("ndcg", "recall", "delta_seper", "delta_seper_list", "harm_rate")


def compare_retrievers(
    scorer: SePerScorer,
    queries: Sequence[Query],
    found: Mapping[str, Sequence[Context]],
    *,
    depths: Sequence[int],
    margin: float = 0.05,
) -> dict[str, Any]:
    """Measure retrievers, and how well each measure tells the reader's accuracy (SePer, Tables 10 and 11).

    The accuracy is exact match of the reader's greedy answer with the k best passages together. ΔSePer comes from
    sampled responses, so that the two share no draw.

    Args:
        scorer: Scorer of the reader.
        queries: Q questions with gold answers. Relevance is by people's marks on their own passages; without a
            relevant one a question counts neither in nDCG nor in recall.
        found: By retriever, the passages of each question, best first.
        depths: Numbers k of passages that count, each >= 1.
        margin: Distance below 0 that the whole 95 % interval of a passage's ΔSePer must have to count as harm.

    Returns:
        ``questions``, and how many are ``left_out`` because they cannot be measured; ``retrievers``, one row for each
        ``retriever`` and ``k``, with ``measures``: ``ndcg`` and ``recall`` at k, ``delta_seper`` (mean over the first
        k passages, each by itself, where a missing one counts 0), ``delta_seper_list`` (all k together), ``harm_rate``
        (share of the first k passages) and ``accuracy``, each with ``mean`` and a 95 % bootstrap ``interval`` over
        questions; and ``kendall``, tau-b over questions of each measure with the accuracy (``value``, ``interval``).
        ``order``: by depth and measure how far it puts the retrievers into the order of their accuracy
        (``order_correlation``). What is not defined is ``None``.

    Raises:
        ValueError: There is no retriever, a depth is below 1, or no question can be measured.
    """
    if not found or not depths or min(depths) < 1:
        raise ValueError(f"expected retrievers and depths of at least 1, got {list(found)} and {list(depths)}")
    shown = [_Shown({name: tuple(lists[number]) for name, lists in found.items()}) for number in range(len(queries))]
    contexts = [[(), *each.alone(max(depths)), *each.together(depths)] for each in shown]
    beliefs = measured(scorer, queries, contexts)
    rows = list(_answered(scorer, queries, shown, beliefs, depths))
    if not rows:
        raise ValueError(f"expected questions that can be measured, got none of {len(queries)}")
    columns = {(name, k): _columns(name, k, rows, margin) for name in found for k in depths}
    return {
        "questions": len(rows),
        "left_out": len(queries) - len(rows),
        "retrievers": [_described(name, k, columns[name, k]) for name, k in columns],
        "order": {str(k): _orders([columns[name, k] for name in found]) for k in depths},
    }


class _Shown(NamedTuple):
    """The lists of a question by retriever."""

    lists: Mapping[str, Context]

    def alone(self, depth: int) -> list[Context]:
        return [(passage,) for passages in self.lists.values() for passage in passages[:depth]]

    def together(self, depths: Sequence[int]) -> list[Context]:
        return list(dict.fromkeys(passages[:k] for passages in self.lists.values() for k in depths))


class _Question(NamedTuple):
    """A question, its lists by retriever, and by context the reader's belief and whether its answer is right."""

    query: Query
    lists: Mapping[str, Context]
    beliefs: Mapping[Context, Belief]
    right: Mapping[Context, float]

    def moved(self, context: Context) -> Utility:
        return utility(self.beliefs[context], self.beliefs[()])


def _answered(
    scorer: SePerScorer,
    queries: Sequence[Query],
    shown: Sequence[_Shown],
    beliefs: Sequence[Mapping[Context, Belief] | None],
    depths: Sequence[int],
) -> Iterator[_Question]:
    """Yield the questions that were measured, with the reader's greedy answers; one without answers is left out."""
    reader = scorer.with_sampling(**GREEDY).reader
    progress = tqdm(queries, desc="answering", unit="question")
    for query, own, row in zip(progress, shown, beliefs, strict=True):
        if row is None:
            continue
        contexts = own.together(depths)
        (found,) = reader.responses([Asked(query.question, (), tuple(contexts))])
        if isinstance(found, UnscorableError):
            tell_left_out(query.id, found)
            continue
        said = [each.texts[0] for each in found]
        right = {context: exact_match(text, query.answers) for context, text in zip(contexts, said, strict=True)}
        yield _Question(query, own.lists, row, right)


def _columns(name: str, k: int, rows: Sequence[_Question], margin: float) -> dict[str, Any]:
    """Return ``(Q,)`` values of each measure and of the accuracy; NaN where a question has no relevant passage."""
    import numpy as np

    lists = [row.lists[name][:k] for row in rows]
    ranked = rank_values(lists, [gold_relevance(row.query) for row in rows], {"ndcg": f"nDCG@{k}", "recall": f"R@{k}"})
    alone = [[row.moved((passage,)).soft for passage in passages] for row, passages in zip(rows, lists, strict=True)]
    return {
        **{each: np.array([np.nan if row is None else row[each] for row in ranked]) for each in ("ndcg", "recall")},
        "delta_seper": np.array(list_metric("p", [[each.value for each in row] for row in alone], k)),
        "delta_seper_list": np.array(
            [row.moved(passages).delta_seper for row, passages in zip(rows, lists, strict=True)]
        ),
        "harm_rate": np.array(list_metric("p", [[float(each.high < -margin) for each in row] for row in alone], k)),
        "accuracy": np.array([row.right[passages] for row, passages in zip(rows, lists, strict=True)]),
    }


def _described(name: str, k: int, columns: Mapping[str, Any]) -> dict[str, Any]:
    import numpy as np

    accuracy = columns["accuracy"]
    known = {measure: ~np.isnan(values) for measure, values in columns.items()}
    return {
        "retriever": name,
        "k": k,
        "measures": {measure: mean_over_questions(values[known[measure]]) for measure, values in columns.items()},
        "kendall": {
            measure: rank_correlation(columns[measure][known[measure]], accuracy[known[measure]])["kendall"]
            for measure in MEASURES
        },
    }


def _orders(columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return by measure how far it puts the retrievers into the order of their accuracy."""
    import numpy as np

    accuracy = np.stack([each["accuracy"] for each in columns])
    found = {}
    for measure in MEASURES:
        values = np.stack([each[measure] for each in columns])
        known = ~np.isnan(values).any(axis=0)
        found[measure] = order_correlation(values[:, known], accuracy[:, known])
    return found
