"""Sampling: right log-probabilities, right distribution, and no dependence on who is sampled beside whom."""

import copy
import functools
import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare, kstest

from seper_reward.reader.in_process import decoding, gumbel
from seper_reward.reader.in_process.decoding import TreeDecoder
from seper_reward.reader.in_process.gumbel import draw, noise, nucleus, uniform
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.runtime import memory
from seper_reward.types import UnscorableError, unwrap
from tests.helpers import PROMPTS, asking, prompt_ids, rebuilt, teacher_forced


@pytest.mark.parametrize("layout", ["tree", "repeat"])
def test_sharing_the_prefix_changes_nothing(tiny_sampler, layout):
    """Rows end at different steps here, so that finished rows and lines are dropped on the way."""
    changes = {"max_new_tokens": 20, "stop": ("e", " ")}
    shared = rebuilt(tiny_sampler, layout=layout, **changes).sample(asking(PROMPTS))
    unshared = rebuilt(tiny_sampler, layout="alone", **changes).sample(asking(PROMPTS))
    assert [row.token_ids for row in shared] == [row.token_ids for row in unshared]
    assert len({len(ids) for row in shared for ids in row.token_ids}) > 2
    for one, other in zip(shared, unshared, strict=True):
        for log_probs, expected in zip(one.token_log_probs, other.token_log_probs, strict=True):
            torch.testing.assert_close(log_probs, expected, atol=1e-4, rtol=1e-4)


def test_a_response_depends_on_neither_order_nor_batch(tiny_sampler):
    once = [row.token_ids for row in tiny_sampler.sample(asking(PROMPTS))]
    again = [row.token_ids for row in tiny_sampler.sample(asking([*PROMPTS[::-1], PROMPTS[0]]))]
    assert again == [*once[::-1], once[0]]
    assert once == [tiny_sampler.sample(asking([prompt]))[0].token_ids for prompt in PROMPTS]
    split = rebuilt(tiny_sampler, max_batch_tokens=1)
    assert once == [row.token_ids for row in split.sample(asking(PROMPTS))]


def test_more_samples_extend_fewer(tiny_sampler):
    few, many = tiny_sampler.sample(asking(PROMPTS)), rebuilt(tiny_sampler, num_samples=9).sample(asking(PROMPTS))
    for one, other in zip(few, many, strict=True):
        assert one.token_ids == other.token_ids[:4]
        assert len(set(other.token_ids)) > 4  # the noise differs between samples


def test_seed_and_prompt_decide_the_noise(tiny_sampler):
    asked = asking(PROMPTS)
    other_seed = rebuilt(tiny_sampler, seed=1).sample(asked)
    assert all(
        one.token_ids != other.token_ids
        for one, other in zip(tiny_sampler.sample(asking(PROMPTS)), other_seed, strict=True)
    )
    before = torch.random.get_rng_state()
    tiny_sampler.sample(asking(PROMPTS))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("layout", ["tree", "repeat", "alone"])
def test_whole_responses_follow_the_models_distribution(tiny_sampler, layout):
    """χ² over pairs of tokens, the second after the first: responses that share a branch are drawn apart."""
    sampler = rebuilt(tiny_sampler, num_samples=800, max_new_tokens=2, stop=(), temperature=0.4)
    sampler.layout = layout
    drawn = Counter(ids for ids in sampler.sample(asking(PROMPTS[2:]))[0].token_ids)
    start = prompt_ids(sampler, PROMPTS[2])
    expected = {}
    with torch.no_grad():
        first = (sampler.model(input_ids=torch.tensor([start])).logits[0, -1].double() / 0.4).softmax(-1).topk(4)
        for probability, token in zip(first.values.tolist(), first.indices.tolist(), strict=True):
            logits = sampler.model(input_ids=torch.tensor([[*start, token]])).logits[0, -1].double() / 0.4
            second = logits.softmax(-1).topk(4)
            expected |= {
                (token, other): probability * after * 800
                for after, other in zip(second.values.tolist(), second.indices.tolist(), strict=True)
            }
    likely = {pair: count for pair, count in expected.items() if count > 5}
    assert len(likely) > 3  # else the test would not mean much
    observed = [drawn[pair] for pair in likely]
    rest = [800 - sum(observed)], [800 - sum(likely.values())]
    assert chisquare([*observed, *rest[0]], [*likely.values(), *rest[1]]).pvalue > 0.001


