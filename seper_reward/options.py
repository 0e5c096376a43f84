"""Options of commands, and arguments of classes; those of baselines and trainers alone are in their folders.

A command's options inherit the options of its parts, and a class takes them as they are, by the type of its part.
Names are flat; commands and trainers read them from flags and YAML files with TRL's parser (``runtime.parser``).
"""

import json
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import urlsplit

T = TypeVar("T")
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Layout = Literal["tree", "repeat", "alone", "reread"]
STYLES = ("paper", "brief", "few_shot")  # of prompts
#: Texts in the option ``prompt``, with their fields.
PROMPT_FIELDS: dict[str, list[str]] = {
    "style": [], "closed_book": ["question"], "passages": ["question", "reference"], "placebo": [],
    "background": ["question"], "compress": ["passages", "question"],  # of EoR
}  # fmt: skip
Baseline = Literal["none", "placebo"]
EstimatorPreset = Literal["default", "paper", "official"]
Tracking = Literal["none", "wandb"]
LearnFrom = Literal["singles", "paths"]
SplitOrAll = Literal["train", "dev", "test", "all"]
MARGIN = 0.05  # labels nearer to 0 count neither as help nor as harm, however certain
POSITIVE = 0.3  # least evidence of a positive for training, chosen on dev splits (docs/results.md)
API_KEY = "SEPER_ENGINE_API_KEY"
INPUT_HELP = (
    "Questions: JSON, JSONL, CSV, Parquet or Arrow, a folder of datasets or BEIR, or the id of a dataset on the hub "
    "(org/name@revision/configuration; revision and configuration are optional), followed by :split if there are "
    "several splits; or 'demo' (for trainers also 'unseen_facts'). Layouts of SQuAD, HotpotQA and MS MARCO are "
    "recognised."
)
MARKED_HELP = f"{INPUT_HELP} Their passages have the field 'relevant': true, false or a grade. Required."
SPLIT_HELP = "Split of the questions to use, by SHA-1 of their ids: 3/4 train, 1/8 dev, 1/8 test; or all."
LEARN_FROM_HELP = (
    "Labels to learn from: singles (labels of single passages) or paths (labels of each hop along the best measured "
    "set: the query is the question followed by the given passages, and a label is the greatest utility of a "
    "measured set with the passage). paths needs labels of sets, or human labels."
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
ANSWER_PATTERN_HELP = (
    "Regular expression of the policy's answer: the first group (or the whole match) of the last match; texts without "
    "a match have no answer (default: the usual marks, such as \\boxed{} and Answer:, else the last line)."
)
_RESERVED_ARGUMENTS = {"chat_template", "tokenize", "add_generation_prompt", "date_string"}  # of ``ChatTemplate``


def within(expected: str, holds: Callable[[Any], bool]) -> Callable[[str, Any], None]:
    """Return the check of an option, named in its type, whose value ``holds`` or is ``None``."""

    def check(name: str, value: Any) -> None:
        if value is not None and not holds(value):
            raise ValueError(f"{name} must be {expected}, got {value}")

    return check


def least(bound: float) -> Callable[[str, Any], None]:
    """Return the check of an option that is at least ``bound`` or ``None``."""
    return within(f"at least {bound}", lambda value: value >= bound)


def required(meaning: str) -> Callable[[str, Any], None]:
    """Return the check of an option, named in its type, that must be given."""

    def check(name: str, value: Any) -> None:
        if not value:
            raise ValueError(f"{name} is required: {meaning}")

    return check


Count = Annotated[int, least(1)]
NotNegative = Annotated[float, least(0)]
Share = Annotated[float, within("in (0, 1]", lambda value: 0 < value <= 1)]
Positive = Annotated[float, within("above 0", lambda value: value > 0)]


def setting(default: Any, text: str) -> Any:
    """Return a dataclass field with a help text; a list or mapping as default is copied for each object."""
    metadata = {"help": text}
    if isinstance(default, (list, dict)):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


_BRIEF = reprlib.Repr()  # of values that YAML's aliases make huge
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother = 3, 200, 200


def brief(value: object) -> str:
    """Return a value for an error message, in at most 200 characters.

    >>> brief([[[[0]]]] * 2), len(brief("long" * 1000))
    ('[[[[...]]], [[[...]]]]', 200)
    """
    text = _BRIEF.repr(value)
    return text if len(text) <= 200 else text[:199] + "…"


def pick(kind: type[T], options: object, **changes: Any) -> T:
    """Return the options of a part, with values of the fields that ``options`` has, and changes.

    >>> pick(ModelOptions, JudgeOptions(dtype="float32"), device="cpu")
    ModelOptions(dtype='float32', device='cpu', trust_remote_code=False)
    """
    names = [option.name for option in fields(kind) if option.init and hasattr(options, option.name)]  # type: ignore[arg-type]
    return kind(**{**{name: getattr(options, name) for name in names}, **changes})


def check_types(options: Any) -> None:
    """Check the types of values from YAML, which argparse has not checked (`seed: abc`), and ranges in the types.

    ``None`` is allowed as a default. Raises ``ValueError`` with the name and the type or range of the field.
    """
    hints = get_type_hints(type(options), include_extras=True)
    for option in fields(options):
        name, value = option.name, getattr(options, option.name)
        alternatives, checks = _alternatives(hints[name])
        if not (value is option.default is None or any(_fits(value, kind) for kind in alternatives)):
            raise ValueError(f"{name} must be {' or '.join(map(_type_name, alternatives))}, got {brief(value)}")
        for check in checks:
            check(name, value)


def check_least(options: object, **bounds: float) -> None:
    """Raise ``ValueError`` if an option of this name is below its least value; ``None`` is allowed."""
    for name, bound in bounds.items():
        least(bound)(name, getattr(options, name))


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise a ``ValueError`` that names the option and its values if ``value`` is not one of them."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {brief(value)}")


