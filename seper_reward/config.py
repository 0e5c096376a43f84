"""Settings as dataclasses for TRL's parser (YAML, flags, errors for unknown keys), and the scorer they describe."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from seper_reward.data.formats.recognise import parse_columns
from seper_reward.data.queries import InputOptions
from seper_reward.estimators.seper import (
    Aliases,
    Clusters,
    EndToken,
    Estimator,
    JudgedBy,
    JudgedTexts,
    Kernel,
    Match,
    Preset,
    Weighting,
)
from seper_reward.reader.chat import ChatOptions, Thinking
from seper_reward.reader.engine.servers import check_url
from seper_reward.reader.loading import reader_defaults
from seper_reward.reader.prompts import Baseline, PromptStyle, prompt_style
from seper_reward.reader.sampler import EngineOptions, Layout, ReaderOptions
from seper_reward.runtime.pretrained import LoadedModel, LoadOptions
from seper_reward.runtime.settings import check_types, setting
from seper_reward.scorer import SePerScorer

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Prompt = Literal["paper", "brief", "few_shot"]
Tracking = Literal["none", "wandb", "tensorboard", "trackio", "all"]
LearnFrom = Literal["singles", "paths"]
INPUT_HELP = (
    "Questions: JSON, JSONL, CSV or Parquet, a folder of datasets or BEIR, or the id of a dataset on the hub "
    "(org/name@revision/configuration, of which the name is enough), with :split behind it where there are several; "
    "or 'demo'. Layouts of SQuAD, HotpotQA, MS MARCO, Ragas and RAGChecker are recognised."
)
CORPUS_HELP = "Corpus, rows {id, title?, text} from a file or dataset as for questions; "
LEARN_FROM_HELP = (
    "Labels to learn from: singles (of passages by themselves) or paths (of each hop along the best measured set: the "
    "query is the question followed by the given passages, and a label is the most that a measured set with the "
    "passage is worth). paths needs labels of sets, or people's marks."
)
SPLIT_BY_HELP = (
    "What is not divided between splits: question, or all questions that share a passage, or a passage's title (of a "
    "document or entity), or a passage or a name in the question (name), where of marked passages only the relevant "
    "ones count, or any passage or a name in the question (entity)."
)
READERS_HELP = (
    "Readers to compare: embedded, plain, hub ids or folders, or TOKENIZER@URL for one that a server at a URL runs; "
    "not given: that of --reader and --engine."
)
RETRIEVER_HELP = (
    "Names: bm25, minilm (dense, embedded), hub ids or folders of bi-encoders, or several with plus signs between "
    "them, which are mixed: bm25+minilm."
)
REPORT_TO_HELP = (
    "Where to log: none, wandb (also with WANDB_MODE=offline), tensorboard (into output_dir/tensorboard), trackio, or "
    "all of these that are installed. A resumed run goes on there, too."
)


@dataclass
class JudgeConfig:
    """Settings of the entailment model, and of how models are loaded."""

    group_help: ClassVar[Mapping[str, str]] = {"judge": "The entailment model, which judges responses."}

    entailment: str = setting(
        "embedded",
        "Entailment model: 'embedded' (MiniLM with our adapter), a hub id or a local folder.",
        "judge.name",
        common=True,
    )
    entailment_revision: str | None = setting(
        None, "Branch, tag or commit of the entailment model on the hub.", "judge.revision"
    )
    dtype: Dtype = setting(
        "auto", "dtype of the models' weights; auto: bfloat16 where it is fast, else float32.", "judge.dtype"
    )
    device: str | None = setting(
        None,
        "Device of the models: cpu, cuda, cuda:1, ...; not given: this process's accelerator, else the CPU.",
        "judge.device",
    )
    trust_remote_code: bool = setting(
        False, "Whether Python code that comes with a model may run.", "judge.trust_remote_code"
    )

    def __post_init__(self) -> None:
        check_types(self)


@dataclass
class EstimatorConfig(JudgeConfig):
    """Settings of what is made of sampled responses: the entailment model, and the options of SePer."""

    group_help: ClassVar[Mapping[str, str]] = {"estimator": "The options of SePer, from responses to a belief."}

    estimator: Preset = setting(
        "default",
        "Preset of the options from weighting to judged_texts: default, paper, or official (the authors' code).",
        "estimator.preset",
        common=True,
    )
    weighting: Weighting | None = setting(
        None,
        "Weight of a response: mass (its probability, and a share of what was not drawn), uniform (all equal), "
        "sequence (its probability among those drawn) or mean_token (geometric mean of its tokens' probabilities); "
        "not given: the preset's.",
        "estimator.weighting",
    )
    end_token: EndToken | None = setting(
        None,
        "Whether the token that ends a response, end-of-sequence or that of a stop string, counts in its weight: "
        "counted or left_out; not given: the preset's.",
        "estimator.end_token",
    )
    aliases: Aliases | None = setting(
        None,
        "Joining of several gold answers: any (for each response the one that it supports best), mean over them, or "
        "max (the one with the most mass); not given: the preset's.",
        "estimator.aliases",
    )
    hard_aliases: Aliases | None = setting(
        None,
        "Joining of several gold answers in hard SePer, where any takes all clusters that match some answer; not "
        "given: the preset's, which is that of aliases for default and paper, and any for official.",
        "estimator.hard_aliases",
    )
    kernel: Kernel | None = setting(
        None,
        "Entailment that supports an answer: forward (of the answer by the response), max of both directions, or "
        "bidirectional (the smaller of both); not given: the preset's.",
        "estimator.kernel",
    )
    match: Match | None = setting(
        None,
        "Condition of a right response in hard SePer: threshold (its support reaches threshold), equivalent (each "
        "entails the other by as much), argmax (entailment is its likeliest class) or no_contradiction (neither "
        "direction's likeliest class is contradiction, and not both are neutral); not given: the preset's.",
        "estimator.match",
    )
    floor: float | None = setting(
        None,
        "Support, in [0, 1), that says nothing, such as what this entailment model gives to wrong answers; it counts "
        "as 0, and what is above it is stretched to [0, 1]; not given: the preset's, which is 0.",
        "estimator.floor",
    )
    threshold: float | None = setting(
        None,
        "Least support of a right response with match=threshold, in (0, 1]; not given: the preset's.",
        "estimator.threshold",
    )
    clusters: Clusters | None = setting(
        None,
        "Grouping of responses that mean the same: components (linked through others too), complete (all pairs of a "
        "cluster are linked) or greedy (in the order of the samples, later ones take members of earlier ones); not "
        "given: the preset's.",
        "estimator.clusters",
    )
    judged_by: JudgedBy | None = setting(
        None,
        "Members that decide in hard SePer whether a cluster is right: members (the mean of all) or first (its first "
        "one); not given: the preset's.",
        "estimator.judged_by",
    )
    judged_texts: JudgedTexts | None = setting(
        None,
        "Texts that the entailment model reads: cleaned (no quotes or full stop around them; equal and blank ones "
        "need no model) or verbatim (as they are, the question always ending in '?'); not given: the preset's.",
        "estimator.judged_texts",
    )

    @property
    def estimator_options(self) -> Estimator:
        """The options of SePer: the preset's, and those that are given by themselves."""
        return Estimator.preset(
            self.estimator, **_given({option.name: getattr(self, option.name) for option in fields(Estimator)})
        )


