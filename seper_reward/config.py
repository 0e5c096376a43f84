"""Settings as dataclasses for TRL's parser (YAML, overrides, unknown keys raise), and the scorer they describe."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from seper_reward.estimators.seper import Aliases, Estimator, Kernel, Match, Preset, Weighting
from seper_reward.reader.sampler import AdaptiveSampling, Backend, EngineOptions, ReaderOptions
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.pretrained import LoadedModel, LoadOptions
from seper_reward.scorer import SePerScorer

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Prompt = Literal["paper", "brief", "few_shot"]
Tracking = Literal["none", "wandb"]


def setting(default: Any, text: str) -> Any:
    """Return a dataclass field with its help text."""
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={"help": text})
    return field(default=default, metadata={"help": text})


@dataclass
class JudgeConfig:
    """Which entailment model judges, and how models are loaded."""

    entailment: str = setting("embedded", "Entailment model: 'embedded', a hub id or a local folder.")
    entailment_revision: str | None = setting(None, "Branch, tag or commit of the entailment model.")
    dtype: Dtype = setting("auto", "auto (bf16 where fast), float32, bfloat16 or float16.")
    device: str | None = setting(None, "cpu, cuda, cuda:1, ...; default: this process's accelerator, else cpu.")
    trust_remote_code: bool = setting(False, "Run Python that comes with a model.")

    def __post_init__(self) -> None:
        _check_types(self)


@dataclass
class ScorerConfig(JudgeConfig):
    """How beliefs are measured; shared by all commands."""

    reader: str = setting(
        "embedded",
        "Reader: 'embedded' (SmolLM2-135M-Instruct with our adapter), 'plain' (without it), a hub id or a folder; "
        "with --engine it names the tokenizer.",
    )
    reader_revision: str | None = setting(None, "Branch, tag or commit of the reader on the hub.")
    prompt: Prompt | None = setting(
        None, "paper, brief or few_shot; default: brief for the embedded reader, few_shot for plain, else paper."
    )
    max_passage_tokens: int | None = setting(None, "Cut passages to so many tokens; default: the reader's window.")
    num_samples: int = setting(10, "Responses per prompt (N of the paper), >= 1.")
    temperature: float | None = setting(
        None, "Temperature of the draw, >= 0; default: 0.5 for plain, else 1.0 (paper)."
    )
    top_p: float = setting(1.0, "Nucleus of the draw, in (0, 1].")
    enough_std_error: float | None = setting(
        None, "Standard error of a belief up to which min_samples responses are enough; default: draw num_samples."
    )
    min_samples: int = setting(4, "With enough_std_error: responses drawn in any case, >= 2.")
    max_new_tokens: int | None = setting(
        None, "Longest response in tokens; default: 16 for embedded and plain, else 32."
    )
    stop: list[str] = setting(["\n"], "Strings that end a response.")
    estimator: Preset = setting("default", "Preset of the options below.")
    weighting: Weighting | None = setting(None, "Response weights; default: preset.")
    aliases: Aliases | None = setting(None, "Joining of answers; default: preset.")
    kernel: Kernel | None = setting(None, "Entailment kernel; default: preset.")
    match: Match | None = setting(None, "Hard match; default: preset.")
    threshold: float | None = setting(None, "τ of match=threshold, in (0, 1]; default: preset.")
    max_batch_tokens: int = setting(
        32768, "Most tokens in the reader's key-value cache at once; 0: what half of the free memory holds."
    )
    throughput: bool = setting(
        False,
        "Let waiting prompts take the room of finished ones, where many prompts are sampled in one call.",
    )
    compile_reader: bool = setting(
        False,
        "torch.compile the reader: minutes before the first question, then faster; for long runs. After interruptions "
        "and on several processes labels are then equal up to low digits only.",
    )
    cache: str | None = setting(None, "SQLite file that keeps responses and entailment scores between runs.")
    engine: list[str] = setting(
        [],
        "URLs of OpenAI-compatible servers (vLLM) that run the reader, as http://localhost:8000/v1; none: in process.",
    )
    backend: Backend | None = setting(
        None,
        "Where the reader runs: process, engine, or auto (both are measured at the start, the faster is kept); "
        "default: the engine where one is named.",
    )
    engine_model: str | None = setting(None, "The reader's name on the engine; default: the one model it serves.")
    engine_requests: int = setting(64, "Most requests under way per engine URL; one is a prompt with its samples.")
    engine_timeout: float = setting(300.0, "Longest wait for an engine's answer, in seconds.")

    def refuse_auto(self) -> None:
        """Raise if where the reader runs would be measured anew when a run is resumed.

        Raises:
            ValueError: ``backend`` is auto.
        """
        if self.backend == "auto":
            raise ValueError("backend=auto could choose otherwise when a training is resumed; name process or engine")


@dataclass
class CommandConfig(ScorerConfig):
    """A command that measures beliefs; trainers have a seed of their own."""

    seed: int = setting(0, "Seed of the draw.")


@dataclass
class LabelConfig(CommandConfig):
    """Label passages by what each did to the reader's belief in the right answer (ΔSePer), or by another labeler."""

    labeler: str = setting(
        "delta_seper",
        "Who judges: delta_seper (its rows hold the hard label, too), erag, erag_token_f1, erag_rouge_l, likelihood, "
        "gold (people's marks), or a reranker's folder.",
    )

    input: str = setting(
        "demo",
        "JSONL, JSONL.gz or Parquet of {id?, question, answers, passages}, a saved dataset folder, or 'demo'.",
    )
    corpus: str | None = setting(
        None, "JSONL, JSONL.gz or Parquet of {id, title?, text}; questions without passages get BM25's best."
    )
    top_k: int = setting(5, "Passages to retrieve per question from --corpus.")
    output_dir: str = setting("runs/label", "Folder of the labels; the same command resumes there.")
    limit: int | None = setting(None, "Label so many questions only, evenly spread over the input.")
    block: int | None = setting(
        None,
        "Questions measured side by side; more fill a large device, and labels then depend, in low digits, on who "
        "stands beside whom in the input. Default: 1 on a CPU, 16 on others, 32 with throughput.",
    )
    strict: bool = setting(False, "Stop at the first unusable row instead of writing rejected.jsonl.")
    report_to: Tracking = setting("none", "Where numbers are logged; WANDB_MODE=offline works.")
    profile: bool = setting(False, "Show and log seconds and tokens by stage (prefill, decode, entailment, ...).")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("top_k", "limit", "block"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.enough_std_error is not None and ((self.block or 1) > 1 or self.throughput):
            raise ValueError("enough_std_error decides question by question; leave out block and throughput")

    def block_on(self, device: torch.device | None) -> int:
        """Return how many questions are measured side by side on the reader's device."""
        if self.block is not None:
            return self.block
        if self.throughput:
            return 32
        return 1 if device is None or device.type == "cpu" or self.enough_std_error is not None else 16


@dataclass
class MarkedConfig(CommandConfig):
    """Questions whose passages people have marked; shared by the commands that evaluate ΔSePer."""

    file: str = setting("", "JSON, JSONL (also .gz) or Parquet whose passages carry 'relevant': true or false.")
    split: Literal["train", "dev", "test", "all"] = setting("all", "Questions to use, by sha1(id).")
    limit: int | None = setting(None, "Use so many questions only, evenly spread over the input.")
    json: str | None = setting(None, "Write the result to this file, too.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")


@dataclass
class CorrelationConfig(MarkedConfig):
    """Correlate ΔSePer and its rivals with human relevance marks (SePer, arXiv:2503.01478, Table 2)."""

    passages_per_question: int | None = setting(
        None, "Use so many passages a question: the relevant ones, then the others in order."
    )


@dataclass
class CounterfactualConfig(MarkedConfig):
    """Compare passages that carry a planted wrong answer ('counterfactual': true) with relevant ones (RGB)."""


@dataclass
class EquivalenceConfig(JudgeConfig):
    """Compare entailment with human verdicts on whether a response states the gold answer (EVOUNA, or your own)."""

    file: str = setting(
        "", "EVOUNA's JSON, or JSON, JSONL or Parquet rows of {question, answers, response, equivalent}."
    )
    column_by: str = setting("system", "Field of your rows that names their column in the results.")
    threshold: float | None = setting(
        None, "Fixed threshold for all rows; default: best F1 on the train split (sha1 of question), test split shown."
    )
    json: str | None = setting(None, "Write the result to this file, too.")
    plot: str | None = setting(None, "Draw F1 by method and the reliability of the probabilities into this image.")


@dataclass
class ExportConfig:
    """Write the labels of a folder in the format of another trainer."""

    labels: str = setting("runs/demo", "Folder written by `seper-reward label`.")
    format: str = setting(
        "sentence-transformers",
        "sentence-transformers (query, docs, labels: listwise losses), sentence-transformers-triplets (anchor, "
        "positive, negative, label: MarginMSE), tevatron, flagembedding (with distillation scores), trec (qrels).",
    )
    output: str = setting("", "File to write.")
    label: str | None = setting(
        None, "Field that holds the labels; default: that of the labeler that wrote them, for ΔSePer the soft one."
    )
    margin: float = setting(
        0.1, "Label from which a passage counts as helpful; a negative is at least so far below the positives."
    )
    max_std_error: float | None = setting(None, "Leave out passages whose label has a greater standard error.")
    helpful: bool = setting(False, "Leave out questions that no passage helps.")

    def __post_init__(self) -> None:
        _check_types(self)
        if not self.output:
            raise ValueError("output is required: the file to write")


@dataclass
class SaveConfig:
    """Save a reader as a plain model folder, its adapter merged, for an engine to serve."""

    output_dir: str = setting("", "Folder to make.")
    reader: str = setting("embedded", "As in `seper-reward label`.")
    reader_revision: str | None = setting(None, "Branch, tag or commit of the reader on the hub.")
    dtype: Dtype = setting("bfloat16", "dtype of the saved weights.")
    trust_remote_code: bool = setting(False, "Run Python that comes with a model.")

    def __post_init__(self) -> None:
        _check_types(self)
        if not self.output_dir:
            raise ValueError("output_dir is required: the folder to make")


@dataclass
class ReportConfig:
    """Draw how passages moved the reader's belief, for one question of a label folder."""

    labels: str = setting("runs/demo", "Folder written by `seper-reward label`.")
    question: str | None = setting(None, "Id of the question; default: the one whose passages differ most.")
    output: str = setting("runs/belief.svg", "Image file; its ending decides the format (svg, png, pdf).")


def load_scorer(config: ScorerConfig, seed: int, reader: LoadedModel | None = None) -> SePerScorer:
    """Load the reader and the entailment model, and open the cache.

    Args:
        config: which, and how.
        seed: of the draw.
        reader: one that is loaded already, instead of the config's and its engine.

    Raises:
        OSError: a model or the cache cannot be loaded, or an engine not reached, with what to do about it.
        ValueError: a setting is out of range.
    """
    preset = {name: getattr(config, name) for name in ("weighting", "aliases", "kernel", "match", "threshold")}
    sampling = {name: getattr(config, name) for name in ("num_samples", "top_p", "temperature", "max_new_tokens")}
    adaptive = None
    if config.enough_std_error is not None:
        adaptive = AdaptiveSampling(config.enough_std_error, config.min_samples)
    return SePerScorer.from_pretrained(
        reader or config.reader,
        config.entailment,
        prompt=config.prompt,
        estimator=Estimator.preset(config.estimator, **_given(preset)),
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


def reader_options(config: ScorerConfig, *, loaded: bool = False) -> ReaderOptions:
    """Return how the reader is loaded and used; one that is loaded already runs in this process, uncompiled."""
    return ReaderOptions(
        revision=config.reader_revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
        max_batch_tokens=config.max_batch_tokens,
        backend="process" if loaded else config.backend,
        refill=config.throughput,
        compile_reader=config.compile_reader and not loaded,
    )


def entailment_options(config: JudgeConfig) -> LoadOptions:
    """Return how the entailment model is loaded."""
    return LoadOptions(
        revision=config.entailment_revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
    )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _check_types(config: Any) -> None:
    hints = get_type_hints(type(config))
    for each in fields(config):
        _check_type(each.name, getattr(config, each.name), hints[each.name])


def _check_type(name: str, value: Any, hint: Any) -> None:
    """Refuse what YAML may bring and argparse would not: `seed: abc`, `strict: 3`, `input: [a, b]`, `dtype: int8`."""
    kinds = get_args(hint) if type(None) in get_args(hint) else (hint,)
    if not any(_fits(value, kind) for kind in kinds):
        wanted = " or ".join(_described(kind) for kind in kinds)
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind == list[str]:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _described(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    return "nothing" if kind is type(None) else getattr(kind, "__name__", str(kind))
