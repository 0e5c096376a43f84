"""Correlate list metrics by labels of single passages to the reader's score on the list (eRAG, arXiv:2404.13781)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seper_reward.baselines.labelled import Costs, Labelled, costs_per, costs_table, label_all
from seper_reward.baselines.list_metrics import LIST_METRICS, ListMetric, list_metric
from seper_reward.baselines.options import ERAGEvaluationOptions
from seper_reward.command import Record, corpus_flag, questions_and_corpus, reporting
from seper_reward.data.marks import relevance_of
from seper_reward.data.rows import BadRowError
from seper_reward.labels.labelers import ERAGLabeler, ERAGOptions, GoldLabeler, load_labeler, parse_labeler
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.reports.figures import plot_intervals
from seper_reward.reports.tables import text_table
from seper_reward.retrieval import Retriever, load_retriever
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import Statistic, mean_or_none, mean_over_questions, rank_correlation
from seper_reward.types import Asked, LabeledQuery, Query, UnscorableError

Correlations = dict[str, dict[str, dict[str, dict[str, Statistic]]]]  # by labeler, depth, metric and coefficient


@dataclass(frozen=True)
class LabelerResult:
    """One labeler's labels of a retriever's passages."""

    questions: int  # with labels
    left_out: list[str]  # one reason for each of the remaining questions
    label: float | None  # mean label; None without labels
    per_label: Costs


@dataclass(frozen=True)
class RetrieverResult:
    """Correlation of metrics of a retriever's lists with the reader."""

    end_to_end: dict[str, Statistic]  # the reader's mean score by depth; "0" means without a passage
    labels: dict[str, LabelerResult]  # by labeler
    correlation: dict[str, Correlations]  # with "score" and "gain", over questions with labels and a score


@dataclass(frozen=True)
class ERAGResult(Record):
    """Correlation of metrics of lists with the reader, by retriever."""

    metric: str  # the reader's score
    questions: int
    retrievers: dict[str, RetrieverResult]

    def table(self) -> str:
        """Return the correlations of labelers' metrics with the reader's score and gain, by retriever and depth."""
        parts = []
        for retriever, result in self.retrievers.items():
            ends = dict(result.end_to_end)
            parts.append(f"{retriever}, no passage: {self.metric} {ends.pop('0')}")
            for depth, score in ends.items():
                parts.append(f"{retriever}, {depth} passages: {self.metric} {score}")
                parts[-1] += "".join(
                    f"\n{_rank_table(f'{title} with the {target}', coefficient, by_labeler, depth, result.labels)}"
                    for target, by_labeler in result.correlation.items()
                    for coefficient, title in (("kendall", "Kendall tau"), ("spearman", "Spearman rho"))
                )
            parts.append(
                costs_table({name: labels.per_label for name, labels in result.labels.items()}, "a label costs")
            )
        return "\n\n".join(parts)

    def plot(self, path: Path) -> None:
        """Plot the rank correlation of precision by each labeler with the reader, by retriever and depth."""
        panels = {"Kendall's τ with the reader's score": "score", "Kendall's τ with its gain": "gain"}
        series: dict[str, dict[str, dict[str, Statistic]]] = {title: {} for title in panels}
        for title, target in panels.items():
            for retriever, result in self.retrievers.items():
                for labeler, by_depth in result.correlation[target].items():
                    for depth, by_metric in by_depth.items():
                        by_labeler = series[title].setdefault(f"P@{depth}, {retriever}", {})
                        by_labeler[labeler] = by_metric["p"]["kendall"]
        plot_intervals(series, path)


def erag(
    queries: Sequence[Query],
    retrievers: Mapping[str, Retriever],
    labelers: Mapping[str, PassageLabeler],
    answering: ERAGLabeler,
    *,
    depths: Sequence[int],
    margin: float = 0.05,
) -> ERAGResult:
    """Correlate retrieval metrics by labels of single passages with the reader's score on the whole list.

    The best passages of each retriever are labelled one by one. Metrics at depth k of these labels are compared over
    questions with the reader's ``score`` when it sees the k best passages together, and with its ``gain``, the score
    less the score without a passage. Marks of passages are copied to retrieved ones of the same id. ``answering``
    gives the score of a list; its seed must differ from that of the labelers, which would share their noise with it.
    Labels above ``margin`` are relevant for MAP and MRR; recall and nDCG replace labels below 0 by 0.
    """
    if any(isinstance(labeler, GoldLabeler) for labeler in labelers.values()):
        for query in queries:
            try:
                relevance_of(query)  # without marks, all labels of the question would be 0
            except BadRowError as error:
                raise BadRowError(f"{error}; or leave gold out of the labelers") from error
    results = {
        name: _measure_lists(retrieved(queries, retriever, max(depths)), labelers, answering, depths, margin)
        for name, retriever in retrievers.items()
    }
    return ERAGResult(answering.name.removeprefix("erag_"), len(queries), results)


