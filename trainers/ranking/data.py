"""Settings that the retriever and reranker recipes share, and their questions by split."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from seper_reward.config import (
    CORPUS_HELP,
    INPUT_HELP,
    LEARN_FROM_HELP,
    SPLIT_BY_HELP,
    InputConfig,
    LabelerConfig,
    LearnFrom,
    ScorerConfig,
    SetsConfig,
)
from seper_reward.data.queries import pool_passages, read_examples
from seper_reward.data.splits import SplitBy, clusters, shared_keys, split_by_rank, split_of, spread
from seper_reward.labels.labelers import check_labeler
from seper_reward.labels.provenance import query_key
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.settings import setting
from seper_reward.types import Passage, Query

#: Questions of ours by the name that stands for their file, beside those of the demo.
OURS = {"unseen_facts": Path(__file__).parents[1] / "unseen_facts.jsonl"}


@dataclass
class RankingConfig(InputConfig, LabelerConfig, SetsConfig, ScorerConfig):
    """Settings of what a ranking model learns from and is measured on, shared by retriever and reranker."""

    group_help: ClassVar[Mapping[str, str]] = {"targets": "What is learned of the labels."}

    input: str = setting(
        "demo",
        f"{INPUT_HELP} 'unseen_facts' are facts of ours, unknown to the embedded reader's adapter.",
        "input.path",
        common=True,
    )
    corpus: str | None = setting(None, f"{CORPUS_HELP}not given: the passages of all questions together.")
    limit: int | None = setting(None, "Number of questions to use, evenly spread over the input; not given: all.")
    test_share: float = setting(
        0.125, "Share of questions, by SHA-1 of their ids, that are held out for the comparison at the end, above 0."
    )
    dev_share: float = setting(0.125, "Share of questions that are measured on during training; may be 0.")
    split_by: SplitBy = setting(
        "question",
        SPLIT_BY_HELP,
    )
    labeler: str = setting(
        "delta_seper",
        "Labels: delta_seper (change of the reader's belief in the gold answer), erag (the responses' erag_metric), "
        "likelihood (change of the answer's log-probability), item (the reader's own judgment), contains (whether the "
        "passage holds the answer), gold (people's marks), or the score of a reranker, given by its folder.",
        "labeler.name",
        common=True,
    )
    candidates: Literal["retrieved", "given", "both"] = setting(
        "both", "Passages to label: those that the model retrieves, those given with the questions, or both."
    )
    top_k: int = setting(8, "Passages to retrieve per question and round, >= 1.")
    embeddings_dir: str | None = setting(
        None,
        "Folder that keeps the corpus's embeddings by the weights that made them, so that a comparison makes those of "
        "the untrained model once; not given: none are kept.",
    )
    hops: int = setting(
        1,
        "How often the model retrieves for a question, >= 1: each time with the question and the best passages found "
        "so far; 2 suits questions that need two passages.",
    )
    learn_from: LearnFrom = setting("singles", LEARN_FROM_HELP, "targets.learn_from", common=True)
    list_size: int | None = setting(
        None,
        "Most passages per question in training, >= 2: the best, the worst, and evenly between; not given: all.",
        "targets.list_size",
    )
    max_std_error: float | None = setting(
        None,
        "Greatest standard error of a label that is learned from; not given: all labels are.",
        "targets.max_std_error",
    )
    heterogeneity: float = setting(
        0.1,
        "Questions are learned from only if labels that differ so much have at most this probability (p-value) where "
        "passages are equally good, in (0, 1]; 1 keeps all.",
        "targets.heterogeneity",
    )
    shrink: bool = setting(
        True,
        "Whether a question's labels are drawn to their mean by the part of their differences that is noise, by their "
        "standard errors.",
        "targets.shrink",
    )
    min_spread: float = setting(
        0.05,
        "Questions are learned from only if their best and worst label differ by more than this, >= 0; with shrink "
        "after it.",
        "targets.min_spread",
    )
    margin: float = setting(
        0.1,
        "Least label of a helpful passage, > 0; the retriever's losses ranknet and contrastive leave out pairs of "
        "passages whose labels differ by less.",
        "targets.margin",
    )
    resolution: float = setting(
        0.1,
        "Labels are rounded to multiples of this, as smaller differences are noise, >= 0; 0 does not round.",
        "targets.resolution",
    )
    shift: float = setting(0.0, "Number added to the labels after clipping.", "targets.shift")
    clip_low: float | None = setting(
        None,
        "Lower labels are raised to this; 0 makes harmful passages equal to useless ones; not given: no bound.",
        "targets.clip_low",
    )
    clip_high: float | None = setting(
        None, "Higher labels are lowered to this; not given: no bound.", "targets.clip_high"
    )
    eval_readers: list[str] = setting(
        ["plain"],
        "Readers that made no labels and measure the rankings, too: 'embedded', 'plain' (SmolLM2-135M-Instruct as it "
        "is), hub ids or folders; as good as yours, or they tell nothing. 'none': only the reader that made the "
        "labels measures.",
    )
    eval_top_k: int = setting(1, "Best passages that a reader sees at once when a ranking is measured, >= 1.")
    eval_gains: bool = setting(
        True, "Whether nDCG is measured with ΔSePer as gains, too; this labels the top 5 passages of test questions."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.eval_readers = [] if self.eval_readers == ["none"] else self.eval_readers
        check_labeler(self.labeler)
        if self.test_share <= 0 or self.dev_share < 0 or self.test_share + self.dev_share >= 1:
            raise ValueError(
                f"test_share must be above 0, dev_share at least 0, and something must be left to train on, got "
                f"{self.test_share} and {self.dev_share}"
            )
        if self.learn_from != "singles" and self.sets == "none" and self.labeler != "gold":
            raise ValueError(
                f"learn_from={self.learn_from} needs labels of sets, or of people (labeler gold), got sets=none with "
                f"labeler {self.labeler!r}; label conditional sets, or learn from singles"
            )
        if self.sets != "none" and self.learn_from == "singles":
            raise ValueError(
                f"sets={self.sets} would measure sets of passages, and learn_from=singles not use them; learn from "
                "paths, or leave sets out"
            )
        if self.list_size is not None and self.list_size < 2:
            raise ValueError(f"list_size must be at least 2, got {self.list_size}")
        for name in ("margin", "resolution", "min_spread"):
            if getattr(self, name) < 0 or (name == "margin" and not self.margin):
                bound = "above" if name == "margin" else "at least"
                raise ValueError(f"{name} must be {bound} 0, got {getattr(self, name)}")
        if not 0 < self.heterogeneity <= 1:
            raise ValueError(f"heterogeneity must be in (0, 1], got {self.heterogeneity}")
        if len({Path(name).name for name in self.eval_readers}) < len(self.eval_readers):
            raise ValueError(f"eval_readers must have names of their own, got {self.eval_readers}; rename a folder")
        if self.reader in self.eval_readers:
            raise ValueError(f"eval_readers must not have the labelling one, {self.reader!r}; leave it out")
        for name in ("top_k", "hops", "eval_top_k", "limit"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    @property
    def embeddings_folder(self) -> Path | None:
        """``embeddings_dir`` as a path."""
        return Path(self.embeddings_dir) if self.embeddings_dir else None


class Questions(NamedTuple):
    """Questions by split, and the corpus to retrieve from, by passage id."""

    corpus: Mapping[str, Passage]
    train: list[Query]
    dev: list[Query]
    test: list[Query]


def read_questions(config: RankingConfig) -> Questions:
    """Read the questions and split them by SHA-1 of their ids, or clusters of them by that of the smallest id.

    Raises:
        OSError: A file is missing or cannot be read.
        ValueError: A split is empty, or a passage id stands for two texts.
    """
    queries, corpus = read_input(config)
    return questions_by_split(spread(queries, config.limit), corpus, config)


def read_input(config: RankingConfig) -> tuple[Sequence[Query], dict[str, Passage] | None]:
    """Read all questions, and the corpus, which is ``None`` if it is the questions' own passages."""
    examples, corpus = read_examples(str(OURS.get(config.input, config.input)), config.corpus, config.input_options)
    if examples.about:
        print(examples.about, file=sys.stderr)
    if examples.rejected:
        first = examples.rejected[0]
        print(f"{len(examples.rejected)} rows cannot be used; {first.where}: {first.reason}", file=sys.stderr)
    return examples.queries, corpus


