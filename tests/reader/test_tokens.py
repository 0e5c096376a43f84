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
from seper_reward.reader.loading import load_reader, load_tokenizer, with_reader_defaults
from seper_reward.reader.tokens import ResponseEnds, encode_prompt, may_end_stop
from seper_reward.runtime.pretrained import EMBEDDED, LoadedModel
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


def test_a_prompt_without_a_template_begins_with_special_tokens_and_ends_with_none(framing):
    ids = encode_prompt(framing, "Who?\nAnswer:", 50)
    assert framing.decode(framing("Who?\nAnswer:").input_ids) == f"{START}Who?\nAnswer:{END}"
    assert framing.decode(ids) == f"{START}Who?\nAnswer:"


@pytest.mark.parametrize(
    ("source", "starts"),
    [
        (
            "<bot>{{ messages[0].content }}",
            0,
        ),  # as TinyLlama's and Zephyr's
        (f"{START}{{{{ messages[0].content }}}}", 1),
        (f"\n\n{START}{{{{ messages[0].content }}}}", 1),
    ],
)
def test_a_template_writes_its_special_tokens_itself(framing, source, starts):
    tokenizer = with_template(framing, source)
    turns = [{"role": "user", "content": "Who?"}]
    ids = encode_prompt(tokenizer, tokenizer.apply_chat_template(turns, tokenize=False), 50)
    assert ids == tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
    assert ids.count(tokenizer.convert_tokens_to_ids(START)) == starts


def test_a_server_that_adds_special_tokens_has_the_same_tokenizer(tiny_sampler, framing, serve):
    sampler = ResponseSampler(tiny_sampler._model, framing, ReaderOptions(num_samples=2, max_new_tokens=4))
    assert engine(sampler, serve(sampler)).encode("Who?") == prompt_ids(sampler, "Who?")


def test_stop_strings_that_end_in_a_space():
    """Tokenizers like Llama 2's drop the space of a token that begins a text."""
    words = ["▁Ida", "▁Voss", ".", "▁More", "a", "▁a", "▁"]
    backend = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="a"))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="a")
    marked = {word for word, mark in zip(words, may_end_stop(tokenizer, [". "], 7)[0], strict=True) if mark}
    assert marked == {"▁Ida", "▁Voss", "▁More", "▁a", "▁"}
    marked = {word for word, mark in zip(words, may_end_stop(tokenizer, ["a"], 7)[0], strict=True) if mark}
    assert marked == {"▁Ida", "a", "▁a"}


def test_usual_ends_are_those_that_decoding_every_continuation_finds(tiny_sampler):
    options = with_reader_defaults(SamplingOptions(), "org/reader")
    for tokenizer in (tiny_sampler.tokenizer, load_tokenizer(EMBEDDED)):
        ends = ResponseEnds(tokenizer, options, {tokenizer.eos_token_id}, len(tokenizer))
        slow = copy.copy(ends)
        slow._usual_ends = None
        for text in ("Łódź", " The Tern Bridge.", "in 1840 ", "½", "a"):
            assert ends.given(text) == slow.given(text)
            assert len(ends.given(text).ends) > 1
        assert ends.with_options(replace(options, stop=["\n\n"])).given("a").ends != ends.given("a").ends


@pytest.mark.parametrize("without", [["pad_token"], ["pad_token", "eos_token"]])
def test_a_tokenizer_without_padding(tiny_sampler, tiny_reader, tmp_path, without):
    tokenizer = copy.deepcopy(tiny_sampler.tokenizer)
    for name in without:
        setattr(tokenizer, name, None)
    expected = tiny_sampler.sample(asking(PROMPTS))
    options = tiny_sampler.options
    sampler = ResponseSampler.from_pretrained(options, LoadedModel(tiny_sampler._model, tokenizer, "x"))
    assert [row.texts for row in sampler.sample(asking(PROMPTS))] == [row.texts for row in expected]
    found = sampler.log_probs(PROMPTS, [" x y", " z", " a b c"])
    for one, other in zip(found, tiny_sampler.log_probs(PROMPTS, [" x y", " z", " a b c"]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    tokenizer.save_pretrained(tmp_path)
    tiny_sampler._model.save_pretrained(tmp_path)
    loaded = load_reader(str(tmp_path), ReaderOptions(dtype="float32", device="cpu"))
    again = ResponseSampler.from_pretrained(options, loaded)
    assert [row.texts for row in again.sample(asking(PROMPTS))] == [row.texts for row in expected]
