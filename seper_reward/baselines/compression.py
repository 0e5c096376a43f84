"""Measure ΔSePer by number of passages, reranker and prompt compression (SePer, arXiv:2503.01478, Figures 4 and 5)."""

import itertools
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from tqdm.auto import tqdm

from seper_reward.command import Record, corpus_flag, questions_and_corpus, reporting
from seper_reward.data.answers import exact_match, expected_metric
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import Context, each_scorable, measured
from seper_reward.options import MARGIN, CompressionOptions
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import cell, lead_text, markdown_table, questions_text
from seper_reward.retrieval import Reranker, Retriever, load_reranker, load_retriever
from seper_reward.runtime.cache import answers_through
from seper_reward.runtime.token_ids import token_ids
from seper_reward.scorer import SePerScorer, load_scorers
from seper_reward.statistics import Statistic, lead_over_questions, mean, mean_over_questions
from seper_reward.types import Belief, Passage, Query, Utility, unwrap

# between sentences, as in the official code of Selective Context, but also after exclamation marks, not after initials
_SENTENCE_END = re.compile(r"(?<!\w\.\w.)(?<![A-Z][a-z]\.)(?<!\b[A-Z]\.)(?<=[.?!])\s+")
_BATCH_SIZE = 16  # texts per batch: each token keeps the logits of the whole vocabulary
# LongLLMLingua's text after the question (arXiv:2310.06839, section 4.1)
_SUFFIX = "We can get the answer to this question in the given documents."


