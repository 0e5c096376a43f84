"""Settings as dataclasses for TRL's parser (YAML, flags, errors for unknown keys), and the scorer they describe."""

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch

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
from seper_reward.reader.backends import load_sampler
from seper_reward.reader.chat import ChatOptions, Thinking
from seper_reward.reader.engine.servers import check_url
from seper_reward.reader.loading import reader_defaults
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.prompts import Baseline, PromptStyle, prompt_style
from seper_reward.reader.sampler import AdaptiveSampling, Backend, Draw, EngineOptions, Layout, ReaderOptions
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.pretrained import LoadedModel, LoadOptions
from seper_reward.runtime.settings import check_types, setting
from seper_reward.scorer import SePerScorer

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Prompt = Literal["paper", "brief", "few_shot"]
Tracking = Literal["none", "wandb", "tensorboard", "trackio", "all"]
LearnFrom = Literal["singles", "hops", "best_gain"]
OutputFormat = Literal["jsonl", "parquet"]
INPUT_HELP = (
    "Questions: JSON, JSONL, CSV or Parquet, a folder of datasets or BEIR, or the id of a dataset on the hub "
    "(org/name@revision/configuration, of which the name is enough), with :split behind it where there are several; "
    "or 'demo'. Layouts of SQuAD, HotpotQA, MS MARCO, Ragas and RAGChecker are recognised."
)
CORPUS_HELP = "Corpus, rows {id, title?, text} from a file or dataset as for questions; "
LEARN_FROM_HELP = (
    "Labels to learn from: singles (of passages by themselves), hops (these, and what passages add to given ones, "
    "where the query is the question followed by the given ones) or best_gain (the most that a passage adds to any "
    "given ones); the last two need labels of sets."
)
RETRIEVER_HELP = (
    "Names: bm25, minilm (dense, embedded), wordllama or splade (if installed), hub ids or folders of bi-encoders, "
    "or several with plus signs between them, which are mixed: bm25+minilm."
)
HARM_HELP = "Distance below 0 that the whole interval of ΔSePer must have to count as harm, >= 0."
MARKED_HELP = f"{INPUT_HELP} Their passages carry 'relevant': true or false. Required."
PASSAGES_HELP = "Passages to use per question: the relevant ones, then the first of the others; not given: all."
MARGIN_HELP = "Distance from 0 that a label's whole interval must have to be help or harm in the summary, >= 0."
REPORT_TO_HELP = (
    "Where to log: none, wandb (also with WANDB_MODE=offline), tensorboard (into output_dir/tensorboard), trackio, or "
    "all of these that are installed. A resumed run goes on there, too."
)


@dataclass
class JudgeConfig:
    """Settings of the entailment model, and of how models are loaded."""

    help_group = "the judge (the entailment model), and how models are loaded"

    entailment: str = setting(
        "embedded", "Entailment model: 'embedded' (MiniLM with our adapter), a hub id or a local folder."
    )
    entailment_revision: str | None = setting(None, "Branch, tag or commit of the entailment model on the hub.")
    dtype: Dtype = setting("auto", "dtype of the models' weights; auto: bfloat16 where it is fast, else float32.")
    device: str | None = setting(
        None, "Device of the models: cpu, cuda, cuda:1, ...; not given: this process's accelerator, else the CPU."
    )
    trust_remote_code: bool = setting(False, "Whether Python code that comes with a model may run.")

    def __post_init__(self) -> None:
        check_types(self)


