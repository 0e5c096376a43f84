"""Train a policy that decides per question to answer from memory or to search first: GRPO with ΔSePer as reward.

seper-reward train sft --config configs/sft/policy.yaml          # warm-up: teaches the format of both actions
seper-reward train policy --config configs/policy/demo.yaml
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from peft import PeftModel, get_peft_model
from transformers import PreTrainedModel
from trl import GRPOConfig, GRPOTrainer

from seper_reward.data.answers import exact_match
from seper_reward.options import Dtype, FormatOptions, ModelOptions, pick
from seper_reward.reader.loading import load_reader, load_tokenizer
from seper_reward.reader.prompts import PromptStyle
from seper_reward.retrieval import CachedRetriever, load_retriever
from seper_reward.reward import with_tool_template
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.trainer import TurnCreditGRPOTrainer, refuse_credit
from seper_reward.reward.turns import Turn
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.hashing import content_key, file_hash
from seper_reward.runtime.json_files import write_json, write_lines
from seper_reward.runtime.messages import plural, say_once
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.scorer import SePerScorer
from seper_reward.types import KNOWN, Belief, Query

from . import runs
from .cards import generator_fields, write_card
from .models import MERGED, causal_lora, name_base, needs_merging, save_merged
from .options import PolicyConfig, PolicyDefaults
from .policy_results import Episode, compare_policies, fixed_rules, policies_table
from .policy_task import (
    SearchTool,
    closed_book_beliefs,
    load_task_scorer,
    messages_of,
    new_tool,
    prompt_code,
    read_policy_questions,
    simple_searches,
)
from .ranking.data import Questions, data_key

_LENGTH = {"max_steps", "num_train_epochs"}
# settings that may change when a run is resumed; options of reading the input are covered by the hash of the data
_INCIDENTAL = {"evaluate_only", "scorer", "cache"} | set(FormatOptions.__dataclass_fields__)


@dataclass
class PolicyArguments(runs.ThisMachine, PolicyDefaults, GRPOConfig):
    """TRL's GRPOConfig with short completions; without an accelerator, the CPU is used."""

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
            {"prompt": messages_of(query.question, style), "question": query.question, "answers": query.answers}
            for query in queries
        ]
    )


def new_policy(config: PolicyConfig, network: PreTrainedModel) -> Any:
    """Return the network with the warmed-up or a new adapter, or with all weights trainable, the adapter merged."""
    if config.init_adapter != "none":
        policy = PeftModel.from_pretrained(network, config.init_adapter, is_trainable=True)
        return policy if config.lora_r else policy.merge_and_unload().requires_grad_(True)
    if not config.lora_r:
        return network.requires_grad_(True)
    return get_peft_model(network, causal_lora(network, config.lora_r))


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


def claim_policy_run(
    config: PolicyConfig, arguments: PolicyArguments, scorer: SePerScorer, questions: Questions
) -> None:
    """Call ``claim_run``; a run may be resumed with more steps if its steps do not depend on their number."""
    of_all_steps = 0 < arguments.warmup_steps < 1
    open_ended = arguments.lr_scheduler_type.startswith("constant") and not of_all_steps
    runs.claim_run(
        config,
        arguments,
        _INCIDENTAL | (_LENGTH if open_ended else set()),
        adapter=file_hash(Path(config.init_adapter) / "adapter_model.safetensors"),
        scorer=content_key(scorer.fingerprint),
        data=data_key(questions),
    )
    folder = Path(arguments.output_dir)
    checkpoint = runs.last_checkpoint(folder)
    done = 0 if checkpoint is None else runs.checkpoint_step(Path(checkpoint))
    if 0 < arguments.max_steps < done:
        raise ValueError(f"{folder} has done {done} steps, got max_steps={arguments.max_steps}; set at least {done}")


def play(
    trainer: GRPOTrainer, reward: SePerReward, queries: Sequence[Query], closed_book: Mapping[str, Belief]
) -> list[Episode | None]:
    """Roll out the policy on the trainer's evaluation set; all processes must call this together."""
    with reward.recording() as records:
        runs.evaluated(trainer)
    ids = {(query.question, query.answers): query.id for query in queries}
    mine: list[tuple[str, Episode | None]] = []
    for rollout, score in records:
        identity, searches = ids.get((rollout.question, rollout.answers), ""), [turn.query for turn in rollout.turns]
        episode = None
        if identity and score is not None:
            needed, right = closed_book[identity].seper < KNOWN, exact_match(rollout.answer, rollout.answers)
            episode = Episode(identity, needed, tuple(searches), rollout.answer, right, score.answer, score.reward)
        mine.append((identity, episode))
    count: Counter[str] = Counter()
    episodes = []
    for identity, episode in gather_object(mine):
        count[identity] += 1
        if count[identity] <= trainer.num_generations_eval:  # the others were repeated to fill up processes
            episodes.append(episode)
    cut = sum(episode is not None and bool(episode.queries) and not episode.answer for episode in episodes)
    if cut:
        say_once(
            f"{cut} of {len(episodes)} held-out rollouts search and then give no answer, so searching cannot pay for "
            f"them; raise max_completion_length={trainer.args.max_completion_length} if they are cut off"
        )
    return episodes


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
    loaded = load_reader(config.model, ModelOptions(dtype=dtype, device="cpu" if arguments.use_cpu else None))
    scorer = load_task_scorer(config, folder, loaded)
    questions = read_policy_questions(config)
    # projected also to measure, by the loss
    with runs.tracked_run(config, arguments, "policy"), runs.project_completions_only():
        if not config.evaluate_only:
            claim_policy_run(config, arguments, scorer, questions)
        learn(config, arguments, loaded, scorer, questions)
    if not config.evaluate_only:
        model = folder / "model"
        start = f"--init_adapter {model}" if config.lora_r else f"--init_adapter none --model {model}"
        # the default group of a file's questions is its name
        options = "--input YOURS.jsonl --groups YOURS --output_dir runs/yours"
        runs.suggest(f"the same command with {start} --evaluate_only true {options}")
    return 0


