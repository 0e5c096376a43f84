"""A causal language model as the judge: P(yes) by hand, languages, both directions, and loading by name."""

import math

import pytest
import torch

from seper_reward.judge.judge import Judge
from seper_reward.judge.reader_judge import ReaderJudge
from seper_reward.options import JudgeOptions
from seper_reward.scorer import load_judge
from seper_reward.types import Pair, UnscorableError

PAIRS = [Pair("Who?", "曹雪芹", "吴承恩"), Pair("Who?", "吴承恩", "曹雪芹"), Pair("", "Ann sailed", "Ann left")]


class ScriptedReplies:
    """A sampler whose log-probabilities of a reply are those of a function of the prompt."""

    name, weights_hash, max_batch_tokens, device = "scripted", "0", 64, None

    def __init__(self, tokenizer, log_probs):
        self.tokenizer, self._log_probs, self.prompts = tokenizer, log_probs, []

    def log_probs(self, prompts, texts):
        self.prompts += prompts
        return [self._log_probs(prompt, text) for prompt, text in zip(prompts, texts, strict=True)]


def test_the_probability_of_yes_by_hand(tiny_sampler):
    def log_probs(prompt, text):
        said = 0.3 if "Response: 曹雪芹" in prompt else 0.06 if "Text: Ann sailed" in prompt else 0.01
        # a reply of two tokens has their product
        return torch.tensor([math.log(said), math.log(0.5)]) if text == "yes" else torch.tensor([math.log(0.05)])

    sampler = ScriptedReplies(tiny_sampler.tokenizer, log_probs)
    judge = Judge(ReaderJudge(sampler))
    judged = judge.probs(PAIRS)
    # yes .3 · .5 = .15 against no .05; .01 · .5 against .05; .06 · .5 against .05
    assert [judged[pair] for pair in PAIRS] == pytest.approx([0.75, 0.005 / 0.055, 0.03 / 0.08])
    assert judge.probs([PAIRS[0]]).rows([PAIRS[0]]).tolist() == [pytest.approx([0.75, 0.25])]
    assert "Question: Who?" in sampler.prompts[0]
    assert "Right answer: 吴承恩\nResponse: 曹雪芹" in sampler.prompts[0]
    assert "Question" not in sampler.prompts[-3]


def test_it_agrees_with_the_log_probabilities_of_the_reader(tiny_sampler):
    judge = ReaderJudge(tiny_sampler)
    probs = judge.probs(PAIRS)
    for pair, row in zip(PAIRS, probs, strict=True):
        yes, no = (float(found.sum()) for found in tiny_sampler.log_probs([judge.prompt(pair)] * 2, ["yes", "no"]))
        assert float(row[0]) == pytest.approx(1 / (1 + math.exp(no - yes)), abs=1e-5)
    assert judge.classes == 2
    assert probs.sum(1).tolist() == pytest.approx([1, 1, 1])


def test_a_pair_beyond_the_window_is_an_error(tiny_sampler):
    with pytest.raises(UnscorableError):
        ReaderJudge(tiny_sampler).probs([Pair("Who?", "long " * 20_000, "Ann")])


def test_its_name_tells_models_apart(tiny_sampler, tiny_reader, tiny_entailment):
    assert ReaderJudge(tiny_sampler).weights_hash != tiny_sampler.weights_hash
    assert isinstance(load_judge(JudgeOptions(judge="reader"), tiny_sampler), ReaderJudge)
    assert isinstance(load_judge(JudgeOptions(judge=str(tiny_reader))), ReaderJudge)
    assert not isinstance(load_judge(JudgeOptions(judge=str(tiny_entailment))), ReaderJudge)
    with pytest.raises(ValueError, match="judge must not be 'reader' in a command without a reader"):
        load_judge(JudgeOptions(judge="reader"))
