"""Without replacement: distinct responses, as often and in the order that all leaves, enumerated, call for."""

import itertools
import math
import statistics
from collections import Counter
from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare

from seper_reward import ResponseSampler
from seper_reward.config import ScorerConfig, load_scorer
from seper_reward.reader.chat import ThoughtFormat
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.in_process import gumbel
from seper_reward.reader.in_process.gumbel import best_children, branch_word, noise
from seper_reward.reader.sampler import EngineOptions, ReaderOptions, SamplingOptions
from seper_reward.reader.thinking import ThinkingSampler
from tests.helpers import PROMPTS, rebuilt, teacher_forced
from tests.reader.in_process.architectures import tokenizer
from tests.reader.in_process.test_architectures import BY_FAMILY

# the tiny reader's likely tokens: one that ends a response like end-of-sequence, one whose text is a stop string
END, STOP = 187, "k"
ROUNDS = 2000
FEW_LEAVES = {"num_samples": 3, "max_new_tokens": 3, "temperature": 0.7, "top_p": 0.6, "stop": (STOP,)}


@pytest.fixture(scope="module")
def reader():
    model, words = BY_FAMILY["Llama"].model(), tokenizer()
    model.generation_config.eos_token_id = [2, END]

    def with_options(layout=None, refill=False, **sampling):
        options = ReaderOptions(layout=layout, refill=refill)
        return ResponseSampler(model, words, options=options, draw="without_replacement", **sampling)

    return with_options


def all_leaves(sampler, prompt, beginning=()):
    """Return the probability of each possible response by its tokens: the slow loop."""
    options, leaves = sampler.options, {}
    with torch.no_grad():
        ids = torch.tensor([[*sampler._encode(prompt), *beginning]])
        probs = (sampler._model(ids).logits[0, -1].double() / options.temperature).softmax(-1).tolist()
    nucleus, mass = [], 0.0
    for token in sorted(range(len(probs)), key=probs.__getitem__, reverse=True):
        if mass < options.top_p:
            nucleus.append(token)
            mass += probs[token]
    for token in nucleus:
        response = (*beginning, token)
        text = sampler.tokenizer.decode(response, skip_special_tokens=True).lstrip()
        stopped = any(text.find(string, 1) > 0 for string in options.stop)
        if token in (2, END) or stopped or len(response) == options.max_new_tokens:
            leaves[response] = probs[token] / mass
        else:
            deeper = all_leaves(sampler, prompt, response)
            leaves |= {leaf: probs[token] / mass * prob for leaf, prob in deeper.items()}
    return leaves


def many(sampler, prompt, rounds=ROUNDS):
    """Return the responses of many independent rounds: the noise is that of the name, which differs."""
    names = [f"round {number}" for number in range(rounds)]
    ids = sampler._encode(prompt)
    return sampler._sample_batch(dict.fromkeys(names, ids), 1, None, sampler.layout, {}, names)


def in_order(leaves, count):
    """Return the probability of each sequence of so many leaves drawn one by one, without putting them back."""
    found = {}
    for drawn in itertools.permutations(leaves, count):
        left, prob = 1.0, 1.0
        for leaf in drawn:
            prob *= leaves[leaf] / left
            left -= leaves[leaf]
        found[drawn] = prob
    return found


def in_proportion(observed, expected):
    """Compare counts with probabilities by χ², the unlikely ones together; return how many are likely."""
    assert set(observed) <= set(expected)
    likely = [drawn for drawn, prob in expected.items() if prob * ROUNDS > 5]
    counts, means = [observed[drawn] for drawn in likely], [expected[drawn] * ROUNDS for drawn in likely]
    assert chisquare([*counts, ROUNDS - sum(counts)], [*means, ROUNDS - sum(means)]).pvalue > 0.001
    return len(likely)


@pytest.mark.parametrize("layout", ["tree", "repeat", "alone", "reread"])
def test_leaves_come_in_each_order_as_often_as_if_drawn_one_by_one(reader, layout):
    """χ² over all ordered triples of leaves: it holds how often each is among them, too."""
    sampler = reader(layout, **FEW_LEAVES)
    leaves = all_leaves(sampler, "Who?")
    assert len({len(leaf) for leaf in leaves}) > 1  # some end early
    assert 5 < len(leaves) < 20
    expected = in_order(leaves, 3)
    observed = Counter(row.token_ids for row in many(sampler, "Who?"))
    assert sum(expected.values()) == pytest.approx(1)
    assert in_proportion(observed, expected) > 50


