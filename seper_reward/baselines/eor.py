"""Compare votes over the answers with several retrievers' passages with the best single retriever (EoR).

The method is that of arXiv:2405.20680: whether retrievers fail on the same questions (win ratios), where wrong answers
come from, and whether an ensemble of retrievers answers better than the best of them.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from tqdm.auto import tqdm

from seper_reward.baselines.candidates import Candidates, Ensemble
from seper_reward.baselines.pool import retrieve_sources
from seper_reward.baselines.voting import (
    MOST_OF_A_RETRIEVER,
    Pooling,
    VoteOptions,
    VotePreset,
    VoteWeights,
    search,
    search_weights,
    starting_strengths,
)
from seper_reward.command import Record, RetrievalConfig, corpus_flag, parse, questions_and_corpus, reporting
from seper_reward.config import load_scorer
from seper_reward.data.answers import abstains, exact_match, share_held, stated_parts
from seper_reward.data.splits import fold_of
from seper_reward.evaluate.measuring import each_scorable
from seper_reward.evaluate.win_ratios import decompose_errors, mean_win_and_lose_ratios, relative_win_ratios
from seper_reward.reports.figures import new_figure, save_figure
from seper_reward.reports.tables import cell, interval_cell, lead_text, text_table
from seper_reward.runtime.settings import setting
from seper_reward.statistics import (
    interval_over_questions,
    lead_over_questions,
    mean_over_questions,
    rounded,
    rounded_or_none,
)
from seper_reward.types import Passage, Query

Mean = dict[str, Any]  # with a 95 % interval over questions
Shown = Sequence[Sequence[Passage]]  # by source
_RESAMPLES = 1000


@dataclass
class EoRConfig(RetrievalConfig):
    """Compare votes over the answers with several retrievers' passages with the best single retriever (EoR)."""

    sources: list[str] = setting(
        ["none", "bm25@1", "bm25@5", "minilm@1", "minilm@5"],
        "Sources of passages: none (nothing is retrieved), background (written by the reader), or a retriever and the "
        "number of its passages, as in bm25@5; see --help of evaluate retrievers for names. They are joined by &, "
        "reranked by @RR, compressed by @CP and cut by @NUMBER, as in '(bm25@5&minilm@5)@RR@5'.",
    )
    folds: int = setting(
        5, "Folds of the questions, >= 2: the weights of a vote are searched on the others, for each of them."
    )
    pooling: Literal["mean", "max", "majority", "plurality"] = setting(
        "mean",
        "How EoR makes one score of an answer's similarities to the others: mean, max, or the mean over those like "
        "it, for answers that at least half of them (majority) or most of them (plurality) are like.",
    )
    plot: str | None = setting(None, "Image file to plot the win ratios into, as a heat map; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds < 2 or len(self.sources) < 2:
            raise ValueError(f"expected at least two folds and sources, got {self.folds} and {self.sources}")


@dataclass(frozen=True)
class SourceResult:
    """The reader's greedy answers with the passages of one source."""

    accuracy: Mean
    mrwr: Mean  # mean share of the others' wrong answers that this source has right
    mrlr: Mean  # mean share of its wrong answers that another one has right
    errors: dict[str, float]  # where wrong answers come from, by the fields of `Errors`
    abstained: float  # share of answers such as "unknown"


@dataclass(frozen=True)
class ConsistencyResult:
    """Whether sources fail on the same questions, and why."""

    questions: int
    left_out: int  # questions that the reader cannot be asked
    sources: dict[str, SourceResult]
    win_ratio: dict[str, dict[str, float | None]]  # by two names: the share of the second's wrong answers that the
    # first has right; None if the second has none wrong
    upper_bound: Mean  # share of questions that at least one source has right


@dataclass(frozen=True)
class VoteResult:
    """How a vote does."""

    accuracy: Mean
    lead: dict[str, Any]  # in accuracy over the best single retriever (`lead_over_questions`)
    mrlr: float | None  # mean share of its wrong answers that a retriever has right
    weights: dict[str, dict[str, float]]  # of "similarities" and "retrievers", means over the folds


@dataclass(frozen=True)
class EoRResult(Record):
    """Votes against single retrievers."""

    questions: int
    left_out: int  # questions that the reader cannot be asked
    folds: int
    pooling: str  # of EoR's votes
    retrievers: dict[str, dict[str, Mean]]  # "accuracy" by retriever
    best_single: dict[str, Any]  # "accuracy" of the best retriever on the other folds, and how often each is "chosen"
    voters: dict[str, VoteResult]  # eor_PRESET, belief_vote, and belief_vote_equal without weights
    upper_bound: Mean  # share of questions that at least one retriever has right
    consistency: ConsistencyResult

    def table(self) -> str:
        """Return how sources and votes do as text: accuracy, errors, win ratios, and the weights of votes."""
        sources, voters, best = self.consistency.sources, self.voters, self.best_single
        chosen = ", ".join(f"{name} in {count}" for name, count in best["chosen"].items())
        errors = list(next(iter(sources.values())).errors)
        done = [[name, *map(interval_cell, (row.accuracy, row.mrwr, row.mrlr))] for name, row in sources.items()]
        wrong = [
            [name, *(cell(row.errors[each]) for each in errors), cell(row.abstained)] for name, row in sources.items()
        ]
        wins = [[name, *map(cell, row.values())] for name, row in self.consistency.win_ratio.items()]
        votes = [
            [name, interval_cell(row.accuracy), cell(row.mrlr), lead_text(row.lead)] for name, row in voters.items()
        ]
        names = list(dict.fromkeys(each for row in voters.values() for kind in row.weights.values() for each in kind))
        weights = [
            [name, *(cell((row.weights["similarities"] | row.weights["retrievers"]).get(each)) for each in names)]
            for name, row in voters.items()
        ]
        return "\n\n".join(
            [
                text_table(["retriever", "accuracy", "MRWR", "MRLR"], done),
                text_table(["errors", *errors, "abstained"], wrong),
                text_table(["is right where it is wrong:", *sources], wins),
                f"best retriever of the other folds ({chosen} of {self.folds}): {interval_cell(best['accuracy'])}",
                text_table(["vote", "accuracy", "MRLR", "lead over the best retriever"], votes),
                f"right by at least one: {interval_cell(self.upper_bound)}",
                text_table(["mean weight of", *names], weights),
            ]
        )

    def plot(self, path: Path) -> None:
        """Plot the win ratios as a heat map."""
        ratios = self.consistency.win_ratio
        names = list(ratios)
        figure = new_figure(0.9 * len(names) + 3, 0.6 * len(names) + 2)
        axes = figure.subplots()
        values = [[float("nan") if value is None else value for value in row.values()] for row in ratios.values()]
        shown = axes.imshow(values, cmap="Greens", vmin=0, vmax=1)
        for height, row in enumerate(ratios.values()):
            for place, value in enumerate(row.values()):
                if value is not None:
                    color = "white" if value > 0.6 else "black"
                    axes.text(place, height, f"{value:.2f}", ha="center", va="center", color=color, fontsize=9)
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("where this one is wrong")
        axes.set_ylabel("this one is right")
        figure.colorbar(shown, ax=axes)
        save_figure(figure, path)


class _Asked(NamedTuple):
    """A question with the passages of each source, the candidates of a vote, and the fold it is tested in."""

    query: Query
    shown: Shown
    candidates: Candidates
    fold: int

    def right(self, text: str) -> bool:
        return exact_match(text, self.query.answers) == 1


class _Voter(NamedTuple):
    """A vote: how it learns weights from dev questions and answers with them, and its similarities."""

    learn: Callable[[Sequence[_Asked]], VoteWeights]
    answer: Callable[[Candidates, VoteWeights], str]
    similarities: tuple[str, ...] = ()


def eor(
    asking: Ensemble,
    queries: Sequence[Query],
    sources: Mapping[str, Sequence[Sequence[Passage]]],
    *,
    folds: int = 5,
    pooling: Pooling = "mean",
) -> EoRResult:
    """Compare votes over the answers with several retrievers' passages with the best single retriever.

    The weights of a vote and the best retriever are chosen for each question on those of the other folds
    (cross-fitting), so every question is a test question once. An answer is right by exact match, of a list if all
    items are stated.

    Args:
        asking: Queries the reader.
        queries: Q questions with gold answers.
        sources: By name of the retriever, the passages of each question; empty ones for a reader that retrieves
            nothing.
        folds: Number of folds, by SHA-1 of the questions' ids, >= 2.
        pooling: Pooling of EoR's votes.

    Raises:
        ValueError: There are fewer than two retrievers or folds, or all questions are in one fold.
    """
    if len(sources) < 2 or folds < 2:
        raise ValueError(f"expected at least two retrievers and two folds, got {len(sources)} and {folds}")
    shown = {query.id: [tuple(rows[at]) for rows in sources.values()] for at, query in enumerate(queries)}
    for query in queries:
        asking.expect(query.question, shown[query.id])
    found = each_scorable(queries, lambda query: asking.candidates(query.question, shown[query.id]), title="answering")
    asked = [_Asked(query, shown[query.id], own, fold_of(query.id, folds)) for query, own in found]
    if len({each.fold for each in asked}) < 2:
        raise ValueError(
            f"expected questions in at least two folds, got {len(asked)} that can be asked; take more questions"
        )
    names = list(sources)
    answered = [(each.query, each.shown, each.candidates.texts) for each in asked]
    consistent = consistency(names, answered, len(queries) - len(asked))
    right = _right(asked)
    single, chosen = _best_single(asked, right, names)
    return EoRResult(
        len(asked),
        consistent.left_out,
        folds,
        pooling,
        {name: {"accuracy": row.accuracy} for name, row in consistent.sources.items()},
        {"accuracy": mean_over_questions(single), "chosen": chosen},
        {name: _vote_result(voter, asked, right, single, names) for name, voter in _voters(pooling, names).items()},
        consistent.upper_bound,
        consistent,
    )


def consistency(
    names: Sequence[str], answered: Sequence[tuple[Query, Shown, Sequence[str]]], left_out: int = 0
) -> ConsistencyResult:
    """Compare answers with the passages of several sources, question by question.

    Passages hold the answer, or a response, if they hold it as words (``share_held``); of a list, all of it.

    Args:
        names: Names of R sources.
        answered: Of each question the passages of each source, and the R answers with them.
        left_out: Number of questions that the reader cannot be asked.
    """
    right = np.array([[exact_match(text, query.answers) == 1 for text in texts] for query, _, texts in answered]).T
    ratios = relative_win_ratios(right)
    return ConsistencyResult(
        len(answered),
        left_out,
        {
            name: _source_result(at, right, [(query, shown[at], texts[at]) for query, shown, texts in answered])
            for at, name in enumerate(names)
        },
        {
            one: {other: rounded_or_none(float(ratios[i, j])) for j, other in enumerate(names)}
            for i, one in enumerate(names)
        },
        mean_over_questions(right.any(axis=0)),
    )


def _source_result(at: int, right: Any, answered: Sequence[tuple[Query, Sequence[Passage], str]]) -> SourceResult:
    held, grounded = [], []
    for query, passages, text in answered:
        read = "\n".join(passage.full_text for passage in passages)
        held.append(share_held(read, query.answers) == 1)
        parts = [(part,) for part in stated_parts(text, query.answers)]
        grounded.append(bool(text) and share_held(read, parts) == 1)

    def ratio(which: int) -> Mean:
        mean_ratio = functools.partial(_mean_ratio, right, which, at)
        interval = interval_over_questions(mean_ratio, right.shape[1], resamples=_RESAMPLES)
        return {"mean": rounded_or_none(mean_ratio(slice(None))), "interval": interval}

    errors = decompose_errors(right[at].tolist(), held, grounded)
    return SourceResult(
        accuracy=mean_over_questions(right[at]),
        mrwr=ratio(0),
        mrlr=ratio(1),
        errors={name: rounded(value) for name, value in asdict(errors).items()},
        abstained=rounded(sum(abstains(text) for _, _, text in answered) / len(answered)),
    )


def _mean_ratio(right: Any, which: int, at: int, numbers: Any) -> float:
    """Return one source's MRWR (0) or MRLR (1) over some questions."""
    return float(mean_win_and_lose_ratios(right[:, numbers])[which][at])


def _best_single(asked: Sequence[_Asked], right: Any, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Return ``(Q,)`` whether the retriever that is best on the other folds is right, and how often each is that."""
    folds = np.array([each.fold for each in asked])
    best = {fold: int(right[:, folds != fold].mean(axis=1).argmax()) for fold in sorted(set(folds.tolist()))}
    single = np.array([right[best[fold], number] for number, fold in enumerate(folds.tolist())])
    counts = {name: sum(place == at for place in best.values()) for at, name in enumerate(names)}
    return single, {name: count for name, count in counts.items() if count}


def _vote_result(voter: _Voter, asked: Sequence[_Asked], right: Any, single: Any, names: Sequence[str]) -> VoteResult:
    folds = sorted({each.fold for each in asked})
    learned = {
        fold: voter.learn([each for each in asked if each.fold != fold])
        for fold in tqdm(folds, desc="searching weights", unit="fold", leave=False)
    }
    own = np.array([each.right(voter.answer(each.candidates, learned[each.fold])) for each in asked])
    return VoteResult(
        mean_over_questions(own),
        lead_over_questions(own, single),
        rounded_or_none(float(mean_win_and_lose_ratios(np.vstack([right, own]))[1][-1])),
        {
            "similarities": _means([each.similarities for each in learned.values()], voter.similarities),
            "retrievers": _means([each.retrievers for each in learned.values()], names),
        },
    )


def _voters(pooling: Pooling, names: Sequence[str]) -> dict[str, _Voter]:
    equal = VoteWeights((), (1.0,) * len(names))
    return {
        **{f"eor_{preset}": _eor_voter(VoteOptions.preset(preset, pooling)) for preset in get_args(VotePreset)},
        "belief_vote": _Voter(_search_strength, _by_beliefs),
        "belief_vote_equal": _Voter(lambda dev: equal, _by_beliefs),
    }


def _eor_voter(options: VoteOptions) -> _Voter:
    def learn(dev: Sequence[_Asked]) -> VoteWeights:
        similarity = np.stack([each.candidates.similarity for each in dev])
        silent = np.stack([each.candidates.silent for each in dev])
        return search_weights(similarity, silent, _right(dev), options)

    return _Voter(learn, lambda candidates, weights: candidates.vote(weights, options), options.similarities)


def _by_beliefs(candidates: Candidates, weights: VoteWeights) -> str:
    return candidates.belief_vote(weights.retrievers)


def _search_strength(dev: Sequence[_Asked]) -> VoteWeights:
    """Return the weights of retrievers under which the belief vote is right most often."""
    known = [{text: each.right(text) for text in {*each.candidates.sampled, *each.candidates.texts}} for each in dev]

    def accuracy(strength: Any) -> float:
        return sum(right[each.candidates.belief_vote(strength)] for each, right in zip(dev, known, strict=True)) / len(
            dev
        )

    starts = starting_strengths(_right(dev))
    return VoteWeights((), search(accuracy, starts, [(0.0, MOST_OF_A_RETRIEVER)] * len(starts[0])))


def _right(asked: Sequence[_Asked]) -> Any:
    """Return ``(R, Q)`` whether the answer with each retriever's passages is right."""
    return np.array([list(map(each.right, each.candidates.texts)) for each in asked]).T


def _means(rows: Sequence[Sequence[float]], names: Sequence[str]) -> dict[str, float]:
    return {name: rounded(float(value)) for name, value in zip(names, np.mean(rows, axis=0), strict=True)}


def command(arguments: list[str]) -> str:
    """Run ``seper-reward baseline eor``."""
    config = parse(EoRConfig, arguments, "seper-reward baseline eor")
    with reporting("baseline eor", config) as report:
        queries, corpus = questions_and_corpus(config)
        scorer = load_scorer(config, config.seed)
        questions = [query.question for query in queries]
        sources = retrieve_sources(config.sources, corpus, questions, scorer.reader)
        result = eor(Ensemble(scorer), queries, sources, folds=config.folds, pooling=config.pooling)
        report(result)
    # without people's marks, which these questions need not have
    labelers = "erag delta_seper likelihood contains"
    return f"seper-reward baseline erag --file {config.file}{corpus_flag(config)} --labelers {labelers}"
