"""What retriever and reranker learn from: questions by use, candidates, labels; the settings of both."""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from seper_reward.config import ScorerConfig, setting
from seper_reward.data import pool_passages, read_examples, spread
from seper_reward.labelers import LABELERS, check_labeler
from seper_reward.types import Passage, Query


@dataclass
class RankingConfig(ScorerConfig):
    """What a ranking model learns from: questions, candidates, labels. Shared with the reranker."""

    input: str = setting("demo", "Questions as for `seper-reward label`, or 'demo'.")
    corpus: str | None = setting(None, "Corpus of {id, title?, text}; default: the passages of all the questions.")
    limit: int | None = setting(None, "Use so many questions only, evenly spread over the input.")
    test_share: float = setting(0.125, "Share of questions, by sha1(id), held out for the comparison in the end.")
    dev_share: float = setting(0.125, "Share of questions to measure on while training; may be 0.")
    labeler: str = setting("delta_seper", f"Who judges: {', '.join(LABELERS)}, or a reranker's folder.")
    candidates: str = setting("both", "Passages to judge: retrieved, given (the file's own), or both.")
    top_k: int = setting(8, "Passages that are retrieved per question and round.")
    max_std_error: float | None = setting(None, "Leave out labels with a greater standard error.")
    min_spread: float = setting(0.05, "Leave out questions whose best and worst label are no further apart.")
    margin: float = setting(0.1, "Label from which a passage counts as helpful.")
    resolution: float = setting(
        0.1, "Labels are rounded to multiples of this before they are taught, since less is noise; 0 leaves them."
    )
    shift: float = setting(0.0, "Added to labels, after clipping.")
    clip_low: float | None = setting(None, "Least label; 0 makes harmful passages equal to useless ones.")
    clip_high: float | None = setting(None, "Greatest label.")
    judges: list[str] = setting(
        ["plain"], "Readers, held out from labelling, that judge the result beside the labelling one."
    )
    judge_top_k: int = setting(1, "How many passages the judging readers see.")
    judge_gains: bool = setting(True, "Also measure nDCG with ΔSePer as gains (judges the top 5 of each question).")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labeler(self.labeler)
        if self.candidates not in {"retrieved", "given", "both"}:
            raise ValueError(f"candidates must be retrieved, given or both, got {self.candidates!r}")
        if self.test_share <= 0 or self.dev_share < 0 or self.test_share + self.dev_share >= 1:
            raise ValueError(
                f"test_share must be above 0, dev_share at least 0, and something must be left to train on, got "
                f"{self.test_share} and {self.dev_share}"
            )
        if self.reader in self.judges:
            raise ValueError(f"judges must be readers other than the labelling one, {self.reader!r}; leave it out")
        for name in ("top_k", "judge_top_k", "limit"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


class Questions(NamedTuple):
    """Questions by use, and the corpus they search."""

    corpus: Mapping[str, Passage]
    train: list[Query]
    dev: list[Query]
    test: list[Query]


def read_questions(config: RankingConfig) -> Questions:
    """Read and split the questions by sha1(id); raise if a split is empty."""
    examples, corpus = read_examples(config.input, config.corpus)
    if examples.rejected:
        first = examples.rejected[0]
        print(f"{len(examples.rejected)} rows cannot be used; {first.where}: {first.reason}", file=sys.stderr)
    queries = spread(examples.queries, config.limit)
    if corpus is None:
        corpus, queries = pool_passages(queries)
    split: dict[str, list[Query]] = {"train": [], "dev": [], "test": []}
    for query in queries:
        place = int(hashlib.sha1(query.id.encode()).hexdigest()[:8], 16) / 16**8
        kept = 1 - config.test_share
        name = "test" if place >= kept else "dev" if place >= kept - config.dev_share else "train"
        split[name].append(query)
    for name, rows in split.items():
        if not rows and (name != "dev" or config.dev_share):
            raise ValueError(f"{config.input}: expected questions for {name}, got none of {len(queries)}; give more")
    return Questions(corpus, **split)