def check_url(
    url: str,
    name: str = "engine",
    *,
    secret: str = f"put the key into ${API_KEY}",
    like: str = "URLs such as http://localhost:8000/v1",
) -> None:
    """Raise ``ValueError`` for a URL that is not an HTTP address, or has a password or query, which logs show.

    The message has the option's name, the place for a ``secret``, and addresses ``like`` the expected ones.
    """
    parts = urlsplit(url)
    if set("@?#") & set(url):
        raise ValueError(f"{name} must not contain a password or a query (on {parts.hostname}); {secret}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{name} must be {like}, got {brief(url)}")


def split_address(name: str, option: str = "") -> tuple[str, list[str]]:
    """Return the model and the servers of ``MODEL``, ``MODEL@URL`` or ``URL``, which ``option`` does not allow.

    >>> split_address("org/reader@http://one:8000/v1"), split_address("org/reader"), split_address("http://one/v1")
    (('org/reader', ['http://one:8000/v1']), ('org/reader', []), ('', ['http://one/v1']))
    """
    model, at, address = name.partition("@http")
    if "://" in model:
        if option:
            raise ValueError(f"{option} must have the tokenizer in front of the address, TOKENIZER@URL, got {name!r}")
        return "", [name]
    return model, [f"http{address}"] if at else []


def split_revision(name: str) -> tuple[str, str | None]:
    """Return the name and the revision of ``ID@REVISION``, a model on the hub; names of files have none.

    >>> split_revision("org/reader@v1"), split_revision("org/reader")
    (('org/reader', 'v1'), ('org/reader', None))
    """
    model, at, revision = name.partition("@")
    return (name, None) if not at or Path(name).exists() else (model, revision)


def split_options(text: str, kinds: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of ``NAME`` or ``NAME:OPTION=VALUE,OPTION=VALUE``.

    ``kinds`` has the functions that read the values; an unknown option or a value of another type raises
    ``ValueError``.

    >>> split_options("conditional:depth=3", {"given_top": int, "depth": int})
    ('conditional', {'depth': 3})
    """
    match = re.fullmatch(r"(?P<name>.*?)(?::(?P<options>\w+=.*))?", text)
    name, words = (match["name"], match["options"]) if match else (text, None)
    values: dict[str, Any] = {}
    for word in words.split(",") if words else ():
        option, _, value = word.partition("=")
        try:
            values[option] = kinds[option](value)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"{text!r}: expected {name}:NAME=VALUE,... with some of {', '.join(kinds)}, got {word!r}"
            ) from error
    return name, values


def _alternatives(hint: Any) -> tuple[list[Any], list[Callable[[str, Any], None]]]:
    """Return the types of a field, and the checks in them."""
    if get_origin(hint) is Annotated:
        kinds, checks = _alternatives(hint.__origin__)
        return kinds, [*checks, *hint.__metadata__]
    if get_origin(hint) in (Union, UnionType):
        pairs = list(map(_alternatives, get_args(hint)))
        return [kind for kinds, _ in pairs for kind in kinds], [check for _, checks in pairs for check in checks]
    return [hint], []


def _fits(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in parts
    if origin in (list, tuple):
        return isinstance(value, (list, tuple)) and all(_fits(item, parts[0]) for item in value)
    if kind is Any or isinstance(value, bool):
        return kind in (Any, bool)
    return isinstance(value, (int, float) if kind is float else origin or kind)


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    return "nothing" if kind is type(None) else getattr(kind, "__name__", str(kind))


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Options:
    """Base of options, frozen dataclasses whose types and ranges are checked; another value raises ``ValueError``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, **kwargs)(cls)

    def __post_init__(self) -> None:
        check_types(self)


