"""The adapters of docs/adapters.md: each block runs against its framework, or a stand-in with the same signature."""

import asyncio
import json
import os
import re
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest
from pydantic import BaseModel

from seper_reward.evaluate.logs import read_rollout_log
from seper_reward.reward.formula import RewardWeights
from seper_reward.serving.bodies import RolloutFormat
from tests.serving.helpers import ServerThread

PAGE = Path(__file__).parents[1] / "docs" / "adapters.md"
BLOCKS = dict(re.findall(r'```python title="(\w+)\.py"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL))
QUESTION, ANSWERS = "Who runs the mill in Hallow?", ["Ida Voss"]
MILL = "Ida Voss runs the mill in Hallow."
SEARCHED = f"<search>mill</search><information>{MILL}</information>\nAnswer: Ida Voss"
PRICE = 0.1
GONE = "no gold answer"  # the reason of a rollout that cannot be scored


@pytest.fixture
def server(tiny_scorer):
    """A server that pays for right answers and takes a price for searches: .9 for SEARCHED, by hand."""
    weights = RewardWeights(gain_weight=0.0, price=PRICE)
    with ServerThread(tiny_scorer, weights=weights, reading=RolloutFormat("information")) as found:
        yield found


def run(name, server):
    """Run a block and return its names; the server of the page is the test's."""
    module = types.ModuleType(name)
    exec(BLOCKS[name].replace("http://scorer:8100", server.url), module.__dict__)
    return module


def install(monkeypatch, **modules):
    """Install stand-ins of modules, whose names have ``__`` for dots, and of their packages."""
    for name, members in modules.items():
        parts = name.split("__")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            if path not in sys.modules:
                monkeypatch.setitem(sys.modules, path, types.ModuleType(path))
        for member, value in members.items():
            monkeypatch.setattr(sys.modules[".".join(parts)], member, value, raising=False)


def test_adapters_are_short():
    assert sorted(BLOCKS) == [
        "app", "seper_credit", "seper_judge", "seper_openrlhf", "seper_skyrl", "seper_verl",
    ]  # fmt: skip
    for name, block in BLOCKS.items():
        lines = [line for line in block.splitlines() if line.strip()]
        assert len(lines) <= 15, f"{name} has {len(lines)} lines"


def test_verl(server):
    compute_score = run("seper_verl", server).compute_score

    async def both():
        found = await compute_score("nq", SEARCHED, {"target": ANSWERS}, {"question": QUESTION, "num_turns": 2})
        with pytest.raises(ValueError, match=GONE):
            await compute_score("nq", SEARCHED, {"target": None}, {"question": QUESTION}, reward_router_address="x")
        return found

    assert asyncio.run(both()) == {"score": pytest.approx(1 - PRICE), "search_cost": PRICE}


def test_openrlhf(server):
    reward_func = run("seper_openrlhf", server).reward_func
    prompt = "<|im_start|>user\nWho runs the mill?<|im_end|>\n<|im_start|>assistant\n"
    label = {"question": QUESTION, "answers": ANSWERS}
    found = reward_func([prompt + SEARCHED + "<|im_end|>"], [prompt], [json.dumps(label)])
    expected = pytest.approx(1 - PRICE)
    assert found == {"rewards": expected, "scores": expected, "extra_logs": {"search_cost": PRICE}}
    with pytest.raises(ValueError, match=GONE):
        reward_func([prompt + SEARCHED], [prompt], [json.dumps({**label, "answers": None})])


class SearchEnv:
    """SkyRL's, as far as the adapter needs it."""

    def __init__(self, env_config, extras):
        self.ground_truth = extras["reward_spec"]["ground_truth"]
        self.chat_history = []

    def step(self, action):
        self.chat_history.append({"role": "assistant", "content": action})
        done = "<answer>" in action
        reward = self._get_reward(action, done)
        if not done:
            self.chat_history.append({"role": "user", "content": f"<information>{MILL}</information>"})
        return {"reward": reward, "done": done}


def play(env_class, env_config, answers):
    environment = env_class(env_config, {"reward_spec": {"ground_truth": {"target": answers}}, "question": QUESTION})
    return [environment.step(said)["reward"] for said in ("<search>mill</search>", "<answer>Ida Voss</answer>")]


def test_skyrl(server, monkeypatch):
    install(monkeypatch, skyrl_gym__envs__search__env={"SearchEnv": SearchEnv})
    environment = run("seper_skyrl", server).SePerSearchEnv
    assert play(environment, None, ANSWERS) == [0.0, pytest.approx(1 - PRICE)]
    with pytest.raises(ValueError, match=GONE):
        play(environment, None, None)


class Response(BaseModel):
    output: list[dict]


class VerifyRequest(BaseModel):
    response: Response


class VerifyResponse(VerifyRequest):
    reward: float


class JudgeError(Exception):
    """A failed judge, which NeMo Gym leaves out of its metrics."""


async def run_judge(coroutine):
    try:
        return await coroutine
    except Exception as error:
        raise JudgeError(f"{type(error).__name__}: {error}") from error


def test_nemo_gym(server, monkeypatch):
    """The classes have the fields of nemo_gym/base_resources_server.py; a function's output is a search."""
    install(
        monkeypatch,
        nemo_gym__base_resources_server={
            "BaseVerifyRequest": VerifyRequest, "BaseVerifyResponse": VerifyResponse, "SimpleResourcesServer": object
        },
        nemo_gym__judge={"run_judge": run_judge, "JudgeError": JudgeError},
    )  # fmt: skip
    module = run("app", server)
    output = [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "search", "arguments": '{"query": "mill"}', "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": MILL},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ida Voss"}]},
    ]

    async def verify(answers):
        body = module.SePerRequest(question=QUESTION, answers=answers, response=Response(output=output))
        return await module.SePerServer().verify(body)

    assert asyncio.run(verify(ANSWERS)).reward == pytest.approx(1 - PRICE)
    with pytest.raises(JudgeError, match="no gold answer"):
        asyncio.run(verify([]))


class Node(BaseModel):
    sampled: bool
    logprobs: list[float] = []
    advantages: list[float] | None = None


def test_credit_per_token():
    """Rewards by message (-.1, 1), (.5) and none: the means are .2 and .5; by hand."""
    give_credit = run("seper_credit", types.SimpleNamespace(url="")).give_credit

    def trace(turns, *tokens):
        nodes = [Node(sampled=False)]
        for count in tokens:
            nodes += [Node(sampled=True, logprobs=[-0.5] * count), Node(sampled=False)]
        info = {} if turns is None else {"seper_turn_rewards": turns}
        return types.SimpleNamespace(info=info, branches=[types.SimpleNamespace(nodes=nodes)])

    traces = [trace([-0.1, 1.0], 3, 2), trace([0.5], 1), trace(None, 2)]
    give_credit(traces)
    given = [[node.advantages for node in each.branches[-1].nodes if node.sampled] for each in traces]
    assert given == [[pytest.approx([0.2] * 3), pytest.approx([0.5] * 2)], [pytest.approx([-0.2])], [None]]


def unpacked(name, tmp_path_factory):
    """Return the folder of a framework's wheel without its needs; skip the test where no registry has it."""
    folder = tmp_path_factory.mktemp("framework")
    words = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), name]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no wheel of {name}: {done.stderr[-200:]}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def bare_package(monkeypatch, name, folder):
    """Make a package importable without its ``__init__``, which needs what is not installed."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, name, package)


@pytest.mark.slow
@pytest.mark.network
def test_verl_itself(server, monkeypatch, tmp_path_factory):
    """Its reward manager awaits the function and raises what it raises; its data are stand-ins, which need ray."""
    torch = pytest.importorskip("torch")
    folder = unpacked("verl==0.9.1", tmp_path_factory) / "verl"

    class Base:
        def __init__(self, config, tokenizer, compute_score):
            self.tokenizer, self.loop = tokenizer, asyncio.get_running_loop()

    managers = folder / "experimental" / "reward_loop" / "reward_manager"
    for name, place in (("verl", folder), ("verl.experimental.reward_loop.reward_manager", managers)):
        bare_package(monkeypatch, name, place)
    install(
        monkeypatch,
        verl={"DataProto": object},
        verl__experimental__reward_loop__reward_manager={"register": lambda name: lambda cls: cls},
        verl__experimental__reward_loop__reward_manager__base={"RewardManagerBase": Base},
        verl__utils__reward_score={"default_compute_score": None},
    )
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

    class Tokenizer:
        def decode(self, ids, skip_special_tokens):
            return SEARCHED

    class Data(list):
        def __getitem__(self, place):
            return Data(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def row(answers):
        batch = {"responses": torch.tensor([1, 2, 3]), "attention_mask": torch.ones(5, dtype=torch.long)}
        more = {"data_source": "nq", "reward_model": {"ground_truth": {"target": answers}}}
        more["extra_info"] = {"question": QUESTION}
        return Data([types.SimpleNamespace(batch=batch, non_tensor_batch=more)])

    async def score():
        manager = NaiveRewardManager(None, Tokenizer(), run("seper_verl", server).compute_score)
        found = await manager.run_single(row(ANSWERS))
        with pytest.raises(ValueError, match=GONE):
            await manager.run_single(row(None))
        return found

    found = asyncio.run(score())
    assert found["reward_score"] == pytest.approx(1 - PRICE)
    assert found["reward_extra_info"]["search_cost"] == PRICE


@pytest.mark.slow
@pytest.mark.network
def test_openrlhf_itself(server, monkeypatch, tmp_path, tmp_path_factory):
    """Its agent loads the file, calls it for one rollout, and leaves a failed one without a reward."""
    folder = next(unpacked("openrlhf==0.11.2", tmp_path_factory).rglob("openrlhf/utils/agent.py")).parents[1]
    for name, place in (("openrlhf", folder), ("openrlhf.utils", folder / "utils")):
        bare_package(monkeypatch, name, place)
    install(monkeypatch, **{name: {} for name in ("aiohttp",) if not _installed(name)})
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    path = tmp_path / "seper_openrlhf.py"
    path.write_text(BLOCKS["seper_openrlhf"].replace("http://scorer:8100", server.url), encoding="utf-8")

    class Tokenizer:
        def __call__(self, text, **_):
            torch = pytest.importorskip("torch")
            return {"input_ids": torch.tensor([[1, 2]])}

        def decode(self, ids, skip_special_tokens):
            return f"Who?{SEARCHED}<|im_end|>"

    class Engine:
        async def generate(self, *_, **__):
            output = types.SimpleNamespace(token_ids=[3, 4], finish_reason="stop", logprobs=None)
            return types.SimpleNamespace(outputs=[output])

    def execute(answers):
        label = json.dumps({"question": QUESTION, "answers": answers})
        sampling = types.SimpleNamespace(max_tokens=8, logprobs=None)
        agent = SingleTurnAgentExecutor(str(path))
        return asyncio.run(agent.execute("Who?", label, sampling, 64, Tokenizer(), Engine()))

    found = execute(ANSWERS)
    assert (found["reward"], found["scores"]) == (pytest.approx(1 - PRICE), pytest.approx(1 - PRICE))
    assert found["extra_logs"] == {"search_cost": PRICE}
    assert execute(None)["reward"] is None


def _installed(name):
    from importlib.util import find_spec

    return find_spec(name) is not None


@pytest.mark.slow
@pytest.mark.network
def test_skyrl_itself(server, monkeypatch, tmp_path_factory):
    """Its search environment with a retriever that a stand-in of the tool replaces."""
    folder = unpacked("skyrl==0.3.0", tmp_path_factory) / "skyrl-gym"
    monkeypatch.syspath_prepend(str(folder))
    install(monkeypatch, **({} if _installed("omegaconf") else {"omegaconf": {"DictConfig": dict}}))
    environment = run("seper_skyrl", server).SePerSearchEnv
    monkeypatch.setattr(environment, "_execute_tool", lambda *_: f"\n<information>{MILL}</information>\n")
    config = types.SimpleNamespace(search_url="http://127.0.0.1:9/retrieve", topk=1, timeout=1, log_requests=False)
    assert play(environment, config, ANSWERS) == [0, pytest.approx(1 - PRICE)]
    with pytest.raises(ValueError, match=GONE):
        play(environment, config, None)


@pytest.mark.slow
def test_verifiers_itself(server, tmp_path):
    """Its task runs the judge, nodes get credit by token, an unscored trace has no reward; the audit reads it."""
    python = os.environ.get("SEPER_VERIFIERS_PYTHON")
    if not python:
        pytest.skip("SEPER_VERIFIERS_PYTHON names no Python with verifiers 0.4; make adapters-test has one")
    for name in ("seper_judge", "seper_credit"):
        block = BLOCKS[name].replace("http://scorer:8100", server.url)
        (tmp_path / f"{name}.py").write_text(block, encoding="utf-8")
    output, root = tmp_path / "traces.jsonl", Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, [str(tmp_path), str(root), os.environ.get("SEPER_VERIFIERS_PATH")]))
    done = subprocess.run(
        [python, str(root / "tests" / "verifiers_traces.py"), str(output)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["reward"] for row in rows] == [pytest.approx(1 - PRICE), pytest.approx(0.0, abs=0.05), None]
    assert GONE in rows[2]["info"]["error"]
    searched, answered, failed = ([node["advantages"] for node in row["nodes"] if node["sampled"]] for row in rows)
    assert [len(each) for each in searched] == [3, 2]
    assert sum(searched[0]) / 3 == pytest.approx(-sum(answered[0]), abs=1e-3)  # two traces: credit sums to 0
    assert failed == [None, None]
    logged = read_rollout_log(output)
    assert [each.rollout.question for each in logged[:2]] == [QUESTION] * 2
    assert [len(each.rollout.turns) for each in logged[:2]] == [1, 0]
    assert logged[0].rollout.answer == "Ida Voss"
    assert GONE in logged[2].rollout.problem
