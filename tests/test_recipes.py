"""Recipes that people copy, as far as a CPU goes: what launchers make of them, and that their commands exist."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from accelerate.commands import launch

from seper_reward import options
from seper_reward.cli import find_commands
from seper_reward.runtime.parser import parse_options
from tests.helpers import labels_of, run
from tests.test_docs import COMMANDS, flags, invocations, named_settings

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
LAUNCHES = {
    "one_gpu": {"num_processes": 1, "num_machines": 1},
    "eight_gpus": {"num_processes": 8, "num_machines": 1, "multi_gpu": True},
    "fsdp": {"num_processes": 8, "use_fsdp": True, "fsdp_version": 2},
    "zero2": {"num_processes": 8, "use_deepspeed": True, "zero_stage": 2},
    "zero3": {"num_processes": 8, "use_deepspeed": True, "zero_stage": 3, "zero3_save_16bit_model": True},
}


def launched(words):
    """Return what ``accelerate launch`` makes of its words, its YAML file filled in."""
    arguments = launch.launch_command_parser().parse_args(list(map(str, words)))
    return launch._validate_launch_command(arguments)[0]


def test_each_launch_is_tested():
    assert {path.stem for path in (CONFIGS / "accelerate").glob("*.yaml")} == set(LAUNCHES)


@pytest.mark.parametrize("name", LAUNCHES)
def test_accelerate_reads_it_as_meant(name):
    path = CONFIGS / "accelerate" / f"{name}.yaml"
    arguments = launched(["--config_file", path, "-m", "seper_reward", "label", "--limit", "3"])
    expected = {"multi_gpu": False, "use_fsdp": False, "use_deepspeed": False, "mixed_precision": "bf16"} | LAUNCHES[
        name
    ]
    assert {key: getattr(arguments, key) for key in expected} == expected
    assert (arguments.module, arguments.training_script) == (True, "seper_reward")
    assert arguments.training_script_args == ["label", "--limit", "3"]
    # Accelerate takes any key of these two, also a misspelt one
    known = vars(launch.launch_command_parser().parse_args(["x"])).keys()
    config = yaml.safe_load(path.read_text())
    assert {*config.get("fsdp_config", {}), *config.get("deepspeed_config", {})} <= known


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [("ACCELERATE_USE_FSDP", "true", "FSDP"), ("ACCELERATE_DEEPSPEED_ZERO_STAGE", "3", "ZeRO-3")],
)
def test_ranking_recipes_refuse_divided_weights(monkeypatch, tmp_path, variable, value, name):
    from trainers import reranker

    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=rf"^{name} shards the weights, .*configs/accelerate/eight_gpus\.yaml"):
        reranker.main(["--output_dir", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_launched_command_labels(tmp_path):
    words = ["launch", "--cpu", "--config_file", CONFIGS / "accelerate" / "one_gpu.yaml"]
    words += ["-m", "seper_reward", "label", "--labeler", "gold", "--limit", 4, "--output_dir", tmp_path]
    done = run(map(str, words), [Path(sys.executable).with_name("accelerate")])
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(labels_of(tmp_path)) == 4


def test_commands_in_comments_exist():
    folders = [CONFIGS, *(ROOT / "tests/benchmarks").glob("*/configs")]
    for path in [path for folder in folders for path in folder.rglob("*") if path.is_file()]:
        for line in path.read_text(encoding="utf-8").splitlines():
            for program, behind in invocations(line.replace("`", " ")):
                assert program in COMMANDS or (ROOT / f"{program.replace('.', '/')}.py").is_file(), f"{path}: {line}"
                assert named_settings(behind) <= flags(program), f"{path}: {line}"
        for named in re.findall(r"(?:[\w.-]+/)*\bconfigs/[\w/.-]+\.yaml", path.read_text(encoding="utf-8")):
            assert (ROOT / named).is_file(), f"{path}: {named}"


def config_class(path):
    """Return the class of settings of ours that a recipe's file has."""
    from trainers.options import RECIPE_OPTIONS
    from trainers.policy_task import PolicyTaskConfig

    recipes = {name: kinds[0] for name, kinds in RECIPE_OPTIONS.items()}
    named = recipes | {"policy": PolicyTaskConfig, "reward": options.RewardOptions}
    for name, command in find_commands().items():
        if command.options:
            named[name.rpartition(" ")[2]] = command.options
    folder = (path.parent.parent if path.parent.name == "configs" else path.parent).name
    kind = path.stem if folder in ("baselines", "tables") else folder
    return named.get(kind) or named[kind.partition("-")[0]]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted(CONFIGS.rglob("*.yaml"))
        if path.parent.name != "accelerate" and path.name != "grpo.yaml"  # which TRL reads
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_settings_of_the_files_are_read(path):
    (config,) = parse_options((config_class(path),), ["--config", str(path)], path.name, others=True)
    ours = {name: value for name, value in yaml.safe_load(path.read_text()).items() if hasattr(config, name)}
    assert {name: getattr(config, name) for name in ours} == ours
    assert ours


def test_trl_reads_its_recipe(tmp_path, monkeypatch):
    """`trl grpo --config configs/grpo.yaml` on a file of questions; the reward is a dotted path."""
    from trl import GRPOConfig, ModelConfig, TrlParser, get_dataset
    from trl.scripts.grpo import GRPOScriptArguments
    from trl.scripts.utils import DatasetMixtureConfig

    monkeypatch.chdir(tmp_path)
    row = {"prompt": [{"role": "user", "content": "Who?"}], "question": "Who?", "answers": ["Ida Voss"]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(row) + "\n")
    words = ["--config", str(CONFIGS / "grpo.yaml"), "--bf16", "false"]
    kinds = (GRPOScriptArguments, GRPOConfig, ModelConfig, DatasetMixtureConfig)
    script, training, model, mixture = TrlParser(kinds).parse_args_and_config(words)  # unknown settings raise
    assert script.reward_funcs == ["seper_reward.reward.delta_seper"]
    assert (training.scale_rewards, model.use_peft) == ("none", True)
    assert get_dataset(mixture)["train"][0] == row
