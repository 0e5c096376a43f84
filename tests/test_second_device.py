"""Every storey on a second device: numbers as on the CPU, and no tensor made on the wrong one."""

from functools import partial

import pytest
import torch

from seper_reward import SePerScorer
from seper_reward.estimators.clustering import cluster_ids, predictive_entropy, semantic_entropy
from seper_reward.estimators.seper import entailment_kernel, join_answers, match_clusters, no_contradiction
from seper_reward.options import ReaderOptions
from seper_reward.reader.in_process.decoding import attention_mask
from seper_reward.reader.in_process.gumbel import draw, nucleus
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.in_process.self_check import check_tolerance
from tests.helpers import PROMPTS, asking
from tests.second_device import onto, second_device

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU is there: make gpu-check"),
    pytest.mark.skipif(
        torch.version.cuda is not None and not hasattr(torch._C, "_ensureCUDADeviceGuardSet"),
        reason="this CUDA build of torch has no guard of a device without a GPU",
    ),
]
CPU = torch.device("cpu")


WEIGHTS, SUPPORT = [0.5, 0.3, 0.2], [[0.9, 0.1], [0.4, 0.2], [0.0, 0.7]]
LINKED = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
IDS, COUNTS = [0, 1, 0], [1, 2, 1]


def cases():
    """Yield functions of tensors, with the tensors."""
    linked, weights, support = torch.tensor(LINKED).bool(), torch.tensor(WEIGHTS), torch.tensor(SUPPORT)
    ids, counts, random = torch.tensor(IDS), torch.tensor(COUNTS), torch.Generator().manual_seed(0)
    for clusters in ("components", "complete", "greedy"):
        yield partial(cluster_ids, clusters=clusters), linked
    for aliases in ("mean", "max", "any"):
        yield partial(join_answers, aliases=aliases), weights, support
    for judged_by in ("members", "first"):
        yield lambda *tensors, by=judged_by: match_clusters(*tensors[:2], 0.5, by, tensors[2]), ids, support, counts
    for kernel in ("forward", "max"):
        yield partial(entailment_kernel, kernel=kernel), *torch.rand(2, 3, 2, generator=random)
    yield no_contradiction, *torch.rand(2, 4, 3, generator=random)
    yield semantic_entropy, weights, ids
    yield lambda *rows: predictive_entropy(rows), torch.tensor([-0.5, -1.0]), torch.zeros(1)
    for vocabulary in (7, 600):
        log_probs = torch.randn(2, vocabulary, generator=random).log_softmax(-1)
        yield lambda log_probs: draw(log_probs, [0, 1, 1], [5, -(2**62), 17]), log_probs
        yield lambda log_probs: draw(nucleus(log_probs, 0.8), [0, 1, 1], [5, -(2**62), 17]), log_probs
    yield lambda seen: attention_mask(seen, torch.float32), torch.eye(3, dtype=torch.bool)[None]


@pytest.mark.parametrize("number", range(len(list(cases()))))
def test_formulas_on_a_second_device(number):
    """A result is on the device of the tensors, and as on the CPU."""
    act, *tensors = list(cases())[number]
    expected = act(*tensors)
    with second_device() as device:
        there = act(*(tensor.to(device) for tensor in tensors))
        assert there.device == device
        assert torch.equal(there.cpu(), expected)


@pytest.mark.parametrize(
    ("layout", "changes"),
    [("tree", {}), ("tree", {"temperature": 0.7, "top_p": 0.9}), ("repeat", {}), ("alone", {}), ("reread", {})],
)
def test_a_reader_of_every_layout(tiny_reader, layout, changes):
    """Samples, leaves and teacher-forced log-probabilities: the same tokens, and all of them on the right device."""
    drawn = {"num_samples": 3, "max_new_tokens": 4, **changes}
    options = ReaderOptions(reader=str(tiny_reader), dtype="float32", device="cpu", **drawn)
    here = ResponseSampler.from_pretrained(options, layout=layout)
    given = {PROMPTS[0]: ["honey", "wax and honey"], PROMPTS[2]: ["4"]}
    pairs = [(prompt, text) for prompt, texts in given.items() for text in texts]
    prompts, texts = zip(*pairs, strict=True)
    sampled = [here.sample(asking(PROMPTS, given)), here.log_probs(prompts, texts)]
    with second_device() as device:
        there = ResponseSampler(onto(here.model), here.tokenizer, here.options, layout=layout)
        assert there.device == device
        there.check()
        found = [there.sample(asking(PROMPTS, given)), there.log_probs(prompts, texts)]
    for one, other in zip(sampled[0], found[0], strict=True):
        assert one.token_ids == other.token_ids
        assert [leaf.draw_log_prob for leaf in other.known_leaves] == pytest.approx(
            [leaf.draw_log_prob for leaf in one.known_leaves], abs=1e-5
        )
        for expected, log_probs in zip(one.token_log_probs, other.token_log_probs, strict=True):
            assert log_probs.device == CPU
            torch.testing.assert_close(log_probs, expected)
    for expected, log_probs in zip(sampled[1], found[1], strict=True):
        assert (expected - log_probs).abs().max() < check_tolerance(torch.float32)


def test_a_scorer(tiny_reader, tiny_entailment):
    """Reader and judge on the second device: the utility of a passage is the CPU's."""
    models = {"reader": str(tiny_reader), "judge": str(tiny_entailment), "dtype": "float32", "device": "cpu"}
    passages = ["Ida owns it.", "Sheep graze."]
    rows = [{"question": "Who owns the mill?", "answers": ["Ida", "Ida Tern"], "passages": passages}]

    def scorer():
        return SePerScorer.from_pretrained(**models, prompt="brief", num_samples=4, max_new_tokens=4)

    (here,) = scorer().utilities(rows)
    with second_device() as device:
        moved = scorer()
        onto(moved.sampler.model)
        onto(moved.entailment._model)
        assert moved.sampler.device == moved.entailment.device == device
        (there,) = moved.utilities(rows)
    assert [each.delta_seper for each in there] == pytest.approx([each.delta_seper for each in here], abs=1e-5)
