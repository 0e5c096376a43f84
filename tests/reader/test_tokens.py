"""Tokens of prompts and stop strings, by kinds of tokenizer that differ from the embedded one."""

import copy
from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from seper_reward.options import ReaderOptions, SamplingOptions
from seper_reward.reader.chat import with_template
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import with_reader_defaults
from seper_reward.reader.tokens import ResponseEnds, cut_at_stop, encode_prompt, may_end_stop
from seper_reward.runtime.pretrained import LoadedModel
from tests.helpers import PROMPTS, asking, engine, prompt_ids

START, END = "<|im_start|>", "<|im_end|>"


@pytest.fixture
def framing(tiny_sampler):
    """Return a tokenizer that puts a token in front of each text and one behind it."""
    tokenizer = copy.deepcopy(tiny_sampler.tokenizer)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}",
        special_tokens=[(token, tokenizer.convert_tokens_to_ids(token)) for token in (START, END)],
    )
    tokenizer.chat_template = None
    return tokenizer


def test_encode_prompt_without_a_template(framing):
    ids = encode_prompt(framing, "Who?\nAnswer:", 50)
    assert framing.decode(framing("Who?\nAnswer:").input_ids) == f"{START}Who?\nAnswer:{END}"
    assert framing.decode(ids) == f"{START}Who?\nAnswer:"


@pytest.mark.parametrize(
    ("source", "starts"),
    [
        ("<bot>{{ messages[0].content }}", 0),  # as TinyLlama's and Zephyr's
        (f"{START}{{{{ messages[0].content }}}}", 1),
        (f"\n\n{START}{{{{ messages[0].content }}}}", 1),
    ],
)
def test_encode_prompt_with_a_template(framing, source, starts):
    tokenizer = with_template(framing, source)
    turns = [{"role": "user", "content": "Who?"}]
    ids = encode_prompt(tokenizer, tokenizer.apply_chat_template(turns, tokenize=False), 50)
    assert ids == tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
    assert ids.count(tokenizer.convert_tokens_to_ids(START)) == starts


def test_a_server_that_adds_special_tokens_has_the_same_tokenizer(tiny_sampler, framing, serve):
    sampler = ResponseSampler(tiny_sampler.model, framing, ReaderOptions(num_samples=2, max_new_tokens=4))
    assert engine(sampler, serve(sampler)).encode("Who?") == prompt_ids(sampler, "Who?")


@pytest.mark.parametrize(
    ("text", "stop", "cut"),
    [("- Paris\nBob", ["\n", "- "], "- Paris"), ("\n\nAnn", ["\n"], None), ("Ann. Bob; Cid", ["; ", ". "], "Ann")],
)
def test_cut_at_stop(text, stop, cut):
    assert cut_at_stop(text, stop) == cut


def test_may_end_stop_with_a_space():
    """Tokenizers like Llama 2's drop the space of a token that begins a text."""
    words = ["▁Ida", "▁Voss", ".", "▁More", "a", "▁a", "▁"]
    backend = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="a"))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="a")
    marked = {word for word, mark in zip(words, may_end_stop(tokenizer, [". "], 7)[0], strict=True) if mark}
    assert marked == {"▁Ida", "▁Voss", "▁More", "▁a", "▁"}
    marked = {word for word, mark in zip(words, may_end_stop(tokenizer, ["a"], 7)[0], strict=True) if mark}
    assert marked == {"▁Ida", "a", "▁a"}


def test_ends_of_given_texts_by_a_slow_loop(tiny_sampler):
    options, tokenizer = with_reader_defaults(SamplingOptions(), "org/reader"), tiny_sampler.tokenizer
    ends = ResponseEnds(tokenizer, options, {tokenizer.eos_token_id}, len(tokenizer))
    for text in ("Łódź", " The Tern Bridge.", "in 1840 ", "a"):
        given, slow = ends.given(text), {tokenizer.eos_token_id}
        for token in range(len(tokenizer)):
            before, stop, _ = tokenizer.decode([*given.token_ids, token], skip_special_tokens=True).partition("\n")
            slow |= {token} if stop and before.strip() == text.strip() else set()
        assert set(given.ends) == slow
        assert len(slow) > 1
    assert ends.with_options(replace(options, stop=["\n\n"])).given("a").ends != ends.given("a").ends


@pytest.mark.parametrize("without", [["pad_token"], ["pad_token", "eos_token"]])
def test_response_sampler_without_a_padding_token(tiny_sampler, without):
    tokenizer = copy.deepcopy(tiny_sampler.tokenizer)
    for name in without:
        setattr(tokenizer, name, None)
    expected = tiny_sampler.sample(asking(PROMPTS))
    sampler = ResponseSampler.from_pretrained(tiny_sampler.options, LoadedModel(tiny_sampler.model, tokenizer, "x"))
    assert [row.texts for row in sampler.sample(asking(PROMPTS))] == [row.texts for row in expected]
    found = sampler.log_probs(PROMPTS, [" x y", " z", " a b c"])
    for one, other in zip(found, tiny_sampler.log_probs(PROMPTS, [" x y", " z", " a b c"]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
