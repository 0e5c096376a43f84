"""Compare retrievers by relevance, by ΔSePer and by the reader's answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seper_reward.batching import measure_shared
from seper_reward.command import Record, corpus_flag, questions_and_corpus, reporting
from seper_reward.data.answers import exact_match
from seper_reward.data.marks import NO_MARKS
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import Context, measured
from seper_reward.evaluate.rankings import gold_relevance, rank_values
from seper_reward.options import MARGIN, RetrieversOptions
from seper_reward.reader.sampler import GREEDY
from seper_reward.reports.tables import markdown_table, questions_text
from seper_reward.retrieval import load_retriever
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer, load_scorers
from seper_reward.statistics import Statistic, mean_over_questions, order_correlation, rank_correlation
from seper_reward.types import Asked, Belief, Query, UnscorableError, Utility

_NAME = "evaluate retrievers"
#: Measures of retrieved lists, to be compared with the reader's accuracy.
MEASURES = ("ndcg", "recall", "delta_seper", "delta_seper_list", "harm_rate")
_TITLES = {
    "ndcg": "nDCG",
    "recall": "recall",
    "seper": "SePer with the list",
    "delta_seper": "ΔSePer of a passage",
    "delta_seper_list": "ΔSePer of the list",
    "harm_rate": "harm rate",
    "accuracy": "accuracy",
}


@dataclass(frozen=True)
class RetrieverRow:
    """Measures of the first k passages of one retriever."""

    retriever: str
    k: int
    # means over questions: `ndcg` and `recall` at k, `seper` with all k together, `delta_seper` (mean over the first
    # k, each alone; a missing passage counts 0), `delta_seper_list` (all k together), `harm_rate` (share of the first
    # k) and `accuracy`
    measures: Mapping[str, Statistic]
    kendall: Mapping[str, Statistic]  # by measure tau-b with the accuracy over questions


@dataclass(frozen=True)
class Retrievers:
    """Results of several retrievers with one reader; undefined numbers are ``None``."""

    questions: int
    left_out: int  # questions that cannot be measured
    no_passage: Mapping[str, Statistic]  # `seper` and `accuracy` without a passage, as `measures` of a row
    retrievers: Sequence[RetrieverRow]  # for each retriever and number of passages
    # by depth and measure the correlation of the retrievers' order with their order by accuracy
    order: Mapping[str, Mapping[str, Statistic]]

    def table(self) -> str:
        """Return the measures, and their correlation with the reader's accuracy, as Markdown."""
        measures, judged = list(self.retrievers[0].measures), list(self.retrievers[0].kendall)
        known = [("no passage", "0", self.no_passage)]
        known += [(result.retriever, str(result.k), result.measures) for result in self.retrievers]
        values = [[name, k, *(by_measure.get(measure, "") for measure in measures)] for name, k, by_measure in known]
        correlated = [(result.retriever, str(result.k), result.kendall) for result in self.retrievers]
        correlated += [("order of all retrievers", k, by_measure) for k, by_measure in self.order.items()]
        taus = [[name, k, *(by_measure[measure] for measure in judged)] for name, k, by_measure in correlated]
        return "\n\n".join(
            [
                questions_text(self.questions, self.left_out),
                markdown_table(["retriever", "k", *(_TITLES[measure] for measure in measures)], values),
                *([NO_MARKS] if self.retrievers[0].measures["ndcg"].value is None else []),
                "Kendall's tau with the reader's accuracy, over questions",
                markdown_table(["retriever", "k", *(_TITLES[measure] for measure in judged)], taus),
            ]
        )


@dataclass(frozen=True)
class RetrieversByReader(Record):
    """Results of several retrievers, by the name of the reader."""

    readers: Mapping[str, Retrievers]

    def table(self) -> str:
        """Return the tables of all readers."""
        parts = [f"Reader {name}: {retrievers.table()}" for name, retrievers in self.readers.items()]
        return "\n\n".join(parts)


def command(config: RetrieversOptions) -> str:
    """Run ``seper-reward evaluate retrievers``."""
    with reporting(_NAME, config) as report:
        queries, corpus = questions_and_corpus(config)
        questions, most = [query.question for query in queries], max(config.depths)
        retrieved = {name: load_retriever(name, corpus).retrieve(questions, most) for name in config.retrievers}
        scorers = load_scorers(config, config.readers)
        depths, least = config.depths, config.relevant_from
        compared = {
            name: compare_retrievers(scorer, queries, retrieved, depths=depths, relevant_from=least)
            for name, scorer in scorers.items()
        }
        report(RetrieversByReader(compared))
    return f"seper-reward train retriever --input {config.file}{corpus_flag(config.corpus)}"


