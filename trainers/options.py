"""Settings of the recipes, and their defaults for the training arguments of TRL and transformers.

Neither is imported here: help and errors of our own settings need no torch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from seper_reward.options import (
    INPUT_HELP,
    Count,
    FormatOptions,
    InputOptions,
    LabelingOptions,
    LearnFromOptions,
    LimitOptions,
    NotNegative,
    Options,
    Positive,
    RetrieverOptions,
    ScorerOptions,
    Share,
    WeightOptions,
    least,
    setting,
)
from seper_reward.reward.policy_reader import Weights

SplitBy = Literal["question", "passage", "title", "name", "entity"]
SPLIT_BY_HELP = (
    "Unit that splits keep together: question, or all questions that share a passage, or a passage's title (of a "
    "document or entity), or a passage or a name in the question (name; only relevant passages count if passages are "
    "marked), or any passage or a name in the question (entity)."
)
REPORT_TO_HELP = (
    "Tracker to log to: none, wandb (also with WANDB_MODE=offline; a resumed run continues there), another one of "
    "transformers, such as tensorboard or trackio, for the trainer's own log, or all that are installed."
)


class SharesConfig(LimitOptions):
    """How questions are split."""

    split_by: SplitBy = setting("question", SPLIT_BY_HELP)
    test_share: float = setting(0.125, "Share of held-out questions, chosen by SHA-1 of their ids, above 0.")
    dev_share: float = setting(
        0.125,
        "Share of questions for evaluation during training, or for the thresholds of a policy's rules; may be 0.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_share <= 0 or self.dev_share < 0 or self.test_share + self.dev_share >= 1:
            raise ValueError(
                f"test_share must be above 0, dev_share at least 0, and their sum below 1, got "
                f"{self.test_share} and {self.dev_share}"
            )


class RankingConfig(LabelingOptions, LearnFromOptions, InputOptions, SharesConfig, ScorerOptions):
    """Settings of the training and evaluation data of ranking models, shared by retriever and reranker."""

    candidates: Literal["retrieved", "given", "both"] = setting(
        "both", "Passages to label: retrieved by the model, given with the questions, or both."
    )
    top_k: Count = setting(8, "Number of passages to retrieve per question and round, >= 1.")
    hops: Count = setting(
        1,
        "Number of retrievals per question, >= 1, each with the question and the best passages found so far; 2 for "
        "questions that need two passages.",
    )
    list_size: Annotated[int, least(2)] | None = setting(
        None,
        "Maximum number of passages per question in training, >= 2: the best, the worst, and evenly between; not "
        "given: all.",
    )
    heterogeneity: Share = setting(
        0.1,
        "Maximum p-value, in (0, 1], of the test that a question's labels differ more than by noise; other questions "
        "are left out. 1 keeps all.",
    )
    shrink: bool = setting(
        True,
        "Whether to shrink a question's labels towards their mean, by the noise in their differences according to the "
        "standard errors.",
    )
    min_spread: NotNegative = setting(
        0.05,
        "Difference of best and worst label, >= 0, that a training question must exceed; measured after shrinkage.",
    )
    eval_readers: list[str] = setting(
        ["plain"],
        "Further readers to measure the rankings with: 'embedded', 'plain' (SmolLM2-135M-Instruct, no adapter), "
        "hub ids or folders. Use readers at least as strong as the labelling reader. 'none': only the labelling "
        "reader measures.",
    )
    eval_top_k: Count = setting(1, "Number of top passages in the reader's prompt when a ranking is measured, >= 1.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eval_readers == ["none"]:
            object.__setattr__(self, "eval_readers", [])
        if self.learn_from != "singles" and self.sets == "none" and self.labeler != "gold":
            raise ValueError(
                f"learn_from={self.learn_from} needs labels of sets or human labels (labeler gold), got sets=none "
                f"with labeler {self.labeler!r}; label conditional sets, or learn from singles"
            )
        if self.sets != "none" and self.learn_from == "singles":
            raise ValueError(
                f"sets={self.sets} measures sets of passages, which learn_from=singles does not use; learn from "
                "paths, or leave sets out"
            )
        if len({Path(name).name for name in self.eval_readers}) < len(self.eval_readers):
            raise ValueError(f"eval_readers must have different names, got {self.eval_readers}; rename a folder")
        if self.reader in self.eval_readers:
            raise ValueError(f"eval_readers must not contain the labelling reader, {self.reader!r}; leave it out")


@dataclass
class ListDefaults:
    """Defaults of training with lists of passages."""

    per_device_train_batch_size: int = setting(8, "Number of questions, each with its list, per step and process.")
    learning_rate: float = setting(5e-5, "Peak learning rate.")
    lr_scheduler_type: str = setting("linear", "Schedule of the learning rate after warm-up.")
    warmup_steps: float = setting(0.1, "Warm-up steps; below 1 a share of all steps.")
    eval_strategy: str = setting("epoch", "Time of evaluations on the dev questions: no, steps or epoch.")
    save_strategy: str = setting("epoch", "Time of checkpoints to resume from: no, steps or epoch.")
    save_total_limit: int | None = setting(1, "Number of checkpoints to keep.")
    logging_steps: float = setting(10, "Number of steps between logs; below 1 a share of all steps.")
    seed: int = setting(42, "Seed of sampling responses, and of training.")
    bf16: bool | None = setting(None, "Whether to train with bf16 autocast (default: if it is fast).")
    report_to: str = setting("none", REPORT_TO_HELP)


class RetrieverConfig(RankingConfig):
    """Fine-tune a bi-encoder on labels of the passages that it retrieves."""

    model: str = setting("embedded", "Bi-encoder to train: 'embedded' (all-MiniLM-L6-v2), a hub id or a folder.")
    rounds: Count = setting(
        1, "Number of rounds, >= 1: each retrieves with the current weights, labels new passages, and trains."
    )
    loss: Literal["kl_regularized", "reverse_kl"] = setting(
        "kl_regularized",
        "Loss: kl_regularized (over all passages in the batch; those without a label keep their rank at the start of "
        "the round) or reverse_kl (over a question's candidates alone).",
    )
    teacher_temperature: Positive = setting(
        1.0,
        "Temperature of the labels in the loss, > 0, in mean standard deviations of a question's labels; "
        "the smaller, the further the model moves.",
    )
    max_seq_length: Count | None = setting(
        None,
        "Maximum number of tokens per text, >= 1, in training and afterwards; the longest text decides the time of a "
        "batch (default: the model's limit).",
    )


@dataclass
class RetrieverDefaults(ListDefaults):
    """All SentenceTransformerTrainingArguments of sentence-transformers are settings, too."""

    output_dir: str = setting("runs/retriever", "Folder of the run; the same command resumes there.")


class RerankerConfig(RankingConfig):
    """Fine-tune a cross-encoder on labels of a retriever's candidates."""

    model: str = setting(
        "embedded",
        "Cross-encoder to train: 'embedded' (the embedded entailment model with a new head), a hub id or a folder.",
    )
    pair_tokens: Annotated[int, least(2)] | None = setting(
        None, "Maximum number of tokens of a question with a passage, >= 2 (default: the model's limit)."
    )
    dev_share: float = setting(0.0, "Share of questions to leave out of training (for other experiments).")
    retriever: str = setting("embedded", "Bi-encoder that retrieves candidates: 'embedded', a hub id or a folder.")


