"""Other labels and votes beside ΔSePer: ``evaluate erag|judgments|consistency|ensemble|compare``."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from seper_reward.command import (
    MarkedConfig,
    RetrievalConfig,
    check_depths,
    chosen,
    corpus_flag,
    marked_questions,
    needed_file,
    parse,
    questions_and_corpus,
    write_result,
)
from seper_reward.config import INPUT_HELP, RETRIEVER_HELP, CommandConfig, LabelerConfig, load_scorer
from seper_reward.runtime.settings import setting
from seper_reward.scorer import SePerScorer


@dataclass
class JudgedConfig(LabelerConfig, CommandConfig):
    """Settings of commands that compare labels with the answers of the reader that made them."""

    judging_seed: int = setting(
        1,
        "Seed of the responses that the reader answers whole lists with; another than that of the labels (seed), "
        "which would otherwise share their noise with what they are compared with.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.judging_seed == self.seed:
            raise ValueError(f"judging_seed must differ from seed, that of the labels, got {self.seed} for both")


@dataclass
class ERAGConfig(JudgedConfig, RetrievalConfig):
    """Correlate retrieval metrics by labels of single passages with the reader's score on the whole list (eRAG)."""

    retrievers: list[str] = setting(["bm25", "minilm"], f"{RETRIEVER_HELP} Several are compared.")
    labelers: list[str] = setting(
        ["erag", "delta_seper", "likelihood", "item", "contains", "gold"],
        "Labelers of single passages, by their names in `seper-reward label`.",
    )
    depths: list[int] = setting([1, 2, 5], "Numbers of passages that the reader sees together, each >= 1.")
    plot: str | None = setting(None, "Image file to plot the correlations of precision into; not given: none.")
    margin: float = setting(
        0.05, "Label above which a passage is relevant for MAP and MRR; recall and nDCG take labels below 0 as 0."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depths(self.depths)


@dataclass
class JudgmentsConfig(LabelerConfig, MarkedConfig):
    """Compare judgments of which passages are useful with people's marks, and by the answers they lead to (ITEM)."""

    file: str = setting("", f"{INPUT_HELP} Their passages carry 'relevant': true or false. Required.")
    judges: list[str] = setting(
        ["vanilla", "exp_a", "imp_a", "k_sampling", "rank_gpt", "a_s", "a_r", "ar_s", "ar_r"],
        "Who judges: methods of item (see item_method, which then has no effect), or labelers by their names in "
        "`seper-reward label`.",
    )
    reference: str = setting(
        "delta_seper",
        "Labeler whose labels are compared with those of the judges; 'none' compares them with marks only.",
    )
    margin: float = setting(0.05, "Label above which a passage counts as chosen.")


@dataclass
class SourcesConfig(RetrievalConfig):
    """Settings of commands that compare what the reader answers with the passages of several retrievers."""

    sources: list[str] = setting(
        ["none", "bm25@1", "bm25@5", "minilm@1", "minilm@5"],
        "Sources of passages: none (nothing is retrieved), background (written by the reader), or a retriever and the "
        "number of its passages, as in bm25@5; see --help of evaluate retrievers for names. They are joined by &, "
        "reranked by @RR, compressed by @CP and cut by @NUMBER, as in '(bm25@5&minilm@5)@RR@5'.",
    )


@dataclass
class ConsistencyConfig(SourcesConfig):
    """Do retrievers fail on the same questions, and why: win ratios, and where wrong answers come from (EoR)."""

    plot: str | None = setting(None, "Image file to plot the win ratios into, as a heat map; not given: none.")


@dataclass
class EnsembleConfig(SourcesConfig):
    """Compare votes over the answers with several retrievers' passages with the best single retriever (EoR)."""

    folds: int = setting(
        5, "Folds of the questions, >= 2: the weights of a vote are searched on the others, for each of them."
    )
    pooling: Literal["mean", "max", "majority", "plurality"] = setting(
        "mean",
        "How EoR makes one score of an answer's similarities to the others: mean, max, or the mean over those like "
        "it, for answers that at least half of them (majority) or most of them (plurality) are like.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds < 2 or len(self.sources) < 2:
            raise ValueError(f"expected at least two folds and sources, got {self.folds} and {self.sources}")


@dataclass
class CompareConfig(JudgedConfig):
    """Compare labelers by people's marks, by how well the reader answers, and by their costs, on several data sets."""

    data: list[str] = setting(
        ["demo=demo"],
        "Data sets as NAME=FILE: questions as JSON, JSONL (also .gz) or Parquet, or 'demo'; their passages carry "
        "'relevant': true or false. FILE#train, #dev or #test takes a split, by SHA-1 of the questions' ids. A file "
        "that is absent is skipped.",
    )
    limit: int | None = setting(
        None, "Number of questions of each data set, evenly spread over its file; not given: all."
    )
    labelers: list[str] = setting(
        ["delta_seper", "erag", "likelihood", "item", "contains", "gold"],
        "Labelers to compare, by their names in `seper-reward label`.",
    )
    depth: int = setting(2, "Number of a question's passages, nearest to it first, that the reader sees together.")
    output_dir: str = setting(
        "runs/compare",
        "Folder of the results (JSON, Markdown and a figure); the same command goes on with what is missing there.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("depth", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not self.data or not self.labelers or len(self.files) < len(self.data):
            raise ValueError(
                f"expected labelers, and data sets with names of their own, got {self.labelers} and {self.data}"
            )

    @property
    def files(self) -> dict[str, str]:
        """File by name of the data set, with its split.

        Raises:
            ValueError: An entry of ``data`` is not NAME=FILE, where a name can be that of a file.
        """
        files = {name: file for name, _, file in (each.partition("=") for each in self.data)}
        for name, file in files.items():
            if not re.fullmatch(r"[\w.-]+", name) or not re.fullmatch(r"[^#]+(#(train|dev|test))?", file):
                raise ValueError(f"data must be NAME=FILE or NAME=FILE#SPLIT, got {name}={file}")
        return files


def erag_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate erag``."""
    config = parse(ERAGConfig, arguments, "seper-reward evaluate erag")
    from seper_reward.evaluate.neighbours.erag import erag
    from seper_reward.labels.labelers import ERAGLabeler, ERAGOptions, LabelerOptions, load_labeler
    from seper_reward.reports.figures import plot_erag
    from seper_reward.reports.tables import erag_tables
    from seper_reward.retrieval import load_retriever

    queries, corpus = questions_and_corpus(config)
    scorer = load_scorer(config, config.seed)
    options = LabelerOptions(**config.labeler_options)
    # a list is scored as the preset says, also one without a passage
    greedy = ERAGOptions.preset(config.erag_preset).greedy
    result = erag(
        queries,
        {name: load_retriever(name, corpus) for name in config.retrievers},
        {name: load_labeler(name, lambda: scorer, options=options) for name in config.labelers},
        ERAGLabeler(scorer.with_sampling(seed=config.judging_seed), config.erag_metric, ERAGOptions(greedy=greedy)),
        depths=config.depths,
        margin=config.margin,
    )
    print(erag_tables(result))
    write_result(result, config)
    if config.plot:
        plot_erag(result, Path(config.plot))
    return f"seper-reward train retriever --input {config.file}{corpus_flag(config)} --labeler {config.labelers[0]}"


def judgments_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate judgments``."""
    config = parse(JudgmentsConfig, arguments, "seper-reward evaluate judgments")
    from seper_reward.evaluate.neighbours.judgments import judgments
    from seper_reward.labels.judgments import METHODS
    from seper_reward.labels.labelers import LabelerOptions, check_labeler, load_labeler
    from seper_reward.reports.tables import judgments_tables

    options = LabelerOptions(**config.labeler_options)
    for name in {*config.judges, config.reference} - {*METHODS, "none"}:
        check_labeler(name)
    queries = marked_questions(config, needed_file(config))
    scorer = load_scorer(config, config.seed)

    def judge(name: str) -> Any:
        if name in METHODS:
            return options.item(scorer, name)
        return load_labeler(name, lambda: scorer, options=options)

    result = judgments(
        scorer,
        queries,
        {name: judge(name) for name in config.judges},
        reference=None if config.reference == "none" else judge(config.reference),
        margin=config.margin,
    )
    print(judgments_tables(result))
    write_result(result, config)
    return f"seper-reward label --input {config.file} --labeler item --output_dir runs/item"


def consistency_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate consistency``."""
    config = parse(ConsistencyConfig, arguments, "seper-reward evaluate consistency")
    from seper_reward.evaluate.neighbours.consistency import consistency
    from seper_reward.reports.figures import plot_win_ratios
    from seper_reward.reports.tables import consistency_tables

    queries, scorer, sources = _read_sources(config)
    result = consistency(scorer, queries, sources)
    print(consistency_tables(result))
    write_result(result, config)
    if config.plot:
        plot_win_ratios(result, Path(config.plot))
    # without people's marks, which these questions need not have
    labelers = "erag delta_seper likelihood contains"
    return f"seper-reward evaluate erag --file {config.file}{corpus_flag(config)} --labelers {labelers}"


def ensemble_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate ensemble``."""
    config = parse(EnsembleConfig, arguments, "seper-reward evaluate ensemble")
    from seper_reward.baselines.ensemble import Ensemble
    from seper_reward.evaluate.neighbours.ensemble import ensemble
    from seper_reward.reports.neighbours import ensemble_tables

    queries, scorer, sources = _read_sources(config)
    result = ensemble(Ensemble(scorer), queries, sources, folds=config.folds, pooling=config.pooling)
    print(ensemble_tables(result))
    write_result(result, config)
    return f"seper-reward evaluate consistency --file {config.file}{corpus_flag(config)}"


def _read_sources(config: SourcesConfig) -> tuple[list[Any], SePerScorer, dict[str, Any]]:
    """Return the questions, the scorer, and by source what it finds for each question."""
    from seper_reward.baselines.pool import retrieve_sources

    queries, corpus = questions_and_corpus(config)
    scorer = load_scorer(config, config.seed)
    return (
        queries,
        scorer,
        retrieve_sources(config.sources, corpus, [query.question for query in queries], scorer.reader),
    )


def compare_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate compare``."""
    config = parse(CompareConfig, arguments, "seper-reward evaluate compare")
    from seper_reward.data.queries import read_examples
    from seper_reward.evaluate.neighbours.compare import CompareRun
    from seper_reward.labels.labelers import LabelerOptions, check_labeler
    from seper_reward.reports.figures import plot_compare
    from seper_reward.reports.neighbours import compare_markdown

    for name in config.labelers:
        check_labeler(name)
    run = CompareRun(
        Path(config.output_dir),
        asdict(config),
        lambda: load_scorer(config, config.seed),
        config.labelers,
        LabelerOptions(**config.labeler_options),
        depth=config.depth,
        judging_seed=config.judging_seed,
    )

    def read(file: str, split: str) -> list[Any]:
        return chosen(read_examples(file)[0], split, config.limit)

    results = run.run(config.files, read)
    text = compare_markdown(results)
    (run.folder / "results.md").write_text(text + "\n", encoding="utf-8")
    plot_compare(results, run.folder / "results.svg")
    print(text)
    file = next(iter(config.files.values())).partition("#")[0]
    return f"seper-reward label --input {file} --labeler {config.labelers[0]} --output_dir runs/label"