class ModelOptions(Options):
    """Options of loading all models of a command."""

    dtype: Dtype = setting(
        "auto", "dtype of the models' weights; auto: bfloat16 if it is fast on the device, else float32."
    )
    device: str | None = setting(
        None, "Device of the models: cpu, cuda, cuda:1, ... (default: this process's accelerator, else the CPU)."
    )
    trust_remote_code: bool = setting(False, "Whether to run Python code that comes with a model.")

    @property
    def loading(self) -> dict[str, Any]:
        """These options by name, for the options of another model."""
        return {name: getattr(self, name) for name in ModelOptions.__dataclass_fields__}


class SamplingOptions(Options):
    """Options of sampling, which decide the responses.

    ``temperature`` and ``max_new_tokens`` are ``None`` until the reader's own values are filled in
    (``reader.loading.with_reader_defaults``); samplers have numbers. A ``temperature`` of 0 is greedy decoding (all N
    responses are then equal). Stop strings are ignored before the first visible character of a response.
    """

    num_samples: Count = setting(10, "Number of responses per prompt (N of the paper), >= 1.")
    temperature: NotNegative = setting(
        None, "Sampling temperature, >= 0 (default: 0.5 for plain, 1.0 for other readers)."
    )
    top_p: Share = setting(1.0, "Probability mass of nucleus sampling, in (0, 1].")
    max_new_tokens: Count = setting(
        None,
        "Maximum length of a response in tokens, >= 1 (default: 16 for embedded and plain, 32 for other readers).",
    )
    stop: list[str] = setting(["\n"], "Strings that end a response and are cut from it.")
    seed: int = setting(0, "Seed of sampling.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if "" in self.stop:
            raise ValueError("stop must not contain an empty string")


class EngineOptions(Options):
    """The servers of the reader, which all serve the same model, or vLLM in this process."""

    engine: list[str] = setting(
        [],
        "URLs of OpenAI-compatible servers (vLLM) that run the reader, such as http://localhost:8000/v1, or "
        "MODEL@URL for one of several served models; vllm runs the reader with vLLM in this process (default: "
        "transformers in this process).",
    )
    gpu_memory_utilization: Share = setting(
        0.9, "Share of the memory of a GPU for vLLM in this process, in (0, 1]; the judge and a trainer need the rest."
    )
    tensor_parallel_size: Count = setting(1, "Number of GPUs of a process over which vLLM divides the reader, >= 1.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for address in self.engine if self.on_servers else []:
            check_url("".join(split_address(address)[1]) or address)  # even unused ones end up in provenance and logs
        if len({model for model, _ in map(split_address, self.engine)}) > 1:
            raise ValueError(f"engine must name one model for all servers, got {', '.join(self.engine)}")

    @property
    def on_servers(self) -> bool:
        """Whether the reader runs on servers, which return no likelihood of a question."""
        return bool(self.engine) and self.engine != ["vllm"]

    @property
    def served_model(self) -> str:
        """Name of the reader on the servers; empty for the only served model."""
        return split_address(self.engine[0])[0] if self.engine else ""


class ChatOptions(Options):
    """Options of the reader's chat template; a reserved variable raises ``ValueError``."""

    system_prompt: str | None = setting(
        None,
        "System prompt before every prompt, which may be empty (default: the one in the reader's chat template, if "
        "any).",
    )
    chat_template_kwargs: dict[str, Any] | str | None = setting(
        None,
        'Variables for the reader\'s chat template, a mapping in YAML or JSON, such as {"reasoning_effort": "low"}; '
        "enable_thinking is false by default.",
    )
    chat_template: str | None = setting(
        None, "File with a chat template (Jinja) for the reader (default: the one of its tokenizer)."
    )

    def __post_init__(self) -> None:
        kwargs = self.chat_template_kwargs
        try:  # a text is from the command line
            variables = json.loads(kwargs) if isinstance(kwargs, str) else {} if kwargs is None else kwargs
        except ValueError:
            raise ValueError(f"chat_template_kwargs must be a JSON mapping, got {brief(kwargs)}") from None
        if isinstance(variables, str):
            raise ValueError(f"chat_template_kwargs must be a JSON mapping, got {brief(kwargs)}")
        object.__setattr__(self, "chat_template_kwargs", variables)
        super().__post_init__()
        if reserved := sorted(_RESERVED_ARGUMENTS & set(self.variables)):
            raise ValueError(
                f"chat_template_kwargs must not contain {', '.join(reserved)}, which is set for every prompt; remove "
                "it (chat_template is an option)"
            )
        read_template(self.chat_template)

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables of the template."""
        return cast(Mapping[str, Any], self.chat_template_kwargs)

    @property
    def needs_template(self) -> str:
        """Names of the given options that need a chat template, joined; empty if there are none."""
        needed = {"system_prompt": self.system_prompt is not None, "chat_template_kwargs": bool(self.variables)}
        return " and ".join(name for name, is_set in needed.items() if is_set)


class JudgeOptions(ModelOptions):
    """The judge, which decides whether responses state the same answer, and options of loading models."""

    judge: str = setting(
        "embedded",
        "Judge of responses: 'embedded' (multilingual-e5-small with the bundled adapter), the hub id (as ID@REVISION "
        "for a commit) or folder of an entailment model or of a causal language model, TOKENIZER@URL for the model of "
        "a server, or 'reader' (the reader itself).",
    )


class ReaderNameOptions(Options):
    """Options of commands with a reader."""

    reader: str = setting(
        "embedded",
        "Reader, the language model whose belief is measured: 'embedded' (SmolLM2-135M-Instruct with the bundled "
        "adapter), 'plain' (without the adapter), a hub id (as ID@REVISION for a branch, tag or commit), or a folder "
        "with a model or a PEFT adapter; with --engine, the model whose tokenizer is used.",
    )


class ReaderOptions(ReaderNameOptions, ModelOptions, EngineOptions, SamplingOptions, ChatOptions):
    """Options of a reader, its loading, sampling, servers and chat template; the argument of all samplers."""

    max_batch_tokens: Count | None = setting(
        None,
        "Maximum number of tokens in the reader's key-value cache, in batches of prompts, >= 1; lower it if memory "
        "runs out (default: 131072 on an accelerator, 32768 on a CPU).",
    )


class ScorerOptions(ReaderOptions, JudgeOptions):
    """Options of a scorer, the reader and how its beliefs are measured, shared by all commands with a reader."""

    prompt: dict[str, str] | str | None = setting(
        None,
        "Style of the prompt, paper, brief or few_shot, or a YAML file or mapping of changes to a style: "
        "style, closed_book (with the field {question}), passages (with {reference} and {question}; several passages "
        "are numbered) and placebo (default: brief for embedded, few_shot for plain, paper for other readers).",
    )
    baseline: Baseline = setting(
        "none",
        "Context that a passage is compared with: none (the question without a passage) or placebo (a passage that "
        "answers nothing, which removes the effect of the mere presence of a passage).",
    )
    max_passage_tokens: Count | None = setting(
        None, "Maximum length of a passage in tokens; longer ones are cut (default: the limit of the reader's window)."
    )
    estimator: EstimatorPreset = setting(
        "default",
        "Preset of the options of SePer: default, paper, or official (the authors' code); single ones are in Python.",
    )
    cache: str | None = setting(
        None,
        "SQLite file that caches responses and entailment scores between runs (default: none; for trainers a "
        "file in output_dir, or on several machines in the temporary folder of each).",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", read_prompt(self.prompt))
        super().__post_init__()


def read_template(template: str | None) -> str | None:
    """Return a chat template, or the one in a file of this name; a file that cannot be read raises ``ValueError``."""
    if template is None or "{" in template:
        return template
    try:
        return Path(template).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"chat_template must be a file with a chat template, got {brief(template)}: {error}"
        ) from error


def read_prompt(prompt: Any) -> Any:
    """Return the option ``prompt``: a style of ``STYLES``, or changes to one, from a YAML file if it names one.

    Raises ``ValueError`` if the style or a field is unknown, or a text lacks its fields.
    """
    if isinstance(prompt, str) and prompt not in STYLES:
        import yaml

        expected = f"prompt must be one of {', '.join(STYLES)}, or a YAML file with some of {', '.join(PROMPT_FIELDS)}"
        try:
            prompt = yaml.safe_load(prompt if "{" in prompt else Path(prompt).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ValueError(f"{expected}, got {brief(prompt)}: {' '.join(str(error).split())}") from error
        if not isinstance(prompt, dict):
            raise ValueError(f"{expected}, got {brief(prompt)} in it")
    for name, text in prompt.items() if isinstance(prompt, dict) else ():
        if name not in PROMPT_FIELDS:
            raise ValueError(f"prompt has {name!r}, expected some of {', '.join(PROMPT_FIELDS)}")
        if name == "style":
            check_choice("style of prompt", text, STYLES)
        elif not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name} of prompt must be a text, got {brief(text)}")
        elif PROMPT_FIELDS[name]:
            check_template(f"{name} of prompt", text, PROMPT_FIELDS[name])
    return prompt


def check_template(name: str, template: str, fields: Sequence[str]) -> None:
    """Raise ``ValueError`` if a template has not exactly the given fields (sorted), or has another brace."""
    placeholders = sorted({part.partition("}")[0] for part in template.split("{")[1:]})
    if placeholders != fields:
        wanted, got = (", ".join(f"{{{field}}}" for field in names) or "none" for names in (fields, placeholders))
        raise ValueError(f"{name} must be a text with {wanted} and no other brace, got {got} in {brief(template)}")


class FormatOptions(Options, kw_only=True):
    """The format of questions, and where their passages and marks are."""

    columns: list[str] = setting(
        [],
        "Columns of the questions that are not recognised, such as question=q answers=gold passages=ctx id=key; a "
        "dotted name goes into a column (answers=answer.aliases), and several columns of answers or passages are "
        "joined (passages=first passages=second).",
    )
    corpus: str | None = setting(
        None,
        "Corpus, rows {id, title?, text} from a file or dataset as for questions: passages that questions, run or "
        "qrels name by id, or that a retriever finds (default: the corpus of the demo or of BEIR's folder, else the "
        "questions' passages).",
    )
    run: str | None = setting(
        None,
        "TREC run with the passages of the questions, from the corpus; questions without a ranking are left out. Not "
        "given: passages come with the questions, or from retrieval.",
    )
    qrels: str | None = setting(
        None,
        "People's judgments (TREC qrels, or BEIR's tables), which mark passages of the corpus relevant; questions "
        "without judgments are left out (default: marks come with the questions, or from BEIR's folder).",
    )


class InputOptions(FormatOptions):
    """The questions and their format."""

    input: str = setting("demo", INPUT_HELP)


class SetOptions(Options):
    """Which sets of passages are measured: each passage next to the best passages.

    The ``given_top`` >= 1 sets of each size with the highest labels are given, up to sets of ``depth`` passages.
    """

    given_top: Count = setting(3, "Number of sets of each size that are given, >= 1.")
    depth: Literal[2, 3] = setting(2, "Number of passages in the largest sets, 2 or 3.")


class LabelingOptions(Options):
    """Options of a labeler, and whether it labels sets of passages."""

    labeler: str = setting(
        "delta_seper",
        "Labeler: delta_seper (change of the reader's belief in the gold answer), erag or erag:METRIC (metric of the "
        "responses: exact_match, token_f1, rouge_l, accuracy, contains_answer or package.module:name), likelihood "
        "(change of the answer's log-probability), item or item:METHOD (the reader's own judgment by a_s, a_r, ar_s, "
        "ar_r, exp_a, imp_a, vanilla, k_sampling or rank_gpt; needs no gold answer), contains (whether the passage "
        "contains the answer), gold (human labels), or the folder of a reranker, whose score is the label. Options "
        "of erag and item follow a colon: erag:token_f1:preset=paper, item:a_s:form=pointwise,rounds=1; "
        "docs/baselines.md explains them.",
    )
    label: Literal["delta_seper", "delta_seper_hard", "delta_belief", "seper_gain", "question_gain"] | None = setting(
        None,
        "Label of the labeler delta_seper: delta_seper (soft), delta_seper_hard (by matched clusters), delta_belief "
        "(mean of delta_seper and the change of the gold answer's likelihood), seper_gain (delta_belief plus the "
        "weighted gain of the question's likelihood) or question_gain (this gain alone), which no server returns, "
        "and the only label of questions without gold answers. "
        "Rows have all of them, labels of sets only this one (default: delta_seper, of sets the best that the reader "
        "can compute; trainers learn from the first of seper_gain and delta_belief that all rows have).",
    )
    sets: str = setting(
        "none",
        "Labels of passages next to other passages: conditional (gain of each passage next to the best ones, for "
        "answers that need several) or none. conditional:given_top=3,depth=2 has the numbers of best passages, and of "
        "passages in the largest sets (2 or 3).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.set_options

    @property
    def set_options(self) -> SetOptions | None:
        """The sets to label; ``None`` if only single passages are labelled."""
        name, options = split_options(self.sets, {"given_top": int, "depth": int})
        check_choice("sets", name, ("none", "conditional"))
        return None if name == "none" else SetOptions(**options)


class WeightOptions(Options):
    """The weights of a reward; a weight or price below 0 raises ``ValueError``."""

    answer_weight: NotNegative = setting(1.0, "Weight of the policy's answer, >= 0; 0 pays for the searches only.")
    gain_weight: NotNegative = setting(1.0, "Weight of the ΔSePer of the searches, >= 0; 0 pays for the answer only.")
    price: NotNegative = setting(0.1, "Price of a search or a failed call, in units of belief, >= 0.")
    closed_book: bool = setting(
        False, "Subtraction of the belief without a search from the answer, for trainers that compare questions."
    )


def compile_answer_pattern(pattern: str | None) -> re.Pattern[str] | None:
    """Compile the setting ``answer_pattern``, whose first group (or whole match) is the answer; ``None`` for ``None``.

    Raises ``ValueError`` if it is not a regular expression; the message has the pattern and the reason.
    """
    if pattern is None:
        return None
    if not isinstance(pattern, str) or not pattern:
        raise ValueError(f"answer_pattern must be a regular expression, a non-empty text, got {brief(pattern)}")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"answer_pattern must be a regular expression, got {brief(pattern)}: {error}") from error


class CompletionOptions(Options):
    """Options of reading completions: where the searches are, and the answer."""

    passage_tag: str | None = setting(
        None,
        "Tag around the passages of a search in completions that are texts, such as information; a policy that can "
        "write the tag itself can fake passages (default: no tag, only the field `passages` counts).",
    )
    search_tools: list[str] = setting(
        [], "Names of the tools whose results are searches, in completions as messages (default: the only tool)."
    )
    answer_pattern: str | None = setting(None, ANSWER_PATTERN_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        compile_answer_pattern(self.answer_pattern)


class RewardOptions(CompletionOptions, WeightOptions, ScorerOptions):
    """Options of a reward: its weights, and its reader, in this process or behind a URL."""

    url: str | None = setting(
        None, "Address of `seper-reward serve`, whose models are then used (default: models in this process)."
    )
    timeout: Positive = setting(600.0, "Longest wait for the server, in seconds, > 0.")

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = ScorerOptions()
        names = [option.name for option in fields(plain) if getattr(self, option.name) != getattr(plain, option.name)]
        if self.url is not None and names:
            raise ValueError(f"with a url the server has the reader; set {', '.join(names)} there, not here")


class LimitOptions(Options):
    """How many questions of the input are used."""

    limit: Count | None = setting(None, "Number of questions to use, evenly spread over the input (default: all).")


class SplitOptions(Options):
    """Which split of the input is used."""

    split: SplitOrAll = setting("all", SPLIT_HELP)


class SelectOptions(SplitOptions, LimitOptions):
    """Which questions of the input are used."""


class MarginOptions(Options):
    """From which distance from 0 a label matters."""

    margin: NotNegative = setting(MARGIN, "Value above which a label means help (harm: below -margin), >= 0.")


class PlotOptions(Options):
    """Options of commands that can plot their result."""

    plot: str | None = setting(None, "Image file to plot the result into: svg, png or pdf (default: none).")


class ReadersOptions(Options):
    """Options of commands that measure with several readers."""

    readers: list[str] = setting([], READERS_HELP)


class RetrieverOptions(Options):
    """Options of commands with one retriever."""

    retriever: str = setting(
        "bm25", f"{RETRIEVER_HELP} Without a corpus: the folder of a ready index, or the URL of a search service."
    )


class KnownOptions(Options):
    """Options of commands that can leave out questions."""

    leave_out_known: bool = setting(
        False,
        "Whether to leave out questions whose likeliest response without passages is an exact match, as in the paper.",
    )


class TrackingOptions(Options):
    """Options of commands that can log to a tracker."""

    report_to: Tracking = setting("none", TRACKING_HELP)


class ResultOptions(TrackingOptions):
    """Options of commands that write a result."""

    json: str | None = setting(None, "JSON file for the result, in addition to standard output (default: none).")


class EvaluationOptions(ResultOptions, SelectOptions, FormatOptions, ScorerOptions):
    """Options of commands that evaluate on questions."""


class MarkedOptions(EvaluationOptions):
    """Options of commands that compare ΔSePer to human labels on passages."""

    file: Annotated[str, required("questions whose passages have the field 'relevant'")] = setting("", MARKED_HELP)


class GradedOptions(MarkedOptions):
    """Options of commands that use relevant passages and grades."""

    relevant_from: Count = setting(
        1, "Grade from which a marked passage counts as relevant, >= 1 (true is grade 1); nDCG counts all grades."
    )


class RetrievalOptions(MarkedOptions):
    """Options of commands that retrieve for each question from one corpus."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.run:  # judged passages that the run lacks would count as not relevant
            raise ValueError("run names passages, but here retrievers find them; leave it out")


class LabelOptions(LabelingOptions, InputOptions, RetrieverOptions, SelectOptions, TrackingOptions, ScorerOptions):
    """Label passages by the change of the reader's belief in the right answer (ΔSePer), or by another labeler."""

    top_k: Count = setting(
        5,
        "Number of passages to retrieve for a question without passages, or in addition to marked passages, or to "
        "take from its ranking in run, >= 1.",
    )
    output_dir: str = setting("runs/label", "Folder of the labels; the same command resumes an interrupted run there.")
    batch_size: Count | None = setting(
        None,
        "Number of questions in one batch, >= 1; low digits of labels depend on the batch. Engines build their own "
        "batches, except for item and likelihood (default: 128 on an accelerator, 1 on a CPU).",
    )
    strict: bool = setting(False, "Whether to stop at the first unusable row instead of writing it to rejected.jsonl.")
    dry_run: bool = setting(
        False,
        "Whether to measure a few questions and print the expected time, tokens and memory instead of labelling.",
    )


class AuditSearchesOptions(CompletionOptions, PlotOptions, ResultOptions, MarginOptions, ScorerOptions):
    """Report useful searches in an agent's log, and their break-even price: `seper-reward audit-searches FILE`."""

    input: Annotated[str, required("seper-reward audit-searches rollouts.jsonl")] = setting(
        "",
        "Log of rollouts: JSON, JSONL (also .gz), CSV or Parquet. Rows {question, answers, searches: [{query, "
        "passages}], answer}, or prompt and completion (or all in messages) as messages (TRL, verifiers, prime-rl, "
        "OpenAI), or as text with tags (Search-R1). Required; --input can be omitted in front of the first argument.",
    )
    answers: str | None = setting(
        None, "File with gold answers (rows of question and answers), for logs without answers, such as TRL's tables."
    )
    searches: str | None = setting(None, "JSONL file for searches: query, ΔSePer, interval, kind; not given: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.plot and self.plot.lower().endswith((".html", ".htm")):
            raise ValueError(
                f"plot must be svg, png or pdf, got {self.plot!r}; the measures are printed as tables, and --searches "
                "FILE.jsonl writes all searches"
            )


class LabelFolderOptions(Options):
    """Options of commands that read labels."""

    labels: str = setting("runs/label", "Folder written by `seper-reward label`.")


class LearnFromOptions(Options):
    """Options of commands that learn from labels, or export them for it."""

    learn_from: LearnFrom = setting("singles", LEARN_FROM_HELP)


class ExportOptions(LabelFolderOptions, LearnFromOptions):
    """Write labels in the format of another trainer or an evaluation tool."""

    format: str = setting(
        "sentence-transformers",
        "sentence-transformers (query, docs, labels: listwise losses), sentence-transformers-triplets (anchor, "
        "positive, negative, label: MarginMSE), sentence-transformers-pairs (anchor, positive: in-batch negatives), "
        "sentence-transformers-flat (query, passage, label: CoSENT, MSE), tevatron, flagembedding (with distillation "
        "scores), or trec (qrels).",
    )
    output: Annotated[str, required("the file to write")] = setting(
        "", "File to write, Parquet if its name ends in .parquet, CSV if in .csv or .tsv. Required."
    )
    label: str | None = setting(
        None,
        "Field of the labels, such as delta_seper, delta_seper_hard, delta_belief or seper_gain (default: "
        "if the labeler is delta_seper, without sets, the first of seper_gain and delta_belief that all rows have; "
        "else the labeler's name, or the sets' label).",
    )
    margin: float = setting(
        POSITIVE,
        "Least evidence of a positive passage, and least distance of a negative below the positives, in evidence and "
        "label. The evidence is the label; for seper_gain the belief times the relative likelihood of question and "
        "answer, and for question_gain a posterior over the question's passages.",
    )
    heterogeneity: Share = setting(
        1.0,
        "Largest p-value, in (0, 1], of the test that all passages of a question are equally good; questions above it "
        "are dropped; 0.1 suits training; 1 keeps all questions.",
    )
    shrink: bool = setting(
        False,
        "Whether a question's labels are shrunk to their mean by the share of their variance that is noise, for "
        "listwise losses.",
    )


class InitOptions(Options):
    """Write the bundled configurations into a folder: those used in the documentation, and recipes to adapt."""

    output_dir: str = setting("configs", "Folder to write into; existing files must have the same content.")


class MergeReaderOptions(ReaderNameOptions, ModelOptions):
    """Save a reader as a plain model folder, with its adapter merged, to be served by an engine.

    Weights are saved in bfloat16 unless dtype names another type.
    """

    output_dir: Annotated[str, required("the folder to create")] = setting("", "Folder to create. Required.")


class ReportOptions(LabelFolderOptions, MarginOptions):
    """Show labels on a page (.html), or plot the beliefs in one question (.svg, .png, .pdf)."""

    question: str | None = setting(
        None, "Id of the question to plot (default: the question whose labels differ most)."
    )
    output: str = setting(
        "runs/belief.svg", "File to write: .html for a page; svg, png or pdf for a plot of one question."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.page and self.question is not None:
            raise ValueError(f"question needs a plot as output (svg, png or pdf), got output={self.output!r}")

    @property
    def page(self) -> bool:
        """Whether the output is a page."""
        return Path(self.output).suffix.lower() in (".html", ".htm")


class ServeOptions(CompletionOptions, WeightOptions, ScorerOptions):
    """Serve the scorer over HTTP; the variable SEPER_SERVER_TOKEN sets a token that clients must send."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 for all, which other machines then reach.")
    port: int = setting(8100, "Port to listen on, in [1, 65535].")
    batch_size: Count | None = setting(
        None,
        "Number of sets of passages in one batch, over all clients, >= 1; more fill a large device, but single "
        "requests wait longer (default: the capacity of the engines, 256 on an accelerator, 16 on a CPU).",
    )
    deadline: Positive = setting(
        600.0, "Time limit of a request in seconds, > 0; clients can set less (SePer-Deadline). Late requests get 504."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.port <= 65535:
            raise ValueError(f"port must be in [1, 65535], got {self.port}")


class CounterfactualOptions(MarkedOptions):
    """Compare ΔSePer of passages with a planted wrong answer ('counterfactual': true) to relevant ones (RGB)."""


class JudgeEvaluationOptions(PlotOptions, ResultOptions, JudgeOptions):
    """Compare the judge, and other scores of responses, with people's verdicts."""

    file: Annotated[
        list[str],
        required(
            "people's verdicts, rows of {question, answers, response, equivalent} or EVOUNA; a checkout has our own "
            "traps in tests/benchmarks/judge/equivalence.jsonl"
        ),
    ] = setting(
        [],
        "Files with people's verdicts: EVOUNA's JSON, or JSON, JSONL or Parquet of {question, answers, response, "
        "equivalent (or right), system (or kind)?}, with a column of results per system; of several files, columns "
        "are named after file and system. Required.",
    )
    threshold: Share | None = setting(
        None,
        "Score, in (0, 1], from which a response counts as equivalent, for all verdicts (default: the threshold "
        "with the best F1 on a train split by SHA-1 of the question, and results on the test split only).",
    )
    verbatim: bool = setting(
        False, "Whether the model alone judges, as in the paper, without the rules for equality and values."
    )


class LabelsOptions(SplitOptions, KnownOptions, ResultOptions):
    """Compare labels of finished runs, and rivals without a reader, with human relevance labels, without a model."""

    labels: Annotated[list[str], required("folders written by `seper-reward label`")] = setting(
        [], "One or more folders written by `seper-reward label` from questions with marks ('relevant'). Required."
    )
    read_by: list[str] = setting(
        [],
        "Folders of the same questions labelled by another reader, one for each of --labels; its SePer with the best "
        "passage by each measure is compared (default: none).",
    )


class DepthsOptions(Options):
    """Options of commands that measure several numbers of passages."""

    depths: list[int] = setting([1, 5], "Numbers of first passages in the reader's context, each >= 1.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.depths or min(self.depths) < 1:
            raise ValueError(f"depths must be whole numbers of at least 1, got {self.depths}")


class RetrieverNamesOptions(Options):
    """Options of commands with several retrievers."""

    retrievers: list[str] = setting(["bm25", "minilm"], f"Retrievers. {RETRIEVER_HELP}")


class RetrieversOptions(DepthsOptions, RetrieverNamesOptions, ReadersOptions, RetrievalOptions, GradedOptions):
    """Compare retrievers by relevance, by ΔSePer and by the reader's answers (SePer, Tables 10 and 11)."""


class CreditOptions(CompletionOptions, RetrieverOptions, PlotOptions, MarginOptions, RetrievalOptions):
    """Compare credits of an agent's searches with the true effect: the change of its answers without the result.

    The result of each search is kept, removed, and swapped for a random passage of about its length; the agent goes on
    from there and answers several times (docs/evaluate.md).
    """

    agent: str = setting(
        "plain",
        "Agent, a causal language model: a hub id, a folder, plain (SmolLM2-135M-Instruct), or TOKENIZER@URL for the "
        "model of a server.",
    )
    rollouts: str | None = setting(
        None,
        "Log of rollouts to use, in any form that audit-searches reads, which the agent continues (default: the agent "
        "makes one rollout per question).",
    )
    sample: Count | None = setting(
        None,
        "Number of questions or rollouts, drawn by a hash of the id: a greater number continues a smaller one, with "
        "the same --cache (default: all).",
    )
    max_searches: Count = setting(
        2, "Number of searches per rollout of the agent, >= 1; fewer if the question has fewer 'hops'."
    )
    continuations: Annotated[int, least(2)] = setting(10, "Number of sampled answers per intervention, >= 2.")
    agent_passage_tokens: Count = setting(128, "Maximum length of a search result for the agent, in tokens, >= 1.")
    searches: str | None = setting(None, "JSONL file for searches, their effects and credits; not given: none.")
