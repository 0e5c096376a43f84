"""Artifacts of the main jobs: what a refactoring must not change.

Real models on the first processor, in float32 and with one thread, so that another machine changes low digits only.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import torch
import trl
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerState

from seper_reward import SePerReward, SePerScorer
from seper_reward.cli import main as command
from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.queries import read_corpus
from seper_reward.labels.export import LAYOUTS
from seper_reward.reward.rollouts import Rollout, read_rollouts
from seper_reward.types import UnscorableError
from tests.helpers import on_two_ranks
from tests.serving.helpers import ServerThread
from tests.tiny_models import lane_rows, make_encoder, make_entailment, make_reader
from trainers import retriever

EXACT = {"dtype": "float32", "device": "cpu"}
LABELERS = ("delta_seper", "erag", "likelihood", "gold")
#: Weights of rewards, by the names that the artifacts have.
REWARDS: dict[str, dict[str, Any]] = {
    "delta": {"answer_weight": 0.0, "price": 0.1},
    "stepwise": {"answer_weight": 0.0, "price": 0.1},
    "answer": {"gain_weight": 0.0, "price": 0.1},
    "advantage": {"gain_weight": 0.0, "price": 0.1, "closed_book": True},
    "both": {"answer_weight": 1.0, "gain_weight": 1.0, "price": 0.1},
    "both_closed_book": {"price": 0.3, "gain_weight": 0.5, "closed_book": True},
}
# fields of results that a clock, a version or a machine decides
CHANGING = {"seconds", "device", "seper-reward", "torch", "transformers", "sha256"}

Artifacts = dict[str, str]


def record() -> Iterator[tuple[str, Callable[[Path], Artifacts]]]:
    """Yield the parts by name; a part writes into a folder and returns its artifacts."""
    yield "labels", _labels
    yield "rewards", _rewards
    yield "training", _training
    yield "retriever", _retriever


def _flags(**settings: Any) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def _run(*words: str) -> None:
    """Run a command of seper-reward in this process."""
    if command(list(words)):
        raise RuntimeError(f"seper-reward {' '.join(words)} failed")


def _input(folder: Path, count: int) -> Path:
    """Write questions of the demo, and two rows that cannot be labelled."""
    corpus = {str(row["id"]): row["text"] for row in map(json.loads, CORPUS.read_text("utf-8").splitlines())}
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()][::23][:count]
    for row in rows:
        for passage in row["passages"]:
            passage |= {"text": corpus[passage["id"]], "relevant": passage["role"] == "supporting"}
    rows.append({"id": "long", "question": "long " * 9000, "answers": ["x"], "passages": [{"id": "l", "text": "y"}]})
    rows.append({"id": "bad", "question": "Who?", "answers": [], "passages": []})
    path = folder / f"questions-{count}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def _labels(folder: Path) -> Artifacts:
    """Labels of every kind and of both published presets, and exports of every layout."""
    found: Artifacts = {}
    jobs = {name: (6, ["--labeler", name]) for name in LABELERS} | {"conditional": (3, ["--sets", "conditional"])}
    jobs |= {preset: (3, ["--estimator", preset]) for preset in ("official", "paper")}
    for name, (count, words) in jobs.items():
        out = folder / name
        where = _flags(input=_input(folder, count), output_dir=out, max_new_tokens=12)
        _run("label", *where, *_flags(**EXACT), *words)
        found |= _label_folder(f"labels/{name}", out)
    exports = {layout: (layout, "delta_seper") for layout in LAYOUTS}
    exports |= {
        f"{layout} by evidence": (layout, "seper_gain") for layout in ("trec", "sentence-transformers-triplets")
    }
    for name, (layout, label) in exports.items():
        path = folder / name
        _run("export", *_flags(labels=folder / "delta_seper", label=label, format=layout, output=path))
        found[f"exports/{name}"] = path.read_text("utf-8")
    return found


def _label_folder(name: str, folder: Path) -> Artifacts:
    provenance = json.loads((folder / "provenance.json").read_text("utf-8"))
    return {
        f"{name}/labels.jsonl": (folder / "labels.jsonl").read_text("utf-8"),
        f"{name}/rejected.jsonl": (folder / "rejected.jsonl").read_text("utf-8"),
        f"{name}/decides.json": _text(provenance["decides"]),
    }


def _text(value: Any) -> str:
    """Return a value as JSON without the fields that change from run to run."""

    def kept(each: Any) -> Any:
        if isinstance(each, dict):
            return {name: kept(value) for name, value in each.items() if name not in CHANGING}
        return [kept(one) for one in each] if isinstance(each, list | tuple) else each

    return json.dumps(kept(value), indent=1, ensure_ascii=False) + "\n"


def _call(query: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": {"query": query}}}]}


def _rollouts() -> dict[str, list[Any]]:
    """Return 28 rollouts: searches that help, mislead or fail, and rows that cannot be scored."""
    corpus = read_corpus(CORPUS)
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    columns: dict[str, list[Any]] = {"question": [], "answers": [], "completions": []}

    def add(question: Any, answers: Any, *messages: Any) -> None:
        columns["question"].append(question)
        columns["answers"].append(answers)
        columns["completions"].append(list(messages))

    for row in rows[3:160:32]:
        question, answers = row["question"], row["answers"]
        results = [{"role": "tool", "content": corpus[each["id"]].text} for each in row["passages"][:2]]
        said = {"role": "assistant", "content": f"It is {answers[0]}."}
        wrong = {"role": "assistant", "content": "Nobody knows."}
        failed = {"role": "tool", "content": "{'error': \"no such tool\"}"}
        add(question, answers, said)
        add(question, answers, wrong)
        add(question, answers, _call("a"), results[0], said)
        add(question, answers, _call("a"), results[1], _call("b"), results[0], said)
        add(question, answers, _call("a"), failed, _call("b"), results[1], wrong)
    add("Which town?", None, {"role": "assistant", "content": "Arle"})
    add("long " * 9000, ["x"], _call("a"), {"role": "tool", "content": "y"}, {"role": "assistant", "content": "x"})
    add(None, ["x"], {"role": "assistant", "content": "x"})
    return columns


def _turn_rewards(reward: SePerReward, rollouts: list[Rollout]) -> list[list[float] | str]:
    def of(rollout: Rollout) -> list[float] | str:
        try:
            return reward.turn_rewards(rollout)
        except UnscorableError as error:
            return str(error)[:80]

    return list(map(of, rollouts))


def _rewards(folder: Path) -> Artifacts:
    """Rewards of scripted rollouts by one and by two ranks, and a server's answers."""
    scorer = SePerScorer.from_pretrained(max_new_tokens=12, **EXACT)
    columns, found = _rollouts(), {}
    rollouts = read_rollouts(columns["question"], columns["answers"], columns["completions"])
    for name, weights in REWARDS.items():
        reward = SePerReward(scorer, **weights)
        values = reward(None, **columns)
        turns = _turn_rewards(reward, rollouts)
        found[f"rewards/{name}.json"] = _text({"rewards": values, "turns": turns, "failures": reward.failures})

    def on_rank(rank: int) -> list[float | None]:
        mine = {name: column[rank::2] for name, column in columns.items()}
        return SePerReward(scorer, **REWARDS["both"])(None, **mine, trainer_state=TrainerState())

    ranks: list[Any] = on_two_ranks(on_rank, folder, seconds=240)
    found["rewards/two_ranks.json"] = _text(ranks)
    return found | _server(scorer, columns)


