"""Each command and recipe by each launch, as docs/scale.md lists them; `make many-test` runs it, with deepspeed."""

import importlib.util
import json
import os
from functools import cache, partial

import pytest
import yaml
from accelerate import FullyShardedDataParallelPlugin, PartialState
from accelerate.utils import DistributedType
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
from transformers import Trainer

from seper_reward.cli import main
from seper_reward.labels.labelers import LABELERS
from tests.helpers import in_forks, launch, write_rows
from tests.test_recipes import CONFIGS, launched
from tests.tiny_models import lane_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="`make many-test` installs deepspeed"),
]
LAUNCHES = ("torchrun", "eight_gpus", "fsdp", "zero3")  # the last three by the files of configs/accelerate
JUDGE = "--judge {judge} --dtype float32 --device cpu"
READER = f"{JUDGE} --reader {{reader}} --prompt brief --num_samples 2 --max_new_tokens 4"
STEPS = "--output_dir out --max_steps 2 --logging_steps 1 --bf16 false --report_to none --disable_tqdm true"
LABEL = f"--input {{few}} --output_dir out {READER}"
FILE = f"--file {{few}} --json out.json {READER}"
RANKING = f"--input {{questions}} --model {{encoder}} {READER} {STEPS} --candidates given --eval_readers none"
RANKING += " --test_share 0.25 --min_spread 0 --heterogeneity 1 --shrink false --per_device_train_batch_size 2"
POLICY = f"{STEPS} --model {{reader}} --scorer {{scorer}} --init_adapter none --per_device_train_batch_size 2"
POLICY += " --num_generations 2 --max_completion_length 8 --per_device_eval_batch_size 2 --groups known fiction"
POLICY += " --limit 4 --eval_limit 2 --lora_r 2 --save_steps 2"
COMMANDS = {
    **{f"label --labeler {name}": LABEL for name in LABELERS},
    "label --sets conditional": LABEL,
    "baseline eor": f"{FILE} --sources none bm25@1 --metric entailment",
    "baseline erag": f"{FILE} --retrievers bm25 --depths 1 2 --labelers erag delta_seper contains",
    "baseline item": f"{FILE} --judges vanilla:form=pointwise contains",
    "baseline compression": f"{FILE} --readers {{reader}} --depths 1 --candidates 3 --rerankers none",
    "baseline workflows": f"{FILE} --max_searches 2 --top_k 1",
    "baseline correlation": FILE,
    "evaluate counterfactual": FILE,
    "evaluate retrievers": f"{FILE} --retrievers bm25 --depths 1 2",
    "evaluate judge": f"--file {{verdicts}} --json out.json {JUDGE}",
    "evaluate credit": f"{FILE} --agent {{reader}} --continuations 2 --agent_passage_tokens 8 --max_passage_tokens 8",
    "audit-searches": f"{{rollouts}} --json out.json {READER}",
    "train retriever": RANKING,
    "train reranker": f"{RANKING} --retriever {{encoder}}",
    "train sft": f"{STEPS} --data {{rows}} --model {{reader}} --lora_r 2",
    "train entailment": f"{STEPS} --pairs {{pairs}} --lora_r 2",
    **{f"train policy --reader {name}": POLICY for name in ("separate", "policy-base", "policy")},
}
ONE_PROCESS = "runs in one process"
REFUSED = {
    **{("train entailment", how): ONE_PROCESS for how in LAUNCHES},
    **{
        ("label --labeler item", how): "no question could be labelled" for how in LAUNCHES
    },  # a random reader's replies
    **{(f"train {name}", "fsdp"): "FSDP shards the weights" for name in ("retriever", "reranker")},
    **{(f"train {name}", "zero3"): "ZeRO-3 shards the weights" for name in ("retriever", "reranker")},
    **{(f"train policy --reader {name}", "fsdp"): "set --reader separate" for name in ("policy-base", "policy")},
}
#: Accelerate ignores DeepSpeed on a CPU; reading with ZeRO-3 is tested in tests/reward/test_sharding.py.
ON_A_GPU = {(name, "zero3") for name in COMMANDS if name.startswith(("train sft", "train policy"))}


