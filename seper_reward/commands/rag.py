"""Parts of a RAG system: ``evaluate retrievers``."""

from dataclasses import dataclass
from pathlib import Path

from seper_reward.command import (
    HARM_HELP,
    RetrievalConfig,
    check_depths,
    corpus_flag,
    parse,
    questions_and_corpus,
    write_result,
)
from seper_reward.config import RETRIEVER_HELP, load_scorer
from seper_reward.runtime.settings import setting


@dataclass
class RetrieversConfig(RetrievalConfig):
    """Compare retrievers by relevance, by ΔSePer and by the reader's answers (SePer, Tables 10 and 11)."""

    retrievers: list[str] = setting(["bm25", "minilm", "bm25+minilm"], f"Retrievers. {RETRIEVER_HELP}")
    depths: list[int] = setting([1, 5], "Numbers of passages that count, each >= 1.")
    margin: float = setting(0.05, HARM_HELP)
    plot: str | None = setting(None, "Image file to plot the measures by retriever into; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depths(self.depths)


def retrievers_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate retrievers``."""
    config = parse(RetrieversConfig, arguments, "seper-reward evaluate retrievers")
    from seper_reward.evaluate.rag.retrievers import compare_retrievers
    from seper_reward.reports.figures import plot_retrievers
    from seper_reward.reports.rag_tables import retrievers_tables
    from seper_reward.retrieval import load_retriever

    queries, corpus = questions_and_corpus(config)
    questions = [query.question for query in queries]
    found = {name: load_retriever(name, corpus).retrieve(questions, max(config.depths)) for name in config.retrievers}
    scorer = load_scorer(config, config.seed)
    result = compare_retrievers(scorer, queries, found, depths=config.depths, margin=config.margin)
    print(retrievers_tables(result))
    write_result(result, config)
    if config.plot:
        plot_retrievers(result, Path(config.plot))
    return f"seper-reward train retriever --input {config.file}{corpus_flag(config)}"