def test_noise_is_even_independent_and_only_goes_on():
    words = torch.tensor([noise("prompt", index, 0, 32) for index in range(300)])  # (S, T)
    numbers = uniform(words, torch.arange(32).expand(300, -1))
    assert kstest(numbers.flatten().tolist(), "uniform").pvalue > 0.001
    assert abs(float(torch.corrcoef(numbers[:, :2].T)[0, 1])) < 0.2
    assert noise("prompt", 3, 0, 5) == noise("prompt", 3, 0, 32)[:5]


def test_uniform_numbers_are_those_of_splitmix64():
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]  # of seed 1234567, published
    found = uniform(torch.tensor([[1234567]]), torch.tensor([[0, 1, 2]]))[0]
    assert found.tolist() == [((number >> 11) + 0.5) * 2.0**-53 for number in expected]


@pytest.mark.parametrize("group", [1, 2, 4, 256])
def test_tokens_are_drawn_as_often_as_they_are_probable(monkeypatch, group):
    """Two branches of unlike shape; groups of one token, of some, of more than there are."""
    monkeypatch.setattr(gumbel, "_GROUP", group)
    probs = torch.tensor([[0.1, 0.0, 0.2, 0.3, 0.25, 0.15], [0.02, 0.9, 0.02, 0.02, 0.02, 0.02]])
    branches = torch.arange(8000) % 2
    words = [noise("prompt", index, 1, 1)[0] for index in range(8000)]
    drawn = draw(probs.log(), branches, words)
    for branch, row in enumerate(probs):
        counts = drawn[branch::2].bincount(minlength=6)
        assert not counts[row == 0].any()
        assert chisquare(counts[row > 0].tolist(), (row[row > 0] * 4000).tolist()).pvalue > 0.001


def test_a_slight_change_seldom_changes_a_token():
    """On an even distribution, where a cumulated one would move with every logit before it."""
    generator = torch.Generator().manual_seed(0)
    log_probs = torch.randn(1, 49_152, generator=generator).log_softmax(-1)
    moved = log_probs + 1e-3 * torch.randn(1, 49_152, generator=generator)
    words = [noise("prompt", index, 0, 1)[0] for index in range(2000)]
    one, other = (draw(scores, torch.zeros(2000, dtype=torch.long), words) for scores in (log_probs, moved))
    assert float((one != other).float().mean()) < 0.01


@pytest.mark.parametrize("start", ["", "The mill burned down in 1840, says the parish book. " * 3])
def test_prompts_read_a_few_at_a_time_give_the_same(tiny_sampler, monkeypatch, start):
    prompts = [f"{start}{number} {'was never built again. ' * number}{PROMPTS[2]}" for number in range(6)]
    expected = tiny_sampler.sample(asking(prompts))
    monkeypatch.setattr(decoding, "_CPU_PREFILL_TOKENS", 100)
    for one, other in zip(tiny_sampler.sample(asking(prompts)), expected, strict=True):
        assert one.token_ids == other.token_ids
        for log_probs, same in zip(one.token_log_probs, other.token_log_probs, strict=True):
            torch.testing.assert_close(log_probs, same, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("limit", [1, 2])
def test_a_batch_too_large_for_memory_is_halved(tiny_sampler, monkeypatch, limit):
    sampler = rebuilt(tiny_sampler)
    expected, asked, prefill = sampler.sample(asking(PROMPTS)), [], TreeDecoder.prefill

    def short_of_memory(self, prompts, spans):
        asked.append(len(prompts))
        if len(prompts) > limit:
            raise torch.OutOfMemoryError("out of memory")
        return prefill(self, prompts, spans)

    monkeypatch.setattr(TreeDecoder, "prefill", short_of_memory)
    with pytest.warns(UserWarning, match="a batch of 3 is halved"):
        found = sampler.sample(asking(PROMPTS))
    assert [row.token_ids for row in found] == [row.token_ids for row in expected]
    assert asked == ([3, 1, 2, 1, 1] if limit == 1 else [3, 1, 2])
    monkeypatch.setattr(TreeDecoder, "prefill", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("full")))
    with pytest.raises(torch.OutOfMemoryError):
        sampler.sample(asking(PROMPTS[:1]))


