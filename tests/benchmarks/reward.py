"""What the reward costs in a GRPO step: its share of the step's time, by where it is computed.

    python -m tests.benchmarks.reward --json out.json

Runs the first steps of `configs/policy/demo.yaml` with one group of rollouts a step, and takes medians over the steps.
The reader is one of its own (`separate`), the policy's base (`policy-base`), behind `seper-reward serve` on the same
machine, which is told early what it will be asked (`server`), or an engine. `two_ranks`
divides the group between two processes, each with a reader of its own, which share the work. Warm the policy up first
(`python -m trainers.sft --config configs/sft/policy.yaml`): one that never searches costs its reward nothing.
"""

import json
import signal
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from seper_reward.config import ScorerConfig, load_scorer
from seper_reward.reader.loading import load_reader
from seper_reward.retrieval import load_retriever
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.reward import SePerReward
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.parser import parse_settings
from tests.benchmarks.common import finish, parser
from tests.benchmarks.serving import started
from tests.serving.helpers import free_port
from trainers import policy
from trainers.policy_data import read_policy_questions
from trainers.policy_task import new_tool

PARTS = ("share_of_step", "seconds_reward", "seconds_sampling", "seconds_entailment", "seconds_retrieval")
LAYOUTS = ("separate", "policy-base", "server", "two_ranks")


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--steps", type=int, default=4, help="the first of them is not counted")
    made.add_argument("--model", default="embedded")
    made.add_argument("--entailment", default="embedded")
    made.add_argument("--init_adapter", default="runs/policy-warm")
    made.add_argument("--completions", type=int, default=8, help="a step, in one group; an even number")
    made.add_argument("--layouts", nargs="+", default=LAYOUTS, choices=[*LAYOUTS, "engine"])
    made.add_argument("--engine", nargs="+", help="URLs of servers of the reader, for the layout engine")
    made.add_argument("--rank_of", help="set by the benchmark itself: the file for the results of its ranks")
    options = made.parse_args(arguments)
    words = list(arguments if arguments is not None else sys.argv[1:])
    if options.rank_of:
        (layout,) = options.layouts
        found = measure(layout, options)
        if process_state().is_main_process:
            Path(options.rank_of).write_text(json.dumps(found), encoding="utf-8")
        return
    found = {
        layout: on_two_ranks(layout, words) if layout == "two_ranks" else measure(layout, options)
        for layout in options.layouts
    }
    finish({"completions": options.completions, "layouts": found}, options.json)


def on_two_ranks(layout: str, words: Sequence[str]) -> dict[str, float]:
    """Measure a layout under ``torchrun``."""
    with tempfile.TemporaryDirectory() as folder:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
        launch += ["-m", "tests.benchmarks.reward", *words, "--rank_of", f"{folder}/found.json", "--layouts", layout]
        subprocess.run(launch, check=True, cwd=Path(__file__).parents[2])
        found: dict[str, float] = json.loads(Path(folder, "found.json").read_text(encoding="utf-8"))
        return found


def measure(layout: str, options: Namespace) -> dict[str, float]:
    """Return the medians over the steps of one layout."""
    reader = "policy-base" if layout == "policy-base" else "separate"
    with tempfile.TemporaryDirectory() as folder:
        changes = {
            "model": options.model, "init_adapter": options.init_adapter, "reader": reader, "output_dir": folder,
            "max_steps": options.steps, "num_generations": options.completions, "max_tool_calling_iterations": 1,
            "per_device_train_batch_size": options.completions // process_state().num_processes,
            "save_strategy": "no", "disable_tqdm": "true", "credit_baseline": "group",  # the reader's needs answers
        }  # fmt: skip
        words = [word for name, value in changes.items() for word in (f"--{name}", str(value))]
        kinds = (policy.PolicyConfig, RewardWeights, policy.PolicyArguments)
        config, _, arguments = parse_settings(kinds, ["--config", "configs/policy/demo.yaml", *words], "reward")
        rows = log_of(layout, options, config, arguments)
    found = {part: statistics.median(row[f"seper/{part}"] for row in rows) for part in PARTS}
    found["seconds_step"] = statistics.median(row["step_time"] for row in rows)
    found["search_rate"] = statistics.fmean(row["seper/search_rate"] for row in rows)
    return {name: round(value, 4) for name, value in found.items()}


def log_of(
    layout: str, options: Namespace, config: policy.PolicyConfig, arguments: policy.PolicyArguments
) -> list[dict[str, float]]:
    """Train, and return what was logged of each step but the first."""
    loaded = load_reader(config.model)
    engine = options.engine if layout == "engine" else []
    settings = ScorerConfig(reader=config.model, entailment=options.entailment, engine=engine)
    scorer = load_scorer(settings, 0, loaded if config.reader == "policy-base" else None)
    style, questions = scorer.reader.prompts.style, read_policy_questions(config)
    with server(layout, settings) as url:
        reward = SePerReward(url or scorer, answer_weight=0.0, price=0.15, reader=config.reader)
        tool = new_tool(config, load_retriever(config.retriever, questions.corpus), style, reward)
        trainer = policy.new_trainer(config, arguments, loaded, reward, tool, questions, style)
        if config.reader == "policy-base":
            reward.attach(trainer)
        with policy.project_completions_only():
            trainer.train()
    return [row for row in trainer.state.log_history if "seper/share_of_step" in row]


@contextmanager
def server(layout: str, settings: ScorerConfig) -> Iterator[str | None]:
    """Yield the URL of a server with the reader's settings, for the layout that has one."""
    if layout != "server":
        yield None
        return
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["--port", str(port), "--reader", settings.reader, "--entailment", settings.entailment]
    process = started([sys.executable, "-m", "seper_reward", "serve", *words], url)
    try:
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


if __name__ == "__main__":
    main()