@pytest.mark.parametrize("group", [1, 7, 300])
def test_groups_of_tokens_change_nothing_but_the_noise(reader, monkeypatch, group):
    monkeypatch.setattr(gumbel, "_GROUP", group)
    sampler = reader(**FEW_LEAVES)
    leaves = all_leaves(sampler, "Who?")
    expected = in_order(leaves, 2)
    observed = Counter(row.token_ids[:2] for row in many(sampler, "Who?"))
    assert in_proportion(observed, expected) > 50


def test_rajs_estimator_is_unbiased_and_better_than_a_mean(reader):
    """The mean of t_i = Σ_{j<i} p_j k_j + k_i (1 - Σ_{j<i} p_j), of some hundred leaves and any k."""
    sampling = {**FEW_LEAVES, "num_samples": 5, "temperature": 1.0}
    sampler = reader(**sampling)

    def value(leaf):
        return sum(leaf) % 7 / 6

    leaves = all_leaves(sampler, "Who?")
    assert len(leaves) > 100
    truth = sum(prob * value(leaf) for leaf, prob in leaves.items())
    estimates = []
    for responses in many(sampler, "Who?"):
        terms, seen, sure = [], 0.0, 0.0
        for leaf, draw_log_prob in zip(responses.token_ids, responses.draw_log_probs, strict=True):
            terms.append(sure + value(leaf) * (1 - seen))
            seen, sure = seen + math.exp(draw_log_prob), sure + math.exp(draw_log_prob) * value(leaf)
        estimates.append(statistics.fmean(terms))
    error = statistics.stdev(estimates) / len(estimates) ** 0.5
    assert abs(statistics.fmean(estimates) - truth) < 3 * error
    independent = sampler.with_options(replace(sampler.options, draw="independent"))
    means = [statistics.fmean(map(value, row.token_ids)) for row in many(independent, "Who?")]
    assert statistics.variance(estimates) < 0.8 * statistics.variance(means)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.5}, {"temperature": 1.3, "top_p": 0.8}])
def test_responses_are_distinct_leaves_with_their_probabilities(reader, sampling):
    sampler = reader(num_samples=9, max_new_tokens=2, stop=(STOP,), **sampling)
    for prompt, responses in zip(PROMPTS, sampler.sample(PROMPTS), strict=True):
        leaves = all_leaves(sampler, prompt)
        assert not responses.with_replacement
        assert len(set(responses.token_ids)) == len(responses.texts) == 9
        for token_ids, log_probs, draw_log_prob in zip(
            responses.token_ids, responses.token_log_probs, responses.draw_log_probs, strict=True
        ):
            assert draw_log_prob == pytest.approx(math.log(leaves[token_ids]), abs=1e-4)
            torch.testing.assert_close(log_probs, teacher_forced(sampler, prompt, token_ids), atol=1e-4, rtol=1e-4)


def test_responses_end_as_independent_ones_do(reader):
    sampler, ways = reader(num_samples=12, max_new_tokens=4, temperature=0.7, stop=(STOP,)), Counter()
    for responses in many(sampler, "Who?", 20):
        for token_ids, text, finished in zip(responses.token_ids, responses.texts, responses.finished, strict=True):
            decoded = sampler.tokenizer.decode(token_ids)
            assert not set(token_ids[:-1]) & {2, END}
            if token_ids[-1] == END:
                assert finished
                assert text == sampler.tokenizer.decode(token_ids[:-1]).strip()
                ways["end token"] += 1
            elif STOP in decoded[1:]:
                assert finished
                assert text == decoded[: decoded.index(STOP, 1)].strip()
                ways["stop string"] += 1
            else:
                assert not finished
                assert len(token_ids) == 4
                ways["length"] += 1
    assert min(ways[way] for way in ("end token", "stop string", "length")) > 5