def compare_retrievers(
    scorer: SePerScorer,
    queries: Sequence[Query],
    retrieved: Mapping[str, Sequence[Context]],
    *,
    depths: Sequence[int],
    relevant_from: int = 1,
) -> Retrievers:
    """Measure retrievers, and correlate each measure with the reader's accuracy (SePer, Tables 10 and 11).

    The accuracy is exact match of the reader's greedy answer with the k best passages together, which shares no
    samples with ΔSePer. ``retrieved`` has the passages of each question, best first, by retriever, ``depths`` the
    numbers k >= 1. Questions without a passage of at least grade ``relevant_from`` do not count in nDCG and recall.
    Raises ``ValueError`` if there is no retriever, or no question can be measured.
    """
    if not retrieved or not depths or min(depths) < 1:
        raise ValueError(f"expected retrievers and depths of at least 1, got {list(retrieved)} and {list(depths)}")
    shown = [{name: tuple(lists[number]) for name, lists in retrieved.items()} for number in range(len(queries))]
    together = [[(), *(passages[:k] for passages in ranked.values() for k in depths)] for ranked in shown]
    alone = [[(passage,) for passages in ranked.values() for passage in passages[: max(depths)]] for ranked in shown]
    beliefs = measured(scorer, queries, [[(), *one, *several] for one, several in zip(alone, together, strict=True)])
    questions = list(_answer_questions(scorer, queries, shown, together, beliefs))
    if not questions:
        raise ValueError(f"expected questions that can be measured, got none of {len(queries)}")
    columns = {(name, k): _columns(name, k, questions, relevant_from) for name in retrieved for k in depths}
    return Retrievers(
        questions=len(questions),
        left_out=len(queries) - len(questions),
        no_passage={
            "seper": mean_over_questions([question.beliefs[()].seper for question in questions]),
            "accuracy": mean_over_questions([question.right[()] for question in questions]),
        },
        retrievers=[_retriever_row(name, k, columns[name, k]) for name, k in columns],
        order={str(k): _orders([columns[name, k] for name in retrieved]) for k in depths},
    )


class _Question(NamedTuple):
    """A question, its lists by retriever, and by context the reader's belief and whether its answer is right."""

    query: Query
    lists: Mapping[str, Context]
    beliefs: Mapping[Context, Belief]
    right: Mapping[Context, float]

    def moved(self, context: Context) -> Utility:
        return utility(self.beliefs[context], self.beliefs[()])


def _answer_questions(
    scorer: SePerScorer,
    queries: Sequence[Query],
    shown: Sequence[Mapping[str, Context]],
    together: Sequence[Sequence[Context]],
    beliefs: Sequence[Mapping[Context, Belief] | None],
) -> Iterator[_Question]:
    """Yield the measured questions with the reader's greedy answers; questions without answers are left out."""
    candidates = zip(queries, shown, together, beliefs, strict=True)
    valid = [
        (query, ranked, list(dict.fromkeys(lists)), by_context)
        for query, ranked, lists, by_context in candidates
        if by_context is not None
    ]
    requests = [Asked(query.question, (), tuple(lists)) for query, _, lists, _ in valid]
    answered = measure_shared(requests, scorer.with_sampling(**GREEDY).reader.responses, "answering")
    for (query, ranked, lists, by_context), responses in zip(valid, answered, strict=True):
        if isinstance(responses, UnscorableError):
            tell_left_out(query.id, responses)
            continue
        texts = [response.texts[0] for response in responses]
        right = {context: exact_match(text, query.answers) for context, text in zip(lists, texts, strict=True)}
        yield _Question(query, ranked, by_context, right)


def _columns(name: str, k: int, questions: Sequence[_Question], relevant_from: int) -> dict[str, object]:
    """Return ``(Q,)`` values of each measure and of the accuracy; NaN for questions without a relevant passage."""
    lists = [question.lists[name][:k] for question in questions]
    gains = [gold_relevance(question.query) for question in questions]
    ranked = rank_values(lists, gains, {"ndcg": f"nDCG@{k}", "recall": f"R@{k}"}, relevant_from)
    shown = list(zip(questions, lists, strict=True))
    alone = [[question.moved((passage,)).soft for passage in passages] for question, passages in shown]
    return {
        **{
            key: np.array([np.nan if values is None else values[key] for values in ranked])
            for key in ("ndcg", "recall")
        },
        "seper": np.array([question.beliefs[passages].seper for question, passages in shown]),
        "delta_seper": np.array([sum(gain.value for gain in deltas) / k for deltas in alone]),
        "delta_seper_list": np.array([question.moved(passages).delta_seper for question, passages in shown]),
        "harm_rate": np.array([sum(gain.high < -MARGIN for gain in deltas) / k for deltas in alone]),
        "accuracy": np.array([question.right[passages] for question, passages in shown]),
    }


def _retriever_row(name: str, k: int, columns: Mapping[str, Any]) -> RetrieverRow:
    accuracy = columns["accuracy"]
    known = {measure: ~np.isnan(values) for measure, values in columns.items()}
    return RetrieverRow(
        retriever=name,
        k=k,
        measures={measure: mean_over_questions(values[known[measure]]) for measure, values in columns.items()},
        kendall={
            measure: rank_correlation(columns[measure][known[measure]], accuracy[known[measure]])["kendall"]
            for measure in MEASURES
        },
    )


def _orders(columns: Sequence[Mapping[str, object]]) -> dict[str, Statistic]:
    """Return by measure the correlation of the retrievers' order with their order by accuracy."""
    accuracy = np.stack([column["accuracy"] for column in columns])
    orders = {}
    for measure in MEASURES:
        values = np.stack([column[measure] for column in columns])
        known = ~np.isnan(values).any(axis=0)
        orders[measure] = order_correlation(values[:, known], accuracy[:, known])
    return orders