def _server(scorer: SePerScorer, columns: dict[str, list[Any]]) -> Artifacts:
    question, answers = columns["question"][0], columns["answers"][0]
    messages = columns["completions"][2]
    passages = [message["content"] for message in messages if message["role"] == "tool"]
    rollouts = [
        {"question": question, "answers": answers, "completion": completion}
        for question, answers, completion in list(zip(*columns.values(), strict=True))[:4]
    ]
    bodies = {
        "utilities": {"queries": [{"question": question, "answers": answers, "passages": passages}]},
        "beliefs": {"asked": [{"question": question, "answers": answers, "contexts": [[]], "texts": answers}]},
        "rewards": {"rollouts": rollouts, **REWARDS["both"]},
    }
    found: Artifacts = {}
    with ServerThread(scorer) as server:
        for name, body in bodies.items():
            answer = httpx2.post(f"{server.url}/{name}", json=body, timeout=120)
            found[f"server/{name}.json"] = _text(answer.raise_for_status().json())
    return found


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _training(folder: Path) -> Artifacts:
    """Two steps of GRPO by our reward and one that differs within a group, on tiny models."""
    reader, entailment = make_reader(folder / "reader", whole=True), make_entailment(folder / "entailment", whole=True)
    scorer = SePerScorer.from_pretrained(
        str(reader),
        judge=str(entailment),
        **EXACT,
        num_samples=4,
        max_new_tokens=8,
        prompt="brief",
    )
    rows = [{"prompt": f"Who owns house {at}?", **row} for at, row in enumerate(lane_rows(2))]
    for row in rows:
        row["passages"] = [each["text"] for each in row["passages"][:1]]
    arguments = trl.GRPOConfig(
        output_dir=str(folder / "run"), max_steps=2, per_device_train_batch_size=4, num_generations=4,
        report_to="none", max_completion_length=8, learning_rate=1e-2, use_cpu=True, bf16=False, seed=3,
        save_strategy="no", disable_tqdm=True, logging_steps=1, scale_rewards="none",
    )  # fmt: skip
    reward = SePerReward(scorer, **REWARDS["both"])
    reward.__name__ = "seper"
    with _seeded(0):
        trainer = trl.GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(reader),
            reward_funcs=[reward, _digits],
            args=arguments,
            train_dataset=Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(reader),
            peft_config=LoraConfig(r=2, target_modules=["q_proj", "v_proj"]),
        )
        trainer.train()
    named = ("loss", "grad_norm", "reward", "rewards/seper/mean", "rewards/seper/std")
    steps = [{name: row[name] for name in named} for row in trainer.state.log_history if "loss" in row]
    return {"training/grpo.json": _text(steps)}


