"""Leaves: how likely a draw is to be exactly a given response, its end included."""

import math
from dataclasses import replace

import pytest
import torch

from seper_reward import ResponseSampler
from seper_reward.data.queries import as_query
from seper_reward.reader.chat import ThoughtFormat
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import ReaderOptions
from seper_reward.reader.thinking import ThinkingSampler
from seper_reward.runtime.cache import Cache
from seper_reward.types import Leaf, Responses, UnscorableError
from tests.helpers import engine_options
from tests.reader.in_process.architectures import tokenizer
from tests.reader.in_process.test_architectures import BY_FAMILY

STOP = ("b", "in")
DRAWN = [{}, {"temperature": 0.6, "top_p": 0.9}, {"temperature": 2.0}]


@pytest.fixture(scope="module")
def reader():
    """Return a function that makes samplers of a tiny reader that says ASCII only, and often ends."""
    model, words = BY_FAMILY["Llama"].model(), tokenizer()
    readable = torch.tensor([words.decode([token]).isascii() for token in range(300)])
    bias = torch.where(readable, 0.0, -1e4)
    ends = [2, words("x").input_ids[0]]
    bias[ends] = 3.0
    model.lm_head.bias = torch.nn.Parameter(bias, requires_grad=False)
    model.generation_config.eos_token_id = ends

    def with_options(layout=None, **sampling):
        sampling = {"max_new_tokens": 4, "stop": STOP, **sampling}
        return ResponseSampler(model, words, options=ReaderOptions(layout=layout), **sampling)

    return with_options


def next_probs(sampler, ids, *, drawn):
    """Return the probability of each next token, at temperature 1 or as it is drawn."""
    options = sampler.options
    with torch.no_grad():
        logits = sampler._model(torch.tensor([ids])).logits[0, -1].double()
    if not drawn:
        return logits.softmax(-1).tolist()
    probs, nucleus = (logits / options.temperature).softmax(-1).tolist(), {}
    for token in sorted(range(len(probs)), key=probs.__getitem__, reverse=True):
        if sum(nucleus.values()) < options.top_p:
            nucleus[token] = probs[token]
    return [nucleus.get(token, 0.0) / sum(nucleus.values()) for token in range(len(probs))]


def slow_leaf(sampler, prompt, text, *, drawn):
    """Return the product of softmaxes, times the sum over all tokens after which the response is over and the same."""
    ids, words = sampler._encode(prompt), sampler.tokenizer
    tokens, prob = words(text).input_ids, 1.0
    for token in tokens:
        prob *= next_probs(sampler, ids, drawn=drawn)[token]
        ids = [*ids, token]
    ending = 0.0
    for token, after in enumerate(next_probs(sampler, ids, drawn=drawn)):
        whole = words.decode([*tokens, token]).lstrip()
        starts = [whole.find(string, 1) for string in sampler.options.stop]
        cut = [whole[:start].strip() for start in starts if start > 0]
        if token in (2, words("x").input_ids[0]) or (cut and min(cut, key=len) == text.strip()):
            ending += after
    return prob * ending


@pytest.mark.parametrize("layout", ["tree", "alone", "reread"])
@pytest.mark.parametrize("sampling", DRAWN)
def test_a_leaf_is_the_product_of_softmaxes_and_all_its_ends(reader, layout, sampling):
    sampler = reader(layout, max_new_tokens=8, **sampling)
    texts = ["a", " the", "mill s"]
    prompts = ["Who?"] * 3 + ["The mill burned down. When?"] * 3
    found = sampler.leaves(prompts, texts * 2)
    for prompt, text, leaf in zip(prompts, texts * 2, found, strict=True):
        assert leaf.text == text.strip()
        assert leaf.token_ids == tuple(sampler.tokenizer(text).input_ids)
        assert math.exp(leaf.log_prob) == pytest.approx(slow_leaf(sampler, prompt, text, drawn=False), rel=1e-3)
        expected = slow_leaf(sampler, prompt, text, drawn=True)
        assert math.exp(leaf.draw_log_prob) == pytest.approx(expected, rel=1e-3)
    assert len({len(leaf.token_ids) for leaf in found}) > 1


def test_ends_are_end_tokens_and_those_that_complete_a_stop_string_and_add_nothing(reader):
    sampler = reader(stop=("in", "b"))
    words, writer = sampler.tokenizer, sampler._rows
    (end,) = words("x").input_ids
    named = {words.decode([token]) for token in writer.ends(words("a").input_ids) if token not in (2, end)}
    assert named >= {"b", " b", "in", " in"}
    assert all(name.strip().startswith(("b", "in")) for name in named)
    # "i" is a text of its own, and "n" completes the stop string with its help, so that the text would be another
    assert set(writer.ends(words("i").input_ids)) >= {2, end, words("b").input_ids[0]}
    assert words("n").input_ids[0] not in writer.ends(words("i").input_ids)