def questions_by_split(
    queries: Sequence[Query], corpus: dict[str, Passage] | None, config: RankingConfig, turned: float = 0.0
) -> Questions:
    """Split the questions that are used.

    Args:
        queries: The questions.
        corpus: Passages by id; ``None`` takes the questions' own.
        config: Shares of the splits, and ``split_by``.
        turned: Share by which ids move round, for another fold.

    Raises:
        ValueError: A split is empty, or a passage id stands for two texts.
    """
    if corpus is None:
        corpus, queries = pool_passages(queries)
    _check_ids(queries, corpus, config)
    split = split_questions(
        queries,
        config.split_by,
        source=config.input,
        test_share=config.test_share,
        dev_share=config.dev_share,
        turned=turned,
    )
    return Questions(corpus, **split)


def data_key(questions: Questions) -> str:
    """Return a hash over all questions and the corpus."""
    parts = [sorted(map(query_key, rows)) for rows in (questions.train, questions.dev, questions.test)]
    return content_key(parts, sorted((each.id, each.title, each.text) for each in questions.corpus.values()))


def split_questions(
    queries: Sequence[Query],
    split_by: SplitBy,
    *,
    source: str,
    test_share: float,
    dev_share: float,
    turned: float = 0.0,
    salt: str = "",
) -> dict[str, list[Query]]:
    """Return the questions of ``train``, ``dev`` and ``test``, in the order of the input; print how many clusters.

    If so few clusters leave a split empty by their hashes, they are split by the ranks of their hashes.

    Args:
        queries: The questions; their ids differ.
        split_by: What is not divided between splits (``shared_keys``); a cluster goes by its smallest id.
        source: Where they come from, for the message.
        test_share: Share of ``test``, as for ``split_of``.
        dev_share: Share of ``dev``; where it is 0, that may be empty.
        turned: Share by which ids move round, for another fold.
        salt: Text in front of each id that is hashed, for questions that were chosen by the hash of their ids.

    Raises:
        ValueError: A split is empty that should not be; the message names the way out.
    """
    together = clusters([shared_keys(query, split_by) for query in queries])
    largest = max(map(len, together), default=0)
    if split_by != "question":
        print(
            f"{len(together)} clusters by {split_by}; the largest has {largest} of {len(queries)} questions",
            file=sys.stderr,
        )
    smallest = [salt + min(queries[place].id for place in places) for places in together]
    splits = [split_of(each, test_share=test_share, dev_share=dev_share, turned=turned) for each in smallest]
    wanted = {"train", "test"} | ({"dev"} if dev_share else set())
    if not wanted <= set(splits) and len(together) >= len(wanted) and largest <= len(queries) / 2:
        splits = split_by_rank(smallest, test_share=test_share, dev_share=dev_share, turned=turned)
    split_at = {place: split for places, split in zip(together, splits, strict=True) for place in places}
    names = [split_at[place] for place in range(len(queries))]
    rows = {
        name: [query for query, own in zip(queries, names, strict=True) if own == name]
        for name in ("train", "dev", "test")
    }
    for name, found in rows.items():
        if not found and (name != "dev" or dev_share):
            way_out = "give more questions" + (", or set dev_share to 0" if name == "dev" else "")
            if split_by != "question" and largest > len(queries) / 2:
                way_out = (
                    f"{largest} of them are one cluster by {split_by}, which is not divided; mark what is "
                    "relevant, as only that then counts, or split by question"
                )
            raise ValueError(f"{source}: expected questions for {name}, got none of {len(queries)}; {way_out}")
    return rows


def _check_ids(queries: Sequence[Query], corpus: Mapping[str, Passage], config: RankingConfig) -> None:
    """Raise if a passage id stands for two texts; print how many passages of questions are not in the corpus."""
    absent = 0
    for query in queries:
        for passage in query.passages:
            known = corpus.get(passage.id)
            absent += known is None
            if known is not None and (known.text, known.title) != (passage.text, passage.title):
                raise ValueError(
                    f"question id={query.id!r}: passage id {passage.id!r} has another text in {config.corpus}; "
                    "give the passages of questions the corpus's ids"
                )
    if absent:
        print(
            f"{absent} passages of questions are not in {config.corpus}: no retriever can find them", file=sys.stderr
        )