def _digits(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [sum(ids) % 7 / 7 for ids in completion_ids]


def _retriever(folder: Path) -> Artifacts:
    """One round of the retriever's recipe, on tiny models."""
    questions = folder / "questions.jsonl"
    questions.write_text("".join(json.dumps(row) + "\n" for row in lane_rows()), "utf-8")
    reader, held_out = make_reader(folder / "reader", whole=True), folder / "held_out"
    held_out.symlink_to(reader)
    settings = {
        "input": questions, "model": make_encoder(folder / "encoder", whole=True), "reader": reader,
        "judge": make_entailment(folder / "entailment", whole=True), "prompt": "brief", "num_samples": 3,
        "max_new_tokens": 4, "test_share": 0.25, "top_k": 2,
        "output_dir": folder / "run", "bf16": "false", "num_train_epochs": 1, "per_device_train_batch_size": 4,
        "learning_rate": 1e-3, "logging_steps": 1, "rounds": 1,
        "eval_readers": held_out,
    }  # fmt: skip
    targets = _flags(label="delta_seper", min_spread=0, heterogeneity=1, shrink="false")
    if retriever.main([*_flags(**settings), *_flags(**EXACT), *targets]):
        raise RuntimeError("the retriever's recipe failed")
    round_ = json.loads((folder / "run" / "round-1" / "round.json").read_text("utf-8"))
    named = ("loss", "grad_norm", "eval_ndcg@5")
    logged = [{name: row[name] for name in named if name in row} for row in round_["log"]]
    labels = (folder / "run" / "labels.jsonl").read_text("utf-8")
    return {
        "retriever/round.json": _text({"labels": round_["labels"], "log": [row for row in logged if row]}),
        "retriever/labels.jsonl": labels,
    }


def everything(say: Callable[[str], None] = lambda _: None) -> Artifacts:
    """Return all artifacts."""
    torch.set_num_threads(1)
    found: Artifacts = {}
    for name, part in record():
        say(name)
        with tempfile.TemporaryDirectory() as folder, _seeded(0):
            found |= {name: text.replace(folder, "FOLDER") for name, text in part(Path(folder)).items()}
    return found