@dataclass
class ScorerConfig(EstimatorConfig):
    """Settings of the reader and of how its beliefs are measured; shared by all commands that do so."""

    group_help: ClassVar[Mapping[str, str]] = {
        "reader": "The language model whose belief is measured, its prompts, and how models are loaded.",
        "sampling": "How the reader's responses are sampled.",
        "engine": "The servers that run the reader.",
    }
    #: Commands with a reader load both models in one way.
    places: ClassVar[Mapping[str, str]] = {name: f"reader.{name}" for name in ("dtype", "device", "trust_remote_code")}
    #: Removed settings, each with its replacement.
    former: ClassVar[Mapping[str, str]] = {
        "enough_std_error": "leave it out; num_samples responses are sampled always",
        "min_samples": "leave it out; num_samples responses are sampled always",
        "draw": "leave it out; draws are independent",
        "compile_reader": "leave it out",
        "throughput": "take --block",
        "backend": "leave it out; the reader runs on servers if engine names some, else in this process",
    }

    reader: str = setting(
        "embedded",
        "Reader, the language model whose belief is measured: 'embedded' (SmolLM2-135M-Instruct with our adapter), "
        "'plain' (without the adapter), a hub id, or a folder with a model or a PEFT adapter; with --engine, "
        "the model whose tokenizer is used.",
        "reader.name",
        common=True,
    )
    reader_revision: str | None = setting(None, "Branch, tag or commit of the reader on the hub.", "reader.revision")
    prompt: Prompt | None = setting(
        None,
        "Style of the prompt; not given: brief for the embedded reader, few_shot for plain, paper for others.",
        "reader.prompt",
        common=True,
    )
    closed_book_prompt: str | None = setting(
        None,
        "Wording without passages, with the field {question}; not given: that of the prompt's style.",
        "reader.closed_book_prompt",
    )
    passages_prompt: str | None = setting(
        None,
        "Wording with passages, with the fields {reference} and {question}; not given: that of the prompt's style. "
        "Several passages are numbered.",
        "reader.passages_prompt",
    )
    baseline: Baseline = setting(
        "none",
        "What a passage is compared with: none (the question without a passage) or placebo (with a passage that "
        "answers nothing, which takes out what the mere presence of a passage does).",
        "reader.baseline",
        common=True,
    )
    placebo: str | None = setting(
        None,
        "Text of the placebo passage, such as one in the language of the corpus; not given: one of ours.",
        "reader.placebo",
    )
    system_prompt: str | None = setting(
        None,
        "What the system says in front of every prompt; not given: what the reader's chat template says itself.",
        "reader.system_prompt",
    )
    chat_template_kwargs: dict[str, Any] | str | None = setting(
        None,
        'Variables for the reader\'s chat template, a mapping in YAML or JSON, such as {"reasoning_effort": "low"}; '
        "those about thinking are set by thinking.",
        "reader.chat_template_kwargs",
    )
    thinking: Thinking = setting(
        "auto",
        "Whether a reader that can think does so before each response: auto (only where its chat template cannot "
        "switch it off), off (never; where the template cannot, thinking is closed as soon as it is opened) or on.",
        "reader.thinking",
    )
    max_thinking_tokens: int = setting(
        1024,
        "Longest thought of a reader that thinks, in tokens, >= 1; then it must answer.",
        "reader.max_thinking_tokens",
    )
    prompt_date: str = setting(
        "2024-07-26",
        "The date, YYYY-MM-DD, in chat templates that print today's (as Llama 3's): labels do not depend on the "
        "day; change it where answers do.",
        "reader.prompt_date",
    )
    chat_template: str | None = setting(
        None,
        "File with a chat template (Jinja) for the reader; not given: its tokenizer's own.",
        "reader.chat_template",
    )
    max_passage_tokens: int | None = setting(
        None,
        "Longest passage in tokens, longer ones are cut; not given: as long as the reader's window allows.",
        "reader.max_passage_tokens",
    )
    num_samples: int = setting(10, "Responses per prompt (N of the paper), >= 1.", "sampling.num_samples", common=True)
    temperature: float | None = setting(
        None,
        "Sampling temperature, >= 0; not given: 0.5 for the plain reader, 1.0 (as in the paper) for others.",
        "sampling.temperature",
        common=True,
    )
    top_p: float = setting(
        1.0, "Probability mass of the nucleus that tokens are drawn from, in (0, 1].", "sampling.top_p"
    )
    max_new_tokens: int | None = setting(
        None,
        "Longest response in tokens, >= 1; not given: 16 for the embedded and plain readers, 32 for others.",
        "sampling.max_new_tokens",
        common=True,
    )
    stop: list[str] = setting(["\n"], "Strings that end a response and are cut from it.", "sampling.stop")
    max_batch_tokens: int = setting(
        32768,
        "Most tokens in the reader's key-value cache at once, in batches of prompts; lower it where memory runs out, "
        "raise it on a large GPU; 0: as many as half of the free memory holds.",
        "reader.max_batch_tokens",
    )
    reader_layout: Layout | None = setting(
        None,
        "How the samples of a prompt share its reading in this process: tree (one line of the cache for all), repeat "
        "(copied after the prompt was read), alone (each sample reads the prompt) or reread (no cache: slow, fits any "
        "model); not given: chosen by the reader's architecture.",
        "reader.layout",
    )
    cache: str | None = setting(
        None,
        "SQLite file that keeps responses and entailment scores between runs; not given: trainers keep one in their "
        "output_dir (on several machines: in the temporary folder of each), other commands none.",
    )
    engine: list[str] = setting(
        [],
        "URLs of OpenAI-compatible servers (vLLM) that run the reader, such as http://localhost:8000/v1; not given: "
        "it runs in this process.",
        "engine.urls",
        common=True,
    )
    engine_model: str | None = setting(
        None, "Name of the reader on the servers; not given: the one model that they serve.", "engine.model"
    )
    engine_requests: int = setting(
        64, "Most requests under way per server, >= 1; a request is a prompt with all its samples.", "engine.requests"
    )
    engine_timeout: float = setting(300.0, "Longest wait for a server's answer, in seconds, > 0.", "engine.timeout")

    def __post_init__(self) -> None:
        super().__post_init__()
        for url in self.engine:  # also where none is asked: settings are written to provenance and logs
            check_url(url)
        chat_options(self)
        style_of(self, self.reader)


