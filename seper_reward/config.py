"""Settings as dataclasses for TRL's parser (YAML, flags, errors for unknown keys), and scorers loaded by them."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from seper_reward.data.formats import parse_columns
from seper_reward.data.queries import InputOptions
from seper_reward.estimators.seper import Estimator, Preset
from seper_reward.reader.chat import ChatOptions
from seper_reward.reader.engine.servers import check_url
from seper_reward.reader.loading import reader_defaults
from seper_reward.reader.prompts import Baseline, PromptStyle, prompt_style
from seper_reward.reader.sampler import EngineOptions, ReaderOptions
from seper_reward.runtime.pretrained import LoadedModel, LoadOptions
from seper_reward.runtime.settings import check_types, setting
from seper_reward.scorer import SePerScorer

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Prompt = Literal["paper", "brief", "few_shot"]
Tracking = Literal["none", "wandb"]
LearnFrom = Literal["singles", "paths"]
INPUT_HELP = (
    "Questions: JSON, JSONL, CSV, Parquet or Arrow, a folder of datasets or BEIR, or the id of a dataset on the hub "
    "(org/name@revision/configuration; revision and configuration are optional), followed by :split if there are "
    "several splits; or 'demo'. Layouts of SQuAD, HotpotQA and MS MARCO are recognised."
)
CORPUS_HELP = "Corpus, rows {id, title?, text} from a file or dataset as for questions"
LEARN_FROM_HELP = (
    "Labels to learn from: singles (labels of single passages) or paths (labels of each hop along the best measured "
    "set: the query is the question followed by the given passages, and a label is the greatest utility of a "
    "measured set with the passage). paths needs labels of sets, or people's marks."
)
SPLIT_BY_HELP = (
    "Unit that splits keep together: question, or all questions that share a passage, or a passage's title (of a "
    "document or entity), or a passage or a name in the question (name; only relevant passages count if passages are "
    "marked), or any passage or a name in the question (entity)."
)
READERS_HELP = (
    "Readers to compare: embedded, plain, hub ids or folders, or TOKENIZER@URL for the model of a "
    "server (default: the reader of --reader and --engine)."
)
RETRIEVER_HELP = (
    "Names: bm25, minilm (dense, embedded), hub ids or folders of bi-encoders, or several joined by plus signs, whose "
    "results are merged: bm25+minilm."
)
TRACKING_HELP = (
    "Tracker to log to: none, or wandb (also with WANDB_MODE=offline; a resumed run continues there). Only trainers "
    "take the other trackers of transformers."
)
REPORT_TO_HELP = (
    "Tracker to log to: none, wandb (also with WANDB_MODE=offline; a resumed run continues there), another one of "
    "transformers, such as tensorboard or trackio, for the trainer's own log, or all that are installed."
)


@dataclass
class JudgeConfig:
    """Settings of the entailment model, and of loading models."""

    group_help: ClassVar[Mapping[str, str]] = {"judge": "The entailment model, which judges responses."}

    entailment: str = setting(
        "embedded",
        "Entailment model: 'embedded' (MiniLM with the bundled adapter), a hub id or a local folder.",
        "judge.name",
        common=True,
    )
    entailment_revision: str | None = setting(
        None, "Branch, tag or commit of the entailment model on the hub.", "judge.revision"
    )
    dtype: Dtype = setting(
        "auto",
        "dtype of the models' weights; auto: bfloat16 if it is fast on the device, else float32.",
        "judge.dtype",
    )
    device: str | None = setting(
        None,
        "Device of the models: cpu, cuda, cuda:1, ... (default: this process's accelerator, else the CPU).",
        "judge.device",
    )
    trust_remote_code: bool = setting(
        False, "Whether to run Python code that comes with a model.", "judge.trust_remote_code"
    )

    def __post_init__(self) -> None:
        check_types(self)


@dataclass
class EstimatorConfig(JudgeConfig):
    """Settings that turn sampled responses into beliefs: the entailment model, and the options of SePer."""

    group_help: ClassVar[Mapping[str, str]] = {"estimator": "The options of SePer, from responses to a belief."}

    estimator: Preset = setting(
        "default",
        "Preset of the options of SePer: default, paper, or official (the authors' code); single ones are in Python.",
        "estimator.preset",
        common=True,
    )

    @property
    def estimator_options(self) -> Estimator:
        """The options of SePer, those of the preset."""
        return Estimator.preset(self.estimator)


@dataclass
class ScorerConfig(EstimatorConfig):
    """Settings of the reader and of measuring its beliefs, shared by all commands with a reader."""

    group_help: ClassVar[Mapping[str, str]] = {
        "reader": "The language model whose belief is measured, its prompts, and loading models.",
        "sampling": "Sampling of the reader's responses.",
        "engine": "The servers that run the reader.",
    }
    #: Commands with a reader use the same loading options for both models.
    places: ClassVar[Mapping[str, str]] = {name: f"reader.{name}" for name in ("dtype", "device", "trust_remote_code")}

    reader: str = setting(
        "embedded",
        "Reader, the language model whose belief is measured: 'embedded' (SmolLM2-135M-Instruct with the bundled "
        "adapter), 'plain' (without the adapter), a hub id, or a folder with a model or a PEFT adapter; with "
        "--engine, the model whose tokenizer is used.",
        "reader.name",
        common=True,
    )
    reader_revision: str | None = setting(None, "Branch, tag or commit of the reader on the hub.", "reader.revision")
    prompt: Prompt | None = setting(
        None,
        "Style of the prompt (default: brief for embedded, few_shot for plain, paper for other readers).",
        "reader.prompt",
        common=True,
    )
    closed_book_prompt: str | None = setting(
        None,
        "Prompt without passages, with the field {question} (default: the wording of the style).",
        "reader.closed_book_prompt",
    )
    passages_prompt: str | None = setting(
        None,
        "Prompt with passages, with the fields {reference} and {question}; several passages are numbered (default: "
        "the wording of the style).",
        "reader.passages_prompt",
    )
    baseline: Baseline = setting(
        "none",
        "Context that a passage is compared with: none (the question without a passage) or placebo (a passage that "
        "answers nothing, which removes the effect of the mere presence of a passage).",
        "reader.baseline",
        common=True,
    )
    placebo: str | None = setting(
        None,
        "Text of the placebo passage, such as one in the language of the corpus (default: a built-in text).",
        "reader.placebo",
    )
    system_prompt: str | None = setting(
        None,
        "System prompt before every prompt (default: the one in the reader's chat template, if any).",
        "reader.system_prompt",
    )
    chat_template_kwargs: dict[str, Any] | str | None = setting(
        None,
        'Variables for the reader\'s chat template, a mapping in YAML or JSON, such as {"reasoning_effort": "low"}; '
        "enable_thinking is false by default.",
        "reader.chat_template_kwargs",
    )
    prompt_date: str = setting(
        "2024-07-26",
        "Date, YYYY-MM-DD, in chat templates that print today's date (such as Llama 3's): labels then do not depend "
        "on the day; change it if answers depend on it.",
        "reader.prompt_date",
    )
    chat_template: str | None = setting(
        None,
        "File with a chat template (Jinja) for the reader (default: the one of its tokenizer).",
        "reader.chat_template",
    )
    max_passage_tokens: int | None = setting(
        None,
        "Maximum length of a passage in tokens; longer ones are cut (default: the limit of the reader's window).",
        "reader.max_passage_tokens",
    )
    num_samples: int = setting(
        10, "Number of responses per prompt (N of the paper), >= 1.", "sampling.num_samples", common=True
    )
    temperature: float | None = setting(
        None,
        "Sampling temperature, >= 0 (default: 0.5 for plain, 1.0 for other readers).",
        "sampling.temperature",
        common=True,
    )
    top_p: float = setting(1.0, "Probability mass of nucleus sampling, in (0, 1].", "sampling.top_p")
    max_new_tokens: int | None = setting(
        None,
        "Maximum length of a response in tokens, >= 1 (default: 16 for embedded and plain, 32 for other readers).",
        "sampling.max_new_tokens",
        common=True,
    )
    stop: list[str] = setting(["\n"], "Strings that end a response and are cut from it.", "sampling.stop")
    max_batch_tokens: int = setting(
        32768,
        "Maximum number of tokens in the reader's key-value cache, in batches of prompts, >= 1; lower it if memory "
        "runs out, raise it on a large GPU.",
        "reader.max_batch_tokens",
    )
    cache: str | None = setting(
        None,
        "SQLite file that caches responses and entailment scores between runs (default: none; for trainers a "
        "file in output_dir, or on several machines in the temporary folder of each).",
    )
    engine: list[str] = setting(
        [],
        "URLs of OpenAI-compatible servers (vLLM) that run the reader, such as http://localhost:8000/v1 (default: "
        "the reader runs in this process).",
        "engine.urls",
        common=True,
    )
    engine_model: str | None = setting(
        None, "Name of the reader on the servers (default: the only served model).", "engine.model"
    )
    engine_requests: int = setting(
        64,
        "Maximum number of concurrent requests per server, >= 1; one request is a prompt with all its samples.",
        "engine.requests",
    )
    engine_timeout: float = setting(300.0, "Timeout of a request to a server, in seconds, > 0.", "engine.timeout")

    def __post_init__(self) -> None:
        super().__post_init__()
        for url in self.engine:  # validate even unused URLs: they end up in provenance and logs
            check_url(url)
        chat_options(self)
        style_of(self, self.reader)


@dataclass
class CommandConfig(ScorerConfig):
    """Settings of commands that measure beliefs. Trainers use the seed of their training arguments."""

    seed: int = setting(0, "Seed of sampling.", "sampling.seed", common=True)


@dataclass
class InputConfig:
    """Settings of reading questions, shared by commands and trainers."""

    group_help: ClassVar[Mapping[str, str]] = {"input": "The questions, and their format."}

    columns: list[str] = setting(
        [],
        "Columns of the questions that are not recognised, such as question=q answers=gold passages=ctx id=key; a "
        "dotted name goes into a column (answers=answer.aliases), and several columns of answers or passages are "
        "joined (passages=first passages=second).",
        "input.columns",
        common=True,
    )
    separator: str | None = setting(
        None,
        "Text between the aliases in a cell of answers, such as | in A|B (default: a cell is one alias, or a list).",
        "input.separator",
    )
    streaming: bool = setting(
        False,
        "Whether to read a dataset on the hub row by row instead of downloading it first; limit then selects the "
        "first questions.",
        "input.streaming",
    )
    run: str | None = setting(
        None,
        "TREC run with the passages of the questions, from the corpus; questions without a ranking are left out. Not "
        "given: passages come with the questions, or from retrieval.",
        "input.run",
    )
    run_depth: int = setting(10, "Number of passages from each ranking of run, >= 1.", "input.run_depth")
    qrels: str | None = setting(
        None,
        "People's judgments (TREC qrels, or BEIR's tables), which mark passages of the corpus relevant; questions "
        "without judgments are left out (default: marks come with the questions, or from BEIR's folder).",
        "input.qrels",
    )

    @property
    def input_options(self) -> InputOptions:
        """Options of reading the questions; a word of ``columns`` that names nothing raises ``ValueError``."""
        if self.run_depth < 1:
            raise ValueError(f"run_depth must be at least 1, got {self.run_depth}")
        if self.separator == "":
            raise ValueError("separator must be a text such as '|', got an empty one")
        return InputOptions(
            columns=parse_columns(self.columns),
            separator=self.separator,
            streaming=self.streaming,
            run=self.run,
            run_depth=self.run_depth,
            qrels=self.qrels,
        )


@dataclass
class LabelerConfig:
    """Settings of labelers, shared by commands and trainers."""

    group_help: ClassVar[Mapping[str, str]] = {"labeler": "The labeler, and settings of delta_seper, erag and item."}

    label: Literal["delta_seper", "delta_seper_hard", "delta_belief", "seper_gain"] | None = setting(
        None,
        "Label of the labeler delta_seper: delta_seper (soft), delta_seper_hard (by matched clusters), delta_belief "
        "(mean of delta_seper and the change of the gold answer's likelihood; rejects answers that are lists) or "
        "seper_gain (delta_seper plus the weighted gain of the question's likelihood; not on an engine). Rows contain "
        "all four labels, labels of sets only this one (default: delta_seper; trainers learn from delta_belief if all "
        "rows have it, and from delta_seper in labels of sets).",
        "labeler.label",
    )
    erag_preset: Literal["default", "paper", "official"] = setting(
        "default",
        "Preset of eRAG's label: default (mean of the metric over the responses, less the mean without a passage) or "
        "paper and official (metric of one greedy response; nothing is subtracted).",
        "labeler.erag_preset",
    )
    erag_metric: str = setting(
        "exact_match",
        "Metric of the labeler erag: exact_match, token_f1, rouge_l, accuracy (equal except for case), "
        "contains_answer, or package.module:name of a callable of a response and the gold answer that returns a "
        "number in [0, 1].",
        "labeler.metric",
    )

    item_preset: Literal["default", "paper", "official"] = setting(
        "default",
        "Preset of the options of the labeler item: paper and default (3 rounds, the 5 first passages) or official, "
        "as in ITEM's code (5 rounds, 6 with the methods ar_s and ar_r; the 10 first passages); all have 6 orders.",
        "labeler.item_preset",
    )
    item_method: str = setting(
        "a_s",
        "Method of the labeler item: ITEM by a pseudo-answer (a_s, a_r), optionally with an order by relevance (ar_s, "
        "ar_r), which chooses a set (s) or the first of an order by utility (r); one reply with a set and an explicit "
        "(exp_a), implicit (imp_a) or no answer (vanilla); votes of such replies over several orders (k_sampling); or "
        "relevance (rank_gpt). It can have options that override the preset: a_s:form=pointwise,rounds=1 or "
        "ar_r:top_k=3; also samples (orders), pseudo_answer=implicit, and same_answer (ROUGE-L of two successive "
        "answers at which ITEM stops).",
        "labeler.item_method",
    )
    item_prompts: str | None = setting(
        None,
        "YAML file with prompts that override the defaults (labels/judgment_prompts.yaml) (default: none).",
        "labeler.item_prompts",
    )
    item_max_new_tokens: int = setting(
        128,
        "Maximum length of a judgment in tokens, >= 1; longer judgments are invalid.",
        "labeler.item_max_new_tokens",
    )


@dataclass
class SetsConfig:
    """Settings of labels of sets of passages, shared by the command and the trainers."""

    group_help: ClassVar[Mapping[str, str]] = {"sets": "Labels of sets of passages."}

    sets: Literal["none", "conditional"] = setting(
        "none",
        "Labels of passages next to other passages: conditional (gain of each passage next to the best ones, for "
        "answers that need several) or none.",
        "sets.kind",
        common=True,
    )
    given_top: int = setting(
        3, "Number of sets of each size that are given, the sets with the highest labels, >= 1.", "sets.given_top"
    )
    depth: int = setting(2, "Number of passages in the largest sets, 2 or 3.", "sets.depth")

    @property
    def set_options(self) -> dict[str, Any] | None:
        """The fields of ``SetOptions``; ``None`` if no sets are labelled."""
        if self.sets == "none":
            return None
        return {name: getattr(self, name) for name in ("given_top", "depth")}


def load_scorer(config: ScorerConfig, seed: int, reader: LoadedModel | None = None) -> SePerScorer:
    """Load the reader and the entailment model, and open the cache; a loaded ``reader`` replaces the config's.

    Raises ``OSError`` if a model, the cache or a server cannot be opened; the message names the way out.
    """
    given = ("num_samples", "top_p", "temperature", "max_new_tokens")
    sampling = {name: value for name in given if (value := getattr(config, name)) is not None}
    return SePerScorer.from_pretrained(
        reader or config.reader,
        config.entailment,
        prompt=style_of(config, reader.name if reader is not None else config.reader),
        chat=chat_options(config),
        estimator=config.estimator_options,
        max_passage_tokens=config.max_passage_tokens,
        cache=config.cache or None,
        reader_options=reader_options(config),
        entailment_options=entailment_options(config),
        engine=EngineOptions(
            () if reader else tuple(config.engine), config.engine_model, config.engine_requests, config.engine_timeout
        ),
        stop=tuple(config.stop),
        seed=seed,
        **sampling,
    )


def load_scorers(config: ScorerConfig, readers: Sequence[str], seed: int) -> dict[str, SePerScorer]:
    """Load a scorer for each of several readers, by name, with the other settings of the config.

    Names are as in the setting ``reader``, or ``TOKENIZER@URL`` for the only model of a server; without any, the
    config's reader is loaded. Errors are those of ``load_scorer``.
    """
    if not readers:
        return {config.reader: load_scorer(config, seed)}
    served = {name: split_server(name, "readers") for name in readers}
    return {
        name: load_scorer(replace(config, reader=reader, engine=engine, engine_model=None), seed)
        for name, (reader, engine) in served.items()
    }


def split_server(name: str, setting_name: str) -> tuple[str, list[str]]:
    """Return the model and the URLs in ``TOKENIZER@URL``, without URLs for a model that runs in this process.

    Raises:
        ValueError: The URL is invalid; the message names the setting.

    >>> split_server("org/model@http://localhost:8000/v1", "readers")
    ('org/model', ['http://localhost:8000/v1'])
    """
    model, at, address = name.partition("@http")
    engine = [f"http{address}"] if at else []
    for url in engine:
        check_url(url, setting_name)
    return model, engine


def style_of(config: ScorerConfig, reader: str) -> PromptStyle:
    """Return the prompt style of a reader of this name; a prompt without its field raises ``ValueError``."""
    return prompt_style(
        config.prompt or reader_defaults(reader).prompt,
        closed_book_prompt=config.closed_book_prompt,
        passages_prompt=config.passages_prompt,
        baseline=config.baseline,
        placebo=config.placebo,
    )


def chat_options(config: ScorerConfig) -> ChatOptions:
    """Return the options for rendering the reader's chat template; invalid ones raise ``ValueError``."""
    variables = config.chat_template_kwargs or {}
    if isinstance(variables, str):  # from the command line
        with contextlib.suppress(ValueError):
            variables = json.loads(variables)
        if not isinstance(variables, dict):
            raise ValueError(f"chat_template_kwargs must be a JSON mapping, got {config.chat_template_kwargs!r}")
    return ChatOptions(config.prompt_date, config.system_prompt, variables)


def reader_options(config: ScorerConfig) -> ReaderOptions:
    """Return the options of the reader."""
    return ReaderOptions(
        revision=config.reader_revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
        max_batch_tokens=config.max_batch_tokens,
        chat_template=None if config.chat_template is None else _read_text(config.chat_template),
    )


def entailment_options(config: JudgeConfig) -> LoadOptions:
    """Return the options for loading the entailment model."""
    return LoadOptions(
        revision=config.entailment_revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
    )


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"chat_template must be a file with a chat template, got {path!r}: {error}") from error