@dataclass
class RerankerDefaults(ListDefaults):
    """All CrossEncoderTrainingArguments of sentence-transformers are settings, too."""

    output_dir: str = setting("runs/reranker", "Folder of the run; the same command resumes there.")
    eval_strategy: str = setting("no", "Time of evaluations: no.")
    # DDP finds no tensors in a CrossEncoder's output, a BatchEncoding, and would take all weights for unused
    ddp_find_unused_parameters: bool | None = setting(False, "Whether DDP looks for weights without gradient.")


class PolicyTaskConfig(FormatOptions, RetrieverOptions, SharesConfig):
    """The task of a policy: its questions, its search tool, and the reader that measures the value of a search."""

    model: str = setting("embedded", "Policy to train, before its adapter: 'embedded', 'plain', a hub id or a folder.")
    input: list[str] = setting(
        ["demo"],
        f"{INPUT_HELP} Several inputs are joined; 'unseen_facts' are bundled facts that the embedded reader has not "
        "been trained on.",
    )
    groups: list[str] = setting(
        [],
        "Groups of questions to use, by their field group (or the name of their file, without the field) (default: "
        "all questions).",
    )
    limit_each: Count | None = setting(None, "Number of questions from each input, evenly spread (default: all).")
    eval_limit: Count | None = setting(None, "Number of held-out questions, evenly spread (default: all).")
    test_share: float = setting(0.25, "Share of held-out questions, chosen by SHA-1 of their ids, above 0.")
    max_turns: Count = setting(1, "Maximum number of searches per question, >= 1.")
    max_passage_tokens: Count = setting(64, "Length at which passages are cut, in the policy's tokens, >= 1.")
    reader: Weights = setting(
        "separate", "Weights of the reader: separate, policy-base (the policy's without its adapter) or policy."
    )
    scorer: str | None = setting(None, "YAML file with settings of reader and judge, as for `seper-reward label`.")
    cache: str | None = setting(
        None,
        "SQLite file that caches responses and entailment scores, also to resume a killed run; runs on this machine "
        "can share it (default: the cache of the scorer's file, else one in output_dir).",
    )