def retrieved(queries: Sequence[Query], retriever: Retriever, top_k: int) -> list[Query]:
    """Return the queries with the retrieved passages as their passages, with metadata from the original ones."""
    with_passages = []
    for query, passages in zip(queries, retriever.retrieve([query.question for query in queries], top_k), strict=True):
        metadata = {passage.id: passage.metadata for passage in query.passages}
        marked = [replace(passage, metadata=metadata.get(passage.id, passage.metadata)) for passage in passages]
        with_passages.append(replace(query, passages=tuple(marked)))
    return with_passages


def _measure_lists(
    queries: Sequence[Query],
    labelers: Mapping[str, PassageLabeler],
    answering: ERAGLabeler,
    depths: Sequence[int],
    margin: float,
) -> RetrieverResult:
    scores = end_to_end(queries, answering, [0, *depths])
    labelled = {name: label_all(labeler, queries) for name, labeler in labelers.items()}
    targets = {"score": scores, "gain": [end and {k: end[k] - end[0] for k in end} for end in scores]}
    return RetrieverResult(
        {str(depth): mean_over_questions([end[depth] for end in scores if end]) for depth in (0, *depths)},
        {name: _labeler_result(labels) for name, labels in labelled.items()},
        {
            target: {
                name: {str(depth): _correlations(labels, ends, depth, margin) for depth in depths}
                for name, labels in labelled.items()
            }
            for target, ends in targets.items()
        },
    )


def end_to_end(
    queries: Sequence[Query], answering: ERAGLabeler, depths: Sequence[int]
) -> list[dict[int, float] | None]:
    """Return per question the reader's score by the number of first passages shown together; ``None`` if too long."""
    requests = [
        Asked(query.question, query.answers, tuple(query.passages[:depth] for depth in depths)) for query in queries
    ]
    return [
        None
        if isinstance(readings, UnscorableError)
        else {depth: reading.mean.value for depth, reading in zip(depths, readings, strict=True)}
        for readings in answering.read(requests, answering.scorer.batch_size)
    ]


def answering_labeler(scorer: SePerScorer, labelers: Sequence[str], seed: int) -> ERAGLabeler:
    """Return the labeler that scores whole lists as the first of erag in ``labelers``, also without a passage."""
    erag = next((named for named in map(parse_labeler, labelers) if named.labeler == "erag"), parse_labeler("erag"))
    greedy = ERAGOptions.preset(erag.options["preset"]).greedy
    return ERAGLabeler(scorer.with_sampling(seed=seed), erag.kind, ERAGOptions(greedy=greedy))


def _correlations(
    labelled: Labelled, ends: Sequence[Mapping[int, float] | None], depth: int, margin: float
) -> dict[str, dict[str, Statistic]]:
    both = [
        (labeled.labels, end[depth])
        for labeled, end in zip(labelled.results, ends, strict=True)
        if isinstance(labeled, LabeledQuery) and end
    ]
    lists, targets = [labels for labels, _ in both], [target for _, target in both]
    return {
        name: rank_correlation(list_metric(name, [_gains(name, labels, margin) for labels in lists], depth), targets)
        for name in LIST_METRICS
    }


def _gains(metric: ListMetric, labels: Sequence[float], margin: float) -> Sequence[float]:
    """Return labels in the range that a metric accepts."""
    if metric in ("map", "mrr"):
        return [float(label > margin) for label in labels]
    return [max(label, 0.0) for label in labels] if metric in ("recall", "ndcg") else labels


def _labeler_result(labelled: Labelled) -> LabelerResult:
    labels = [label for labeled in labelled.labeled for label in labeled.labels]
    costs = costs_per(labelled.costs, len(labels))
    return LabelerResult(len(labelled.labeled), labelled.reasons, mean_or_none(labels), costs)


def _rank_table(
    title: str, coefficient: str, by_labeler: Correlations, depth: str, labels: Mapping[str, LabelerResult]
) -> str:
    rows = [
        [name, labels[name].questions, *(by_coefficient[coefficient] for by_coefficient in by_depth[depth].values())]
        for name, by_depth in by_labeler.items()
    ]
    return text_table([title, "questions", *(LIST_METRICS if rows else ())], rows)


def command(config: ERAGEvaluationOptions) -> str:
    """Run ``seper-reward baseline erag``."""
    with reporting("baseline erag", config) as report:
        list(map(parse_labeler, config.labelers))  # raises before a model is loaded
        queries, corpus = questions_and_corpus(config)
        scorer = SePerScorer.from_pretrained(config)
        result = erag(
            queries,
            {name: load_retriever(name, corpus) for name in config.retrievers},
            {name: load_labeler(name, lambda: scorer) for name in config.labelers},
            # another seed: otherwise labels and answers would share their noise
            answering_labeler(scorer, config.labelers, config.seed + 1),
            depths=config.depths,
            margin=config.margin,
        )
        report(result)
    source = f"{config.file}{corpus_flag(config.corpus)}"
    return f"seper-reward train retriever --input {source} --labeler {config.labelers[0]}"
