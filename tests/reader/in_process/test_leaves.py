"""Leaves: how likely a draw is to be exactly a given response, its end included."""

import itertools
import math

import pytest
import torch

from seper_reward.options import ReaderOptions
from seper_reward.reader.in_process import decoding
from seper_reward.reader.in_process.decoding import TreeDecoder
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.prompted import PromptedReader
from seper_reward.runtime.cache import Cache
from seper_reward.types import Asked, Leaf, Passage, Responses, UnscorableError
from tests.helpers import PROMPTS, asking, leaves_of, prompt_ids, rebuilt
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
        return ResponseSampler(model, words, ReaderOptions(**sampling), layout=layout)

    return with_options


def next_probs(sampler, ids, *, drawn):
    """Return the probability of each next token, at temperature 1 or as it is drawn."""
    options = sampler.options
    with torch.no_grad():
        logits = sampler.model(torch.tensor([ids])).logits[0, -1].double()
    if not drawn:
        return logits.softmax(-1).tolist()
    probs, nucleus = (logits / options.temperature).softmax(-1).tolist(), {}
    for token in sorted(range(len(probs)), key=probs.__getitem__, reverse=True):
        if sum(nucleus.values()) < options.top_p:
            nucleus[token] = probs[token]
    return [nucleus.get(token, 0.0) / sum(nucleus.values()) for token in range(len(probs))]


def slow_leaf(sampler, prompt, text, *, drawn):
    """Return the product of softmaxes, times the sum over all tokens after which the response is over and the same."""
    ids, words = prompt_ids(sampler, prompt), sampler.tokenizer
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
    found = leaves_of(sampler, prompts, texts * 2)
    for prompt, text, leaf in zip(prompts, texts * 2, found, strict=True):
        assert leaf.text == text.strip()
        assert leaf.token_ids == tuple(sampler.tokenizer(text).input_ids)
        assert math.exp(leaf.log_prob) == pytest.approx(slow_leaf(sampler, prompt, text, drawn=False), rel=1e-3)
        expected = slow_leaf(sampler, prompt, text, drawn=True)
        assert math.exp(leaf.draw_log_prob) == pytest.approx(expected, rel=1e-3)
    assert len({len(leaf.token_ids) for leaf in found}) > 1


def ended(sampler, token_ids):
    """Return the text of a response of these tokens, and whether the last one ends it."""
    words, end = sampler.tokenizer, token_ids[-1] in (2, sampler.tokenizer("x").input_ids[0])
    text = words.decode(token_ids[:-1] if end else token_ids, skip_special_tokens=True).lstrip()
    cut = [text[:place] for place in (text.find(string, 1) for string in sampler.options.stop) if place > 0]
    return min([text, *cut], key=len).strip(), end or bool(cut)


def test_samples_end_at_end_tokens_and_stop_strings(reader):
    sampler = reader(num_samples=80, max_new_tokens=8)
    (row,) = sampler.sample(asking(["Who?"]))
    for text, token_ids, finished in zip(row.texts, row.token_ids, row.finished, strict=True):
        assert (text, finished) == ended(sampler, token_ids)
        assert not any(ended(sampler, token_ids[:length])[1] for length in range(1, len(token_ids)))
        assert finished or len(token_ids) == 8
    lasts = [sampler.tokenizer.decode([ids[-1]]) for ids in row.token_ids]
    assert {"x", "b"} <= set(lasts)


def all_responses(sampler, prompt):
    """Return every response that can be drawn, once, with its probability: the slow loop."""
    start, rows, begun = prompt_ids(sampler, prompt), [], [((), 0.0)]
    while begun:
        before, log_prob = begun.pop()
        for token, prob in enumerate(next_probs(sampler, [*start, *before], drawn=True)):
            if not prob:
                continue
            token_ids, total = (*before, token), log_prob + math.log(prob)
            text, finished = ended(sampler, token_ids)
            if finished or len(token_ids) == sampler.options.max_new_tokens:
                rows.append((text, token_ids, finished, total))
            else:
                begun.append((token_ids, total))
    texts, token_ids, finished, draw_log_probs = zip(*rows, strict=True)
    return Responses(texts, (), token_ids, finished, draw_log_probs)


def test_all_leaves_that_draw_a_text_sum_to_its_leaf(reader):
    """Nothing within the nucleus is left out or counted twice."""
    sampler = reader(max_new_tokens=3, temperature=0.6, top_p=0.85)
    responses = all_responses(sampler, "Who?")
    assert sum(map(math.exp, responses.draw_log_probs)) == pytest.approx(1, abs=1e-5)
    texts = {text for text in responses.texts if text}
    compared, several, ends = 0, 0, set()
    for leaf in leaves_of(sampler, ["Who?"] * len(texts), sorted(texts)):
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
    cut, ended, long, whole = leaves_of(sampler, ["Who?"] * 4, ["abc", "axc", "acdef", "acde"])
    for leaf in (cut, ended, long):
        assert leaf.log_prob == leaf.draw_log_prob == -math.inf
    assert long.token_ids == tuple(sampler.tokenizer("acdef").input_ids)
    forced = sampler.log_probs(["Who?"], ["acde"])[0]
    assert len(forced) == 4  # the greatest length, so that no end follows
    assert whole.log_prob == pytest.approx(float(forced.sum()), abs=1e-4)
    with pytest.raises(UnscorableError, match="at least one token"):
        leaves_of(sampler, ["Who?"], [""])