def test_where_fewer_leaves_are_possible_all_of_them_come(reader):
    sampler = reader(**{**FEW_LEAVES, "num_samples": 30})
    (responses,) = sampler.sample(["Who?"])
    assert set(responses.token_ids) == set(all_leaves(sampler, "Who?"))
    assert sum(map(math.exp, responses.draw_log_probs)) == pytest.approx(1)
    (greedy,) = reader(num_samples=4, max_new_tokens=5, temperature=0.0).sample(["Who?"])
    independent = sampler.with_options(SamplingOptions(num_samples=1, max_new_tokens=5, temperature=0.0))
    assert greedy.token_ids == independent.sample(["Who?"])[0].token_ids
    assert greedy.draw_log_probs == (0.0,)


def test_the_batch_the_layout_and_refilling_change_nothing(tiny_sampler):
    """In float32; rows end at different steps, prompts of unequal length, a room of three prompts."""
    options = {"draw": "without_replacement", "num_samples": 5, "max_new_tokens": 6, "stop": ("m", "e")}
    prompts = [f"{'The mill burned down. ' * (number % 4)}{number} {PROMPTS[number % 3]}" for number in range(7)]
    sampler = rebuilt(tiny_sampler, **options)
    together = sampler.sample(prompts)
    assert {len(ids) for row in together for ids in row.token_ids} >= {2, 6}
    others = [
        [sampler.sample([prompt])[0] for prompt in prompts],
        rebuilt(sampler, max_batch_tokens=1).sample(prompts),
        rebuilt(sampler, refill=True, max_batch_tokens=300).sample(prompts),
        *(rebuilt(sampler, layout=layout).sample(prompts) for layout in ("repeat", "alone", "reread")),
    ]
    for found in others:
        for one, other in zip(together, found, strict=True):
            assert one.token_ids == other.token_ids
            assert one.draw_log_probs == pytest.approx(other.draw_log_probs, abs=1e-4)
            for log_probs, expected in zip(one.token_log_probs, other.token_log_probs, strict=True):
                torch.testing.assert_close(log_probs, expected, atol=1e-4, rtol=1e-4)


def test_more_samples_extend_fewer(tiny_sampler):
    """A leaf's perturbed log-probability does not depend on the branches beside it."""
    few, many = (
        rebuilt(tiny_sampler, draw="without_replacement", num_samples=count).sample(PROMPTS) for count in (4, 9)
    )
    assert [row.token_ids for row in few] == [row.token_ids[:4] for row in many]


def test_seed_and_prompt_decide_the_noise(tiny_sampler):
    sampler = rebuilt(tiny_sampler, draw="without_replacement")
    found, again = sampler.sample(PROMPTS), sampler.sample([*PROMPTS[::-1], PROMPTS[0]])
    assert [row.token_ids for row in found] == [row.token_ids for row in again[2::-1]]
    for one, other in zip(found, rebuilt(sampler, seed=1).sample(PROMPTS), strict=True):
        assert one.token_ids != other.token_ids
    assert len({branch_word(7, ids) for ids in ([], [0], [1], [1, 0], [0, 1])} | {branch_word(8, [])}) == 6


def test_a_step_by_a_slow_loop():
    """Two families of two branches and one; all children get noise, then the best are taken."""
    generator = torch.Generator().manual_seed(1)
    log_probs = (3 * torch.randn(2, 1000, generator=generator)).log_softmax(-1)
    branches, words = [1, 0, 1], [noise("prompt", index, 0, 1)[0] for index in range(3)]
    paths, greatest = [-1.0, -3.0, 0.0], [0.5, -0.7, 0.1]
    every = best_children(log_probs, branches, words, paths, greatest, [2, 1], 2000)
    few = best_children(log_probs, branches, words, paths, greatest, [2, 1], 4)
    assert len(every[0]) == 3000
    for first, column in ((0, 0), (2000, 4)):
        for found, expected in zip(few, every, strict=True):
            assert found[column : column + 4].tolist() == expected[first : first + 4].tolist()
    parents, tokens, perturbed = every
    assert len(set(zip(parents.tolist(), tokens.tolist(), strict=True))) == 3000
    for branch in range(3):  # the greatest of a branch's children is the branch's own
        assert float(perturbed[parents == branch].max()) == pytest.approx(greatest[branch], abs=1e-12)