def test_nucleus_by_hand():
    scores = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    kept = [torch.isfinite(nucleus(scores, top_p)).sum().item() for top_p in (0.4, 0.6, 0.85, 0.96, 1.0)]
    assert kept == [1, 2, 3, 4, 4]
    torch.testing.assert_close(nucleus(scores, 0.6).exp(), torch.tensor([[0.625, 0.375, 0.0, 0.0]]))


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (1.5, 0.8), (0.0, 1.0)])
def test_the_probability_of_a_draw_by_a_slow_loop(tiny_sampler, temperature, top_p):
    """And its log-probabilities, which are the model's own at temperature 1."""
    sampler = rebuilt(tiny_sampler, temperature=temperature, top_p=top_p, num_samples=3, stop=())
    (responses,) = sampler.sample(asking(PROMPTS[:1]))
    columns = zip(responses.token_ids, responses.draw_log_probs, responses.token_log_probs, strict=True)
    for token_ids, draw_log_prob, log_probs in columns:
        torch.testing.assert_close(log_probs, teacher_forced(sampler, PROMPTS[0], token_ids), atol=2e-3, rtol=1e-4)
        ids, expected = prompt_ids(sampler, PROMPTS[0]), 0.0
        for token in token_ids:
            with torch.no_grad():
                probs = sampler.model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
            probs = probs ** (1 / temperature) if temperature else (probs == probs.max()).double()
            probs /= probs.sum()
            nucleus_mass = 0.0
            for prob in sorted(probs.tolist(), reverse=True):
                if nucleus_mass >= top_p:
                    break
                nucleus_mass += prob
            expected += math.log(probs[token] / nucleus_mass)
            ids = [*ids, token]
        assert draw_log_prob == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("prompt", ["", "word " * 600])
def test_a_prompt_that_cannot_be_sampled_leaves_the_others_of_its_batch_theirs(tiny_sampler, prompt):
    first, error, second, again = tiny_sampler.sample(asking([PROMPTS[0], prompt, PROMPTS[1], prompt]))
    with pytest.raises(UnscorableError, match=r"empty|leave room"):
        unwrap(error)
    assert again is error
    assert [first.token_ids, second.token_ids] == [row.token_ids for row in tiny_sampler.sample(asking(PROMPTS[:2]))]


@pytest.mark.parametrize("prompt", ["", "word " * 600])
def test_a_prompt_or_text_without_log_probs_leaves_the_others_theirs(tiny_sampler, prompt):
    given = [(PROMPTS[0], " honey"), (prompt, " honey"), (PROMPTS[0], ""), (PROMPTS[1], " in 1840")]
    first, too_long, blank, second = tiny_sampler.log_probs(*zip(*given, strict=True))
    for error, message in ((too_long, r"empty|leave room"), (blank, "at least one token")):
        with pytest.raises(UnscorableError, match=message):
            unwrap(error)
    for found, (own, text) in zip((first, second), (given[0], given[3]), strict=True):
        expected = teacher_forced(tiny_sampler, own, tiny_sampler.tokenizer(text).input_ids)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert all(isinstance(error, UnscorableError) for error in tiny_sampler.log_probs([prompt], [" honey"]))


@pytest.mark.parametrize("layout", ["tree", "repeat"])
def test_logits_that_are_no_number_are_the_fault_of_one_prompt(tiny_sampler, layout):
    """The model is a patched one: after a zero its logits are NaN."""
    model, words = copy.copy(tiny_sampler.model), tiny_sampler.tokenizer
    (zero,) = words("0").input_ids
    forward = tiny_sampler.model.forward

    @functools.wraps(forward)
    def broken(input_ids, **options):
        found = forward(input_ids=input_ids, **options)
        found.logits[(input_ids == zero).any(1)] = torch.nan
        return found

    model.forward = broken
    sampler = ResponseSampler(model, words, tiny_sampler.options, layout=layout)
    intact = rebuilt(tiny_sampler, layout=layout)
    assert zero in words(PROMPTS[1]).input_ids
    given = {PROMPTS[0]: [" honey"], PROMPTS[1]: [" in 1840"]}
    first, error, second = sampler.sample(asking(PROMPTS, given))
    with pytest.raises(UnscorableError, match="NaN logits"):
        unwrap(error)
    for prompt, found in ((PROMPTS[0], first), (PROMPTS[2], second)):
        (alone,) = intact.sample(asking([prompt], given))
        assert found == alone
        assert all(map(torch.equal, found.token_log_probs, alone.token_log_probs))
        assert len(found.known_leaves) == len(given.get(prompt, ()))


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs /proc")
def test_give_back_shrinks_a_process_that_freed_memory():
    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    rows = [torch.ones(20_000) for _ in range(2_000)]  # 160 MB, each below what is mapped by itself
    full = pages()
    keep = rows[-1]  # on top of the heap, so that it does not shrink by itself
    del rows
    memory.give_back()
    assert pages() < full - 20_000
    assert keep.sum() == 20_000
