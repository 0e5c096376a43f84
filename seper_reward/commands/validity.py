"""Is ΔSePer what it should be? ``evaluate correlation|repeats|robustness|transfer|counterfactual``."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seper_reward.commands.base import (
    MARKED_HELP,
    EvaluationConfig,
    MarkedConfig,
    ResultConfig,
    by_name,
    marked_questions,
    needed_file,
    parse,
    write_result,
)
from seper_reward.config import entailment_options, load_scorer
from seper_reward.estimators.seper import Estimator
from seper_reward.reader.backends import load_sampler
from seper_reward.reader.engine.servers import check_url
from seper_reward.reader.loading import reader_defaults
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.prompts import prompt_style
from seper_reward.reader.sampler import EngineOptions, ReaderOptions
from seper_reward.runtime.settings import check_types, setting
from seper_reward.scorer import SePerScorer

PASSAGES_HELP = "Passages to use per question: the relevant ones, then the first of the others; not given: all."


@dataclass
class CorrelationConfig(EvaluationConfig):
    """Correlate ΔSePer and other measures with people's marks of relevance (SePer, arXiv:2503.01478, Table 2)."""

    file: list[str] = setting([], f"One file or several, which become columns of one table. {MARKED_HELP}")
    passages_per_question: int | None = setting(None, PASSAGES_HELP)
    leave_out_known: bool = setting(
        False,
        "Whether questions that the reader's likeliest answer without passages gets right, by exact match, are left "
        "out, as in the paper.",
    )
    llm_judge: str = setting(
        "none",
        "Language model that judges the responses, too (yes or no; other replies are counted and left out): none, "
        "reader (the reader itself), a hub id or a folder; with llm_judge_engine, the model whose tokenizer is used.",
    )
    llm_judge_engine: list[str] = setting(
        [], "URLs of OpenAI-compatible servers (vLLM) that run the judge; not given: it runs in this process."
    )
    llm_judge_engine_model: str | None = setting(
        None, "Name of the judge on the servers; not given: the one model that they serve."
    )
    plot: str | None = setting(None, "Image file to plot the correlations with their intervals into; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for url in self.llm_judge_engine:
            check_url(url)
        if self.llm_judge in ("none", "reader") and (self.llm_judge_engine or self.llm_judge_engine_model):
            raise ValueError(
                f"llm_judge={self.llm_judge!r} does not run on an llm_judge_engine; name the model that the "
                "servers run by --llm_judge"
            )


@dataclass
class RepeatsConfig(MarkedConfig):
    """Repeat ΔSePer on other samples: spread, error and correlation over N by estimator (SePer, Figure 3, Table 4)."""

    passages_per_question: int | None = setting(None, PASSAGES_HELP)
    counts: list[int] = setting([1, 2, 3, 5, 10, 15, 20], "Numbers N of responses, each >= 1.")
    repeats: int = setting(10, "How often each N is drawn, without a response in common, >= 2.")
    estimators: list[str] = setting(
        ["official", "paper", "uniform", "mass", "default"],
        "Estimators to compare: the presets official, paper and default; uniform (all responses weigh the same), mass "
        "(default without the probabilities of the gold answers).",
    )
    timed_questions: int = setting(
        2, "Questions on which seconds are measured, without the cache, >= 0; 0 measures no cost."
    )
    plot: str | None = setting(None, "Image file to plot correlation, spread and error into; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.counts or not all(isinstance(count, int) and count >= 1 for count in self.counts):
            raise ValueError(f"counts must be whole numbers of at least 1, got {self.counts}")
        if self.repeats < 2 or self.timed_questions < 0:
            raise ValueError(
                "repeats must be at least 2 and timed_questions at least 0, got "
                f"{self.repeats} and {self.timed_questions}"
            )
        if self.estimator_options != Estimator():
            raise ValueError(
                "evaluate repeats compares estimators itself; leave out the options of SePer, and name --estimators"
            )


@dataclass
class RobustnessConfig(MarkedConfig):
    """Correlate ΔSePer with people's marks under other entailment models and prompts (SePer, Figure 7)."""

    passages_per_question: int | None = setting(None, PASSAGES_HELP)
    entailments: list[str] = setting(
        ["embedded", "lexical", "token_f1", "cosine"],
        "Entailment models to compare with that of the other settings: as --entailment, or a similarity in the place "
        "of one: lexical (the response holds the answer), token_f1 or cosine (of MiniLM's embeddings).",
    )
    prompts: list[str] = setting(
        ["brief", "few_shot", "paper"], "Styles of the prompt to compare with that of the other settings."
    )
    plot: str | None = setting(None, "Image file to plot the correlations with their intervals into; not given: none.")


@dataclass
class TransferConfig(ResultConfig):
    """Do labels hold for other readers? Agreement of their labels, corrected for sampling noise."""

    labels: list[str] = setting(
        [],
        "Folders written by `seper-reward label`, two or more, of the same questions and passages with other readers "
        "(or prompts), each with a --seed of its own. Required.",
    )
    margin: float = setting(
        0.05, "Distance from 0 from which on a label is help or harm, and two labels differ, in [0.01, 0.5]."
    )
    splits: int = setting(10, "How often a label's responses are split into random halves, >= 1.")
    resamples: int = setting(200, "Resamples of the questions for intervals of signs and orders, >= 20.")
    seed: int = setting(0, "Seed of the halves.")
    verdicts: str | None = setting(
        None,
        "JSONL file to write the verdict on each passage to, whether its label is safe for all readers; not given: "
        "none.",
    )
    plot: str | None = setting(None, "Image file to plot the labels of each pair of readers into; not given: none.")

    def __post_init__(self) -> None:
        check_types(self)
        if len(self.labels) < 2:
            raise ValueError(f"labels must be the folders of two readers or more, got {self.labels}")
        if not 0.01 <= self.margin <= 0.5:
            raise ValueError(f"margin must be in [0.01, 0.5], got {self.margin}")
        if self.splits < 1 or self.resamples < 20:
            raise ValueError(
                f"splits must be at least 1 and resamples at least 20, got {self.splits} and {self.resamples}"
            )


@dataclass
class CounterfactualConfig(MarkedConfig):
    """Compare ΔSePer of passages with a planted wrong answer ('counterfactual': true) and of relevant ones (RGB)."""


def correlation_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate correlation``."""
    config = parse(CorrelationConfig, arguments, "seper-reward evaluate correlation")
    from seper_reward.evaluation.validity.correlation import correlation, unknown_to
    from seper_reward.evaluation.validity.llm_judge import LLMJudge
    from seper_reward.reports.validity_figures import plot_correlation
    from seper_reward.reports.validity_tables import correlation_tables

    if not config.file:
        raise ValueError("--file is required: questions whose passages carry 'relevant'")
    sets = {
        name: with_passages(marked_questions(config, file), config.passages_per_question)
        for name, file in by_name(config.file).items()
    }
    scorer = load_scorer(config, config.seed)
    reader = load_judge(config, scorer)
    found = {}
    for name, queries in sets.items():
        asked = unknown_to(scorer, queries) if config.leave_out_known else queries
        judge = None if reader is None else LLMJudge(reader)  # it counts for each file
        found[name] = correlation(scorer, asked, judge=judge) | {"known_left_out": len(queries) - len(asked)}
    print(correlation_tables(found))
    write_result({"files": found}, config)
    if config.plot:
        plot_correlation(found, Path(config.plot))
    return f"seper-reward label --input {config.file[0]} --output_dir runs/label"


def with_passages(queries: list[Any], count: int | None) -> list[Any]:
    """Return the questions with ``count`` passages each, the relevant ones first; ``None`` leaves them as they are."""
    from seper_reward.evaluation.validity.contexts import choose_passages

    return queries if count is None else [choose_passages(query, count) for query in queries]


def load_judge(config: CorrelationConfig, scorer: SePerScorer) -> PromptedReader | None:
    """Return the language model that judges responses, loaded unless it is the scorer's reader; ``None`` for none.

    Raises:
        OSError: The model cannot be loaded; the message says what to do.
        ConnectionError: A server does not answer.
    """
    if config.llm_judge in ("none", "reader"):
        return None if config.llm_judge == "none" else scorer.reader
    prompt = reader_defaults(config.llm_judge).prompt
    options = ReaderOptions(dtype=config.dtype, device=config.device, trust_remote_code=config.trust_remote_code)
    engine = EngineOptions(
        tuple(config.llm_judge_engine), config.llm_judge_engine_model, config.engine_requests, config.engine_timeout
    )
    sampler = load_sampler(config.llm_judge, options=options, engine=engine)
    return PromptedReader(sampler, prompt=prompt, cache=scorer.cache)


def repeats_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate repeats``."""
    config = parse(RepeatsConfig, arguments, "seper-reward evaluate repeats")
    from seper_reward.evaluation.validity.repeats import repeats
    from seper_reward.reports.validity_figures import plot_repeats
    from seper_reward.reports.validity_tables import repeats_tables

    queries = with_passages(marked_questions(config, needed_file(config)), config.passages_per_question)
    result = repeats(
        load_scorer(config, config.seed),
        queries,
        config.estimators,
        counts=config.counts,
        times=config.repeats,
        timed_questions=config.timed_questions,
    )
    print(repeats_tables(result))
    write_result(result, config)
    if config.plot:
        plot_repeats(result, Path(config.plot))
    return f"seper-reward evaluate robustness --file {config.file}"


def robustness_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate robustness``."""
    config = parse(RobustnessConfig, arguments, "seper-reward evaluate robustness")
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.evaluation.validity.robustness import robustness
    from seper_reward.evaluation.validity.similarity import SIMILARITIES, SimilarityKernel, load_similarity
    from seper_reward.reports.validity_figures import plot_robustness
    from seper_reward.reports.validity_tables import robustness_tables

    file = needed_file(config)
    styles = {name: prompt_style(name, baseline=config.baseline, placebo=config.placebo) for name in config.prompts}
    queries = with_passages(marked_questions(config, file), config.passages_per_question)
    scorer = load_scorer(config, config.seed)

    def loader(name: str) -> Callable[[], Any]:
        if name == config.entailment:
            return lambda: scorer.entailment
        if name in SIMILARITIES:
            return lambda: SimilarityKernel(name, load_similarity(name, scorer.entailment.device))
        return lambda: EntailmentScorer.from_pretrained(name, replace(entailment_options(config), revision=None))

    result = robustness(scorer, queries, {name: loader(name) for name in config.entailments}, styles)
    print(robustness_tables(result))
    write_result(result, config)
    if config.plot:
        plot_robustness(result, Path(config.plot))
    return f"seper-reward label --input {config.file} --reader plain --seed 1 --output_dir runs/plain"


def transfer_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate transfer``."""
    config = parse(TransferConfig, arguments, "seper-reward evaluate transfer")
    from seper_reward.evaluation.validity.reader_labels import read_reader
    from seper_reward.evaluation.validity.transfer import transfer
    from seper_reward.reports.validity_figures import plot_transfer
    from seper_reward.reports.validity_tables import transfer_tables
    from seper_reward.runtime.json_files import write_lines

    result = transfer(
        [read_reader(folder, name) for name, folder in by_name(config.labels).items()],
        margin=config.margin,
        splits=config.splits,
        resamples=config.resamples,
        seed=config.seed,
    )
    print(transfer_tables(result))
    for pair in result["same_noise"]:
        print(
            f"warning: {pair} were labelled with one prompt and seed; if their tokenizers are the same, so is their "
            "sampling noise, and they seem to agree more than they do; label one of them with another --seed",
            file=sys.stderr,
        )
    if config.verdicts:
        write_lines(Path(config.verdicts), result["passages"])
    write_result({name: value for name, value in result.items() if name != "passages"}, config)
    if config.plot:
        plot_transfer(result, Path(config.plot))
    return f"seper-reward export --labels {config.labels[0]} --output lists.jsonl"


def counterfactual_command(arguments: list[str]) -> str:
    """Run ``seper-reward evaluate counterfactual``."""
    config = parse(CounterfactualConfig, arguments, "seper-reward evaluate counterfactual")
    from seper_reward.evaluation.validity.counterfactual import counterfactual

    file = needed_file(config)
    result = counterfactual(load_scorer(config, config.seed), marked_questions(config, file))
    print(json.dumps(result, indent=2))
    write_result(result, config)
    return f"seper-reward evaluate judge --entailment {config.entailment}"
