"""Every storey on a second device: numbers as on the CPU, and no tensor made on the wrong one."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from seper_reward import SePerScorer
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.options import ReaderOptions
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.in_process.self_check import check_tolerance
from tests.helpers import PROMPTS, asking
from tests.second_device import GUARDED, onto, second_device

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU is there: make gpu-check"),
    pytest.mark.skipif(not GUARDED, reason="this CUDA build of torch has no guard of a device without a GPU"),
]
CPU = torch.device("cpu")


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
    options = ReaderOptions(reader=str(tiny_reader), dtype="float32", device="cpu", num_samples=4, max_new_tokens=4)
    words = AutoTokenizer.from_pretrained(tiny_entailment)
    passages = ["Ida owns it.", "Sheep graze."]
    rows = [{"question": "Who owns the mill?", "answers": ["Ida", "Ida Tern"], "passages": passages}]

    def utilities(move=lambda model: model):
        judge = move(AutoModelForSequenceClassification.from_pretrained(tiny_entailment).eval())
        reader = ResponseSampler.from_pretrained(options)
        move(reader.model)
        scorer = SePerScorer(reader, EntailmentScorer(judge, words), prompt="brief")
        return scorer.sampler.device, scorer.entailment.device, [row.delta_seper for row in scorer.utilities(rows)[0]]

    *_, here = utilities()
    with second_device() as device:
        assert utilities(onto) == (device, device, pytest.approx(here, abs=1e-5))
