"""What the reward costs in a GRPO step: its share of the step's time, by reader.

    python -m tests.benchmarks.reward --json out.json

Runs the first steps of the policy demo (`configs/policy/demo.yaml`) in one process with each reader in turn, and takes
medians over the steps. Warm the policy up first (`python -m trainers.sft --config configs/sft/policy.yaml`): one that
never searches costs its reward nothing.
"""

import statistics
import tempfile
from argparse import Namespace
from collections.abc import Sequence

from seper_reward.config import ScorerConfig, load_scorer
from seper_reward.reader.loading import load_reader
from seper_reward.reward.reward import SePerReward
from tests.benchmarks.common import finish, parser
from trainers import policy
from trainers.policy_data import read_policy_questions

PARTS = ("share_of_step", "seconds_reward", "seconds_sampling", "seconds_entailment", "seconds_retrieval")


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--steps", type=int, default=4, help="the first of them is not counted")
    made.add_argument("--model", default="embedded")
    made.add_argument("--init_adapter", default="runs/policy-warm")
    made.add_argument("--completions", type=int, default=16, help="a step, in groups of 8 at most")
    made.add_argument("--engine", nargs="+", help="URLs of servers of the reader, as a third kind of reader")
    options = made.parse_args(arguments)
    readers = ["separate", "policy-base", *(["engine"] if options.engine else [])]
    finish({"readers": {reader: measure(reader, options) for reader in readers}}, options.json)


def measure(reader: str, options: Namespace) -> dict[str, float]:
    """Return the medians over the steps with one kind of reader."""
    with tempfile.TemporaryDirectory() as folder:
        config = policy.PolicyConfig(
            model=options.model, init_adapter=options.init_adapter, reader=reader.replace("engine", "separate")
        )
        arguments = policy.PolicyArguments(
            output_dir=folder, max_steps=options.steps, per_device_train_batch_size=options.completions,
            num_generations=min(8, options.completions), bf16=True, gradient_checkpointing=False, logging_steps=1,
            save_strategy="no", disable_tqdm=True, max_tool_calling_iterations=1,
        )  # fmt: skip
        loaded = load_reader(options.model)
        settings = ScorerConfig(reader=options.model, engine=options.engine if reader == "engine" else [])
        scorer = load_scorer(settings, 0, loaded if reader == "policy-base" else None)
        reward = SePerReward(scorer, price=0.15, reader=config.reader)
        questions = read_policy_questions()
        tool = policy.new_tool(config, policy.new_retriever("bm25", questions.corpus))
        trainer = policy.new_trainer(config, arguments, loaded, reward, tool, questions)
        with policy.project_completions_only():
            trainer.train()
    rows = [row for row in trainer.state.log_history if "seper/share_of_step" in row]
    found = {part: statistics.median(row[f"seper/{part}"] for row in rows) for part in PARTS}
    found["search_rate"] = statistics.fmean(row["seper/search_rate"] for row in rows)
    return {name: round(value, 4) for name, value in found.items()}


if __name__ == "__main__":
    main()
