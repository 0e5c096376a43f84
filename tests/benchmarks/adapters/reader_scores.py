"""Scores of a reader: shares of right, wrong and withheld answers to held-out questions."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from seper_reward.data.answers import normalize_answer
from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.data.splits import spread
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.reader.sampler import Request
from seper_reward.reports.tables import markdown_table
from seper_reward.types import Answers, Passage, unwrap
from tests.benchmarks.adapters.reader_data import UNKNOWN, qa_queries, relevant
from tests.benchmarks.adapters.substitution import states

MOST = 50  # most questions per condition


class Trial(NamedTuple):
    """A question, the passages that the reader sees, and the right answer."""

    question: str
    passages: tuple[Passage, ...]
    answers: Answers


def conditions(data_dir: Path, split: str) -> dict[str, list[Trial]]:
    """Return trials by condition, which tells what the passages are."""
    rng = random.Random(0)
    nq = spread(qa_queries(data_dir, "nq_oracle_bm25neg", split), MOST)
    trials = {
        "NQ, gold passage": [Trial(query.question, tuple(relevant(query)), query.answers) for query in nq],
        "NQ, passage that does not tell": [
            Trial(query.question, (rng.choice(relevant(query, False)),), query.answers)
            for query in nq
            if relevant(query, False)
        ],
        "NQ, no passage": [Trial(query.question, (), query.answers) for query in nq],
    }
    for name, title in (("hotpotqa_distractor", "HotpotQA"), ("2wikimultihopqa", "2WikiMultihopQA")):
        queries = spread(qa_queries(data_dir, name, split), MOST)
        trials[f"{title}, all gold passages"] = [
            Trial(query.question, tuple(relevant(query)), query.answers) for query in queries
        ]
    known = [
        query for query in read_queries(QUESTIONS, read_corpus(CORPUS)).queries if query.metadata["group"] == "known"
    ]
    trials["common facts (demo), no passage"] = [Trial(query.question, (), query.answers) for query in known]
    return trials


def score(sampler: ResponseSampler, prompt: str, trials: Sequence[Trial]) -> dict[str, float]:
    """Sample responses in each trial and return shares, in [0, 1], averaged over trials."""
    builder = PromptBuilder(sampler.tokenizer, prompt, max_prompt_tokens=sampler.max_prompt_tokens)
    rows = []
    for trial in tqdm(trials, desc=prompt, leave=False):
        (responses,) = map(unwrap, sampler.sample([Request(builder.build(trial.question, trial.passages))]))
        rows.append(_shares(responses.texts, trial.answers))
    return {name: round(sum(row[name] for row in rows) / len(rows), 3) for name in rows[0]} | {"n": len(rows)}


def _shares(texts: Sequence[str], answers: Answers) -> dict[str, float]:
    right = [states(text, answers) for text in texts]
    withheld = [
        not is_right and normalize_answer(text) in ("", UNKNOWN) for text, is_right in zip(texts, right, strict=True)
    ]
    wrong = Counter(
        normalize_answer(text)
        for text, is_right, is_withheld in zip(texts, right, withheld, strict=True)
        if not is_right and not is_withheld
    )
    count = len(texts)
    return {
        "right": sum(right) / count,
        "withheld": sum(withheld) / count,
        "wrong": wrong.total() / count,
        "largest_wrong": max(wrong.values(), default=0) / count,
        "words": sum(len(text.split()) for text in texts) / count,
    }


def evaluate(readers: Sequence[tuple[str, str, float]], data_dir: Path, split: str = "test") -> dict[str, Any]:
    """Score readers side by side."""
    trials = conditions(data_dir, split)
    scores: dict[str, Any] = {}
    for name, prompt, temperature in readers:
        sampler = ResponseSampler.from_pretrained(name, temperature=temperature, max_new_tokens=16)
        title = f"{'adapter' if Path(name).is_dir() else name}, {prompt}, T={temperature:g}"
        scores[title] = {condition: score(sampler, prompt, rows) for condition, rows in trials.items()}
    return scores


def score_table(scores: dict[str, Any]) -> str:
    """Return what ``evaluate`` returned as a Markdown table, one row per condition and reader."""
    rows = [
        [
            condition,
            reader,
            *(f"{row[condition][name]:.2f}" for name in ("right", "withheld", "wrong", "largest_wrong")),
            f"{row[condition]['words']:.1f}",
            row[condition]["n"],
        ]
        for condition in next(iter(scores.values()))
        for reader, row in scores.items()
    ]
    shares = ["right", "withheld", "wrong", "largest wrong"]
    return markdown_table(["condition", "reader, prompt, temperature", *shares, "words", "n"], rows)
