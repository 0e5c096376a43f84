"""Does an ensemble of retrievers answer better than the best of them (EoR, arXiv:2405.20680)?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from tqdm.auto import tqdm

from seper_reward.baselines.ensemble import Candidates, Ensemble
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
from seper_reward.data.answers import exact_match
from seper_reward.data.splits import fold_of
from seper_reward.evaluate.win_ratios import mean_win_and_lose_ratios
from seper_reward.runtime.messages import tell_left_out
from seper_reward.statistics import lead_over_questions, mean_over_questions, rounded, rounded_or_none
from seper_reward.types import Passage, Query, UnscorableError


class _Asked(NamedTuple):
    """A question with all that may be answered to it, and the fold it is tested in."""

    query: Query
    candidates: Candidates
    fold: int

    def right(self, text: str) -> bool:
        return exact_match(text, self.query.answers) == 1


class _Voter(NamedTuple):
    """A vote: what weights it learns from dev questions, how it answers with them, and what it compares answers by."""

    learn: Callable[[Sequence[_Asked]], VoteWeights]
    answer: Callable[[Candidates, VoteWeights], str]
    similarities: tuple[str, ...] = ()


def ensemble(
    asking: Ensemble,
    queries: Sequence[Query],
    sources: Mapping[str, Sequence[Sequence[Passage]]],
    *,
    folds: int = 5,
    pooling: Pooling = "mean",
) -> dict[str, Any]:
    """Compare votes over the answers with several retrievers' passages with the best single retriever.

    All that is chosen, the weights of a vote and which retriever is the best, is chosen on dev questions: for each
    question on those of the other folds (cross-fitting), so that every question is a test question once. An answer is
    right by exact match, of a list if all items are stated.

    Args:
        asking: Asks the reader.
        queries: Q questions with gold answers.
        sources: By name of the retriever, the passages of each question; empty ones for a reader that retrieves
            nothing.
        folds: Number of folds, by SHA-1 of the questions' ids, >= 2.
        pooling: Pooling of EoR's votes.

    Returns:
        ``questions``, and how many are ``left_out`` because the reader cannot be asked; ``retrievers``, by name the
        ``accuracy`` of the answers with its passages; ``best_single``, ``accuracy`` and in how many folds each
        retriever was ``chosen``; ``voters``, by name (``eor_PRESET``, ``belief_vote`` with weights that are searched
        on the dev questions, and ``belief_vote_equal`` without) ``accuracy``, ``lead`` over the best single retriever,
        ``mrlr``, the mean share of its wrong answers that a retriever has right, and ``weights``, their means over
        folds; and ``upper_bound``, the share of questions that some retriever leads to the right answer to. Means have
        95 % bootstrap intervals over questions.

    Raises:
        ValueError: There are fewer than two retrievers or folds, or a fold has no question of others beside it.
    """
    if len(sources) < 2 or folds < 2:
        raise ValueError(f"expected at least two retrievers and two folds, got {len(sources)} and {folds}")
    asked = list(_asked(asking, queries, sources, folds))
    if len({each.fold for each in asked}) < 2:
        raise ValueError(
            f"expected questions in at least two folds, got {len(asked)} that can be asked; take more questions"
        )
    names = list(sources)
    right = _right(asked)
    single, chosen = _best_single(asked, right, names)
    return {
        "questions": len(asked),
        "left_out": len(queries) - len(asked),
        "folds": folds,
        "pooling": pooling,
        "retrievers": {name: {"accuracy": mean_over_questions(row)} for name, row in zip(names, right, strict=True)},
        "best_single": {"accuracy": mean_over_questions(single), "chosen": chosen},
        "voters": {
            name: _described(voter, asked, right, single, names)
            for name, voter in _voters(pooling, len(names)).items()
        },
        "upper_bound": mean_over_questions(right.any(axis=0)),
    }


def _asked(
    asking: Ensemble, queries: Sequence[Query], sources: Mapping[str, Sequence[Sequence[Passage]]], folds: int
) -> Iterator[_Asked]:
    shown = [[tuple(rows[number]) for rows in sources.values()] for number in range(len(queries))]
    for query, passages in zip(queries, shown, strict=True):
        asking.expect(query.question, passages)
    bar = tqdm(zip(queries, shown, strict=True), total=len(queries), desc="answering", unit="question")
    for query, passages in bar:
        try:
            yield _Asked(query, asking.candidates(query.question, passages), fold_of(query.id, folds))
        except UnscorableError as error:
            tell_left_out(query.id, error)


def _best_single(asked: Sequence[_Asked], right: Any, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Return ``(Q,)`` whether the retriever that is best on the other folds is right, and how often each is that."""
    folds = np.array([each.fold for each in asked])
    best = {fold: int(right[:, folds != fold].mean(axis=1).argmax()) for fold in sorted(set(folds.tolist()))}
    single = np.array([right[best[fold], number] for number, fold in enumerate(folds.tolist())])
    counts = {name: sum(place == at for place in best.values()) for at, name in enumerate(names)}
    return single, {name: count for name, count in counts.items() if count}


def _described(
    voter: _Voter, asked: Sequence[_Asked], right: Any, single: Any, names: Sequence[str]
) -> dict[str, Any]:
    folds = sorted({each.fold for each in asked})
    learned = {
        fold: voter.learn([each for each in asked if each.fold != fold])
        for fold in tqdm(folds, desc="searching weights", unit="fold", leave=False)
    }
    own = np.array([each.right(voter.answer(each.candidates, learned[each.fold])) for each in asked])
    return {
        "accuracy": mean_over_questions(own),
        "lead": lead_over_questions(own, single),
        "mrlr": rounded_or_none(float(mean_win_and_lose_ratios(np.vstack([right, own]))[1][-1])),
        "weights": {
            "similarities": _means([each.similarities for each in learned.values()], voter.similarities),
            "retrievers": _means([each.retrievers for each in learned.values()], names),
        },
    }


def _voters(pooling: Pooling, retrievers: int) -> dict[str, _Voter]:
    equal = VoteWeights((), (1.0,) * retrievers)
    return {
        **{f"eor_{preset}": _eor(VoteOptions.preset(preset, pooling)) for preset in get_args(VotePreset)},
        "belief_vote": _Voter(_search_strength, _by_beliefs),
        "belief_vote_equal": _Voter(lambda dev: equal, _by_beliefs),
    }


def _eor(options: VoteOptions) -> _Voter:
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
