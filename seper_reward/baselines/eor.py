"""Compare votes over the answers with several retrievers' passages with the best single retriever (EoR).

The questions of arXiv:2405.20680 are whether retrievers fail on the same questions (``consistency``), and whether an
ensemble of retrievers answers better than the best of them. A trained ensemble answers new questions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from tqdm.auto import tqdm

from seper_reward.baselines.consistency import ConsistencyResult, Shown, consistency
from seper_reward.baselines.labelled import Costs, costs_per, costs_table, each_scorable, total_costs
from seper_reward.baselines.options import EoROptions
from seper_reward.baselines.pool import (
    BACKGROUND_PROMPT,
    COMPRESS_PROMPT,
    Candidates,
    Ensemble,
    retrieve_sources,
    verdicts,
)
from seper_reward.baselines.voting import Pooling, VoteOptions, VotePreset, VoteWeights, search_weights
from seper_reward.baselines.win_ratios import mean_win_and_lose_ratios
from seper_reward.command import Record, corpus_flag, questions_and_corpus, reporting
from seper_reward.data.splits import fold_of
from seper_reward.judge.judge import Judge
from seper_reward.reports.tables import cell, lead_text, text_table
from seper_reward.runtime.distributed import together
from seper_reward.runtime.json_files import read_json, write_json, write_lines
from seper_reward.runtime.messages import say_once
from seper_reward.runtime.profiling import profiling
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import Statistic, lead_over_questions, mean_over_questions, rounded_or_none
from seper_reward.types import Passage, Query

_SAVED_VOTE = "eor_paper"  # answers new questions
_SAVED = "eor.json"
_SAVED_SETTINGS = ("sources", "pooling", "metric", "prompt", "reranker")  # settings in it


@dataclass(frozen=True)
class VoteResult:
    """Results of a vote."""

    accuracy: Statistic
    lead: Statistic  # in accuracy over the best single retriever
    mrlr: float | None  # mean share of the vote's wrong answers that a retriever answers right
    weights: dict[str, dict[str, float]]  # of "similarities" and "retrievers", searched on all questions


@dataclass(frozen=True)
class EoRResult(Record):
    """Votes against single retrievers."""

    questions: int
    folds: int
    pooling: str
    best_single: Statistic  # accuracy of the best retriever of the other folds
    chosen: dict[str, int]  # number of folds in which a retriever is the best of the other folds
    voters: dict[str, VoteResult]  # by eor_PRESET
    consistency: ConsistencyResult
    per_question: Costs | None = None  # including retrieval and the search for weights

    def table(self) -> str:
        """Return the results of sources and votes as text: accuracy, errors, win ratios, weights, and costs."""
        voters = self.voters
        chosen = ", ".join(f"{name} in {count}" for name, count in self.chosen.items())
        votes = [[name, vote.accuracy, cell(vote.mrlr), lead_text(vote.lead)] for name, vote in voters.items()]
        names = list(
            dict.fromkeys(name for vote in voters.values() for kind in vote.weights.values() for name in kind)
        )
        weights = [
            [
                name,
                *(cell((vote.weights["similarities"] | vote.weights["retrievers"]).get(column)) for column in names),
            ]
            for name, vote in voters.items()
        ]
        return "\n\n".join(
            [
                self.consistency.table(),
                f"best retriever of the other folds ({chosen} of {self.folds}): {self.best_single}",
                text_table(["vote", "accuracy", "MRLR", "lead over the best retriever"], votes),
                text_table(["weight of", *names], weights),
                *([costs_table({"all sources": self.per_question}, "a question costs")] if self.per_question else []),
            ]
        )

    def plot(self, path: Path) -> None:
        """Plot the win ratios as heat maps."""
        self.consistency.plot(path)


@dataclass(frozen=True)
class AnswersResult(Record):
    """Answers of a trained ensemble."""

    questions: int
    left_out: int  # questions that are too long for the reader
    chosen: dict[str, int]  # number of answers by source
    accuracy: Statistic  # of the answers to questions that have gold answers
    sources: dict[str, Statistic]  # accuracy with the passages of each source alone, on the same questions
    per_question: Costs

    def table(self) -> str:
        """Return the sources of answers, the share of right ones, alone and voted, and the costs of a question."""
        rows = [[name, self.chosen.get(name, 0), accuracy] for name, accuracy in self.sources.items()]
        rows.append(["the vote", self.questions, self.accuracy])
        table = text_table(["source", "answers taken from it", "accuracy"], rows)
        return f"{table}\n\n{costs_table({'all sources': self.per_question}, 'a question costs')}"


class _Asked(NamedTuple):
    """A question with the passages of each source, the candidates of a vote, and its test fold."""

    query: Query
    shown: Shown
    candidates: Candidates
    fold: int
    right: Mapping[str, bool]  # by text of the candidates


def eor(
    asking: Ensemble,
    queries: Sequence[Query],
    sources: Mapping[str, Sequence[Sequence[Passage]]],
    *,
    folds: int = 5,
    pooling: Pooling = "mean",
    judge: Judge | None = None,
) -> EoRResult:
    """Compare votes over the answers with several retrievers' passages with the best single retriever.

    The weights of a vote and the best retriever are chosen for each question on the questions of all other folds
    (cross-fitting), by SHA-1 of the ids, so every question is a test question once. ``sources`` has the passages of
    each question by retriever; ``judge`` is that of ``verdicts``. Raises ``ValueError`` if all questions are in one
    fold.
    """
    records = _ask(asking, queries, sources, judge, folds)
    if len({record.fold for record in records}) < 2:
        raise ValueError(
            f"expected questions in at least two folds, got {len(records)} that the reader can read; "
            "use more questions"
        )
    names = list(sources)
    right = _right(records)
    answered = [(record.query, record.shown, record.candidates.texts) for record in records]
    single, chosen = _best_single(records, right, names)
    return EoRResult(
        len(records),
        folds,
        pooling,
        mean_over_questions(single),
        chosen,
        {name: _vote_result(options, records, right, single, names) for name, options in _votes(pooling).items()},
        consistency(names, answered, len(queries) - len(records), right),
    )


def _ask(
    asking: Ensemble,
    queries: Sequence[Query],
    sources: Mapping[str, Sequence[Sequence[Passage]]],
    judge: Judge | None,
    folds: int = 2,
) -> list[_Asked]:
    """Return the questions that fit into the reader's window, with its answers."""
    shown = {query.id: [tuple(lists[at]) for lists in sources.values()] for at, query in enumerate(queries)}
    for query in queries:
        asking.expect(query.question, shown[query.id])

    def ask(query: Query) -> _Asked:
        candidates = asking.candidates(query.question, shown[query.id])
        right = verdicts(query, candidates.texts, judge) if query.answers else {}
        return _Asked(query, shown[query.id], candidates, fold_of(query.id, folds), right)

    return [record for _, record in each_scorable(queries, ask, title="answering")]


