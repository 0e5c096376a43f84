"""Options of the commands in this folder; those that other commands have, too, are in ``seper_reward.options``."""

from typing import Literal

from seper_reward.options import (
    MARKED_HELP,
    Count,
    DepthsOptions,
    EvaluationOptions,
    GradedOptions,
    KnownOptions,
    MarginOptions,
    Options,
    PlotOptions,
    ReadersOptions,
    RetrievalOptions,
    RetrieverNamesOptions,
    RetrieverOptions,
    setting,
)


class CompressionOptions(DepthsOptions, PlotOptions, ReadersOptions, RetrieverOptions, RetrievalOptions):
    """Measure the value of depth, reranking and prompt compression to readers, by ΔSePer (SePer, Figures 4, 5)."""

    candidates: int = setting(20, "Number of passages to retrieve and rerank for each question, >= 1.")
    rerankers: list[str] = setting(
        ["none", "minilm"],
        "Rerankers of the candidates: none, minilm (by the embedded bi-encoder), or folders or hub ids of "
        "cross-encoders; none is always measured.",
    )
    compressions: list[str] = setting(
        ["none", "selective_context", "longllmlingua"],
        "Prompt compression to half by the reader's log-probabilities: none, selective_context (keeps words that the "
        "reader could not guess), contrastive_perplexity (keeps words that the question makes likelier) or "
        "longllmlingua (keeps passages from which the reader guesses the question); none is always measured.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates < max(self.depths):
            raise ValueError(f"candidates must be at least the greatest of depths, got {self.candidates}")


class CorrelationOptions(KnownOptions, PlotOptions, EvaluationOptions):
    """Correlate ΔSePer and other measures with human relevance labels (SePer, arXiv:2503.01478, Table 2)."""

    file: list[str] = setting([], f"One or more files, each a column of the table. {MARKED_HELP}")
    passages_per_question: int | None = setting(
        None, "Number of passages per question: the relevant ones, then the first of the rest (default: all)."
    )
    llm_judge: str = setting(
        "none",
        "Language model whose verdicts on the responses are a further measure: none, reader (the reader itself), a "
        "hub id, a folder, or TOKENIZER@URL for the model of a server.",
    )


class EoROptions(PlotOptions, RetrievalOptions):
    """Compare votes over the answers with several retrievers' passages with the best single retriever (EoR)."""

    sources: list[str] = setting(
        ["none", "bm25@1", "bm25@5", "minilm@1", "minilm@5"],
        "Sources of passages: none (nothing is retrieved), background (written by the reader), or a retriever and the "
        "number of its passages, as in bm25@5; see --help of evaluate retrievers for names. They are reranked by @RR "
        "(bm25@RR@5: of 20), cut by @NUMBER, joined by & and compressed by @CP, which bind in this order.",
    )
    pooling: Literal["mean", "max", "majority", "plurality"] = setting(
        "mean",
        "How EoR pools an answer's similarities to the other answers: mean, max, or 1 if at least half of the other "
        "answers (majority) or most of them (plurality) are similar, else 0.",
    )
    metric: Literal["exact_match", "entailment"] = setting(
        "exact_match", "Criterion of a right answer: exact_match, or entailment of the gold answer by 0.8 or more."
    )
    save: str | None = setting(
        None, "Folder for the sources and the weights, searched on all questions (default: they are not saved)."
    )
    load: str | None = setting(
        None,
        "Folder of save, whose ensemble answers the questions of file by the paper's vote, without need for gold "
        "answers; sources, pooling, metric and prompts are the saved ones (default: votes are compared).",
    )
    answers: str = setting("runs/answers.jsonl", "JSON lines file for the answers with load.")
    reranker: str = setting("minilm", "Reranker of @RR: minilm, or a cross-encoder's folder or hub id.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.sources)) < 2:
            raise ValueError(f"expected at least two sources, got {self.sources}")
        if self.load and self.save:
            raise ValueError("load uses saved weights, and save searches new ones; set only one of them")


class ERAGEvaluationOptions(DepthsOptions, RetrieverNamesOptions, PlotOptions, MarginOptions, RetrievalOptions):
    """Correlate retrieval metrics by labels of single passages with the reader's score on the whole list (eRAG)."""

    labelers: list[str] = setting(
        ["erag", "delta_seper", "likelihood", "item", "contains", "gold"],
        "Labelers of single passages, by their names in `seper-reward label`.",
    )


class ItemOptions(MarginOptions, GradedOptions):
    """Compare judgments of useful passages with human labels, and by the resulting answers (ITEM)."""

    judges: list[str] = setting(
        ["vanilla", "exp_a", "imp_a", "k_sampling", "rank_gpt", "a_s", "a_r", "ar_s", "ar_r"],
        "Judges: methods of item, such as vanilla or ar_r:top_k=3,same_answer=0.9; or labelers by their names in "
        "`seper-reward label`.",
    )
    reference: str = setting(
        "delta_seper",
        "Labeler whose labels are compared with the judges' labels; 'none' compares with marks only, as do questions "
        "without gold answers (TREC DL, WebAP) if it needs them.",
    )


class SearchOptions(Options):
    """How much a workflow searches."""

    top_k: Count = setting(3, "Number of passages per search, >= 1.")
    max_searches: Count = setting(3, "Maximum number of searches for a question, >= 1; iter_retgen uses all of them.")


class WorkflowsOptions(PlotOptions, RetrieverOptions, SearchOptions, RetrievalOptions):
    """Compare workflows that search, reason and refuse, with ΔSePer credited to each step (SePer, Table 12)."""

    workflows: list[str] = setting(
        ["closed_book", "retrieve", "ret_robust", "flare", "ircot", "iter_retgen"],
        "Workflows: closed_book (no search), retrieve (one search), ret_robust (drops passages that do not entail "
        "the answer), flare (searches while the draft is unsure), ircot (each thought is the next query) or "
        "iter_retgen (each answer is part of the next query).",
    )
