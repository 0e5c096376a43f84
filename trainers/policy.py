"""Train a policy that decides, per question, to answer from memory or to search first: GRPO with ΔSePer as reward.

    python -m trainers.sft --config configs/sft/policy.yaml          # warm-up: teaches the format of both actions
    python -m trainers.policy --config configs/policy/demo.yaml

The settings are those below and those of TRL's ``GRPOConfig``; ``scorer`` names a YAML file with those of the reader.
"""

import hashlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
import trl
from datasets import Dataset
from peft import PeftModel, get_peft_model
from trl import GRPOConfig, GRPOTrainer, TrlParser

from seper_reward.config import ScorerConfig, load_scorer
from seper_reward.reader.loading import load_reader, load_tokenizer
from seper_reward.reports.figures import plot_tradeoff
from seper_reward.retrieval import BM25Retriever, DenseRetriever, Retriever
from seper_reward.reward.chat_template import with_tool_template
from seper_reward.reward.environment import RetrievalEnvironment, environment_factory
from seper_reward.reward.formula import Variant
from seper_reward.reward.reward import SePerReward
from seper_reward.runtime.cache import trainer_cache
from seper_reward.runtime.distributed import process_state, together
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import write_json
from seper_reward.runtime.pretrained import EMBEDDED, LoadedModel, LoadOptions
from seper_reward.runtime.run_folder import claim_settings
from seper_reward.runtime.settings import setting
from seper_reward.scorer import SePerScorer
from seper_reward.types import Passage, Query, answer_items
from trainers.models import causal_lora, load_encoder
from trainers.policy_data import PolicyQuestions, messages_of, read_policy_questions
from trainers.policy_eval import fixed_rules, measure, policy_table, tradeoff
from trainers.ranking.run import SETTINGS
from trainers.runs import ThisMachine, last_checkpoint

BM25 = "bm25"
_TRL_TESTED = "1.16"  # version of TRL whose private function ``project_completions_only`` replaces
# arguments of TRL that decide the result: a run is not resumed with others
_DECISIVE = {
    "seed", "max_steps", "num_train_epochs", "learning_rate", "lr_scheduler_type", "warmup_steps", "beta", "epsilon",
    "per_device_train_batch_size", "gradient_accumulation_steps", "num_generations", "temperature", "top_p", "top_k",
    "max_completion_length", "max_tool_calling_iterations", "scale_rewards", "loss_type", "bf16",
}  # fmt: skip


@dataclass
class PolicyConfig:
    """Train a policy that decides when to search before it answers."""

    model: str = setting(EMBEDDED, "Policy to train, before its adapter: 'embedded', 'plain', a hub id or a folder.")
    init_adapter: str = setting(
        "runs/policy-warm", "Folder of a warmed-up adapter to start from; 'none' starts with a new one."
    )
    lora_r: int = setting(16, "Rank of a new LoRA adapter on all linear layers; 0 trains all weights.")
    lora_layers: int | None = setting(None, "Number of last blocks that a new adapter adapts; not given: all.")
    retriever: str = setting(
        BM25, "Retriever of the search tool: 'bm25', 'embedded' (MiniLM), or a bi-encoder's folder."
    )
    search_top_k: int = setting(1, "Passages per search, >= 1.")
    max_turns: int = setting(1, "Most searches per question, >= 1.")
    max_passage_tokens: int = setting(64, "Longest passage in tokens of the policy, >= 1; longer ones are cut.")
    variant: str = setting(
        "delta",
        "Reward before prices: delta (change of the reader's belief by all searches), stepwise (the same, logged by "
        "search), answer (how far the policy's answer entails a gold answer) or advantage (that, less the reader's "
        "belief without a search).",
    )
    price: float = setting(0.15, "Price of a search, in units of belief, >= 0.")
    word_price: float = setting(0.0, "Price of a retrieved word, in units of belief, >= 0.")
    needed: float = setting(
        0.5, "A question needs a search if the reader's SePer without one is below this; for metrics and a fixed rule."
    )
    reader: str = setting(
        "separate", "Weights of the reader: separate (its own), policy-base (the policy's, adapter off) or policy."
    )
    scorer: str | None = setting(
        None, "YAML file with settings of the reader and the entailment model, as for `seper-reward label`."
    )
    reader_seed: int = setting(0, "Seed of the reader's sampling; with the seed of labelling, both can share a cache.")
    limit: int | None = setting(None, "Number of training questions; not given: all.")
    eval_limit: int | None = setting(None, "Number of held-out questions; not given: all.")
    evaluate_only: bool = setting(
        False,
        "Whether init_adapter (a trained policy: RUN/model) is only measured, beside fixed rules, without training.",
    )

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {self.variant!r}")
        if self.init_adapter != "none" and not (Path(self.init_adapter) / "adapter_config.json").is_file():
            raise ValueError(
                f"init_adapter={self.init_adapter!r} holds no adapter; warm up first with `python -m trainers.sft "
                "--config configs/sft/policy.yaml` (a small policy never calls a tool by itself), or give 'none'"
            )