def is_sharded(trainer: GRPOTrainer) -> bool:
    """Return whether a trainer of TRL shards the weights of its policy, now or when training starts."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    return bool(trainer.is_fsdp_enabled) or (plugin is not None and plugin.zero_stage == 3)


def learn(
    config: PolicyConfig, arguments: PolicyArguments, loaded: LoadedModel, scorer: SePerScorer, questions: Questions
) -> None:
    """Measure the policy and fixed rules, train it unless ``evaluate_only``, measure it again, save and publish."""
    folder, style, weights = Path(arguments.output_dir), scorer.reader.prompts.style, pick(RewardWeights, config)
    # only questions that the reader can score; their beliefs are cached, for the reward and to resume a killed run
    queries = [*questions.train, *questions.dev, *questions.test]
    beliefs = zip(queries, closed_book_beliefs(scorer, queries), strict=True)
    closed_book = {query.id: belief for query, belief in beliefs if belief is not None}
    train, dev, test = ([query for query in split if query.id in closed_book] for split in questions[1:])
    questions = Questions(questions.corpus, train, dev, test)
    reward = SePerReward(scorer, **asdict(weights), reader=config.reader)
    retriever = CachedRetriever(load_retriever(config.retriever, questions.corpus))
    tool = new_tool(config, retriever, style)

    def search(query: Query) -> tuple[Turn, ...]:
        searching = tool()
        list(simple_searches(searching, query.question, config.max_turns))
        return tuple(searching.turns)

    # before the policy's adapter is added to the weights of the reader
    rules, thresholds = fixed_rules(scorer, weights, search, questions.test, questions.dev or questions.train)
    trainer = new_trainer(config, arguments, loaded, reward, tool, questions, style)
    if config.reader != "separate":
        if is_sharded(trainer):
            raise ValueError(
                f"reader={config.reader!r} with sharded weights (FSDP, ZeRO-3) is not supported by this recipe, which "
                "evaluates before training; set --reader separate"
            )
        reward.attach(trainer)
    played: dict[str, list[Episode | None]] = {}

    def measure(policy: str) -> dict[str, dict[str, object]]:
        played[policy] = play(trainer, reward, questions.test, closed_book)
        results = compare_policies({**played, **rules}, thresholds, policy)
        values = ((f"{name}/{key}", value) for name, measures in results.items() for key, value in measures.items())
        trainer.log({name: value for name, value in values if isinstance(value, float)})
        return results

    results = measure("before")
    if not any(episode.queries for episode in played["before"] if episode is not None):
        say_once(
            "the policy never searches on held-out questions, so it has no search to learn from; warm it up for "
            "longer (`seper-reward train sft --config configs/sft/policy.yaml --num_train_epochs 5`), or check that "
            "the tags of tool calls are trained tokens, see docs/rewards.md"
        )
    if not config.evaluate_only:
        runs.train_from_checkpoint(trainer, folder)
        trainer.save_model(str(folder / "model"))
        if config.lora_r and process_state().is_main_process:
            name_base(folder / "model", config.model)
            if needs_merging(config.model):
                save_merged(folder / "model", folder / MERGED, trainer.processing_class)
        results = measure("after")
    if process_state().is_main_process:
        name = "evaluation" if config.evaluate_only else "results"  # do not overwrite the results of training
        table = save_results(folder, name, results, {**played, **rules}, test)
        print(table)
        if not config.evaluate_only:
            write_lines(folder / "training.jsonl", trainer.state.log_history)
            describe_model(config, arguments, questions, style, table)
        for reason, count in reward.failures.most_common():
            print(f"{plural(count, 'rollout')} not scored: {reason}", file=sys.stderr)


def save_results(
    folder: Path,
    name: str,
    results: Mapping[str, Mapping[str, object]],
    played: Mapping[str, Sequence[Episode | None]],
    queries: Sequence[Query],
) -> str:
    """Write the results of policies and rules, their episodes, and a table of the results, which is returned."""
    questions = {query.id: query.question for query in queries}
    rollouts = [
        {"by": by, "question": questions[episode.id], **episode._asdict()}
        for by, episodes in played.items()
        for episode in episodes
        if episode is not None
    ]
    write_json(folder / f"{name}.json", results)
    write_lines(folder / f"{name}_held_out.jsonl", rollouts)
    table = policies_table(results)
    (folder / f"{name}.md").write_text(table + "\n", encoding="utf-8")
    return table


def describe_model(
    config: PolicyConfig, arguments: PolicyArguments, questions: Questions, style: PromptStyle, table: str
) -> None:
    """Write the card of a trained policy, with the table of its results."""
    folder = Path(arguments.output_dir)
    (folder / "README.md").unlink(missing_ok=True)  # TRL's default card
    counts = (
        f"Questions: {len(questions.train)} for training, {len(questions.dev)} for thresholds, {len(questions.test)} "
        f"for testing; passages of the search tool: {len(questions.corpus)}. Means and 95 % intervals over test "
        "questions:"
    )
    write_card(
        [folder / "model", folder / MERGED], "Policy that decides when to search", "policy", config, arguments,
        results=f"{counts}\n\n{table}",
        **generator_fields(config.model, bool(config.lora_r), prompt_code(style)),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
