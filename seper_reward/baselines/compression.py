"""Measure ΔSePer by number of passages, reranker and prompt compression (SePer, arXiv:2503.01478, Figures 4 and 5)."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tqdm.auto import tqdm

from seper_reward.baselines.compressors import Compressor, load_compressor
from seper_reward.baselines.labelled import each_scorable
from seper_reward.baselines.options import CompressionOptions
from seper_reward.command import Record, corpus_flag, questions_and_corpus, reporting
from seper_reward.data.answers import exact_match, expected_metric
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import Context, measured
from seper_reward.options import MARGIN
from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import cell, lead_text, markdown_table, questions_text
from seper_reward.retrieval import Reranker, Retriever, load_reranker, load_retriever
from seper_reward.scorer import SePerScorer, load_scorers
from seper_reward.statistics import Statistic, lead_over_questions, mean, mean_over_questions
from seper_reward.types import Belief, Query, Utility

NONE = "none"


@dataclass(frozen=True)
class VariantResult:
    """ΔSePer of one variant of the reader's context."""

    reranker: str
    compression: str
    k: int  # passages before compression
    delta_seper: Statistic
    lead: Statistic | None  # in ΔSePer over `Variant.without`; None for itself
    exact_match: Statistic  # expected over the samples
    harm_rate: Statistic  # share of questions whose whole interval of ΔSePer is below -MARGIN
    passages: float  # mean number of remaining passages
    tokens: float  # mean number of the reader's tokens in them


@dataclass(frozen=True)
class ReaderResult:
    """One reader's results."""

    questions: int
    left_out: int  # questions that cannot be measured
    baseline_seper: float  # mean without a passage
    variants: list[VariantResult]


@dataclass(frozen=True)
class CompressionResult(Record):
    """Results by reader, and the number of questions."""

    questions: int
    readers: dict[str, ReaderResult]

    def table(self) -> str:
        """Return ΔSePer by depth, reranker and compression as Markdown, one table per reader."""
        header = ["k", "reranker", "compression", "ΔSePer", "gain of the compression, else of the reranker"]
        header += ["exact match", "harm rate", "passages", "tokens"]
        parts = []
        for name, result in self.readers.items():
            rows = [
                [
                    variant.k,
                    variant.reranker,
                    variant.compression,
                    variant.delta_seper,
                    lead_text(variant.lead),
                    cell(variant.exact_match.value),
                    cell(variant.harm_rate.value),
                    f"{variant.passages:.1f}",
                    f"{variant.tokens:.0f}",
                ]
                for variant in sorted(result.variants, key=lambda variant: variant.k)
            ]
            counts = questions_text(result.questions, result.left_out)
            parts.append(f"Reader {name}: {counts}, SePer without a passage {result.baseline_seper:.3f}")
            parts.append(markdown_table(header, rows))
        return "\n\n".join(parts)

    def plot(self, path: Path) -> None:
        """Plot ΔSePer over the number of passages, one line per reranker and compression, one panel per reader."""
        figure = new_figure(4.5 * len(self.readers) + 2.5, 4)
        panels = figure.subplots(1, len(self.readers), sharey=True, squeeze=False)[0]
        for axes, (name, result) in zip(panels, self.readers.items(), strict=True):
            lines: dict[str, list[VariantResult]] = {}
            for variant in result.variants:
                added = [method for method in (variant.reranker, variant.compression) if method != NONE]
                lines.setdefault(" + ".join(added) or "as retrieved", []).append(variant)
            for number, (label, points) in enumerate(lines.items()):
                depths, means = [point.k for point in points], [point.delta_seper.value for point in points]
                (line,) = axes.plot(depths, means, "-o" if number == 0 else "--o", markersize=4, label=label)
                for point in points:
                    if point.delta_seper.interval:
                        axes.vlines(point.k, *point.delta_seper.interval, color=line.get_color(), alpha=0.3)
            axes.axhline(0, color="#d5d8dc", zorder=0)
            axes.set_xticks(sorted({variant.k for variant in result.variants}))
            axes.set_xlabel("passages before compression")
            axes.set_title(f"reader {name}", fontsize=10)
        panels[0].set_ylabel("mean ΔSePer (bars: 95 % over questions)")
        legend_beside(panels[-1])
        save_figure(figure, path)


class Variant(NamedTuple):
    """A variant of the reader's context: the ``k`` best passages by a reranker, then compressed."""

    reranker: str
    compression: str
    k: int

    @property
    def without(self) -> "Variant":
        """This variant without its last step: without compression or, if it has none, without reranking."""
        return self._replace(compression=NONE) if self.compression != NONE else self._replace(reranker=NONE)