@dataclass
class CommandConfig(ScorerConfig):
    """Settings of commands that measure beliefs. Trainers take the seed from their training arguments instead."""

    seed: int = setting(0, "Seed of sampling.", "sampling.seed", common=True)


@dataclass
class InputConfig:
    """Settings of how questions are read, shared by the commands and the trainers."""

    group_help: ClassVar[Mapping[str, str]] = {"input": "The questions, and how they are read."}

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
        "Text between the aliases in a cell of answers, such as | in A|B; not given: a cell is one alias, or a list.",
        "input.separator",
    )
    streaming: bool = setting(
        False,
        "Whether a dataset on the hub is read row by row instead of downloaded before; limit then takes the first "
        "questions.",
        "input.streaming",
    )
    run: str | None = setting(
        None,
        "TREC run whose best passages of the corpus are those of the questions; questions without a ranking are left "
        "out. Not given: passages come with the questions, or from retrieval.",
        "input.run",
    )
    run_depth: int = setting(10, "Passages taken of each ranking of run, >= 1.", "input.run_depth")
    qrels: str | None = setting(
        None,
        "People's judgments (TREC qrels, or BEIR's tables), which mark passages of the corpus relevant; questions "
        "without judgments are left out. Not given: marks come with the questions, or from BEIR's folder.",
        "input.qrels",
    )

    @property
    def input_options(self) -> InputOptions:
        """How the questions are read.

        Raises:
            ValueError: A word of ``columns`` names nothing, ``separator`` is empty, or ``run_depth`` is below 1.
        """
        if self.run_depth < 1:
            raise ValueError(f"run_depth must be at least 1, got {self.run_depth}")
        if self.separator == "":
            raise ValueError("separator must be a text such as '|', got an empty one")
        return InputOptions(
            parse_columns(self.columns), self.separator, self.streaming, self.run, self.run_depth, self.qrels
        )