class PolicyConfig(PolicyTaskConfig, WeightOptions):
    """Train a policy that decides when to search before it answers."""

    init_adapter: str = setting("runs/policy-warm", "Folder of a warmed-up adapter to start from; 'none': a new one.")
    lora_r: int = setting(16, "Rank of a new LoRA adapter on all linear layers; 0 trains all weights.")
    credit: Literal["rollout", "turn"] = setting(
        "rollout",
        "Unit that gets a separate advantage: rollout, or turn, for its own reward and the rewards after it; turn "
        "needs scale_rewards none.",
    )
    evaluate_only: bool = setting(
        False,
        "Whether to only measure init_adapter (a trained policy: RUN/model) and the fixed rules, without training.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lora_r and self.reader == "policy-base":
            raise ValueError("reader='policy-base' needs an adapter: with lora_r=0 there is no adapter to switch off")
        if self.init_adapter != "none" and not (Path(self.init_adapter) / "adapter_config.json").is_file():
            raise ValueError(
                f"init_adapter={self.init_adapter!r} contains no adapter; warm up first with `seper-reward train sft "
                "--config configs/sft/policy.yaml` (a small policy never calls a tool untrained), or set 'none'"
            )


class SftScriptConfig(Options):
    """Settings of model and data, in addition to TRL's SFTConfig."""

    data: str = setting(
        "policy", "Training data: 'policy' (answers and searches), or a JSONL file of {prompt, completion}."
    )
    model: str = setting(
        "plain",
        "Model to train: 'plain' (SmolLM2-135M-Instruct), 'embedded' (with our adapter), hub id or folder; with "
        "data=policy, the policy's model is used instead.",
    )
    init_adapter: str | None = setting(None, "Folder of an adapter to start from (default: a new one).")
    lora_r: int = setting(16, "Rank of the LoRA matrices on all linear layers.")
    lora_layers: int | None = setting(
        None, "Number of last blocks to adapt (no gradient flows below them) (default: all)."
    )
    policy: str = setting(
        "configs/policy/demo.yaml",
        "YAML file of the policy for data=policy, with its model, questions, search tool and reader.",
    )
    limit: Count | None = setting(
        None, "Number of examples to train on, or of questions with data=policy (default: all)."
    )


class EntailmentConfig(Options):
    """Train an entailment adapter on pairs of premise and hypothesis."""

    pairs: str = setting("pairs.jsonl", "Training pairs: rows {premise, hypothesis, label, question?}, JSONL.")
    dev_pairs: str | None = setting(None, "Held-out pairs to fit the temperature on (default: none is fitted).")
    init_adapter: str | None = setting(None, "Folder of an adapter to start from (default: a new one).")
    lora_r: int = setting(64, "Rank of the LoRA matrices on all linear layers.")
    temperature: float | None = setting(None, "Number that divides the logits (default: fitted on the dev pairs).")


@dataclass
class EntailmentDefaults:
    """All TrainingArguments of transformers are settings, too."""

    output_dir: str = setting("runs/entailment", "Folder to write adapter, scores and model card into.")
    per_device_train_batch_size: int = setting(64, "Number of pairs per step.")
    max_steps: int = setting(2500, "Number of optimizer steps.")
    learning_rate: float = setting(1e-3, "Peak learning rate.")
    lr_scheduler_type: str = setting("cosine", "Schedule of the learning rate after warm-up.")
    warmup_steps: float = setting(0.05, "Warm-up steps; below 1 a share of all steps.")
    weight_decay: float = setting(0.01, "Weight decay of AdamW.")
    train_sampling_strategy: str = setting("group_by_length", "Order of pairs: random, sequential or group_by_length.")
    logging_steps: float = setting(50, "Number of steps between logs; below 1 a share of all steps.")
    save_steps: float = setting(50, "Number of steps between checkpoints to resume from.")
    save_total_limit: int | None = setting(1, "Number of checkpoints to keep.")
    seed: int = setting(0, "Seed of the order of pairs and of initial weights.")
    bf16: bool | None = setting(None, "Whether to train with bf16 autocast (default: if it is fast).")
    report_to: str = setting("none", REPORT_TO_HELP)


@dataclass
class PolicyDefaults:
    """All settings of TRL's GRPOConfig are settings, too."""

    output_dir: str = setting("runs/policy", "Folder of the run; the same command resumes there.")
    max_completion_length: int = setting(128, "Maximum number of tokens of a rollout, including tool results.")
    report_to: str = setting("none", REPORT_TO_HELP)


@dataclass
class SftDefaults:
    """All settings of TRL's SFTConfig are settings, too."""

    output_dir: str = setting("runs/sft", "Folder to write the adapter and its model card into.")
    max_length: int | None = setting(
        None,
        "Maximum number of tokens of an example; longer ones are cut, or left out (default: no limit; 1024 with "
        "packing).",
    )


#: Options of each recipe and its defaults for training arguments.
RECIPE_OPTIONS: dict[str, tuple[type, type]] = {
    "retriever": (RetrieverConfig, RetrieverDefaults),
    "reranker": (RerankerConfig, RerankerDefaults),
    "policy": (PolicyConfig, PolicyDefaults),
    "sft": (SftScriptConfig, SftDefaults),
    "entailment": (EntailmentConfig, EntailmentDefaults),
}