@dataclass
class EstimatorConfig(JudgeConfig):
    """Settings of what is made of sampled responses: the entailment model, and the options of SePer."""

    help_group = "SePer: what is made of the responses"

    estimator: Preset = setting(
        "default",
        "Preset of the options from weighting to judged_texts: default, paper, or official (the authors' code).",
    )
    weighting: Weighting | None = setting(
        None,
        "Weight of a response: mass (its probability, and a share of what was not drawn), uniform (all equal), "
        "sequence (its probability among those drawn) or mean_token (geometric mean of its tokens' probabilities); "
        "not given: the preset's.",
    )
    end_token: EndToken | None = setting(
        None,
        "Whether the token that ends a response, end-of-sequence or that of a stop string, counts in its weight: "
        "counted or left_out; not given: the preset's.",
    )
    aliases: Aliases | None = setting(
        None,
        "Joining of several gold answers: any (for each response the one that it supports best), mean over them, or "
        "max (the one with the most mass); not given: the preset's.",
    )
    hard_aliases: Aliases | None = setting(
        None,
        "Joining of several gold answers in hard SePer, where any takes all clusters that match some answer; not "
        "given: the preset's, which is that of aliases for default and paper, and any for official.",
    )
    kernel: Kernel | None = setting(
        None,
        "Entailment that supports an answer: forward (of the answer by the response), max of both directions, or "
        "bidirectional (the smaller of both); not given: the preset's.",
    )
    match: Match | None = setting(
        None,
        "Condition of a right response in hard SePer: threshold (its support reaches --threshold), argmax (entailment "
        "is its likeliest class) or no_contradiction (neither direction's likeliest class is contradiction, and not "
        "both are neutral); not given: the preset's.",
    )
    floor: float | None = setting(
        None,
        "Support, in [0, 1), that says nothing, such as what this entailment model gives to wrong answers; it counts "
        "as 0, and what is above it is stretched to [0, 1]; not given: the preset's, which is 0.",
    )
    threshold: float | None = setting(
        None, "Least support of a right response with match=threshold, in (0, 1]; not given: the preset's."
    )
    clusters: Clusters | None = setting(
        None,
        "Grouping of responses that mean the same: components (linked through others too) or greedy (in the order of "
        "the samples, later clusters take members of earlier ones); not given: the preset's.",
    )
    judged_by: JudgedBy | None = setting(
        None,
        "Members that decide in hard SePer whether a cluster is right: members (the mean of all) or first (its first "
        "one); not given: the preset's.",
    )
    judged_texts: JudgedTexts | None = setting(
        None,
        "Texts that the entailment model reads: cleaned (no quotes or full stop around them; equal and blank ones "
        "need no model) or verbatim (as they are, the question always ending in '?'); not given: the preset's.",
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

    help_group = "the reader, and how its belief is measured"

    reader: str = setting(
        "embedded",
        "Reader, the language model whose belief is measured: 'embedded' (SmolLM2-135M-Instruct with our adapter), "
        "'plain' (without the adapter), a hub id or a folder; with --engine, the model whose tokenizer is used.",
    )
    reader_revision: str | None = setting(None, "Branch, tag or commit of the reader on the hub.")
    prompt: Prompt | None = setting(
        None, "Style of the prompt; not given: brief for the embedded reader, few_shot for plain, paper for others."
    )
    closed_book_prompt: str | None = setting(
        None, "Wording without passages, with the field {question}; not given: that of the prompt's style."
    )
    passages_prompt: str | None = setting(
        None,
        "Wording with passages, with the fields {reference} and {question}; not given: that of the prompt's style. "
        "Several passages are numbered.",
    )
    baseline: Baseline = setting(
        "none",
        "What a passage is compared with: none (the question without a passage) or placebo (with a passage that "
        "answers nothing, which takes out what the mere presence of a passage does).",
    )
    placebo: str | None = setting(
        None, "Text of the placebo passage, such as one in the language of the corpus; not given: one of ours."
    )
    system_prompt: str | None = setting(
        None, "What the system says in front of every prompt; not given: what the reader's chat template says itself."
    )
    chat_template_kwargs: dict[str, Any] | str | None = setting(
        None,
        'Variables for the reader\'s chat template, a mapping in YAML or JSON, such as {"reasoning_effort": "low"}; '
        "those about thinking are set by --thinking.",
    )
    thinking: Thinking = setting(
        "auto",
        "Whether a reader that can think does so before each response: auto (only where its chat template cannot "
        "switch it off), off (never; where the template cannot, thinking is closed as soon as it is opened) or on.",
    )
    max_thinking_tokens: int = setting(
        1024, "Longest thought of a reader that thinks, in tokens, >= 1; then it must answer."
    )
    prompt_date: str = setting("2024-07-26", "The date of today, YYYY-MM-DD, in chat templates that print it.")
    chat_template: str | None = setting(
        None, "File with a chat template (Jinja) for the reader; not given: its tokenizer's own."
    )
    max_passage_tokens: int | None = setting(
        None, "Longest passage in tokens, longer ones are cut; not given: as long as the reader's window allows."
    )
    num_samples: int = setting(10, "Responses per prompt (N of the paper), >= 1.")
    temperature: float | None = setting(
        None, "Sampling temperature, >= 0; not given: 0.5 for the plain reader, 1.0 (as in the paper) for others."
    )
    top_p: float = setting(1.0, "Probability mass of the nucleus that tokens are drawn from, in (0, 1].")
    draw: Draw = setting(
        "independent",
        "Whether a prompt's responses may be equal: independent (a likely one is drawn several times) or "
        "without_replacement (all are distinct, so that as many cover more of the probability; only for a reader in "
        "this process that does not think, and weighting=mass; enough_std_error then has no effect).",
    )
    enough_std_error: float | None = setting(
        None,
        "Standard error of a belief, in (0, 1], up to which min_samples responses are enough; not given: num_samples "
        "responses are sampled always.",
    )
    min_samples: int = setting(4, "Responses sampled in any case where enough_std_error is given, >= 2.")
    max_new_tokens: int | None = setting(
        None, "Longest response in tokens, >= 1; not given: 16 for the embedded and plain readers, 32 for others."
    )
    stop: list[str] = setting(["\n"], "Strings that end a response and are cut from it.")
    max_batch_tokens: int = setting(
        32768, "Most tokens in the reader's key-value cache at once; 0: as many as half of the free memory holds."
    )
    throughput: bool = setting(
        False,
        "Whether waiting prompts take the room of finished ones in a running batch; faster where many questions are "
        "measured side by side, but low digits of labels then depend on their neighbours.",
    )
    compile_reader: bool = setting(
        False,
        "Whether the reader is compiled (torch.compile), for long runs: it takes minutes before the first question, "
        "then is faster, but after interruptions and on several processes labels differ in low digits.",
    )
    reader_layout: Layout | None = setting(
        None,
        "How the samples of a prompt share its reading in this process: tree (one line of the cache for all), repeat "
        "(copied after the prompt was read), alone (each sample reads the prompt) or reread (no cache: slow, fits any "
        "model); not given: chosen by the reader's architecture.",
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
    )
    backend: Backend | None = setting(
        None,
        "Where the reader runs: process (this one), engine (the servers), or auto, which measures both at the start "
        "and keeps the faster; not given: the servers where engine names some, else this process.",
    )
    engine_model: str | None = setting(
        None, "Name of the reader on the servers; not given: the one model that they serve."
    )
    engine_requests: int = setting(
        64, "Most requests under way per server, >= 1; a request is a prompt with all its samples."
    )
    engine_timeout: float = setting(300.0, "Longest wait for a server's answer, in seconds, > 0.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for url in self.engine:  # also where none is asked: settings are written to provenance and logs
            check_url(url)
        chat_options(self)
        style_of(self, self.reader)

    def refuse_auto(self) -> None:
        """Refuse ``backend=auto``, which could choose otherwise when a run is resumed.

        Raises:
            ValueError: ``backend`` is ``"auto"``.
        """
        if self.backend == "auto":
            raise ValueError("backend=auto could choose otherwise when a training is resumed; name process or engine")


@dataclass
class CommandConfig(ScorerConfig):
    """Settings of commands that measure beliefs. Trainers take the seed from their training arguments instead."""

    seed: int = setting(0, "Seed of sampling.")


@dataclass
class InputConfig:
    """Settings of how questions are read, shared by the commands and the trainers."""

    help_group = "how the questions are read"

    columns: list[str] = setting(
        [],
        "Columns of the questions that are not recognised, such as question=q answers=gold passages=ctx id=key; a "
        "dotted name goes into a column (answers=answer.aliases).",
    )
    streaming: bool = setting(
        False,
        "Whether a dataset on the hub is read row by row instead of downloaded before; limit then takes the first "
        "questions.",
    )
    run: str | None = setting(
        None,
        "TREC run whose best passages of the corpus are those of the questions; questions without a ranking are left "
        "out. Not given: passages come with the questions, or from retrieval.",
    )
    run_depth: int = setting(10, "Passages taken of each ranking of run, >= 1.")
    qrels: str | None = setting(
        None,
        "People's judgments (TREC qrels, or BEIR's tables), which mark passages of the corpus relevant; questions "
        "without judgments are left out. Not given: marks come with the questions, or from BEIR's folder.",
    )

    @property
    def input_options(self) -> InputOptions:
        """How the questions are read.

        Raises:
            ValueError: A word of ``columns`` names nothing, or ``run_depth`` is below 1.
        """
        if self.run_depth < 1:
            raise ValueError(f"run_depth must be at least 1, got {self.run_depth}")
        return InputOptions(parse_columns(self.columns), self.streaming, self.run, self.run_depth, self.qrels)


@dataclass
class LabelerConfig:
    """Settings of the labelers that have some, shared by the commands and the trainers."""

    help_group = "the labelers erag and item"

    erag_preset: Literal["default", "paper", "official"] = setting(
        "default",
        "How eRAG's label follows from answers: default (mean of the metric over the responses, less that without a "
        "passage) or paper and official (the metric of one greedy response; nothing is subtracted).",
    )
    erag_metric: str = setting(
        "exact_match",
        "Metric of the labeler erag: exact_match, token_f1, rouge_l, accuracy (equal but for case), contains_answer, "
        "or package.module:name of a callable of a response and the gold answer that returns a number in [0, 1].",
    )

    item_preset: Literal["default", "paper", "official"] = setting(
        "default",
        "Options of the labeler item where the next ones are not given: paper and default (3 rounds, the 5 first "
        "passages, 5 orders) or official (5 rounds, 6 of ar; the 10 first passages, 6 orders).",
    )
    item_method: Literal["vanilla", "exp_a", "imp_a", "k_sampling", "rank_gpt", "a_s", "a_r", "ar_s", "ar_r"] = (
        setting(
            "a_s",
            "How the labeler item judges: ITEM by a pseudo-answer (a), with an order by relevance between (ar), which "
            "chooses a set (s) or the first of an order by utility (r); one round by an explicit (exp_a) or implicit "
            "(imp_a) answer or by none (vanilla); votes over several orders (k_sampling); or relevance (rank_gpt).",
        )
    )
    item_form: Literal["listwise", "pointwise"] = setting(
        "listwise", "Whether the reader judges all passages at once or each by itself (vanilla, exp_a, imp_a, a_s)."
    )
    item_pseudo_answer: Literal["explicit", "implicit"] = setting(
        "explicit", "What ITEM judges by: the reader's answer, or what one must know to answer (implicit)."
    )
    item_rounds: int | None = setting(None, "Most rounds of ITEM, >= 1; not given: the preset's.")
    item_top_k: int | None = setting(None, "Passages of an order that are chosen, >= 1; not given: the preset's.")
    item_samples: int | None = setting(None, "Orders that k_sampling votes over, >= 1; not given: the preset's.")
    item_same_answer: float | None = setting(
        None,
        "ROUGE-L of two successive pseudo-answers, in (0, 1], from which on ITEM ends; not given: none are compared.",
    )
    item_prompts: str | None = setting(
        None,
        "YAML file whose prompts replace ours (labels/judgment_prompts.yaml), some of them or all; not given: none.",
    )
    item_max_new_tokens: int = setting(128, "Longest judgment in tokens, >= 1; longer ones are not understood.")

    @property
    def labeler_options(self) -> dict[str, Any]:
        """The fields of ``LabelerOptions``."""
        return {each.name: getattr(self, each.name) for each in fields(LabelerConfig)}


@dataclass
class SetsConfig:
    """Settings of labels of sets of passages, shared by the command and the trainers."""

    help_group = "labels of sets of passages"

    sets: Literal["none", "conditional", "pairs", "leave_one_out", "shapley"] = setting(
        "none",
        "Whether passages are also labelled beside others: conditional (what each adds to the best ones, for answers "
        "that need several), pairs (what each adds to each other one), leave_one_out (what it adds to all others), "
        "shapley (what it adds on average, where passages come in random order), or none.",
    )
    given_top: int = setting(3, "conditional: how many sets of each size are given, those with the highest labels.")
    depth: int = setting(2, "conditional: passages in the largest sets, 2 or 3.")
    permutations: int = setting(8, "shapley: random orders of a question's passages, >= 2.")
    both_orders: float = setting(
        0.1, "Share of questions whose pairs are shown to the reader in both orders, to see what the order does."
    )

    @property
    def set_options(self) -> dict[str, Any] | None:
        """The fields of ``SetOptions``; ``None`` where no sets are labelled."""
        if self.sets == "none":
            return None
        others = ("given_top", "depth", "permutations", "both_orders")
        return {"plan": self.sets, **{name: getattr(self, name) for name in others}}


@dataclass
class LabelConfig(InputConfig, LabelerConfig, SetsConfig, CommandConfig):
    """Label passages by what each did to the reader's belief in the right answer (ΔSePer), or by another labeler."""

    labeler: str = setting(
        "delta_seper",
        "What a label is: delta_seper or delta_seper_hard (change of the belief), delta_belief (half of it, and half "
        "the change of the gold answer's own likelihood; rows hold all three), erag (the responses' erag_metric), "
        "erag_token_f1 or erag_rouge_l (their token F1 or ROUGE-L), likelihood (change of the gold answer's "
        "log-probability), item (the reader's own judgment) or delta_seper_pseudo (change of the belief in the "
        "reader's own answer), which need no gold answer, contains (whether the passage holds the answer), gold "
        "(people's marks), repaired_gold (these, and what ΔSePer finds helpful), or the score of a reranker, given by "
        "its folder.",
    )

    input: str = setting("demo", INPUT_HELP)
    corpus: str | None = setting(
        None,
        f"{CORPUS_HELP}questions may then name passages by id, and those without passages get the best that the "
        "retriever finds.",
    )
    retriever: str = setting(
        "bm25",
        f"{RETRIEVER_HELP} Without a corpus: the folder of a ready index, or the URL of a search service.",
    )
    embeddings_dir: str | None = setting(
        None, "Folder that keeps a corpus's embeddings by the bi-encoder's weights; not given: none are kept."
    )
    top_k: int = setting(
        5,
        "Passages that the retriever finds for a question without passages, or beside those that people judged, >= 1.",
    )
    output_dir: str = setting("runs/label", "Folder of the labels; the same command resumes an interrupted run there.")
    output_format: OutputFormat = setting(
        "jsonl", "Format of the labels: jsonl, or parquet, which is written beside labels.jsonl at the end."
    )
    limit: int | None = setting(None, "Number of questions to label, evenly spread over the input; not given: all.")
    block: int | None = setting(
        None,
        "Questions measured side by side, >= 1; more fill a large device, but low digits of labels then depend on the "
        "neighbours. Not given: 32 with throughput, 16 on an accelerator, 1 on a CPU or with enough_std_error.",
    )
    accept_versions: bool = setting(
        False,
        "Whether a run that was begun with other versions of torch or transformers goes on, and provenance.json names "
        "them; low digits of labels may differ. Otherwise it is refused.",
    )
    margin: float = setting(0.05, MARGIN_HELP)
    strict: bool = setting(
        False, "Whether the command stops at the first unusable row instead of writing it to rejected.jsonl."
    )
    report_to: Tracking = setting("none", REPORT_TO_HELP)
    profile: bool = setting(
        False, "Whether to print and log seconds and tokens by stage (prefill, decode, entailment, ...)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("top_k", "limit", "block"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.min_samples < 2:
            raise ValueError(f"min_samples must be at least 2, got {self.min_samples}")
        if self.enough_std_error is not None and ((self.block or 1) > 1 or self.throughput):
            raise ValueError("enough_std_error decides question by question; leave out block and throughput")

    def block_on(self, device: torch.device) -> int:
        """Return how many questions are measured side by side on the labeler's device."""
        return self.block if self.block is not None else default_block(self, device)


@dataclass
class AuditConfig(CommandConfig):
    """Find mined hard negatives that help the reader to answer, and list, relabel or drop them."""

    input: str = setting(
        "",
        "Mined negatives: JSON, JSONL (also .gz), Parquet or a folder saved by datasets, of sentence-transformers "
        "(anchor, positive, negative or negative_1, ...) or FlagEmbedding (query, pos, neg). Required.",
    )
    answers: str | None = setting(
        None,
        "File with the gold answers, rows of a question (question, query or anchor) and answers, such as the one "
        "that the negatives were mined for; not given: they are in the input's rows.",
    )
    answers_column: str = setting("answers", "Field that holds a question's gold answers, a text or a list.")
    action: Literal["list", "relabel", "drop"] = setting(
        "list",
        "What to do with false negatives: list (write them to false_negatives.jsonl), drop (also write the input "
        "without them) or relabel (also write the input with them as positives).",
    )
    label: Literal["delta_seper", "delta_seper_hard"] = setting(
        "delta_seper_hard",
        "Label that tells a false negative: delta_seper_hard (surer) or delta_seper (finds more, and flags more that "
        "hold no answer).",
    )
    sigmas: float = setting(2.0, "Standard errors that the label of a false negative exceeds, >= 0.")
    margin: float = setting(0.05, "What the label of a false negative exceeds, too, >= 0.")
    limit: int | None = setting(
        None, "Number of questions to audit, evenly spread over the input; others stay as they are. Not given: all."
    )
    output_dir: str = setting("runs/audit", "Folder of labels and results; the same command resumes there.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.input:
            raise ValueError("input is required: the file of mined negatives")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")
        for name in ("sigmas", "margin"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")


@dataclass
class ServeConfig(CommandConfig):
    """Serve the scorer over HTTP; a token that clients must send comes from the variable SEPER_SERVER_TOKEN."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 for all, which other machines then reach.")
    port: int = setting(8100, "Port to listen on, in [1, 65535].")
    block: int | None = setting(
        None,
        "Sets of passages measured side by side, whoever asked, >= 1; more fill a large device, and make a single "
        "request wait longer. Not given: as many as engines take at once, 256 on an accelerator, 16 on a CPU.",
    )
    queue: int = setting(
        8192, "Most sets of passages that wait, >= 1; a request beyond them is answered 429, and clients ask again."
    )
    memory: int = setting(
        65536, "Beliefs kept in memory for all clients, >= 0, so that a question's baseline is measured once."
    )
    deadline: float = setting(
        600.0, "Seconds, > 0, that a request may take; the header SePer-Deadline asks for less. What is late is null."
    )
    max_body_mb: float = setting(32.0, "Longest body of a request in MB, > 0; longer ones are answered 413.")
    max_contexts: int = setting(
        4096, "Most sets of passages and texts in one request, >= 1; a request with more is answered 413."
    )
    variant: Literal["delta", "stepwise", "answer", "advantage", "both"] = setting(
        "delta", "Variant of rewards whose requests name none: delta, stepwise, answer, advantage or both."
    )
    price: float = setting(0.0, "Price of a search in rewards whose requests name none, in units of belief, >= 0.")
    word_price: float = setting(0.0, "Price of a retrieved word in rewards whose requests name none, >= 0.")
    gain_weight: float = setting(
        1.0, "Weight of what the searches gained, >= 0, in rewards of the variant both whose requests name none."
    )
    closed_book: bool = setting(
        False,
        "Whether rewards of the variant both whose requests do not say it are less the belief without a search.",
    )
    unscored: float | None = setting(
        None,
        "Reward that stands for a rollout that cannot be scored, for OpenRLHF and NeMo Gym, which know no null; not "
        "given: such a request is refused (422), with the reason.",
    )
    passage_tag: str | None = setting(
        None,
        "Tag around what a search found in OpenRLHF's texts, such as information; a policy that can write the tag "
        "itself can fake passages. Not given: only the label's passages count.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("block", "queue", "max_contexts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for name in ("deadline", "max_body_mb"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        if not 1 <= self.port <= 65535:
            raise ValueError(f"port must be in [1, 65535], got {self.port}")
        if self.memory < 0:
            raise ValueError(f"memory must be at least 0, got {self.memory}")


@dataclass
class EvaluationConfig(InputConfig, CommandConfig):
    """Settings of commands that evaluate on questions."""

    corpus: str | None = setting(None, f"{CORPUS_HELP}needed where passages are named by id, or by run or qrels.")
    split: Literal["train", "dev", "test", "all"] = setting(
        "all", "Split of the questions to use, by SHA-1 of their ids: 3/4 train, 1/8 dev, 1/8 test; or all."
    )
    limit: int | None = setting(None, "Number of questions to use, evenly spread over the input; not given: all.")
    json: str | None = setting(None, "JSON file to write the result to; it is printed in any case.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")


@dataclass
class MarkedConfig(EvaluationConfig):
    """Settings of commands that compare ΔSePer with people's marks on passages."""

    file: str = setting("", MARKED_HELP)


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
    judge: str = setting(
        "none",
        "Language model that judges the responses, too (yes or no; other replies are counted and left out): none, "
        "reader (the reader itself), a hub id or a folder; with --judge_engine, the model whose tokenizer is used.",
    )
    judge_engine: list[str] = setting(
        [], "URLs of OpenAI-compatible servers (vLLM) that run the judge; not given: it runs in this process."
    )
    judge_engine_model: str | None = setting(
        None, "Name of the judge on the servers; not given: the one model that they serve."
    )
    plot: str | None = setting(None, "Image file to plot the correlations with their intervals into; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for url in self.judge_engine:
            check_url(url)
        if self.judge in ("none", "reader") and (self.judge_engine or self.judge_engine_model):
            raise ValueError(
                f"judge={self.judge!r} does not run on a judge_engine; name the model that the servers run by --judge"
            )


@dataclass
class RepeatsConfig(MarkedConfig):
    """Repeat ΔSePer on other samples: spread, error and correlation over N by estimator (SePer, Figure 3, Table 4)."""

    passages_per_question: int | None = setting(None, PASSAGES_HELP)
    counts: list[int] = setting([1, 2, 3, 5, 10, 15, 20], "Numbers N of responses, each >= 1.")
    repeats: int = setting(10, "How often each N is drawn, without a response in common, >= 2.")
    estimators: list[str] = setting(
        ["official", "paper", "uniform", "mass", "default", "without_replacement"],
        "Estimators to compare: the presets official, paper and default; uniform (all responses weigh the same), mass "
        "(default without what is known of the gold answers), without_replacement (default, all responses distinct).",
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
        if self.estimator_options != Estimator() or self.draw != "independent" or self.enough_std_error is not None:
            raise ValueError(
                "evaluate repeats compares ways to draw and to estimate itself; leave out the options of SePer, draw "
                "and enough_std_error, and name --estimators"
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
class TransferConfig:
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
    json: str | None = setting(None, "JSON file to write the result to; a table is printed in any case.")
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


@dataclass
class RetrievalConfig(MarkedConfig):
    """Settings of commands that retrieve for each question from one corpus."""

    file: str = setting("", f"{INPUT_HELP} Marks of their own passages hold where these are retrieved. Required.")
    corpus: str | None = setting(None, f"{CORPUS_HELP}not given: the passages of all questions together.")


@dataclass
class ERAGConfig(LabelerConfig, RetrievalConfig):
    """Correlate retrieval metrics by labels of single passages with the reader's score on the whole list (eRAG)."""

    retrievers: list[str] = setting(
        ["bm25", "minilm"], "Retrievers: bm25, minilm (dense, embedded), or hub ids or folders of other bi-encoders."
    )
    labelers: list[str] = setting(
        ["erag", "delta_seper", "likelihood", "contains", "gold"],
        "Labelers of single passages, by their names in `seper-reward label`.",
    )
    depths: list[int] = setting([1, 2, 5], "Numbers of passages that the reader sees together, each >= 1.")
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
        ["vanilla", "exp_a", "imp_a", "k_sampling", "rank_gpt", "a_s", "a_r", "ar_s", "ar_r", "delta_seper_pseudo"],
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
class CompareConfig(LabelerConfig, CommandConfig):
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
        ["delta_seper", "erag", "likelihood", "item", "delta_seper_pseudo", "contains", "gold"],
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
class RetrieversConfig(RetrievalConfig):
    """Compare retrievers by relevance, by ΔSePer and by the reader's answers (SePer, Tables 10 and 11)."""

    retrievers: list[str] = setting(["bm25", "minilm", "bm25+minilm"], f"Retrievers. {RETRIEVER_HELP}")
    depths: list[int] = setting([1, 5], "Numbers of passages that count, each >= 1.")
    margin: float = setting(0.05, HARM_HELP)
    plot: str | None = setting(None, "Image file to plot the measures by retriever into; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depths(self.depths)


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


@dataclass
class EquivalenceConfig(JudgeConfig):
    """Compare entailment with people's verdicts on whether a response states the gold answer."""

    file: str = setting(
        "",
        "Verdicts: EVOUNA's JSON, or JSON, JSONL or Parquet of {question, answers, response, equivalent}. Required.",
    )
    column_by: str = setting("system", "Field of a row that names its column in the results; not used for EVOUNA.")
    threshold: float | None = setting(
        None,
        "Score, in (0, 1], from which a response counts as equivalent, for all rows; not given: the one with the best "
        "F1 on a train split by SHA-1 of the question, and results on the test split only.",
    )
    json: str | None = setting(None, "JSON file to write the result to; a table is printed in any case.")
    plot: str | None = setting(None, "Image file to plot F1 by method and the reliability of probabilities into.")


@dataclass
class StressConfig(JudgeConfig):
    """Measure the entailment model on traps: texts that say nothing, and questions put in other words."""

    json: str | None = setting(None, "JSON file to write the result to; a table is printed in any case.")


@dataclass
class ExportConfig:
    """Write labels in the format of another trainer or of an evaluation tool."""

    labels: str = setting("runs/label", "Folder written by `seper-reward label`.")
    format: str = setting(
        "sentence-transformers",
        "sentence-transformers (query, docs, labels: listwise losses), sentence-transformers-triplets (anchor, "
        "positive, negative, label: MarginMSE), sentence-transformers-pairs (anchor, positive: in-batch negatives), "
        "sentence-transformers-flat (query, passage, label: CoSENT, MSE), tevatron, flagembedding (with distillation "
        "scores), or trec (qrels).",
    )
    output: str = setting("", "File to write, Parquet if its name ends in .parquet. Required.")
    label: str | None = setting(
        None, "Field of the rows that holds the labels; not given: the labeler's own, for ΔSePer delta_seper (soft)."
    )
    margin: float = setting(
        0.1, "Least label of a positive passage, and least distance of a negative below the positives."
    )
    max_std_error: float | None = setting(
        None, "Greatest standard error of a label; passages above it are left out; not given: all are kept."
    )
    heterogeneity: float = setting(
        1.0,
        "Greatest probability (p-value), in (0, 1], of labels that differ so much where passages are equally good; "
        "questions above it are left out; 0.1 suits training; 1 keeps all.",
    )
    shrink: bool = setting(
        False,
        "Whether a question's labels are drawn to their mean by the part of their differences that is noise, for "
        "listwise losses.",
    )
    helpful: bool = setting(False, "Whether questions without a passage that helps by margin are left out.")
    learn_from: LearnFrom = setting("singles", LEARN_FROM_HELP)

    def __post_init__(self) -> None:
        check_types(self)
        if not self.output:
            raise ValueError("output is required: the file to write")
        if not 0 < self.heterogeneity <= 1:
            raise ValueError(f"heterogeneity must be in (0, 1], got {self.heterogeneity}")


@dataclass
class PushConfig:
    """Upload a label folder, as a dataset with a card, or a model's folder to the Hugging Face hub."""

    folder: str = setting("", "Folder written by `seper-reward label`, or of a model, such as a trainer's. Required.")
    repo_id: str = setting("", "Repository on the hub, org/name; made if absent. Required.")
    private: bool = setting(True, "Whether a new repository is private; false shows it to everyone.")
    revision: str | None = setting(None, "Branch, made if absent; not given: the main one.")
    margin: float = setting(
        0.1, "Least label of a positive passage, and least distance of a negative below it, in pairs and triplets."
    )

    def __post_init__(self) -> None:
        check_types(self)
        if not self.folder or not self.repo_id:
            raise ValueError("folder and repo_id are required: what to upload, and where to")


@dataclass
class CopyConfig:
    """Write the configurations that ship into a folder: those that the documentation names, and recipes to adapt."""

    to: str = setting("configs", "Folder to write into; files of the same names must be the same, or absent.")

    def __post_init__(self) -> None:
        check_types(self)


@dataclass
class SaveConfig:
    """Save a reader as a plain model folder, its adapter merged, for an engine to serve."""

    output_dir: str = setting("", "Folder to make. Required.")
    reader: str = setting(
        "embedded",
        "Reader: 'embedded' (SmolLM2-135M-Instruct with our adapter), 'plain' (without it), a hub id or a folder.",
    )
    reader_revision: str | None = setting(None, "Branch, tag or commit of the reader on the hub.")
    dtype: Dtype = setting("bfloat16", "dtype of the saved weights.")
    trust_remote_code: bool = setting(False, "Whether Python code that comes with a model may run.")

    def __post_init__(self) -> None:
        check_types(self)
        if not self.output_dir:
            raise ValueError("output_dir is required: the folder to make")


@dataclass
class ReestimateConfig(EstimatorConfig):
    """Compute labels again by other options of SePer or another entailment model, without asking the reader."""

    labels: str = setting("runs/label", "Folder written by `seper-reward label`.")
    output_dir: str = setting("runs/reestimated", "Folder of the new labels.")
    margin: float = setting(0.05, MARGIN_HELP)
    cache: str | None = setting(None, "SQLite file that keeps entailment scores between runs; not given: none.")


@dataclass
class ReportConfig:
    """Show labels and evaluations on a page (.html), or plot the beliefs in one question (.svg, .png, .pdf)."""

    labels: str | None = setting(
        None,
        "Folder written by `seper-reward label`; not given: runs/label, or with evaluations a page without labels.",
    )
    evaluations: list[str] = setting(
        [], "JSON files of `seper-reward evaluate ... --json`, or folders, all of whose evaluations the page shows."
    )
    question: str | None = setting(
        None, "Id of the question that is plotted; not given: the question whose labels differ most."
    )
    output: str = setting(
        "runs/belief.svg", "File to write: .html for a page; svg, png or pdf for a plot of one question."
    )
    margin: float = setting(
        0.05, "Distance from 0 that a label's whole interval must have to be shown as help or harm on the page, >= 0."
    )

    def __post_init__(self) -> None:
        check_types(self)
        if self.page and self.question is not None:
            raise ValueError(f"question goes with a plot (svg, png or pdf), got output={self.output!r}")
        if self.evaluations and not self.page:
            raise ValueError(f"evaluations go with a page (.html), got output={self.output!r}")
        if self.labels is None and not self.evaluations:
            self.labels = "runs/label"

    @property
    def page(self) -> bool:
        """Whether the output is a page."""
        return Path(self.output).suffix.lower() in (".html", ".htm")


def default_block(config: ScorerConfig, device: torch.device) -> int:
    """Return how many questions are measured side by side on a device where no setting says it."""
    if config.throughput:
        return 32
    return 1 if device.type == "cpu" or config.enough_std_error is not None else 16


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
    given = ("num_samples", "top_p", "temperature", "max_new_tokens", "draw")
    sampling = {name: getattr(config, name) for name in given}
    adaptive = None
    if config.enough_std_error is not None:
        adaptive = AdaptiveSampling(config.enough_std_error, config.min_samples)
    return SePerScorer.from_pretrained(
        reader or config.reader,
        config.entailment,
        prompt=style_of(config, reader.name if reader is not None else config.reader),
        chat=chat_options(config),
        estimator=config.estimator_options,
        max_passage_tokens=config.max_passage_tokens,
        cache=Cache(config.cache) if config.cache else None,
        adaptive=adaptive,
        reader_options=reader_options(config, loaded=reader is not None),
        entailment_options=entailment_options(config),
        engine=EngineOptions(tuple(config.engine), config.engine_model, config.engine_requests, config.engine_timeout),
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
        scorers[name] = load_scorer(replace(config, reader=reader, engine=engine, backend=None), seed)
    return scorers


def check_depths(depths: Sequence[int]) -> None:
    """Raise ``ValueError`` unless there are depths, and all are whole numbers of at least 1."""
    if not depths or not all(isinstance(depth, int) and depth >= 1 for depth in depths):
        raise ValueError(f"depths must be whole numbers of at least 1, got {depths}")


def load_judge(config: CorrelationConfig, scorer: SePerScorer) -> PromptedReader | None:
    """Return the language model that judges responses, loaded unless it is the scorer's reader; ``None`` for none.

    Raises:
        OSError: The model cannot be loaded; the message says what to do.
        ConnectionError: A server does not answer.
    """
    if config.judge in ("none", "reader"):
        return None if config.judge == "none" else scorer.reader
    prompt = reader_defaults(config.judge).prompt
    options = ReaderOptions(dtype=config.dtype, device=config.device, trust_remote_code=config.trust_remote_code)
    engine = EngineOptions(
        tuple(config.judge_engine), config.judge_engine_model, config.engine_requests, config.engine_timeout
    )
    sampler = load_sampler(config.judge, options=options, engine=engine, prompt=prompt)
    return PromptedReader(sampler, prompt=prompt, cache=scorer.cache)


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


def reader_options(config: ScorerConfig, *, loaded: bool = False) -> ReaderOptions:
    """Return the options of the reader; one that is ``loaded`` already runs in this process, uncompiled."""
    return ReaderOptions(
        revision=config.reader_revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
        max_batch_tokens=config.max_batch_tokens,
        backend="process" if loaded else config.backend,
        layout=config.reader_layout,
        refill=config.throughput,
        compile_reader=config.compile_reader and not loaded,
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