@pytest.mark.parametrize("draw", ["independent", "without_replacement"])
def test_leaves_come_among_samples_as_often_as_they_are_likely(reader, draw):
    sampler = reader(draw=draw, num_samples=3 if draw == "independent" else 1, temperature=0.7)
    characters = [chr(code) for code in range(33, 127) if chr(code) not in "xb"]
    leaves = sampler.leaves(["Who?"] * len(characters), characters)
    leaf = max(leaves, key=lambda leaf: leaf.draw_log_prob)
    prob = math.exp(leaf.draw_log_prob)
    assert prob > 0.02
    names = [f"round {number}" for number in range(1500)]  # they decide the noise
    sampled = sampler._sample_batch(dict.fromkeys(names, sampler._encode("Who?")), 1, None, "tree", names)
    hits, draws = sum(len(leaf.among(row)) for row in sampled), sum(len(row.texts) for row in sampled)
    assert abs(hits - prob * draws) < 3.5 * (prob * (1 - prob) * draws) ** 0.5


def test_all_leaves_that_draw_a_text_sum_to_its_leaf(reader):
    """Without replacement, with room for every response within the nucleus: nothing is left out or counted twice."""
    sampler = reader(draw="without_replacement", num_samples=3000, max_new_tokens=3, temperature=0.7, top_p=0.9)
    (responses,) = sampler.sample(["Who?"])
    assert sum(map(math.exp, responses.draw_log_probs)) == pytest.approx(1, abs=1e-5)
    texts = {text for text in responses.texts if text}
    compared, several, ends = 0, 0, set()
    for leaf in sampler.leaves(["Who?"] * len(texts), sorted(texts)):
        same = leaf.among(responses)
        expected = sum(math.exp(responses.draw_log_probs[place]) for place in same)
        assert math.exp(leaf.draw_log_prob) == pytest.approx(expected, abs=1e-6)
        compared += bool(same)
        several += len(same) > 1
        ends |= {responses.finished[place] for place in same}
    assert compared > 50
    assert several > 5  # ways to end the same text
    assert ends == {True, False}


def test_a_text_that_no_response_can_be(reader):
    sampler = reader()
    cut, ended, long, whole = sampler.leaves(["Who?"] * 4, ["abc", "axc", "acdef", "acde"])
    for leaf in (cut, ended, long):
        assert leaf.log_prob == leaf.draw_log_prob == -math.inf
    assert long.token_ids == tuple(sampler.tokenizer("acdef").input_ids)
    forced = sampler.log_probs(["Who?"], ["acde"])[0]
    assert len(forced) == 4  # the greatest length, so that no end follows
    assert whole.log_prob == pytest.approx(float(forced.sum()), abs=1e-4)
    with pytest.raises(UnscorableError, match="at least one token"):
        sampler.leaves(["Who?"], [""])


def test_a_leaf_is_found_among_responses_by_its_tokens_and_an_end():
    rows = [
        ("Paris", (5, 6, 2), True),
        ("Paris", (5, 6, 3), True),
        ("Paris", (5, 6, 7, 2), True),  # another tokenization
        ("Paris", (7, 2), True),
        ("Paris.", (5, 6, 9), True),  # the stop string came with a full stop
        ("Paris", (5, 6, 8), False),  # went on with a blank
        ("Paris", (5, 6), False),  # the greatest length
    ]
    texts, token_ids, finished = zip(*rows, strict=True)
    assert Leaf("Paris", (5, 6), -1.0, -1.0).among(Responses(texts, (), token_ids, finished)) == [0, 1, 6]


def test_leaves_of_answers_are_kept_by_what_decides_them(reader, tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    passages = as_query({"question": "Who?", "answers": ["a"], "passages": ["Ann did.", "It rained."]}).passages
    asked = ("Who?", ["a", "c", "a b"], [(), passages[:1], passages])
    sampler = reader(num_samples=2)
    prompted = PromptedReader(sampler, prompt="brief", cache=cache)
    found = prompted.answer_leaves(*asked)
    assert [len(row) for row in found] == [3, 3, 3]
    assert found[0][2].log_prob == -math.inf  # which JSON has no number for
    for prompt, row in zip(prompted.build_prompts("Who?", asked[2]), found, strict=True):
        (expected,) = sampler.leaves([prompt], [prompted.prompts.response_text("a")])
        assert row[0].token_ids == expected.token_ids
        assert row[0].log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    misses = cache.misses
    other_seed = sampler.with_options(replace(sampler.options, seed=4, num_samples=7))
    assert PromptedReader(other_seed, prompt="brief", cache=cache).answer_leaves(*asked) == found
    assert cache.misses == misses
    for change in ({"temperature": 0.5}, {"top_p": 0.5}, {"max_new_tokens": 2}, {"stop": ("\n",)}):
        changed = sampler.with_options(replace(sampler.options, **change))
        assert PromptedReader(changed, prompt="brief", cache=cache).answer_leaves(*asked) != found
    assert cache.misses == misses + 4 * 9


def test_servers_and_readers_that_think_know_no_leaves(tiny_sampler, serve):
    options, sampling = engine_options([serve().url], **vars(tiny_sampler.options))
    engine = EngineSampler(options, tiny_sampler.tokenizer, **sampling)
    thinking = ThinkingSampler(tiny_sampler, ThoughtFormat(start="", end="m", answer=" So:", closed=""), 8)
    for sampler in (engine, thinking):
        assert not sampler.knows_leaves
        with pytest.raises(ValueError, match=r"backend=process|thinking=off"):
            sampler.leaves(["Who?"], ["Ann"])
    assert PromptedReader(engine, prompt="brief").answer_leaves("Who?", ["Ann"], [()]) is None