def _best_single(records: Sequence[_Asked], right: np.ndarray, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Return ``(Q,)`` whether the best retriever of the other folds is right, and the number of folds by retriever."""
    folds = np.array([record.fold for record in records])
    best = {fold: int(right[:, folds != fold].mean(axis=1).argmax()) for fold in sorted(set(folds.tolist()))}
    single = np.array([right[best[fold], number] for number, fold in enumerate(folds.tolist())])
    counts = {name: sum(place == at for place in best.values()) for at, name in enumerate(names)}
    return single, {name: count for name, count in counts.items() if count}


def _vote_result(
    options: VoteOptions, records: Sequence[_Asked], right: np.ndarray, single: np.ndarray, names: Sequence[str]
) -> VoteResult:
    folds = [*sorted({record.fold for record in records}), None]  # None uses all questions
    learned = {
        fold: _learn([record for record in records if record.fold != fold], options)
        for fold in tqdm(folds, desc="searching weights", unit="fold", leave=False)
    }
    hits = np.array([record.right[record.candidates.vote(learned[record.fold], options).text] for record in records])
    return VoteResult(
        mean_over_questions(hits),
        lead_over_questions(hits, single),
        rounded_or_none(float(mean_win_and_lose_ratios(np.vstack([right, hits]))[1][-1])),
        {
            "similarities": dict(zip(options.similarities, learned[None].similarities, strict=True)),
            "retrievers": dict(zip(names, learned[None].retrievers, strict=True)),
        },
    )


def _votes(pooling: Pooling) -> dict[str, VoteOptions]:
    return {f"eor_{preset}": VoteOptions.preset(preset, pooling) for preset in get_args(VotePreset)}


def _learn(dev: Sequence[_Asked], options: VoteOptions) -> VoteWeights:
    similarity = np.stack([record.candidates.similarity for record in dev])
    silent = np.stack([record.candidates.silent for record in dev])
    return search_weights(similarity, silent, _right(dev), options)


def _right(records: Sequence[_Asked]) -> np.ndarray:
    """Return ``(R, Q)`` whether the answer with each retriever's passages is right."""
    return np.array([[record.right[text] for text in record.candidates.texts] for record in records]).T


def command(config: EoROptions) -> str:
    """Run ``seper-reward baseline eor``."""
    saved = read_json(Path(config.load) / _SAVED) if config.load else None
    if saved is not None:
        config = replace(config, **saved["settings"])
        if saved["reader"] != config.reader:
            say_once(f"{config.load} has weights for reader={saved['reader']}, but the reader is {config.reader}")
    result: EoRResult | AnswersResult
    with reporting("baseline eor", config) as report:
        queries, corpus = questions_and_corpus(config, answers_needed=saved is None)
        scorer = SePerScorer.from_pretrained(config)
        judge = scorer.judge if config.metric == "entailment" else None
        templates = config.prompt if isinstance(config.prompt, dict) else {}
        prompts = (templates.get("background", BACKGROUND_PROMPT), templates.get("compress", COMPRESS_PROMPT))
        with profiling() as profile:
            questions = [query.question for query in queries]
            sources = retrieve_sources(config.sources, corpus, questions, scorer.reader, *prompts, config.reranker)
            asking = Ensemble(scorer)
            if saved is None:
                compared = eor(asking, queries, sources, pooling=config.pooling, judge=judge)
                result = replace(compared, per_question=costs_per(total_costs(profile), len(queries)))
            else:
                records = _ask(asking, queries, sources, judge)
                answers = _answers(config, saved, records)
                right = mean_over_questions([answer["right"] for answer in answers if "right" in answer])
                known = [record for record in records if record.query.answers]
                alone = _right(known) if known else [()] * len(sources)
                accuracies = dict(zip(sources, map(mean_over_questions, alone), strict=True))
                chosen, left_out = Counter(answer["source"] for answer in answers), len(queries) - len(answers)
                costs = costs_per(total_costs(profile), len(queries))
                result = AnswersResult(len(answers), left_out, dict(chosen), right, accuracies, costs)
                together(lambda: write_lines(Path(config.answers), answers))
        report(result)
    return _save(config, result) if isinstance(result, EoRResult) else ""


def _answers(config: EoROptions, saved: Mapping[str, Any], records: Sequence[_Asked]) -> list[dict[str, Any]]:
    """Return the answers of a saved ensemble, with ``right`` if there is a gold answer."""
    weights = VoteWeights(*(tuple(by_name.values()) for by_name in saved["weights"][_SAVED_VOTE].values()))
    options = _votes(config.pooling)[_SAVED_VOTE]
    answers = []
    for record in records:
        elected = record.candidates.vote(weights, options)
        scores = dict(zip(config.sources, map(rounded_or_none, elected.scores), strict=True))
        answer = {"question_id": record.query.id, "question": record.query.question, "answer": elected.text}
        right = {"right": record.right[elected.text]} if record.query.answers else {}
        answers.append({**answer, "source": config.sources[elected.source], "scores": scores, **right})
    return answers


def _save(config: EoROptions, result: EoRResult) -> str:
    """Save the weights if there is a folder for them, and return the next command."""
    if config.save is None:
        # without human labels, which these questions may lack
        labelers = "erag delta_seper likelihood contains"
        return f"seper-reward baseline erag --file {config.file}{corpus_flag(config.corpus)} --labelers {labelers}"
    path = Path(config.save) / _SAVED
    settings = {name: getattr(config, name) for name in _SAVED_SETTINGS}
    weights = {name: vote.weights for name, vote in result.voters.items()}
    together(lambda: write_json(path, {"reader": config.reader, "settings": settings, "weights": weights}))
    return f"seper-reward baseline eor --load {config.save} --file NEW_QUESTIONS.jsonl{corpus_flag(config.corpus)}"
