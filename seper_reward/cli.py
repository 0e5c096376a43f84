"""Command line: ``seper-reward label``, ``evaluate``, ``train``, ``export``, ``report`` and the others.

Each command returns what to run next, which is printed when it is done.
"""

import difflib
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seper_reward.config import (
    AuditConfig,
    CompareConfig,
    ComponentsConfig,
    ConsistencyConfig,
    CopyConfig,
    CorrelationConfig,
    CounterfactualConfig,
    EnsembleConfig,
    EquivalenceConfig,
    ERAGConfig,
    EvaluationConfig,
    ExportConfig,
    JudgmentsConfig,
    LabelConfig,
    MarkedConfig,
    PushConfig,
    ReestimateConfig,
    RepeatsConfig,
    ReportConfig,
    RetrievalConfig,
    RetrieversConfig,
    RobustnessConfig,
    SaveConfig,
    ServeConfig,
    StressConfig,
    TransferConfig,
    WorkflowsConfig,
    default_block,
    entailment_options,
    load_judge,
    load_scorer,
    load_scorers,
)
from seper_reward.runtime.json_files import naming
from seper_reward.runtime.parser import parse_settings
from seper_reward.shipped import RECIPES, configs_folder, copy_configs, is_ours, run_recipe

if TYPE_CHECKING:
    from seper_reward.data.queries import Examples

C = TypeVar(
    "C",
    AuditConfig,
    LabelConfig,
    CompareConfig,
    ComponentsConfig,
    ConsistencyConfig,
    CopyConfig,
    CorrelationConfig,
    CounterfactualConfig,
    EnsembleConfig,
    EquivalenceConfig,
    ERAGConfig,
    ExportConfig,
    JudgmentsConfig,
    PushConfig,
    ReestimateConfig,
    RepeatsConfig,
    ReportConfig,
    RetrieversConfig,
    RobustnessConfig,
    SaveConfig,
    ServeConfig,
    StressConfig,
    TransferConfig,
    WorkflowsConfig,
)