class _Question(NamedTuple):
    """A question, the reader's context by variant, and its beliefs by context."""

    query: Query
    shown: Mapping[Variant, Context]
    beliefs: Mapping[Context, Belief]

    def moved(self, variant: Variant) -> Utility:
        return utility(self.beliefs[self.shown[variant]], self.beliefs[()])


def measure_variants(
    scorers: Mapping[str, SePerScorer],
    queries: Sequence[Query],
    retriever: Retriever,
    rerankers: Mapping[str, Reranker],
    compressions: Sequence[str],
    *,
    depths: Sequence[int],
    candidates: int = 20,
) -> CompressionResult:
    """Measure ΔSePer of the reader's context by depth, reranker and compression, and of the retriever's order.

    ``scorers`` and ``rerankers`` are by name; ``depths`` are in [1, ``candidates``], the number of passages to
    retrieve and rerank. A compression keeps half of the tokens. Raises ``ValueError`` if a reader can measure no
    question.
    """
    compressors = {
        name: {kind: load_compressor(kind, scorer.reader) for kind in compressions if kind != NONE}
        for name, scorer in scorers.items()
    }
    questions = [query.question for query in queries]
    contexts = dict(zip(questions, retriever.retrieve(questions, candidates), strict=True))
    orders: dict[str, dict[str, Context]] = {NONE: contexts}  # by reranker and question
    for name, reranker in rerankers.items():
        bar = tqdm(contexts.items(), desc=f"reranking by {name}", unit="question")
        orders[name] = {question: reranker.rerank(question, passages) for question, passages in bar}
    kinds = dict.fromkeys([NONE, *compressions])
    variants = list(itertools.starmap(Variant, itertools.product(orders, kinds, dict.fromkeys(depths))))
    readers = {
        name: _reader_result(name, scorer, queries, orders, variants, compressors[name])
        for name, scorer in scorers.items()
    }
    return CompressionResult(len(queries), readers)


def _reader_result(
    name: str,
    scorer: SePerScorer,
    queries: Sequence[Query],
    orders: Mapping[str, Mapping[str, Context]],
    variants: Sequence[Variant],
    compressors: Mapping[str, Compressor],
) -> ReaderResult:
    def context(variant: Variant, question: str) -> Context:
        passages = orders[variant.reranker][question][: variant.k]
        if variant.compression == NONE:
            return passages
        return compressors[variant.compression].compress(question, passages)

    shown = each_scorable(
        queries,
        lambda query: {variant: context(variant, query.question) for variant in variants},
        title=f"compressing for {name}",
    )
    contexts = [[(), *by_variant.values()] for _, by_variant in shown]
    beliefs = measured(scorer, [query for query, _ in shown], contexts, title=f"measuring {name}")
    questions = [
        _Question(*pair, by_context) for pair, by_context in zip(shown, beliefs, strict=True) if by_context is not None
    ]
    if not questions:
        raise ValueError(f"expected questions that reader {name!r} can measure, got none of {len(queries)}")
    return ReaderResult(
        len(questions),
        len(queries) - len(questions),
        mean([question.beliefs[()].seper for question in questions]),
        [_variant_result(variant, questions, scorer) for variant in variants],
    )


def _variant_result(variant: Variant, questions: Sequence[_Question], scorer: SePerScorer) -> VariantResult:
    moved = [question.moved(variant) for question in questions]
    deltas = [effect.delta_seper for effect in moved]
    without = [question.moved(variant.without).delta_seper for question in questions]
    matches = [
        expected_metric(effect.belief, question.query.answers, exact_match)
        for question, effect in zip(questions, moved, strict=True)
    ]
    return VariantResult(
        *variant,
        mean_over_questions(deltas),
        None if variant == variant.without else lead_over_questions(deltas, without),
        mean_over_questions(matches),
        mean_over_questions([effect.soft.high < -MARGIN for effect in moved]),
        mean([len(question.shown[variant]) for question in questions]),
        mean([_tokens(scorer, question.shown[variant]) for question in questions]),
    )


def _tokens(scorer: SePerScorer, passages: Context) -> int:
    texts = [passage.full_text for passage in passages]
    return sum(map(len, scorer.sampler.tokenizer(texts, add_special_tokens=False).input_ids)) if texts else 0


def command(config: CompressionOptions) -> str:
    """Run ``seper-reward baseline compression``."""
    with reporting("baseline compression", config) as report:
        queries, corpus = questions_and_corpus(config)
        result = measure_variants(
            load_scorers(config, config.readers),
            queries,
            load_retriever(config.retriever, corpus),
            {name: load_reranker(name) for name in config.rerankers if name != NONE},
            config.compressions,
            depths=config.depths,
            candidates=config.candidates,
        )
        report(result)
    return f"seper-reward baseline workflows --file {config.file}{corpus_flag(config.corpus)}"