class Compressor(Protocol):
    """Shortens the passages in a reader's context."""

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages with ids, titles and metadata, in the order for the reader."""


def above_percentile(scores: Sequence[float], keep: float) -> list[int]:
    """Return the positions of the share ``keep`` with the highest self-information, with ties (arXiv:2310.06201)."""
    if not scores:
        return []
    threshold = float(np.percentile(scores, 100 * (1 - keep)))
    return [place for place, score in enumerate(scores) if score >= threshold]


def within_budget(scores: Sequence[float], lengths: Sequence[int], keep: float) -> list[int]:
    """Return the positions of the units that LongLLMLingua's coarse step keeps (arXiv:2310.06839, 4.1), best first.

    The budget is the share ``keep`` of all tokens. As in the official code, the unit that exhausts it is kept whole,
    so at least one is kept.
    """
    # rounding: 0.55 * 20 is slightly above 11
    budget = math.ceil(keep * sum(lengths) - 1e-9)
    places: list[int] = []
    for place in sorted(range(len(scores)), key=lambda at: -scores[at]):
        if sum(lengths[at] for at in places) >= budget:
            break
        places.append(place)
    return places


def span_means(
    spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]], values: Sequence[float]
) -> list[float]:
    """Return for each span of a text the mean value of the tokens that overlap it; 0 without such tokens.

    The paper on Selective Context sums the self-information of a unit's tokens; the official code and this function
    take the mean, which does not favour long units. Spans and token offsets are starts and (exclusive) ends.
    """
    tokens = list(zip(offsets, values, strict=True))
    inside = [[value for (low, high), value in tokens if low < end and high > start] for start, end in spans]
    return [statistics.fmean(span_values) if span_values else 0.0 for span_values in inside]


class SelectiveContext:
    """Drops words of low self-information (arXiv:2310.06201), and keeps the share ``keep``, in (0, 1].

    It is measured sentence by sentence, each as the start of a text, as in the official code, whose phrases would need
    a parser. Raises ``ValueError`` if the tokenizer returns no offsets of words.
    """

    def __init__(self, reader: PromptedReader, keep: float = 0.5) -> None:
        _check_keep(keep)
        if not reader.sampler.tokenizer.is_fast:
            raise ValueError("this compression drops words, which needs a fast tokenizer; use longllmlingua")
        self._reader, self._keep = reader, keep

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages in order."""
        question, *texts = map(self._reader.prompts.as_data, [question, *(passage.text for passage in passages)])
        scored = [self._words(question, text) for text in texts]
        word_places = set(above_percentile([score for row in scored for _, score in row], self._keep))
        left: list[Passage] = []
        place = 0
        for passage, row in zip(passages, scored, strict=True):
            words = [text for at, (text, _) in enumerate(row, place) if at in word_places]
            place += len(row)
            if words:
                left.append(replace(passage, text=" ".join(words)))
        return tuple(left)

    def _words(self, question: str, text: str) -> list[tuple[str, float]]:
        """Return the words of a text with the means of their tokens' scores."""
        tokenizer, sentences = self._reader.sampler.tokenizer, split_sentences(text)
        word_scores: list[tuple[str, float]] = []
        for sentence, row in zip(sentences, self._scores(question, sentences), strict=True):
            words = list(re.finditer(r"\S+", sentence))
            offsets = tokenizer(sentence, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
            scores = span_means([word.span() for word in words], offsets, row)
            word_scores += zip([word[0] for word in words], scores, strict=True)
        return word_scores

    def _scores(self, question: str, sentences: Sequence[str]) -> list[list[float]]:
        """Return the self-information of each token of sentences; the question is not used."""
        tokenizer = self._reader.sampler.tokenizer
        start = tokenizer.bos_token or tokenizer.eos_token or "\n"  # context of the first token
        log_probs = token_log_probs(self._reader, [start] * len(sentences), sentences)
        return [[-value for value in row] for row in log_probs]


class ContrastivePerplexity(SelectiveContext):
    """Drops words that the question makes no likelier, the fine step of LongLLMLingua (arXiv:2310.06839, eq. 3).

    A token's score is its log-probability after the question and the sentence so far, less that without the question.
    The paper drops tokens instead of words, fewer of passages with a high rank, after its coarse step, and restores
    dropped parts of the answer.
    """

    def _scores(self, question: str, sentences: Sequence[str]) -> list[list[float]]:
        informed = token_log_probs(self._reader, [f"{question}\n"] * len(sentences), sentences)
        alone = super()._scores(question, sentences)
        return [[one + other for one, other in zip(*rows, strict=True)] for rows in zip(informed, alone, strict=True)]


class LongLLMLingua:
    """Keeps the passages from which the reader best guesses the question (arXiv:2310.06839), a share of their tokens.

    This is the coarse, question-aware step; ``ContrastivePerplexity`` is the fine one. A passage's score is the mean
    log-probability, after it, of the question and of a sentence that the documents answer it.
    """

    def __init__(self, reader: PromptedReader, keep: float = 0.5) -> None:
        _check_keep(keep)
        self._reader, self._keep = reader, keep

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages, the best one first."""
        reader, tokenizer = self._reader, self._reader.sampler.tokenizer
        suffix = f" {reader.prompts.as_data(question)} {_SUFFIX}"
        room = reader.sampler.max_prompt_tokens - len(token_ids(tokenizer, suffix))
        texts = [reader.prompts.fit([passage], lambda shown: shown[0], room).text for passage in passages]
        scores = [statistics.fmean(row) for row in token_log_probs(reader, texts, [suffix] * len(texts))]
        lengths = [len(token_ids(tokenizer, text)) for text in texts]
        return tuple(passages[place] for place in within_budget(scores, lengths, self._keep))


#: Compressors by name, from a reader and a share to keep.
COMPRESSORS: Mapping[str, Callable[[PromptedReader, float], Compressor]] = {
    "selective_context": SelectiveContext,
    "longllmlingua": LongLLMLingua,
    "contrastive_perplexity": ContrastivePerplexity,
}


def load_compressor(name: str, reader: PromptedReader, keep: float = 0.5) -> Compressor:
    """Return a compressor by its name in ``COMPRESSORS``, for a reader and a share to keep, in (0, 1]."""
    if name not in COMPRESSORS:
        raise ValueError(f"compressions must be none or of {', '.join(COMPRESSORS)}, got {name!r}")
    return COMPRESSORS[name](reader, keep)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the white space between them.

    >>> split_sentences("The mill of J. Voss burned. Who lit it?")
    ['The mill of J. Voss burned.', 'Who lit it?']
    """
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]


def _check_keep(keep: float) -> None:
    if not 0 < keep <= 1:
        raise ValueError(f"keep must be in (0, 1], got {keep}")