@pytest.fixture(scope="module")
def places(tmp_path_factory, tiny_reader, tiny_entailment, tiny_encoder):
    """What the words of commands name: tiny models and files."""
    folder, rows = tmp_path_factory.mktemp("inputs"), lane_rows(12)
    for row in rows:
        row["passages"][1]["counterfactual"] = True
    searches = [{"query": "q", "passages": ["House 1 belongs to Owner 1."]}]
    said = [{"question": row["question"], "answers": row["answers"], "searches": searches} for row in rows[:4]]
    verdict, pair = {"answers": ["Ann"], "response": "Ann"}, {"premise": "Ann", "hypothesis": "Ann"}
    files = {
        "questions": rows,
        "few": rows[:4],
        "rollouts": [{**row, "answer": "Owner 1"} for row in said],
        "verdicts": [{**verdict, "question": f"who {n}?", "equivalent": n % 3 > 0} for n in range(40)],
        "rows": [{"prompt": f"Question {n}?\nAnswer:", "completion": f" {n}"} for n in range(8)],
        "pairs": [{**pair, "label": label} for label in ("entailment", "neutral")] * 8,
    }
    models = {"reader": str(tiny_reader), "judge": str(tiny_entailment)}
    scorer = {**models, "prompt": "brief", "dtype": "float32", "device": "cpu", "num_samples": 2, "max_new_tokens": 3}
    (folder / "scorer.yaml").write_text(yaml.safe_dump(scorer))
    written = {name: str(write_rows(folder / f"{name}.jsonl", content)) for name, content in files.items()}
    return {**models, **written, "encoder": str(tiny_encoder), "scorer": str(folder / "scorer.yaml")}


def environment(how):
    """Return the variables that ``accelerate launch`` sets by a file of ours."""
    words = ["--config_file", CONFIGS / "accelerate" / f"{how}.yaml", "--num_processes", "2", "-m", "seper_reward"]
    arguments = launched(words)
    arguments.deepspeed_fields_from_accelerate_config = ""  # they only name settings in an error
    made = prepare_deepspeed_cmd_env(arguments)[1] if arguments.use_deepspeed else prepare_multi_gpu_env(arguments)
    return {name: value for name, value in made.items() if name.startswith(("ACCELERATE_", "FSDP_"))}


def shard_on_a_cpu():
    """Let trainers shard as on GPUs: on a CPU, Accelerate alone ignores FSDP."""
    create = Trainer.create_accelerator_and_postprocess

    def sharding(self):
        create(self)
        plugin = FullyShardedDataParallelPlugin(transformer_cls_names_to_wrap=["LlamaDecoderLayer"])
        PartialState().distributed_type = DistributedType.FSDP
        vars(self.accelerator.state).update(distributed_type=DistributedType.FSDP, fsdp_plugin=plugin)
        self.is_fsdp_enabled = True

    Trainer.create_accelerator_and_postprocess = sharding


def act(words, folder, how=None):
    """Run a command in a folder, in a process of a test; nothing has to be put back."""
    if how not in (None, "torchrun"):
        os.environ |= environment(how)
    if how == "fsdp":
        shard_on_a_cpu()
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    return main(words)


def without_seconds(result):
    """Return a result without times, which differ."""
    if isinstance(result, dict):
        return {name: without_seconds(value) for name, value in result.items() if "second" not in name}
    return result


def outcome(folder):
    """Return what a command wrote: label rows, numbers, or the names of a trained model's files."""
    if (folder / "out.json").is_file():
        return without_seconds(json.loads((folder / "out.json").read_text()))
    if (folder / "out" / "labels.jsonl").is_file():
        return sorted((folder / "out" / "labels.jsonl").read_text().splitlines())
    return sorted(path.name for path in (folder / "out").glob("**/adapter_*"))


@pytest.fixture(scope="module")
def alone(places, tmp_path_factory):
    """Return what a command writes in one process."""

    @cache
    def run(name):
        folder = tmp_path_factory.mktemp("alone")
        words = [*name.split(), *COMMANDS[name].format(**places).split()]
        assert in_forks(lambda rank: rank or act(words, folder), 300)[0] == 0
        return outcome(folder)

    return run


@pytest.mark.parametrize("how", LAUNCHES)
@pytest.mark.parametrize("name", COMMANDS)
def test_two_processes_do_what_one_does(name, how, places, alone, tmp_path):
    if (name, how) in ON_A_GPU:
        pytest.skip("on a GPU only")
    words = [*name.split(), *COMMANDS[name].format(**places).split()]
    run = partial(act, words, tmp_path / "two", how)
    if reason := REFUSED.get((name, how)):
        with pytest.raises((AssertionError, ValueError), match=reason):
            launch(run, tmp_path)
        return
    launch(run, tmp_path, 300)
    expected = alone(name)
    assert expected
    assert outcome(tmp_path / "two") == expected