@dataclass
class LabelerConfig:
    """Settings of the labelers that have some, shared by the commands and the trainers."""

    group_help: ClassVar[Mapping[str, str]] = {"labeler": "The labeler, and settings of delta_seper, erag and item."}

    label: Literal["delta_seper", "delta_seper_hard", "delta_belief"] = setting(
        "delta_seper",
        "Label of the labeler delta_seper: delta_seper (soft), delta_seper_hard (by matched clusters) or delta_belief "
        "(half delta_seper, half the change of the gold answer's own likelihood; rejects answers that are lists). "
        "Rows contain all three, labels of sets only this one.",
        "labeler.label",
    )
    erag_preset: Literal["default", "paper", "official"] = setting(
        "default",
        "How eRAG's label follows from answers: default (mean of the metric over the responses, less that without a "
        "passage) or paper and official (the metric of one greedy response; nothing is subtracted).",
        "labeler.erag_preset",
    )
    erag_metric: str = setting(
        "exact_match",
        "Metric of the labeler erag: exact_match, token_f1, rouge_l, accuracy (equal but for case), contains_answer, "
        "or package.module:name of a callable of a response and the gold answer that returns a number in [0, 1].",
        "labeler.metric",
    )

    item_preset: Literal["default", "paper", "official"] = setting(
        "default",
        "Options of the labeler item where the next ones are not given: paper and default (3 rounds, the 5 first "
        "passages) or official, as ITEM's code (5 rounds, 6 with the methods ar_s and ar_r; the 10 first passages); "
        "both have 6 orders.",
        "labeler.item_preset",
    )
    item_method: Literal["vanilla", "exp_a", "imp_a", "k_sampling", "rank_gpt", "a_s", "a_r", "ar_s", "ar_r"] = (
        setting(
            "a_s",
            "How the labeler item judges: ITEM by a pseudo-answer (a), with an order by relevance between (ar), which "
            "chooses a set (s) or the first of an order by utility (r); one reply with a set and an explicit (exp_a), "
            "implicit (imp_a) or no answer (vanilla); votes of such replies over several orders (k_sampling); or "
            "relevance (rank_gpt).",
            "labeler.item_method",
        )
    )
    item_form: Literal["listwise", "pointwise"] = setting(
        "listwise",
        "Whether the reader judges all passages at once or each by itself (vanilla, a_s).",
        "labeler.item_form",
    )
    item_pseudo_answer: Literal["explicit", "implicit"] = setting(
        "explicit",
        "What ITEM judges by: the reader's answer, or what one must know to answer (implicit).",
        "labeler.item_pseudo_answer",
    )
    item_rounds: int | None = setting(
        None, "Most rounds of ITEM, >= 1; not given: the preset's.", "labeler.item_rounds"
    )
    item_top_k: int | None = setting(
        None, "Passages of an order that are chosen, >= 1; not given: the preset's.", "labeler.item_top_k"
    )
    item_samples: int | None = setting(
        None, "Orders that k_sampling votes over, >= 1; not given: the preset's.", "labeler.item_samples"
    )
    item_same_answer: float | None = setting(
        None,
        "ROUGE-L of two successive pseudo-answers, in (0, 1], from which on ITEM ends; not given: none are compared.",
        "labeler.item_same_answer",
    )
    item_prompts: str | None = setting(
        None,
        "YAML file whose prompts replace ours (labels/judgment_prompts.yaml), some of them or all; not given: none.",
        "labeler.item_prompts",
    )
    item_max_new_tokens: int = setting(
        128, "Longest judgment in tokens, >= 1; longer ones are not understood.", "labeler.item_max_new_tokens"
    )

    @property
    def labeler_options(self) -> dict[str, Any]:
        """The fields of ``LabelerOptions``."""
        return {each.name: getattr(self, each.name) for each in fields(LabelerConfig)}