@dataclass
class PolicyArguments(ThisMachine, GRPOConfig):
    """TRL's GRPOConfig with short completions; the CPU is used where there is no accelerator."""

    output_dir: str = field(
        default="runs/policy", metadata={"help": "Folder of the run; the same command resumes there."}
    )
    max_completion_length: int = field(
        default=128, metadata={"help": "Most tokens of a rollout, tool results included."}
    )
    max_tool_calling_iterations: int | None = field(
        default=None, metadata={"help": "Most rounds of tool calls; not given: max_turns."}
    )
    report_to: str = field(
        default="none", metadata={"help": "Where to log: none, wandb (also with WANDB_MODE=offline), ..."}
    )


def rows_of(queries: Sequence[Query]) -> Dataset:
    """Return a data set for TRL: prompts, and the columns that the reward needs."""
    return Dataset.from_list(
        [
            {
                "prompt": messages_of(query.question),
                "question": query.question,
                # a column has one type: an answer that is no list is a list of one item
                "answers": answer_items(query.answers),
            }
            for query in queries
        ]
    )


def new_retriever(name: str, corpus: dict[str, Passage]) -> Retriever:
    """Return the retriever of the search tool: BM25, or a bi-encoder by name."""
    return BM25Retriever(corpus) if name == BM25 else DenseRetriever(load_encoder(name), corpus)


def new_policy(config: PolicyConfig, network: Any) -> Any:
    """Return the network as policy: with the warmed-up or a new adapter, or with all weights trainable.

    With ``lora_r`` 0 a warmed-up adapter is merged into the weights.
    """
    if config.init_adapter != "none":
        policy = PeftModel.from_pretrained(network, config.init_adapter, is_trainable=True)
        return policy if config.lora_r else policy.merge_and_unload().requires_grad_(True)
    if not config.lora_r:
        return network.requires_grad_(True)
    return get_peft_model(network, causal_lora(network, config.lora_r, config.lora_layers))


def read_scorer_config(path: str | None) -> ScorerConfig:
    """Read the settings of the reader from a YAML file; ``None`` gives the defaults."""
    parser = TrlParser((ScorerConfig,))
    settings: ScorerConfig = parser.parse_args_and_config(["--config", path] if path else [])[0]
    return settings


@contextmanager
def project_completions_only() -> Iterator[None]:
    """Let TRL project only the completions' positions to the vocabulary, also on the CPU.

    Without Triton TRL projects prompts and padding as well (``trl/trainer/utils.py``, for Neuron's compiler), in fp32,
    which takes more than a quarter of a step of the demo on a CPU. Losses are the same.
    """
    original = getattr(trl.trainer.utils, "_use_triton", None)
    if original is None:
        warnings.warn(
            f"TRL {trl.__version__} decides otherwise than {_TRL_TESTED} where to project to the vocabulary "
            "(trl.trainer.utils._use_triton is gone): steps are right, and slower on a CPU",
            stacklevel=2,
        )
        yield
        return
    trl.trainer.utils._use_triton = lambda device: device.type == "cpu" or original(device)
    try:
        yield
    finally:
        trl.trainer.utils._use_triton = original


def new_tool(config: PolicyConfig, retriever: Retriever) -> Callable[[], RetrievalEnvironment]:
    """Return the function that makes the policy's search tool, one for each rollout."""
    return environment_factory(
        retriever,
        top_k=config.search_top_k,
        max_turns=config.max_turns,
        max_passage_tokens=config.max_passage_tokens,
        tokenizer=load_tokenizer(config.model),
    )


def new_trainer(
    config: PolicyConfig,
    arguments: PolicyArguments,
    loaded: LoadedModel,
    reward: SePerReward,
    tool: Callable[[], RetrievalEnvironment],
    questions: PolicyQuestions,
) -> GRPOTrainer:
    """Return TRL's trainer of the policy, with the search tool and the reward.

    Args:
        config: Settings of the recipe.
        arguments: Arguments of TRL.
        loaded: Model of the policy, before its adapter.
        reward: The reward; it reads with the trainer's weights unless ``config.reader`` is ``"separate"``.
        tool: Function that makes the search tool of a rollout.
        questions: Questions to train on, and held-out ones.
    """
    torch.manual_seed(arguments.seed)  # for a new adapter: the trainer sets its seed only later
    trainer = GRPOTrainer(
        model=new_policy(config, loaded.model),
        reward_funcs=[reward],
        args=arguments,
        train_dataset=rows_of(questions.train),
        eval_dataset=rows_of(questions.held_out),
        # another tokenizer than the reader's, which must keep its chat template
        processing_class=with_tool_template(load_tokenizer(config.model)),
        environment_factory=tool,
    )
    if config.reader != "separate":
        reward.attach(trainer)
    return trainer


