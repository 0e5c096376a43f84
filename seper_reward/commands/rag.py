"""Parts of a RAG system: ``evaluate components|retrievers|workflows``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seper_reward.command import (
    HARM_HELP,
    RetrievalConfig,
    check_depths,
    corpus_flag,
    parse,
    questions_and_corpus,
    write_result,
)
from seper_reward.config import RETRIEVER_HELP, load_scorer, load_scorers
from seper_reward.runtime.settings import setting


@dataclass
class ComponentsConfig(RetrievalConfig):
    """Measure what depth, reranking and prompt compression are worth to readers, by ΔSePer (SePer, Figures 4, 5)."""

    retriever: str = setting("bm25", RETRIEVER_HELP)
    candidates: int = setting(20, "Passages that are retrieved and reranked for each question, >= 1.")
    depths: list[int] = setting([1, 5, 10], "Numbers of passages that the reader sees together, each >= 1.")
    rerankers: list[str] = setting(
        ["none", "minilm"],
        "Rerankers of the candidates: none, minilm (by the embedded bi-encoder), or folders or hub ids of "
        "cross-encoders; none is measured always.",
    )
    compressions: list[str] = setting(
        ["none", "selective_context", "longllmlingua"],
        "Prompt compression by the reader's log-probabilities: none, selective_context (words that it could not guess "
        "are kept), selective_context_sentences, longllmlingua (passages that make the question likely are kept) or "
        "longllmlingua_sentences; none is measured always.",
    )
    keep: float = setting(0.5, "Share of the words, sentences or tokens that compression keeps, in (0, 1].")
    readers: list[str] = setting(
        [],
        "Readers to compare: embedded, plain, hub ids or folders, or TOKENIZER@URL for one that a server at a URL "
        "runs; not given: that of --reader and --engine.",
    )
    margin: float = setting(0.05, HARM_HELP)
    plot: str | None = setting(None, "Image file to plot ΔSePer over the number of passages into; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depths(self.depths)
        if self.candidates < max(self.depths):
            raise ValueError(f"candidates must be at least the greatest of depths, got {self.candidates}")


@dataclass
class WorkflowsConfig(RetrievalConfig):
    """Compare workflows that search, reason and refuse, with ΔSePer credited to each step (SePer, Table 12)."""

    retriever: str = setting("bm25", RETRIEVER_HELP)
    workflows: list[str] = setting(
        ["closed_book", "retrieve", "ret_robust", "flare", "ircot", "iter_retgen"],
        "Workflows: closed_book (no search), retrieve (one search), ret_robust (passages that do not entail the "
        "answer are put away), flare (search while the draft is unsure), ircot (each thought is the next query) or "
        "iter_retgen (each answer is part of the next query).",
    )
    top_k: int = setting(3, "Passages that a search finds, >= 1.")
    max_searches: int = setting(3, "Most searches for a question, >= 1; iter_retgen makes as many.")
    refuse_below: float = setting(
        0.5,
        "ret_robust: probability, in [0, 1], that a passage entails the answer, below which passages are put away.",
    )
    sure_from: float = setting(
        0.8, "flare: probability, in [0, 1], that every token of a draft must have so that nothing is searched for."
    )
    mask_below: float = setting(
        0.4, "flare: probability, in [0, 1], below which a token of the draft is left out of the query."
    )
    max_thought_tokens: int = setting(48, "ircot: longest thought in tokens, >= 1.")
    plot: str | None = setting(None, "Image file to plot accuracy over searches into; not given: none.")

    @property
    def workflow_options(self) -> dict[str, Any]:
        """The fields of ``WorkflowOptions``."""
        names = ("top_k", "max_searches", "refuse_below", "sure_from", "mask_below", "max_thought_tokens")
        return {name: getattr(self, name) for name in names}


def components_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate components``."""
    config = parse(ComponentsConfig, arguments, "seper-reward evaluate components")
    from seper_reward.evaluate.rag.components import NONE, components
    from seper_reward.reports.figures import plot_components
    from seper_reward.reports.rag_tables import components_tables
    from seper_reward.retrieval import load_reranker, load_retriever

    queries, corpus = questions_and_corpus(config)
    result = components(
        load_scorers(config, config.readers, config.seed),
        queries,
        load_retriever(config.retriever, corpus),
        {name: load_reranker(name) for name in config.rerankers if name != NONE},
        config.compressions,
        depths=config.depths,
        candidates=config.candidates,
        keep=config.keep,
        margin=config.margin,
    )
    print(components_tables(result))
    write_result(result, config)
    if config.plot:
        plot_components(result, Path(config.plot))
    return f"seper-reward evaluate workflows --file {config.file}{corpus_flag(config)}"


def workflows_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate workflows``."""
    config = parse(WorkflowsConfig, arguments, "seper-reward evaluate workflows")
    from seper_reward.baselines.session import WorkflowOptions
    from seper_reward.evaluate.rag.workflows import compare_workflows
    from seper_reward.reports.policy_figures import Tradeoff, plot_tradeoff
    from seper_reward.reports.rag_tables import workflows_tables
    from seper_reward.retrieval import load_retriever

    options = WorkflowOptions(**config.workflow_options)
    queries, corpus = questions_and_corpus(config)
    retriever = load_retriever(config.retriever, corpus)
    result = compare_workflows(load_scorer(config, config.seed), queries, retriever, config.workflows, options)
    print(workflows_tables(result))
    write_result(result, config)
    if config.plot:
        points = {
            name: (row["searches"]["mean"], row["accuracy"]["mean"]) for name, row in result["workflows"].items()
        }
        plot_tradeoff(Tradeoff(points, []), Path(config.plot))
    return f"seper-reward evaluate components --file {config.file}{corpus_flag(config)}"
