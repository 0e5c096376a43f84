"""TRL's environments: several types in a batch, prompts of their own, and searches in one batch."""

import json
import math
import pickle
from collections import defaultdict

import pytest
import torch
import trl
from transformers import AutoTokenizer
from trl.trainer.utils import is_async_callable

from seper_reward.retrieval import BM25Retriever, CachedRetriever, DenseRetriever
from seper_reward.reward import AsyncSePerReward, search_environment, with_tool_template
from seper_reward.reward.reward import SePerReward
from tests.reward import test_credit
from tests.reward.scripted import HOUSES, ROWS, SCRIPTS, ScriptedPolicy, both, delta, environments
from tests.serving.helpers import ServerThread
from trainers.runs import project_completions_only


class Scripted(trl.GRPOTrainer):
    """TRL's trainer with a scripted policy; ``scored`` has the rewards of each rollout, by what was said."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.policy, self.scored = ScriptedPolicy(self.processing_class), {}

    def _generate_single_turn(self, prompt_ids, *_, **__):
        return [self.policy.ids(ids) for ids in prompt_ids], None

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        for row, prompt, completion, scores in zip(inputs, prompts, completions, rewards.tolist(), strict=True):
            named = dict(zip(self.reward_func_names, scores, strict=True))
            self.scored[said(row["environment"], prompt, completion)] = named
        return rewards


def said(environment, prompt, completion):
    """Return what a rollout is known by: TRL's trainers word the error of a wrong call differently."""
    by_policy = [message for message in completion if message["role"] == "assistant"]
    return json.dumps([environment, prompt[0]["content"], by_policy])


@pytest.fixture(scope="module")
def make(tiny_reader):
    retriever, tokenizer = CachedRetriever(BM25Retriever(HOUSES)), AutoTokenizer.from_pretrained(tiny_reader)
    return search_environment(retriever, top_k=2, max_turns=2, tokenizer=tokenizer)


def trainer_of(folder, reader, rewards, rows, factory, **options):
    tokenizer = with_tool_template(AutoTokenizer.from_pretrained(reader))
    made = {"environment_factory": factory, "processing_class": tokenizer}
    sizes = {"per_device_train_batch_size": 4, "num_generations": len(SCRIPTS), "max_completion_length": 300}
    return test_credit.trainer_of(folder, reader, list(rewards), Scripted, rows, **made, **sizes, **options)


@pytest.fixture(scope="module")
def synchronous(tmp_path_factory, tiny_reader, tiny_scorer, make):
    """Return a trainer that made one step, with rewards in process, and one by a server that is awaited."""
    torch.manual_seed(0)
    options = {"steps_per_generation": 4, "max_tool_calling_iterations": 3}
    with ServerThread(tiny_scorer) as server, project_completions_only():
        rewards = [delta(tiny_scorer), both(tiny_scorer), both(server.url, AsyncSePerReward, name="awaited")]
        folder, factories = tmp_path_factory.mktemp("run"), environments(make, tiny_scorer)
        trainer = trainer_of(folder, tiny_reader, rewards, ROWS, factories, **options)
        before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
        trainer.train()
    assert any(not torch.equal(before[name], weight) for name, weight in trainer.model.named_parameters())
    assert not any(reward.failures for reward in rewards)
    return trainer


def test_reward_of_several_environments(synchronous):
    """Rows of another environment get no reward of ours; what is awaited is what is computed in process."""
    by_environment, prompts = defaultdict(list), set()
    for key, scores in synchronous.scored.items():
        name, prompt, _ = json.loads(key)
        by_environment[name].append(scores)
        prompts.add((name, prompt))
    assert prompts == {  # which the environments own
        *(("search", f"Who owns house {at}?") for at in range(2)),
        ("library", "Who owns house 2?"),
        ("game", "How tall is house 3?"),
    }
    assert {name: len(rows) for name, rows in by_environment.items()} == {"search": 8, "library": 4, "game": 4}
    for scores in by_environment["search"]:
        assert scores["awaited"] == pytest.approx(scores["both"], abs=1e-5)
        assert math.isnan(scores["Game"])
        assert math.isnan(scores["Library"])
    assert len({scores["seper"] for scores in by_environment["search"]}) >= 3
    for scores in by_environment["library"] + by_environment["game"]:
        assert all(math.isnan(scores[name]) for name in ("seper", "both", "awaited"))
    assert all(scores["Game"] == 0.25 for scores in by_environment["game"])
    assert len({scores["Library"] for scores in by_environment["library"]}) >= 3
    (log,) = [row for row in synchronous.state.log_history if "seper/search_rate" in row]
    assert log["seper/search_rate"] == 0.75
    assert log["seper/unscored"] == 0
    assert log["awaited/seconds_reward"] > 0


class Down:
    """A search service that has gone away."""

    def retrieve(self, questions, top_k):
        raise ConnectionError("http://localhost:8000 did not answer 4 times")


def test_reward_stops_training_without_a_search_service(tmp_path, tiny_reader, tiny_scorer):
    """TRL shows a policy the errors of its tools and goes on, which would train it never to search."""
    with project_completions_only():
        trainer = trainer_of(tmp_path, tiny_reader, [both(tiny_scorer)], ROWS[:2], search_environment(Down()))
        with pytest.raises(RuntimeError, match=r"search tool failed.* did not answer 4 times") as raised:
            trainer.train()
    assert isinstance(raised.value.__cause__, ConnectionError)


@pytest.mark.parametrize("kind", ["bm25", "dense"])
def test_search_environment_pickles(tiny_encoder, tiny_sampler, kind):
    """As TRL checks before it starts the child."""
    from sentence_transformers import SentenceTransformer

    retriever = BM25Retriever(HOUSES)
    if kind == "dense":
        retriever = DenseRetriever(SentenceTransformer(str(tiny_encoder), device="cpu"), HOUSES)
    make = search_environment(CachedRetriever(retriever), top_k=3, tokenizer=tiny_sampler.tokenizer)
    found = make().search("house 2")
    copy, reward = pickle.loads(
        pickle.dumps((make, AsyncSePerReward("http://127.0.0.1:9", answer_weight=0.0, price=0.1)))
    )
    assert copy().search("house 2") == found
    assert found.count("\n") == 2
    assert reward.weights.price == 0.1
    assert is_async_callable(reward)


def test_async_reward_refuses_a_reader_in_process(tiny_scorer):
    for reader in ("separate", "policy"):
        with pytest.raises(ValueError, match="needs a reader that runs elsewhere: the URL of"):
            AsyncSePerReward(tiny_scorer, reader=reader)
    assert not is_async_callable(SePerReward(tiny_scorer))