def log_results(trainer: GRPOTrainer, results: Mapping[str, Mapping[str, float]]) -> None:
    """Log results with the trainer, to where it reports."""
    trainer.log({f"{name}/{key}": value for name, row in results.items() for key, value in row.items()})


def claim_policy_folder(folder: Path, config: PolicyConfig, arguments: PolicyArguments, scorer: SePerScorer) -> None:
    """Write everything that decides the result into the folder, or compare it with what the folder has.

    Raises:
        ValueError: The folder holds a run with other settings, weights or number of processes.
    """
    adapter = Path(config.init_adapter) / "adapter_model.safetensors"
    settings = {
        **{name: value for name, value in asdict(config).items() if name not in ("evaluate_only", "scorer")},
        **{name: value for name, value in arguments.to_dict().items() if name in _DECISIVE},
        "adapter": hashlib.sha256(adapter.read_bytes()).hexdigest()[:16] if adapter.is_file() else None,
        "scorer": content_key(scorer.fingerprint),
        "processes": process_state().num_processes,
    }
    together(lambda: claim_settings(folder / SETTINGS, settings))


def read_settings(config: PolicyConfig, arguments: PolicyArguments) -> ScorerConfig:
    """Read the settings of the reader.

    Sets its cache, if it has none, to that of ``trainer_cache``, and TRL's number of tool calls, if it is not given,
    to ``max_turns``.

    Raises:
        ValueError: The policy's weights are to read, and the file names another reader.
    """
    settings = read_scorer_config(config.scorer)
    settings.refuse_auto()
    if config.reader != "separate" and (settings.engine or settings.reader not in (ScorerConfig.reader, config.model)):
        raise ValueError(
            f"reader={config.reader!r} reads with the policy's weights, but {config.scorer} names "
            f"{settings.engine or settings.reader}; give --reader separate, or leave it out there"
        )
    settings.cache = settings.cache or trainer_cache(Path(arguments.output_dir))
    if arguments.max_tool_calling_iterations is None:
        arguments.max_tool_calling_iterations = config.max_turns
    return settings


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the policy, train it, measure it again, and save it; return 0."""
    parser = TrlParser((PolicyConfig, PolicyArguments), prog="python -m trainers.policy", description=__doc__)
    config, arguments = parser.parse_args_and_config(argv)
    folder = Path(arguments.output_dir)
    settings = read_settings(config, arguments)
    dtype = "auto" if config.lora_r else "float32"  # in bf16, updates of all weights would be lost to rounding
    loaded = load_reader(config.model, LoadOptions(dtype=dtype, device="cpu" if arguments.use_cpu else None))
    scorer = load_scorer(settings, config.reader_seed, None if config.reader == "separate" else loaded)
    if not config.evaluate_only:
        claim_policy_folder(folder, config, arguments, scorer)
    reward = SePerReward(
        scorer, variant=config.variant, price=config.price, word_price=config.word_price, needed=config.needed,
        reader=config.reader,
    )  # fmt: skip
    questions = read_policy_questions(config.limit, config.eval_limit)
    tool = new_tool(config, new_retriever(config.retriever, questions.corpus))
    rules = fixed_rules(reward, scorer, questions.held_out, tool)
    trainer = new_trainer(config, arguments, loaded, reward, tool, questions)
    with project_completions_only():  # also for measuring, which computes the loss
        results = {"before": measure(trainer, reward, questions.held_out)}
        log_results(trainer, {**results, **rules})
        if not config.evaluate_only:
            trainer.train(resume_from_checkpoint=last_checkpoint(folder))
            trainer.save_model(str(folder / "model"))
            results["after"] = measure(trainer, reward, questions.held_out)
            log_results(trainer, {"after": results["after"]})
    results |= rules
    if process_state().is_main_process:
        name = "evaluation" if config.evaluate_only else "results"  # leaves the results of training in place
        write_json(folder / f"{name}.json", results)
        (folder / f"{name}.md").write_text(policy_table(results) + "\n", encoding="utf-8")
        plot_tradeoff(tradeoff(results, trainer.state.log_history), folder / f"{name}.svg")
        print(policy_table(results))
        for reason, count in reward.failures.most_common():
            print(f"{count} rollouts not scored: {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
