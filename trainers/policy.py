"""Train a policy that decides per question to answer from memory or to search first: GRPO with ΔSePer as reward.

    seper-reward train sft --config configs/sft/policy.yaml          # warm-up: teaches the format of both actions
    seper-reward train policy --config configs/policy/demo.yaml

Settings: the fields below and those of TRL's ``GRPOConfig``; ``scorer`` is a YAML file with the reader's settings.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from datasets import Dataset
from peft import PeftModel, get_peft_model
from trl import GRPOConfig, GRPOTrainer

from seper_reward.options import REPORT_TO_HELP, Dtype, FormatOptions, LoadOptions, WeightOptions, pick, setting
from seper_reward.reader.loading import load_reader, load_tokenizer
from seper_reward.reader.prompts import PromptStyle
from seper_reward.reports.figures import plot_tradeoff
from seper_reward.retrieval import CachedRetriever, load_retriever
from seper_reward.reward.chat_template import with_tool_template
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.prefetch import prefetch_searches
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.sharding import is_sharded
from seper_reward.reward.trainer import TurnCreditGRPOTrainer, refuse_credit
from seper_reward.runtime.distributed import gather_in_order, process_state, shard, together
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import write_json, write_lines
from seper_reward.runtime.messages import say
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.runtime.run_folder import claim_settings
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query

from .generator_cards import policy_card, write_cards
from .models import MERGED, causal_lora, name_base, needs_merging, save_merged
from .policy_data import messages_of, read_policy_questions, rollout_lengths
from .policy_eval import TRAINING, held_out_file, leads_list, policy_table, results_of, summarize, tradeoff
from .policy_play import Bench, Played, Rules, fixed_rules, measure
from .policy_task import PolicyTaskConfig, SearchTool, closed_book_beliefs, load_task_scorer, new_tool
from .ranking.data import Questions, data_key
from .runs import (
    SETTINGS,
    ThisMachine,
    checkpoint_step,
    decisive,
    last_checkpoint,
    locked,
    project_completions_only,
    suggest,
    tracked_run,
    train_from_checkpoint,
)

_LENGTH = {"max_steps", "num_train_epochs"}
_ANSWER = 8  # tokens to leave for the answer after the searches of a rollout
# settings that may change when a run is resumed; options of reading the input are covered by the hash of the data
_INCIDENTAL = {"evaluate_only", "scorer", "cache"} | set(FormatOptions.__dataclass_fields__)


@dataclass(frozen=True)
class PolicyConfig(PolicyTaskConfig, WeightOptions):
    """Train a policy that decides when to search before it answers."""

    init_adapter: str = setting(
        "runs/policy-warm", "Folder of a warmed-up adapter to start from; 'none' starts with a new one."
    )
    lora_r: int = setting(16, "Rank of a new LoRA adapter on all linear layers; 0 trains all weights.")
    lora_layers: int | None = setting(None, "Number of last blocks that a new adapter adapts (default: all).")
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


@dataclass
class PolicyArguments(ThisMachine, GRPOConfig):
    """TRL's GRPOConfig with short completions; without an accelerator, the CPU is used."""

    output_dir: str = setting("runs/policy", "Folder of the run; the same command resumes there.")
    max_completion_length: int = setting(128, "Maximum number of tokens of a rollout, including tool results.")
    max_tool_calling_iterations: int | None = setting(
        None, "Maximum number of rounds of tool calls (default: max_turns)."
    )
    report_to: str = setting("none", REPORT_TO_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        gathers = self.vllm_mode == "server" or self.vllm_tensor_parallel_size > 1
        if self.use_vllm and self.world_size > 1 and gathers:
            # TRL ends the loop of searches on each rank alone, but generates its turns for several ranks together
            raise ValueError(
                f"a policy with a search tool on {self.world_size} processes would wait for ever with "
                f"vllm_mode={self.vllm_mode!r} and vllm_tensor_parallel_size={self.vllm_tensor_parallel_size}: ranks "
                "search for different numbers of turns; give vllm_mode 'colocate' with vllm_tensor_parallel_size 1, "
                "or use AsyncGRPOTrainer"
            )
        # TRL checks this only for evaluation during training; here every run is measured before and after
        size = self.per_device_eval_batch_size * self.world_size
        generations = self.num_generations_eval or self.num_generations
        if size % generations:
            raise ValueError(
                f"per_device_eval_batch_size must give whole groups of {generations} rollouts (num_generations_eval, "
                f"or num_generations), got {size} over {self.world_size} processes; use a multiple of {generations}"
            )


def rows_of(queries: Sequence[Query], style: PromptStyle) -> Dataset:
    """Return a dataset for TRL: prompts in the reader's wording, and the columns needed by the reward."""
    return Dataset.from_list(
        [
            {
                "prompt": messages_of(query.question, style),
                "question": query.question,
                "answers": query.answers,
            }
            for query in queries
        ]
    )


def new_policy(config: PolicyConfig, network: Any) -> Any:
    """Return the policy: the network with the warmed-up or a new adapter, or with all weights trainable.

    With ``lora_r=0`` a warmed-up adapter is merged into the weights.
    """
    if config.init_adapter != "none":
        policy = PeftModel.from_pretrained(network, config.init_adapter, is_trainable=True)
        return policy if config.lora_r else policy.merge_and_unload().requires_grad_(True)
    if not config.lora_r:
        return network.requires_grad_(True)
    return get_peft_model(network, causal_lora(network, config.lora_r, config.lora_layers))


def new_trainer(
    config: PolicyConfig,
    arguments: PolicyArguments,
    loaded: LoadedModel,
    reward: SePerReward,
    tool: Callable[[], SearchTool],
    questions: Questions,
    style: PromptStyle,
) -> GRPOTrainer:
    """Return TRL's trainer of the policy, with the search tool and the reward."""
    torch.manual_seed(arguments.seed)  # for a new adapter: the trainer sets its seed only later
    trainer_class = TurnCreditGRPOTrainer if config.credit == "turn" else GRPOTrainer
    return trainer_class(
        model=new_policy(config, loaded.model),
        reward_funcs=[reward],
        args=arguments,
        train_dataset=rows_of(questions.train, style),
        eval_dataset=rows_of(questions.test, style),
        # a separate tokenizer: the reader's must keep its chat template
        processing_class=with_tool_template(load_tokenizer(config.model)),
        environment_factory=tool,
    )


def log_results(trainer: GRPOTrainer, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Log the numbers of results with the trainer's trackers."""
    trainer.log(
        {
            f"{name}/{key}": value
            for name, row in results.items()
            for key, value in row.items()
            if isinstance(value, float)
        }
    )


def claim_policy_folder(
    folder: Path, config: PolicyConfig, arguments: PolicyArguments, scorer: SePerScorer, questions: Questions
) -> None:
    """Write everything that decides the result into the folder, or compare it with the folder's content.

    A run may be resumed with more steps if its steps do not depend on their number.
    """
    of_all_steps = 0 < arguments.warmup_steps < 1
    open_ended = arguments.lr_scheduler_type.startswith("constant") and not of_all_steps
    adapter = Path(config.init_adapter) / "adapter_model.safetensors"
    settings = {
        **{name: value for name, value in asdict(config).items() if name not in _INCIDENTAL},
        **{name: value for name, value in decisive(arguments).items() if not (open_ended and name in _LENGTH)},
        "adapter": hashlib.sha256(adapter.read_bytes()).hexdigest()[:16] if adapter.is_file() else None,
        "scorer": content_key(scorer.fingerprint),
        "data": data_key(questions),
        "processes": process_state().num_processes,
    }
    together(lambda: claim_settings(folder / SETTINGS, settings))
    checkpoint = last_checkpoint(folder)
    done = 0 if checkpoint is None else checkpoint_step(Path(checkpoint))
    if 0 < arguments.max_steps < done:
        raise ValueError(f"{folder} has done {done} steps, got max_steps={arguments.max_steps}; set at least {done}")


def no_room(lengths: Sequence[int], room: int) -> str | None:
    """Return a warning if rollouts of at most ``room`` tokens are cut off before their answers, else ``None``."""
    cut = sum(length + _ANSWER > room for length in lengths)
    if not cut:
        return None
    return (
        f"after the maximum number of searches, {cut} of {len(lengths)} held-out questions leave no room for an "
        f"answer of {_ANSWER} tokens in max_completion_length={room}, so searching cannot pay for them; set at least "
        f"{max(lengths) + _ANSWER}"
    )


def publish(
    folder: Path, name: str, queries: Sequence[Query], played: Played, rules: Rules, policy: str, log: Any
) -> dict[str, Any]:
    """Write and return results; write episodes of held-out questions, table, plot and log; print table and leads.

    ``policy`` is compared with the rules: ``"after"`` or ``"before"``.
    """
    results = results_of(played, rules, policy)
    write_json(folder / f"{name}.json", results)
    episodes = {**played, **rules.played}.items()
    texts = {query.id: query.question for query in queries}
    rows = [
        {"by": who, "question": texts[episode.id], **episode._asdict()}
        for who, row in episodes
        for episode in row
        if episode is not None
    ]
    write_lines(held_out_file(folder, name), rows)
    if policy == "after":
        write_lines(folder / TRAINING, log)
    text = f"{policy_table(results)}\n\n{leads_list(results, policy)}"
    (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    plot_tradeoff(*tradeoff(results, log), folder / f"{name}.svg")
    print(text)
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the policy, train it, measure it again, and save it; return 0."""
    kinds = (PolicyConfig, PolicyArguments)
    config, arguments = parse_options(kinds, argv, "seper-reward train policy")
    if config.credit == "turn":
        refuse_credit([pick(RewardWeights, config)], arguments)
    folder = Path(arguments.output_dir)
    if arguments.max_tool_calling_iterations is None:
        arguments.max_tool_calling_iterations = config.max_turns
    dtype: Dtype = "auto" if config.lora_r else "float32"  # in bf16, updates of all weights would be lost to rounding
    loaded = load_reader(config.model, LoadOptions(dtype=dtype, device="cpu" if arguments.use_cpu else None))
    scorer = load_task_scorer(config, folder, loaded)
    questions = read_policy_questions(config)
    with locked(folder):
        if not config.evaluate_only:
            claim_policy_folder(folder, config, arguments, scorer, questions)
        with tracked_run(config, arguments, "policy"):
            learn(config, arguments, loaded, scorer, questions)
    if not config.evaluate_only:
        model = folder / "model"
        start = f"--init_adapter {model}" if config.lora_r else f"--init_adapter none --model {model}"
        # the default group of a file's questions is its name
        own = "--input YOURS.jsonl --groups YOURS --output_dir runs/yours"
        suggest(f"the same command with {start} --evaluate_only true {own}")
    return 0


def learn(
    config: PolicyConfig, arguments: PolicyArguments, loaded: LoadedModel, scorer: SePerScorer, questions: Questions
) -> None:
    """Measure the policy, train it unless ``evaluate_only``, measure it again, and save and publish it."""
    folder = Path(arguments.output_dir)
    # only questions that the reader can score; their beliefs are cached, for the reward and to resume a killed run
    splits = {name: getattr(questions, name) for name in ("train", "dev", "test")}
    beliefs = iter(closed_book_beliefs(scorer, [query for rows in splits.values() for query in rows]))
    kept = {name: [query for query in rows if next(beliefs) is not None] for name, rows in splits.items()}
    questions = Questions(questions.corpus, **kept)
    trainer, bench = prepared(config, arguments, loaded, scorer, questions)
    style = scorer.reader.prompts.style
    lengths = gather_in_order(
        rollout_lengths(shard(questions.test), bench.tool(), bench.tokenizer, style, config.max_turns)
    )
    if process_state().is_main_process and (cut := no_room(lengths, arguments.max_completion_length)):
        say(cut)
    with project_completions_only():  # also for measuring, which computes the loss
        rules = fixed_rules(bench, questions.test, questions.dev or questions.train)
        bench.reward.failures.clear()  # failures of the rules are not rollouts of the policy
        played = measure(trainer, bench, questions.test, "before")
        log_results(trainer, results_of(played, rules, "before"))
        calls = (episode.queries or episode.failed for episode in played["before"] if episode is not None)
        if process_state().is_main_process and not any(calls):
            say(
                "the policy never calls its search tool on held-out questions, so it has no search to learn from; "
                "warm it up for longer (`seper-reward train sft --config configs/sft/policy.yaml --num_train_epochs "
                "5`), or check that the tags of tool calls are trained tokens, see docs/rewards.md"
            )
        if not config.evaluate_only:
            train_from_checkpoint(trainer, folder)
            trainer.save_model(str(folder / "model"))
            if config.lora_r and process_state().is_main_process:
                name_base(folder / "model", config.model)
                if needs_merging(config.model):
                    save_merged(folder / "model", folder / MERGED, trainer.processing_class)
            after = measure(trainer, bench, questions.test, "after")
            log_results(trainer, {name: summarize(episodes) for name, episodes in after.items()})
            played |= after
    if process_state().is_main_process:
        # do not overwrite the results of training
        name, policy = ("evaluation", "before") if config.evaluate_only else ("results", "after")
        results = publish(folder, name, questions.test, played, rules, policy, trainer.state.log_history)
        if not config.evaluate_only:
            (folder / "README.md").unlink(missing_ok=True)  # TRL's default card
            card = policy_card(config, arguments, questions, style, results, trainer.state.global_step)
            write_cards(card, folder / "model", folder / MERGED)
        for reason, count in bench.reward.failures.most_common():
            print(f"{count} rollouts not scored: {reason}", file=sys.stderr)


def prepared(
    config: PolicyConfig, arguments: PolicyArguments, loaded: LoadedModel, scorer: SePerScorer, questions: Questions
) -> tuple[GRPOTrainer, Bench]:
    """Return the trainer of the policy, and the bench that measures policies."""
    style, paid = scorer.reader.prompts.style, pick(RewardWeights, config)
    reward, judge = (
        SePerReward(scorer, **asdict(weights), reader=config.reader)
        for weights in (paid, replace(paid, answer_weight=0.0, gain_weight=1.0))
    )
    retriever = CachedRetriever(load_retriever(config.retriever, questions.corpus))
    tool = new_tool(config, retriever, style, reward)
    trainer = new_trainer(config, arguments, loaded, reward, tool, questions, style)
    prefetch_searches(trainer, retriever)
    if config.reader != "separate":
        if is_sharded(trainer):
            raise ValueError(
                f"reader={config.reader!r}: this recipe measures policies on different questions per rank, but "
                "sharded weights (FSDP, ZeRO-3) are gathered on all ranks together; set --reader separate"
            )
        for each in (reward, judge):
            each.attach(trainer)
    return trainer, Bench(reward, judge, tool, trainer.processing_class, config.max_turns)


if __name__ == "__main__":
    sys.exit(main())