@dataclass
class SetsConfig:
    """Settings of labels of sets of passages, shared by the command and the trainers."""

    group_help: ClassVar[Mapping[str, str]] = {"sets": "Labels of sets of passages."}

    sets: Literal["none", "conditional"] = setting(
        "none",
        "Labels of passages next to others: conditional (what each adds to the best ones, for answers that need "
        "several) or none.",
        "sets.kind",
        common=True,
    )
    given_top: int = setting(
        3, "Number of sets of each size that are given, those with the highest labels, >= 1.", "sets.given_top"
    )
    depth: int = setting(2, "Number of passages in the largest sets, 2 or 3.", "sets.depth")
    both_orders: float = setting(
        0.1,
        "Share of questions whose pairs are shown in both orders, to measure the effect of the order.",
        "sets.both_orders",
    )

    @property
    def set_options(self) -> dict[str, Any] | None:
        """The fields of ``SetOptions``; ``None`` where no sets are labelled."""
        if self.sets == "none":
            return None
        return {name: getattr(self, name) for name in ("given_top", "depth", "both_orders")}


def load_scorer(config: ScorerConfig, seed: int, reader: LoadedModel | None = None) -> SePerScorer:
    """Load the reader and the entailment model, and open the cache.

    Args:
        config: Names and options of both models.
        seed: Seed of sampling.
        reader: Reader that is loaded already; it takes the place of the config's reader and engine.

    Raises:
        OSError: A model or the cache cannot be loaded, or a server not reached; the message says what to do.
        ValueError: A setting is out of range.
    """
    given = ("num_samples", "top_p", "temperature", "max_new_tokens")
    sampling = {name: getattr(config, name) for name in given}
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
        **_given(sampling),
    )