def test_a_slight_change_seldom_changes_the_children():
    generator = torch.Generator().manual_seed(0)
    log_probs = torch.randn(1, 49_152, generator=generator).log_softmax(-1)
    moved = log_probs + 1e-3 * torch.randn(1, 49_152, generator=generator)
    words = [noise("prompt", index, 0, 1)[0] for index in range(300)]
    rest = ([0] * 300, words, [0.0] * 300, [0.0] * 300, [1] * 300, 10)
    drawn = [best_children(scores, *rest) for scores in (log_probs, moved)]
    one, other = ({*zip(parents.tolist(), tokens.tolist(), strict=True)} for parents, tokens, _ in drawn)
    assert len(one) == 3000
    assert len(one - other) < 30


def test_an_unlikely_branch_keeps_its_numbers():
    """Path probabilities that no float holds: thousands of nats."""
    parents, tokens, perturbed = best_children(
        torch.tensor([[0.5, 0.5, 0.0]]).log(), [0], [5], [-5000.0], [-4990.0], [1], 3
    )
    assert parents.tolist() == [0, 0]
    assert set(tokens.tolist()) == {0, 1}
    assert perturbed[0] == -4990
    assert -5010 < float(perturbed[1]) < -4990


def test_a_reader_whose_cache_cannot_be_copied_is_refused_and_can_be_reread():
    model, words = BY_FAMILY["Mamba"].model(), tokenizer()
    options = {"num_samples": 3, "max_new_tokens": 3, "stop": ()}
    sampler = ResponseSampler(model, words, **options)
    message = r"draw=without_replacement needs a cache that can be copied.*layout alone.*reader_layout=reread"
    with pytest.raises(ValueError, match=message):
        rebuilt(sampler, draw="without_replacement")
    with pytest.raises(ValueError, match=message):
        sampler.with_options(replace(sampler.options, draw="without_replacement"))
    distinct = rebuilt(sampler, draw="without_replacement", layout="reread")
    with pytest.raises(ValueError, match=message):
        rebuilt(distinct, layout=None)
    assert len(set(distinct.sample(["Who?"])[0].token_ids)) == 3


@pytest.mark.parametrize("family", ["Llama", "Mistral with a window", "GPT-Neo", "BLOOM"])
def test_other_architectures_give_their_own_log_probs(family):
    """Rows that go on from one line copy it: windows and ALiBi must come along."""
    model, words = BY_FAMILY[family].model(), tokenizer()
    options = {"num_samples": 6, "max_new_tokens": 6, "stop": (), "draw": "without_replacement"}
    sampler = ResponseSampler(model, words, **options)
    sampler.check()
    prompts = ["The mill burned down in 1840. Why?", "Who?"]
    for prompt, responses in zip(prompts, sampler.sample(prompts), strict=True):
        for log_probs, token_ids in zip(responses.token_log_probs, responses.token_ids, strict=True):
            torch.testing.assert_close(log_probs, teacher_forced(sampler, prompt, token_ids), atol=1e-3, rtol=0)


def test_servers_and_readers_that_think_are_refused_before_anything_is_sampled(tiny_sampler):
    message = "draw=without_replacement needs a reader in this process that answers without thinking"
    with pytest.raises(ValueError, match=rf"{message} first, got an engine; set draw=independent"):
        EngineSampler(EngineOptions(("http://localhost:1/v1",)), tiny_sampler.tokenizer, draw="without_replacement")
    sampler = rebuilt(tiny_sampler, draw="without_replacement")
    with pytest.raises(ValueError, match=rf"{message} first, got 'reader', which thinks"):
        ThinkingSampler(sampler, ThoughtFormat(start="", end="m", answer=" So:", closed=""), 8)
    with pytest.raises(ValueError, match="draw must be independent or without_replacement, got 'all'"):
        SamplingOptions(draw="all")


def test_the_setting_reaches_the_reader_and_the_provenance(tiny_reader, tiny_entailment):
    models = {"reader": str(tiny_reader), "entailment": str(tiny_entailment), "dtype": "float32", "device": "cpu"}
    usual = load_scorer(ScorerConfig(**models), 0)
    distinct = load_scorer(ScorerConfig(**models, draw="without_replacement"), 0)
    assert usual.fingerprint["sampling"] | {"draw": "without_replacement"} == distinct.fingerprint["sampling"]
    assert usual.fingerprint["sampling"]["draw"] == "independent"
    (responses,) = distinct.reader.responses("Who?", [()])
    assert not responses.with_replacement