_USAGE = """\
usage: seper-reward COMMAND [--config FILE.yaml] [--setting value ...] | --version

Measures what retrieved passages do to a reader model's belief in the right answer (ΔSePer).

commands:
  label                    label how much each passage helps to answer its question
  demo                     the same with the project's own questions and the embedded models, into runs/demo
  evaluate correlation     compare ΔSePer and other measures with people's marks of relevance
  evaluate repeats         spread, error and cost of SePer over the number of responses, by estimator
  evaluate robustness      compare ΔSePer with people's marks under other entailment models and prompts
  evaluate transfer        do labels hold for other readers: agreement of label folders without sampling noise
  evaluate counterfactual  compare ΔSePer of passages with planted wrong answers and of relevant ones
  evaluate erag            correlate metrics of retrieved lists, by several labels, with how well the reader answers
  evaluate judgments       compare judgments of what is useful with people's marks, and by the answers they lead to
  evaluate consistency     do retrievers fail on the same questions, and where do wrong answers come from
  evaluate ensemble        let the answers with several retrievers vote, and compare with the best retriever
  evaluate compare         compare labelers side by side, on several data sets
  evaluate components      what depth, reranking and prompt compression are worth to the reader
  evaluate retrievers      compare retrievers by relevance, by ΔSePer and by the reader's answers
  evaluate workflows       compare workflows that search, reason and refuse, step by step
  evaluate equivalence     compare the entailment model with people's verdicts on responses
  evaluate stress          set traps for the entailment model: does it say "right" to texts that say nothing
  reestimate               compute labels again by other options of SePer, without asking the reader
  export                   write labels for sentence-transformers, Tevatron, FlagEmbedding or TREC tools
  audit-negatives          find mined hard negatives that hold an answer, and list, relabel or drop them
  push                     upload labels or a trained model to the Hugging Face hub
  report                   a page of labels and evaluations (.html), or a plot of the beliefs in one question
  save-reader              save a reader as a plain model folder, for an engine (vLLM) to serve
  serve                    answer trainers over HTTP: beliefs, ΔSePer and rewards from one scorer for all of them
  configs copy             write the configurations that the documentation names into a folder
{recipes}

`seper-reward COMMAND --help` explains its settings by group, `--help all` also those of TRL and transformers. A YAML
file given with --config holds the same settings; the command line wins. Several processes:
torchrun --nproc_per_node 2 -m seper_reward label ...
""".format(recipes="\n".join(f"  {f'train {name}':<24} {text}" for name, text in RECIPES.items()))
_GROUPS = ("evaluate", "configs", "train")  # first words of commands of two words
_RESUMING = {"label", "demo", *(f"train {name}" for name in RECIPES if name not in ("sft", "new-head"))}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 after a message if the input or a setting is at fault, or 130 after Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # tables hold Δ and –, which not every terminal can show
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands: dict[str, Callable[[list[str]], str]] = {
        "label": _label,
        "demo": _demo,
        "evaluate correlation": _correlation,
        "evaluate repeats": _repeats,
        "evaluate robustness": _robustness,
        "evaluate transfer": _transfer,
        "evaluate counterfactual": _counterfactual,
        "evaluate erag": _erag,
        "evaluate judgments": _judgments,
        "evaluate consistency": _consistency,
        "evaluate ensemble": _ensemble,
        "evaluate compare": _compare,
        "evaluate components": _components,
        "evaluate retrievers": _retrievers,
        "evaluate workflows": _workflows,
        "evaluate equivalence": _equivalence,
        "evaluate stress": _stress,
        "reestimate": _reestimate,
        "export": _export,
        "audit-negatives": _audit_negatives,
        "push": _push,
        "report": _report,
        "save-reader": _save_reader,
        "serve": _serve,
        "configs copy": _copy_configs,
        **{f"train {recipe}": partial(_train, recipe) for recipe in RECIPES},
    }
    if arguments == ["--version"]:
        print(f"seper-reward {version('seper-reward')}")
        return 0
    for words in (1, 2):
        name = " ".join(arguments[:words])
        if name in commands:
            return _run(name, commands[name], arguments[words:])
    if {"-h", "--help"} & set(arguments):
        print(_USAGE)
        return 0
    if not arguments:
        print(_USAGE, file=sys.stderr)
        return 2
    name = " ".join(arguments[: 2 if arguments[0] in _GROUPS else 1])
    nearest = [] if name.startswith("-") else difflib.get_close_matches(name, commands, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected one of {', '.join(commands)}"
    print(f"seper-reward: unknown command {name!r}; {hint} (seper-reward --help)", file=sys.stderr)
    return 2


def _run(name: str, command: Callable[[list[str]], str], arguments: list[str]) -> int:
    """Run a command, print what to run next, and return its exit status; errors that a user can mend are one line."""
    try:
        following = command(arguments)
    except (OSError, ValueError) as error:
        if name.startswith("train ") and isinstance(error, ValueError) and not _is_message(error):
            raise
        print(f"seper-reward {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hint = "; what is finished stays on disk, and the same command goes on" if name in _RESUMING else ""
        print(f"\nseper-reward {name}: interrupted{hint}", file=sys.stderr)
        return 130
    if following and os.environ.get("RANK", "0") == "0":
        print(f"next: {following}", file=sys.stderr)  # not among the results, which a program may read
    return 0


def _is_message(error: ValueError) -> bool:
    """Whether our own code raised an error, which says what to do; one of a trainer's library needs its traceback."""
    return is_ours(traceback.extract_tb(error.__traceback__)[-1].filename)


def _demo(arguments: list[str]) -> str:
    return _label(["--config", str(configs_folder() / "label" / "demo.yaml"), *arguments], "demo")


def _copy_configs(arguments: list[str]) -> str:
    config = _parse(CopyConfig, arguments, "seper-reward configs copy")
    copies = copy_configs(Path(config.to))
    print("\n".join(map(str, copies)))
    return f"seper-reward train retriever --config {Path(config.to) / 'retriever' / 'demo.yaml'}"


def _train(recipe: str, arguments: list[str]) -> str:
    run_recipe(recipe, arguments)
    return ""  # recipes say it themselves: some of them can also be run as modules


def _label(arguments: list[str], command: str = "label") -> str:
    config = _parse(LabelConfig, arguments, f"seper-reward {command}")
    from seper_reward.data.rows import BadRowError
    from seper_reward.labels.labelers import LabelerOptions, load_labeler
    from seper_reward.labels.plans import SetOptions
    from seper_reward.labels.provenance import backend_of
    from seper_reward.labels.rows import LABELS_PARQUET
    from seper_reward.labels.run import LabelRun
    from seper_reward.reports.tables import profile_table
    from seper_reward.reports.tracking import LabelTracker, Run
    from seper_reward.runtime.distributed import process_state, together
    from seper_reward.runtime.parquet_files import write_parquet
    from seper_reward.runtime.profiling import profiling

    sets = None if config.set_options is None else SetOptions(**config.set_options)
    queries, rejected = _read(config)
    if rejected and config.strict:
        raise BadRowError("; ".join(f"{row.where}: {row.reason}" for row in rejected[:5]))
    if not queries:
        first = f"; the first: {rejected[0].where}: {rejected[0].reason}" if rejected else ""
        raise ValueError(f"{config.input}: expected at least one usable question, got none{first}")
    main_process = process_state().is_main_process
    if rejected and main_process:
        print(f"{len(rejected)} rows cannot be used, see rejected.jsonl; {rejected[0].where}: {rejected[0].reason}")
    settings = asdict(config)
    if config.backend == "auto":  # a resumed run stays with the backend that it began with
        config = replace(config, backend=together(lambda: backend_of(config.output_dir)) or config.backend)
    options = LabelerOptions(**config.labeler_options)
    labeler = load_labeler(config.labeler, lambda: load_scorer(config, config.seed), sets, options)
    run = LabelRun(
        config.output_dir,
        labeler,
        queries,
        rejected,
        settings,
        block=config.block_on(labeler.device),
        accept_versions=config.accept_versions,
        margin=config.margin,
    )
    report_to = "none" if run.complete else config.report_to
    with Run(report_to, "label", {**settings, "provenance": run.provenance}, run.folder) as tracked:
        cache = labeler.scorer.cache if labeler.scorer is not None else None
        tracker = LabelTracker(tracked, labeler.name, cache, run.finished)
        with profiling() if config.profile else nullcontext() as profile:
            summary = run.run(strict=config.strict, on_label=tracker.progress)
        if profile is not None:
            tracked.log(profile.numbers())
        if main_process and report_to != "none":
            tracker.finish(run.labels(), summary, run.folder)
    if main_process and config.output_format == "parquet":
        write_parquet(run.folder / LABELS_PARQUET, run.labels())
    if main_process:
        _show_summary(summary, labeler.name, run.folder, config.margin)
        if profile is not None:
            print(f"\n{profile_table(profile)}")
    return _after_labels(run.folder, labeler.name)


def _correlation(arguments: list[str]) -> str:
    config = _parse(CorrelationConfig, arguments, "seper-reward evaluate correlation")
    from seper_reward.evaluation.correlation import correlation, unknown_to
    from seper_reward.evaluation.llm_judge import LLMJudge
    from seper_reward.reports.validity_figures import plot_correlation
    from seper_reward.reports.validity_tables import correlation_tables

    if not config.file:
        raise ValueError("--file is required: questions whose passages carry 'relevant'")
    sets = {name: _with_passages(config, _marked(config, file)) for name, file in _by_name(config.file).items()}
    scorer = load_scorer(config, config.seed)
    reader = load_judge(config, scorer)
    found = {}
    for name, queries in sets.items():
        asked = unknown_to(scorer, queries) if config.leave_out_known else queries
        judge = None if reader is None else LLMJudge(reader)  # it counts for each file
        found[name] = correlation(scorer, asked, judge=judge) | {"known_left_out": len(queries) - len(asked)}
    print(correlation_tables(found))
    _write({"files": found}, config)
    if config.plot:
        plot_correlation(found, Path(config.plot))
    return f"seper-reward label --input {config.file[0]} --output_dir runs/label"


def _repeats(arguments: list[str]) -> str:
    config = _parse(RepeatsConfig, arguments, "seper-reward evaluate repeats")
    from seper_reward.evaluation.repeats import repeats
    from seper_reward.reports.validity_figures import plot_repeats
    from seper_reward.reports.validity_tables import repeats_tables

    queries = _with_passages(config, _marked(config, _needed_file(config)))
    result = repeats(
        load_scorer(config, config.seed),
        queries,
        config.estimators,
        counts=config.counts,
        times=config.repeats,
        timed_questions=config.timed_questions,
    )
    print(repeats_tables(result))
    _write(result, config)
    if config.plot:
        plot_repeats(result, Path(config.plot))
    return f"seper-reward evaluate robustness --file {config.file}"


def _robustness(arguments: list[str]) -> str:
    config = _parse(RobustnessConfig, arguments, "seper-reward evaluate robustness")
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.evaluation.robustness import robustness
    from seper_reward.evaluation.similarity import SIMILARITIES, SimilarityKernel, load_similarity
    from seper_reward.reader.prompts import prompt_style
    from seper_reward.reports.validity_figures import plot_robustness
    from seper_reward.reports.validity_tables import robustness_tables

    file = _needed_file(config)
    styles = {name: prompt_style(name, baseline=config.baseline, placebo=config.placebo) for name in config.prompts}
    queries = _with_passages(config, _marked(config, file))
    scorer = load_scorer(config, config.seed)

    def loader(name: str) -> Callable[[], Any]:
        if name == config.entailment:
            return lambda: scorer.entailment
        if name in SIMILARITIES:
            return lambda: SimilarityKernel(name, load_similarity(name, scorer.entailment.device))
        return lambda: EntailmentScorer.from_pretrained(name, replace(entailment_options(config), revision=None))

    result = robustness(scorer, queries, {name: loader(name) for name in config.entailments}, styles)
    print(robustness_tables(result))
    _write(result, config)
    if config.plot:
        plot_robustness(result, Path(config.plot))
    return f"seper-reward label --input {config.file} --reader plain --seed 1 --output_dir runs/plain"


def _transfer(arguments: list[str]) -> str:
    config = _parse(TransferConfig, arguments, "seper-reward evaluate transfer")
    from seper_reward.evaluation.reader_labels import read_reader
    from seper_reward.evaluation.transfer import transfer
    from seper_reward.reports.validity_figures import plot_transfer
    from seper_reward.reports.validity_tables import transfer_tables
    from seper_reward.runtime.json_files import write_lines

    result = transfer(
        [read_reader(folder, name) for name, folder in _by_name(config.labels).items()],
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
    _write({name: value for name, value in result.items() if name != "passages"}, config)
    if config.plot:
        plot_transfer(result, Path(config.plot))
    return f"seper-reward export --labels {config.labels[0]} --output lists.jsonl"


def _counterfactual(arguments: list[str]) -> str:
    config = _parse(CounterfactualConfig, arguments, "seper-reward evaluate counterfactual")
    from seper_reward.evaluation.counterfactual import counterfactual

    file = _needed_file(config)
    _show(counterfactual(load_scorer(config, config.seed), _marked(config, file)), config)
    return f"seper-reward evaluate stress --entailment {config.entailment}"


def _erag(arguments: list[str]) -> str:
    config = _parse(ERAGConfig, arguments, "seper-reward evaluate erag")
    from seper_reward.evaluation.erag import erag
    from seper_reward.labels.labelers import ERAGLabeler, ERAGOptions, LabelerOptions, load_labeler
    from seper_reward.reports.tables import erag_tables
    from seper_reward.retrieval import load_retriever

    queries, corpus = _with_corpus(config)
    scorer = load_scorer(config, config.seed)
    options = LabelerOptions(**config.labeler_options)
    # a list is scored as the preset says, also one without a passage
    greedy = ERAGOptions.preset(config.erag_preset).greedy
    result = erag(
        queries,
        {name: load_retriever(name, corpus) for name in config.retrievers},
        {name: load_labeler(name, lambda: scorer, options=options) for name in config.labelers},
        ERAGLabeler(scorer, config.erag_metric, ERAGOptions(greedy=greedy)),
        depths=config.depths,
        margin=config.margin,
    )
    print(erag_tables(result))
    _write(result, config)
    return f"seper-reward train retriever --input {config.file}{_corpus_flag(config)} --labeler {config.labelers[0]}"


def _consistency(arguments: list[str]) -> str:
    config = _parse(ConsistencyConfig, arguments, "seper-reward evaluate consistency")
    from seper_reward.evaluation.consistency import consistency
    from seper_reward.reports.figures import plot_win_ratios
    from seper_reward.reports.tables import consistency_tables
    from seper_reward.retrieval import retrieve_sources

    queries, corpus = _with_corpus(config)
    scorer = load_scorer(config, config.seed)
    sources = retrieve_sources(config.sources, corpus, [query.question for query in queries], scorer.reader)
    result = consistency(scorer, queries, sources)
    print(consistency_tables(result))
    _write(result, config)
    if config.plot:
        plot_win_ratios(result, Path(config.plot))
    return f"seper-reward evaluate erag --file {config.file}{_corpus_flag(config)}"


def _corpus_flag(config: RetrievalConfig) -> str:
    return f" --corpus {config.corpus}" if config.corpus else ""


def _ensemble(arguments: list[str]) -> str:
    config = _parse(EnsembleConfig, arguments, "seper-reward evaluate ensemble")
    from seper_reward.evaluation.ensemble import ensemble
    from seper_reward.reports.neighbours import ensemble_tables
    from seper_reward.retrieval import Ensemble, retrieve_sources

    queries, corpus = _with_corpus(config)
    scorer = load_scorer(config, config.seed)
    sources = retrieve_sources(config.sources, corpus, [query.question for query in queries], scorer.reader)
    result = ensemble(Ensemble(scorer), queries, sources, folds=config.folds, pooling=config.pooling)
    print(ensemble_tables(result))
    _write(result, config)
    return f"seper-reward evaluate consistency --file {config.file}{_corpus_flag(config)}"


def _compare(arguments: list[str]) -> str:
    config = _parse(CompareConfig, arguments, "seper-reward evaluate compare")
    from seper_reward.data.queries import read_examples
    from seper_reward.evaluation.compare import CompareRun
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
    )

    def read(file: str, split: str) -> list[Any]:
        return _chosen(read_examples(file)[0], split, config.limit)

    results = run.run(config.files, read)
    text = compare_markdown(results)
    (run.folder / "results.md").write_text(text + "\n", encoding="utf-8")
    plot_compare(results, run.folder / "results.svg")
    print(text)
    file = next(iter(config.files.values())).partition("#")[0]
    return f"seper-reward label --input {file} --labeler {config.labelers[0]} --output_dir runs/label"


def _components(arguments: list[str]) -> str:
    config = _parse(ComponentsConfig, arguments, "seper-reward evaluate components")
    from seper_reward.evaluation.components import NONE, components
    from seper_reward.reports.figures import plot_components
    from seper_reward.reports.rag_tables import components_tables
    from seper_reward.retrieval import load_reranker, load_retriever

    queries, corpus = _with_corpus(config)
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
    _write(result, config)
    if config.plot:
        plot_components(result, Path(config.plot))
    return f"seper-reward evaluate workflows --file {config.file}{_corpus_flag(config)}"


def _retrievers(arguments: list[str]) -> str:
    config = _parse(RetrieversConfig, arguments, "seper-reward evaluate retrievers")
    from seper_reward.evaluation.retrievers import compare_retrievers
    from seper_reward.reports.figures import plot_retrievers
    from seper_reward.reports.rag_tables import retrievers_tables
    from seper_reward.retrieval import load_retriever

    queries, corpus = _with_corpus(config)
    questions = [query.question for query in queries]
    found = {name: load_retriever(name, corpus).retrieve(questions, max(config.depths)) for name in config.retrievers}
    scorer = load_scorer(config, config.seed)
    result = compare_retrievers(scorer, queries, found, depths=config.depths, margin=config.margin)
    print(retrievers_tables(result))
    _write(result, config)
    if config.plot:
        plot_retrievers(result, Path(config.plot))
    return f"seper-reward train retriever --input {config.file}{_corpus_flag(config)}"


def _workflows(arguments: list[str]) -> str:
    config = _parse(WorkflowsConfig, arguments, "seper-reward evaluate workflows")
    from seper_reward.evaluation.workflows import compare_workflows
    from seper_reward.reports.figures import Tradeoff, plot_tradeoff
    from seper_reward.reports.rag_tables import workflows_tables
    from seper_reward.retrieval import load_retriever
    from seper_reward.retrieval.session import WorkflowOptions

    options = WorkflowOptions(**config.workflow_options)
    queries, corpus = _with_corpus(config)
    retriever = load_retriever(config.retriever, corpus)
    result = compare_workflows(load_scorer(config, config.seed), queries, retriever, config.workflows, options)
    print(workflows_tables(result))
    _write(result, config)
    if config.plot:
        points = {
            name: (row["searches"]["mean"], row["accuracy"]["mean"]) for name, row in result["workflows"].items()
        }
        plot_tradeoff(Tradeoff(points, []), Path(config.plot))
    return f"seper-reward evaluate components --file {config.file}{_corpus_flag(config)}"


def _with_corpus(config: RetrievalConfig) -> tuple[list[Any], dict[str, Any]]:
    """Read the questions of the split and the corpus to retrieve from: that of the settings, or their own passages."""
    from seper_reward.data.queries import pool_passages

    examples, corpus = _examples(config, _needed_file(config))
    queries = _chosen(examples, config.split, config.limit)
    if corpus is None:
        corpus, queries = pool_passages(queries)
    return queries, corpus


def _judgments(arguments: list[str]) -> str:
    config = _parse(JudgmentsConfig, arguments, "seper-reward evaluate judgments")
    from seper_reward.evaluation.judgments import judgments
    from seper_reward.labels.judgments import METHODS
    from seper_reward.labels.labelers import LabelerOptions, check_labeler, load_labeler
    from seper_reward.reports.tables import judgments_tables

    options = LabelerOptions(**config.labeler_options)
    for name in {*config.judges, config.reference} - {*METHODS, "none"}:
        check_labeler(name)
    queries = _marked(config, _needed_file(config))
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
    _write(result, config)
    return f"seper-reward label --input {config.file} --labeler item --output_dir runs/item"


def _equivalence(arguments: list[str]) -> str:
    config = _parse(EquivalenceConfig, arguments, "seper-reward evaluate equivalence")
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.evaluation.equivalence import equivalence, read_verdicts
    from seper_reward.reports.figures import plot_equivalence
    from seper_reward.reports.tables import equivalence_table

    if not config.file:
        raise ValueError("--file is required: questions, answers, responses and human verdicts")
    verdicts = read_verdicts(config.file, config.column_by)
    judge = EntailmentScorer.from_pretrained(config.entailment, entailment_options(config))
    result = equivalence(judge, verdicts, threshold=config.threshold)
    print(equivalence_table(result))
    _write(result, config)
    if config.plot:
        plot_equivalence(result, Path(config.plot))
    return f"seper-reward evaluate stress --entailment {config.entailment}"


def _stress(arguments: list[str]) -> str:
    config = _parse(StressConfig, arguments, "seper-reward evaluate stress")
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.evaluation.stress import stress
    from seper_reward.reports.tables import stress_table

    result = stress(EntailmentScorer.from_pretrained(config.entailment, entailment_options(config)))
    print(stress_table(result))
    _write(result, config)
    return f"seper-reward label --entailment {config.entailment} --input QUESTIONS.jsonl"


def _marked(config: EvaluationConfig, file: str) -> list[Any]:
    """Read the questions of the split; raise if a row is unusable."""
    return _chosen(_examples(config, file)[0], config.split, config.limit)


def _with_passages(config: CorrelationConfig | RepeatsConfig | RobustnessConfig, queries: list[Any]) -> list[Any]:
    """Return the questions with as many passages as the settings say."""
    from seper_reward.evaluation.contexts import choose_passages

    if config.passages_per_question is None:
        return queries
    return [choose_passages(query, config.passages_per_question) for query in queries]


def _by_name(paths: Sequence[str]) -> dict[str, str]:
    """Return files or folders by their names, without the endings of data; by their paths where names are the same."""
    if len(set(paths)) < len(paths):
        raise ValueError(f"expected different files or folders, got {', '.join(paths)}")
    names = [re.sub(r"\.(jsonl?|parquet)(\.gz)?$", "", Path(path).name) for path in paths]
    return dict(zip(names if len(set(names)) == len(names) else paths, paths, strict=True))


def _needed_file(config: MarkedConfig) -> str:
    if not config.file:
        raise ValueError("--file is required: questions whose passages carry 'relevant'")
    return config.file


def _chosen(examples: "Examples", split: str, limit: int | None) -> list[Any]:
    """Return the questions of the split; raise if a row is unusable."""
    from seper_reward.data.rows import BadRowError
    from seper_reward.data.splits import split_of, spread

    if examples.rejected:
        first = examples.rejected[0]
        raise BadRowError(f"{first.where}: {first.reason} ({len(examples.rejected)} unusable rows in all)")
    return spread([query for query in examples.queries if split in ("all", split_of(query.id))], limit)


def _examples(
    config: LabelConfig | EvaluationConfig, source: str, *, answers_needed: bool = True, retrieved: bool = False
) -> tuple["Examples", dict[str, Any] | None]:
    """Read the questions of a source and the corpus, and say what was recognised."""
    from seper_reward.data.queries import read_examples
    from seper_reward.runtime.distributed import process_state

    examples, corpus = read_examples(
        source,
        config.corpus,
        replace(config.input_options, retrieved=retrieved),
        answers_needed=answers_needed,
        most=config.limit if config.streaming else None,
    )
    if examples.about and process_state().is_main_process:
        print(examples.about, file=sys.stderr)  # standard output may hold a result as JSON
    return examples, corpus


def _show(result: dict[str, Any], config: MarkedConfig) -> None:
    print(json.dumps(result, indent=2))
    _write(result, config)


def _write(
    result: dict[str, Any], config: EvaluationConfig | EquivalenceConfig | StressConfig | TransferConfig
) -> None:
    if config.json:
        path = Path(config.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**result, "settings": asdict(config)}, indent=2)
        with naming(path):
            path.write_text(text + "\n", encoding="utf-8")


def _reestimate(arguments: list[str]) -> str:
    config = _parse(ReestimateConfig, arguments, "seper-reward reestimate")
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.estimators.judge import BeliefJudge
    from seper_reward.labels.reestimate import reestimate
    from seper_reward.labels.rows import DELTA_SEPER
    from seper_reward.runtime.cache import Cache

    entailment = EntailmentScorer.from_pretrained(config.entailment, entailment_options(config))
    judge = BeliefJudge(entailment, config.estimator_options, Cache(config.cache) if config.cache else None)
    summary = reestimate(config.labels, config.output_dir, judge, asdict(config), config.margin)
    _show_summary(summary, DELTA_SEPER, Path(config.output_dir), config.margin)
    return _after_labels(Path(config.output_dir), DELTA_SEPER)


def _after_labels(folder: Path, labeler: str) -> str:
    """Return what to do with a label folder: look at a question where labels are of beliefs, else export them."""
    from seper_reward.labels.rows import DELTA_SEPER

    if labeler == DELTA_SEPER:
        return f"seper-reward report --labels {folder} --output belief.svg"
    return f"seper-reward export --labels {folder} --output lists.jsonl"


def _show_summary(summary: Mapping[str, Any], labeler: str, folder: Path, margin: float) -> None:
    """Print what a label folder holds, and what its reader should know."""
    from seper_reward.labels.rows import LABELS
    from seper_reward.labels.summary import summary_warnings
    from seper_reward.reports.tables import placebo_line, sets_line, summary_table

    print(f"\n{summary_table(summary, labeler)}\n")
    print(
        f"{summary['questions']} questions, {summary['passages']} passages: {summary['helpful']} help and "
        f"{summary['harmful']} harm, their 95 % intervals beyond ±{margin:g}; {summary['rejected']} rows rejected"
    )
    if "sets" in summary:
        print(sets_line(summary["sets"]))
    if "placebo" in summary:
        print(placebo_line(summary["placebo"], labeler))
    print(f"labels: {folder / LABELS}")
    for warning in summary_warnings(summary):
        print(f"warning: {warning}", file=sys.stderr)


_AFTER_EXPORT = {
    "sentence-transformers": 'in Python: load_dataset("json", data_files="{output}"), for losses such as LambdaLoss',
    "sentence-transformers-triplets": 'in Python: load_dataset("json", data_files="{output}"), for MarginMSELoss',
    "tevatron": "python -m tevatron.retriever.driver.train --dataset_name json --dataset_path {output} ...",
    "flagembedding": "torchrun -m FlagEmbedding.finetune.embedder.encoder_only.base --train_data {output} ...",
    "trec": "ir_measures {output} RUN.trec nDCG@10",
}


def _export(arguments: list[str]) -> str:
    config = _parse(ExportConfig, arguments, "seper-reward export")
    from seper_reward.labels.export import write_labels
    from seper_reward.labels.heterogeneity import beyond_chance
    from seper_reward.labels.rows import read_labels
    from seper_reward.labels.targets import helped, lists_to_learn, sure
    from seper_reward.retrieval import next_hop

    labeled = lists_to_learn(read_labels(config.labels, config.label), config.learn_from, next_hop)
    kept = labeled if config.max_std_error is None else [sure(row, config.max_std_error) for row in labeled]
    kept = beyond_chance(kept, heterogeneity=config.heterogeneity, shrink=config.shrink)
    kept = [row for row in kept if row.labels and (not config.helpful or helped(row, config.margin))]
    lines = write_labels(kept, config.output, config.format, config.margin)
    asked = "questions by hop" if config.learn_from == "hops" else "questions"
    print(f"{config.output}: {lines} lines from {len(kept)} of {len(labeled)} {asked}")
    return _AFTER_EXPORT.get(config.format, "").format(output=config.output)


def _audit_negatives(arguments: list[str]) -> str:
    config = _parse(AuditConfig, arguments, "seper-reward audit-negatives")
    from seper_reward.labels.audit import check_action, questions_to_audit, read_gold_answers, write_audit
    from seper_reward.labels.labelers import load_labeler
    from seper_reward.labels.mined_negatives import read_mined
    from seper_reward.labels.run import LabelRun
    from seper_reward.reports.tables import audit_lines
    from seper_reward.runtime.distributed import process_state

    mined = read_mined(config.input)
    check_action(mined, config.action)
    answers = None if config.answers is None else read_gold_answers(config.answers, config.answers_column)
    asked = questions_to_audit(mined, answers, column=config.answers_column, limit=config.limit)
    labeler = load_labeler("delta_seper", lambda: load_scorer(config, config.seed))
    block = default_block(config, labeler.device)
    settings = asdict(config)
    run = LabelRun(
        config.output_dir, labeler, asked.queries, asked.rejected, settings, block=block, margin=config.margin
    )
    run.run()
    if process_state().is_main_process:
        rule = {name: getattr(config, name) for name in ("label", "sigmas", "margin")}
        found = write_audit(mined, asked, run.folder, action=config.action, settings=settings, **rule)
        print(audit_lines(found, run.folder))
    return f"seper-reward report --labels {config.output_dir} --output audit.html"


def _push(arguments: list[str]) -> str:
    config = _parse(PushConfig, arguments, "seper-reward push")
    from seper_reward.labels.hub import is_label_folder
    from seper_reward.labels.load import load_labels
    from seper_reward.runtime.hub import is_model_folder, upload

    folder = Path(config.folder)
    if is_label_folder(folder):
        address = load_labels(folder).push_to_hub(
            config.repo_id, margin=config.margin, private=config.private, revision=config.revision
        )
    elif is_model_folder(folder):
        message = f"Model by seper-reward {version('seper-reward')}"
        address = upload(
            folder, config.repo_id, "model", message=message, private=config.private, revision=config.revision
        )
    else:
        raise ValueError(
            f"{folder}: expected labels.jsonl of a finished run, or a model's config.json, modules.json or "
            "adapter_config.json; name the folder that holds them"
        )
    print(address)
    return f'in Python: {"load_dataset" if is_label_folder(folder) else "from_pretrained"}("{config.repo_id}")'


def _save_reader(arguments: list[str]) -> str:
    config = _parse(SaveConfig, arguments, "seper-reward save-reader")
    from seper_reward.reader.loading import load_reader
    from seper_reward.runtime.hashing import weights_hash
    from seper_reward.runtime.pretrained import LoadOptions

    options = LoadOptions(config.reader_revision, config.dtype, "cpu", config.trust_remote_code)
    reader = load_reader(config.reader, options)
    reader.model.save_pretrained(config.output_dir)
    reader.tokenizer.save_pretrained(config.output_dir)
    # the hash tells weights apart for caches, which know a served reader by its name only
    name = f"{Path(config.reader).name}-{weights_hash(reader.model)}"
    print(f"saved: {config.output_dir}")
    return f"vllm serve {config.output_dir} --served-model-name {name}"


def _serve(arguments: list[str]) -> str:
    config = _parse(ServeConfig, arguments, "seper-reward serve")
    from seper_reward.client import TOKEN
    from seper_reward.reward.formula import Formula
    from seper_reward.runtime.imports import need

    for module in ("fastapi", "prometheus_client", "uvicorn"):
        need(module, "serve")
    from seper_reward.serving.app import Limits, build_app
    from seper_reward.serving.server import bound, serve
    from seper_reward.serving.worker import Worker

    formula = Formula(config.variant, config.price, config.word_price, config.gain_weight, config.closed_book)
    token = os.environ.get(TOKEN)
    address = bound(config.host, config.port)
    worker = Worker(
        lambda: load_scorer(config, config.seed), block=config.block, queue=config.queue, memory=config.memory
    )
    app = build_app(
        worker,
        limits=Limits(int(config.max_body_mb * 1e6), config.max_contexts, config.deadline),
        formula=formula,
        token=token,
        unscored=config.unscored,
        passage_tag=config.passage_tag,
    )
    url = f"http://{config.host}:{config.port}"
    print(f"serving {worker.about['reader']} on {url}", file=sys.stderr)
    print(f'next: reward_funcs=[SePerReward("{url}")] in a trainer', file=sys.stderr)  # here: serving does not end
    if token is None and config.host not in ("127.0.0.1", "localhost", "::1"):
        print(f"warning: whoever reaches {config.host} may ask; set ${TOKEN} here and for clients", file=sys.stderr)
    serve(app, worker, address)
    return ""


def _report(arguments: list[str]) -> str:
    config = _parse(ReportConfig, arguments, "seper-reward report")
    if config.page:
        from seper_reward.reports.html import write_page

        write_page(config.output, config.labels, config.evaluations, margin=config.margin)
        print(f"{config.output}: open it in a browser")
        return f"seper-reward export --labels {config.labels} --output lists.jsonl"
    from seper_reward.data.rows import read_valid_rows
    from seper_reward.labels.rows import DELTA_SEPER, LABELS, labeler_of
    from seper_reward.reports.figures import plot_belief

    rows = {row["id"]: row for _, row in read_valid_rows(Path(str(config.labels)) / LABELS)}
    if (labeler := labeler_of(rows.values())) != DELTA_SEPER:
        raise ValueError(f"{config.labels} holds labels of {labeler!r}; a figure of beliefs needs those of ΔSePer")
    if config.question is not None and config.question not in rows:
        raise ValueError(
            f"question={config.question!r} is not in {config.labels}; ids are {', '.join(list(rows)[:5])}, …"
        )
    chosen = config.question or max(rows, key=lambda identity: _spread(rows[identity]))
    plot_belief(rows[chosen], Path(config.output))
    print(f"question {chosen}: {config.output}")
    return f"seper-reward export --labels {config.labels} --output lists.jsonl"


def _spread(row: Mapping[str, Any]) -> float:
    """Return the difference between a label row's greatest and least ΔSePer."""
    deltas = [passage["delta_seper"] for passage in row["passages"]]
    return float(max(deltas) - min(deltas))


def _parse(kind: type[C], arguments: list[str], program: str) -> C:
    about = f"{kind.__doc__} --config FILE.yaml reads any of these settings from a file; flags win over it."
    config: C = parse_settings((kind,), arguments, program, about)[0]
    return config


def _read(config: LabelConfig) -> tuple[list[Any], list[Any]]:
    """Read the questions to label, with retrieved passages where they have none, and the rejected rows."""
    from seper_reward.data.queries import Rejected, add_passages
    from seper_reward.data.splits import spread
    from seper_reward.labels.labelers import needs_answers
    from seper_reward.retrieval import has_own_passages, load_retriever

    answers_needed, elsewhere = needs_answers(config.labeler), has_own_passages(config.retriever)
    examples, corpus = _examples(config, config.input, answers_needed=answers_needed, retrieved=elsewhere)
    queries = spread(examples.queries, config.limit)
    lacking = [place for place, query in enumerate(queries) if examples.judged or not query.passages]
    if lacking and corpus is not None:
        retriever = load_retriever(config.retriever, corpus, config.embeddings_dir)
        retrieved = retriever.retrieve([queries[place].question for place in lacking], config.top_k)
        for place, passages in zip(lacking, retrieved, strict=True):
            queries[place] = add_passages(queries[place], passages, judged=examples.judged)
    reason = "no passage was found for the question; give it passages, or drop it"
    unmatched = [
        Rejected(f"{config.input}, id {query.id}", reason, {"id": query.id, "question": query.question})
        for query in queries
        if not query.passages
    ]
    return [query for query in queries if query.passages], [*examples.rejected, *unmatched]