def load_scorers(config: ScorerConfig, readers: Sequence[str], seed: int) -> dict[str, SePerScorer]:
    """Load a scorer for each of several readers, with the config's other settings.

    Args:
        config: Names and options of the models.
        readers: Names as the setting ``reader`` takes them, or ``TOKENIZER@URL`` for a reader that a server runs;
            without any, the config's own reader.
        seed: Seed of sampling.

    Returns:
        The scorers by these names.

    Raises:
        OSError: A model or the cache cannot be loaded, or a server not reached; the message says what to do.
        ValueError: A setting is out of range.
    """
    if not readers:
        return {config.reader: load_scorer(config, seed)}
    scorers = {}
    for name in readers:
        reader, at, address = name.partition("@http")
        engine = [f"http{address}"] if at else []
        scorers[name] = load_scorer(replace(config, reader=reader, engine=engine), seed)
    return scorers


def style_of(config: ScorerConfig, reader: str) -> PromptStyle:
    """Return how a reader of this name is asked.

    Raises:
        ValueError: A wording lacks a field, or the placebo is blank.
    """
    return prompt_style(
        config.prompt or reader_defaults(reader).prompt,
        closed_book_prompt=config.closed_book_prompt,
        passages_prompt=config.passages_prompt,
        baseline=config.baseline,
        placebo=config.placebo,
    )


def chat_options(config: ScorerConfig) -> ChatOptions:
    """Return how the reader's chat template is rendered.

    Raises:
        ValueError: A setting is out of range, or ``chat_template_kwargs`` is no mapping.
    """
    variables = config.chat_template_kwargs or {}
    if isinstance(variables, str):  # from the command line
        with contextlib.suppress(ValueError):
            variables = json.loads(variables)
        if not isinstance(variables, dict):
            raise ValueError(f"chat_template_kwargs must be a JSON mapping, got {config.chat_template_kwargs!r}")
    return ChatOptions(
        config.thinking, config.max_thinking_tokens, config.prompt_date, config.system_prompt, variables
    )


def reader_options(config: ScorerConfig) -> ReaderOptions:
    """Return the options of the reader."""
    return ReaderOptions(
        revision=config.reader_revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
        max_batch_tokens=config.max_batch_tokens,
        layout=config.reader_layout,
        chat_template=None if config.chat_template is None else _read_text(config.chat_template),
    )


def entailment_options(config: JudgeConfig) -> LoadOptions:
    """Return the options that the entailment model is loaded with."""
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


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