@pytest.mark.parametrize("options", [{}, {"layout": "repeat"}, {"layout": "alone"}, {"layout": "reread"}], ids=str)
def test_leaves_come_with_the_responses_which_stay_the_same_to_the_bit(tiny_sampler, options):
    sampler = rebuilt(tiny_sampler, max_new_tokens=6, temperature=0.8, top_p=0.95, **options)
    start = "The mill burned down in 1840, says the parish book. "  # read once for all
    prompts = [*PROMPTS, *(start + prompt for prompt in PROMPTS)]
    given = {prompts[0]: [" honey", " the mill of Voss"], prompts[4]: [" in 1840"], prompts[5]: ["4", " 4\n4", "m"]}
    found = sampler.sample(asking(prompts, given, dict.fromkeys(prompts[::2], "?")))
    without = sampler.sample(asking(prompts))
    assert [row.question_log_prob is None for row in found] == [False, True] * 3
    for prompt, row, expected in zip(prompts, found, without, strict=True):
        assert row.token_ids == expected.token_ids
        assert row.draw_log_probs == expected.draw_log_probs
        assert all(map(torch.equal, row.token_log_probs, expected.token_log_probs))
        texts = given.get(prompt, [])
        assert len(row.known_leaves) == len(texts)
        assert expected.known_leaves == ()
        for leaf, apart in zip(row.known_leaves, leaves_of(sampler, [prompt] * len(texts), texts), strict=True):
            assert (leaf.text, leaf.token_ids) == (apart.text, apart.token_ids)
            assert leaf.log_prob == pytest.approx(apart.log_prob, abs=1e-3)
            assert leaf.draw_log_prob == pytest.approx(apart.draw_log_prob, abs=1e-3)


@pytest.mark.parametrize("limit", [10_000, 40, 1])
def test_given_texts_are_read_in_turns_and_no_prompt_twice(tiny_sampler, monkeypatch, limit):
    sampler = rebuilt(tiny_sampler, max_new_tokens=6)
    texts = [" honey", " the mill of Voss", "4", "m", " in 1840"]
    given = {prompt: texts[: 3 + place] for place, prompt in enumerate(PROMPTS)}
    monkeypatch.setattr(decoding, "_CPU_GIVEN_TOKENS", limit)
    prefill, forced_logits, read = TreeDecoder.prefill, TreeDecoder.forced_logits, []

    def prefill_prompts(decoder, prompts, spans=()):
        read.extend(prompts)
        return prefill(decoder, prompts, spans)

    def force_texts(decoder, texts):
        read.extend(itertools.chain.from_iterable(texts))
        return forced_logits(decoder, texts)

    monkeypatch.setattr(TreeDecoder, "prefill", prefill_prompts)
    monkeypatch.setattr(TreeDecoder, "forced_logits", force_texts)
    found = sampler.sample(asking(PROMPTS, given))
    leaves = [leaf for row in found for leaf in row.known_leaves]
    prompt_tokens = sum(len(sampler.tokenizer(prompt).input_ids) for prompt in PROMPTS)
    assert sum(map(len, read)) == prompt_tokens + sum(len(leaf.token_ids[:6]) for leaf in leaves)
    for prompt, row in zip(PROMPTS, found, strict=True):
        apart = leaves_of(sampler, [prompt] * len(given[prompt]), given[prompt])
        assert [leaf.text for leaf in row.known_leaves] == [leaf.text for leaf in apart]
        assert [leaf.log_prob for leaf in row.known_leaves] == pytest.approx(
            [leaf.log_prob for leaf in apart], abs=1e-3
        )


def test_leaves_of_answers_are_cached_with_the_responses(reader, tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    sampler = reader(num_samples=2)
    prompted = PromptedReader(sampler, prompt="brief", cache=cache)
    asked = [Asked("Who?", (), ((), (Passage("Ann did."),)))]
    prompts = [prompted.prompts.build("Who?", context) for context in asked[0].contexts]
    (without,) = prompted.responses(asked)
    (found,) = prompted.responses(asked, [["a", "a b"]])
    for prompt, row, expected in zip(prompts, found, without, strict=True):
        assert row.token_ids == expected.token_ids
        likely, cut = row.known_leaves
        (apart,) = leaves_of(sampler, [prompt], [prompted.prompts.response_text("a")])
        assert likely.token_ids == apart.token_ids
        assert likely.log_prob == pytest.approx(apart.log_prob, abs=1e-4)
        assert cut.log_prob == cut.draw_log_prob == -math.inf  # for which JSON has no number
    assert (cache.hits, cache.misses) == (0, 4)
    (again,) = prompted.responses(asked, [["a", "a b"]])
    assert again == found
    assert all(row.question_log_prob < 0 for row in again)
    assert (cache.hits, cache.misses) == (2, 4)
    prompted.responses(asked, [["a"]])
    assert (cache.hits, cache.misses) == (2, 6)


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
    assert Leaf("Paris", (5, 6), -1.0, -1.0, -0.5).among(Responses(texts, (), token_ids, finished)) == [0, 1, 6]