def token_log_probs(reader: PromptedReader, prompts: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
    """Return the natural-log probability of each token of texts after prompts, without a template."""
    pairs = list(zip(prompts, texts, strict=True))

    def compute(missing: list[int]) -> list[list[float]]:
        rows: list[list[float]] = []
        for start in range(0, len(missing), _BATCH_SIZE):
            batch, chunk = zip(*(pairs[at] for at in missing[start : start + _BATCH_SIZE]), strict=True)
            longest = max(map(len, reader.sampler.tokenizer(list(chunk), add_special_tokens=False).input_ids))
            sampler = reader.sampler.with_options(replace(reader.sampler.options, max_new_tokens=max(longest, 1)))
            log_probs = [unwrap(row).tolist() for row in sampler.log_probs(batch, chunk)]
            rows += log_probs
        return rows

    return answers_through(reader.cache, "token log-probs", reader.sampler, pairs, compute)


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
                    row.k,
                    row.reranker,
                    row.compression,
                    row.delta_seper,
                    lead_text(row.lead),
                    cell(row.exact_match.value),
                    cell(row.harm_rate.value),
                    f"{row.passages:.1f}",
                    f"{row.tokens:.0f}",
                ]
                for row in sorted(result.variants, key=lambda row: row.k)
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
            for row in result.variants:
                added = [method for method in (row.reranker, row.compression) if method != NONE]
                lines.setdefault(" + ".join(added) or "as retrieved", []).append(row)
            for number, (label, rows) in enumerate(lines.items()):
                depths, means = [row.k for row in rows], [row.delta_seper.value for row in rows]
                (line,) = axes.plot(depths, means, "-o" if number == 0 else "--o", markersize=4, label=label)
                for row in rows:
                    if row.delta_seper.interval:
                        axes.vlines(row.k, *row.delta_seper.interval, color=line.get_color(), alpha=0.3)
            axes.axhline(0, color="#d5d8dc", zorder=0)
            axes.set_xticks(sorted({row.k for row in result.variants}))
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


class _Row(NamedTuple):
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
    keep: float = 0.5,
) -> CompressionResult:
    """Measure ΔSePer of the reader's context by depth, reranker and compression, and of the retriever's order.

    ``scorers`` and ``rerankers`` are by name; ``depths`` are in [1, ``candidates``], the number of passages to
    retrieve and rerank, and ``keep`` is the share that a compression keeps. Raises ``ValueError`` if a reader can
    measure no question.
    """
    compressors = {
        name: {kind: load_compressor(kind, scorer.reader, keep) for kind in compressions if kind != NONE}
        for name, scorer in scorers.items()
    }
    questions = [query.question for query in queries]
    contexts = dict(zip(questions, retriever.retrieve(questions, candidates), strict=True))
    orders: dict[str, dict[str, Context]] = {NONE: contexts}  # by reranker and question
    for name, reranker in rerankers.items():
        bar = tqdm(contexts.items(), desc=f"reranking by {name}", unit="question")
        orders[name] = {question: reranker.rerank(question, passages) for question, passages in bar}
    variants = [
        Variant(*combination)
        for combination in itertools.product(orders, dict.fromkeys([NONE, *compressions]), dict.fromkeys(depths))
    ]
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
    contexts = [[(), *row.values()] for _, row in shown]
    beliefs = measured(scorer, [query for query, _ in shown], contexts, title=f"measuring {name}")
    rows = [_Row(*pair, row) for pair, row in zip(shown, beliefs, strict=True) if row is not None]
    if not rows:
        raise ValueError(f"expected questions that reader {name!r} can measure, got none of {len(queries)}")
    return ReaderResult(
        len(rows),
        len(queries) - len(rows),
        mean([row.beliefs[()].seper for row in rows]),
        [_variant_result(variant, rows, scorer) for variant in variants],
    )


def _variant_result(variant: Variant, rows: Sequence[_Row], scorer: SePerScorer) -> VariantResult:
    moved = [row.moved(variant) for row in rows]
    deltas = [effect.delta_seper for effect in moved]
    without = [row.moved(variant.without).delta_seper for row in rows]
    matches = [
        expected_metric(effect.belief, row.query.answers, exact_match) for row, effect in zip(rows, moved, strict=True)
    ]
    return VariantResult(
        *variant,
        mean_over_questions(deltas),
        None if variant == variant.without else lead_over_questions(deltas, without),
        mean_over_questions(matches),
        mean_over_questions([effect.soft.high < -MARGIN for effect in moved]),
        mean([len(row.shown[variant]) for row in rows]),
        mean([_tokens(scorer, row.shown[variant]) for row in rows]),
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
