"""Which parts of passages are kept: by hand, with scripted scores, and against plain calls of the reader."""

from types import SimpleNamespace

import numpy as np
import pytest

from seper_reward.baselines.compressors import (
    LongLLMLingua,
    above_percentile,
    load_compressor,
    span_means,
    split_sentences,
    within_budget,
)
from seper_reward.types import Passage
from tests.helpers import teacher_forced

MILL = Passage(
    "Sheep graze here. Ida Voss runs the mill. It rains.", title="Mill", id="p1", metadata={"relevant": True}
)
FERRY = Passage("The ferry sank. Nobody drowned!", id="p2")


def test_above_percentile_by_hand():
    scores = [1.0, 5.0, 3.0, 2.0, 4.0]
    assert above_percentile(scores, 0.4) == [1, 4]  # the 60th percentile is 3.4
    assert above_percentile(scores, 1.0) == [0, 1, 2, 3, 4]
    assert above_percentile([2.0, 2.0, 1.0], 0.5) == [0, 1]  # ties at the threshold stay
    assert above_percentile([7.0], 0.01) == [0]
    assert above_percentile([], 0.5) == []


def test_within_budget_by_hand():
    scores, lengths = [-3.0, -1.0, -2.0], [10, 4, 6]
    assert within_budget(scores, lengths, 0.5) == [1, 2]  # 4 + 6 of 10 tokens
    assert within_budget(scores, lengths, 0.51) == [1, 2, 0]  # the one that uses it up is kept whole
    assert within_budget(scores, lengths, 0.01) == [1]
    assert within_budget([0.0, -1.0], [55, 45], 0.55) == [0]  # 0.55 * 100 is above 55 in floats
    assert within_budget([], [], 0.5) == []


def test_span_means_by_hand():
    found = span_means([(0, 3), (4, 9), (12, 13)], [(0, 3), (3, 6), (6, 9)], [1.0, 2.0, 5.0])
    assert found == [1.0, 3.5, 0.0]


def test_split_sentences():
    assert split_sentences(FERRY.text) == ["The ferry sank.", "Nobody drowned!"]
    assert split_sentences("Mr. Voss, i.e. Ida's son, left.  Why? ") == ["Mr. Voss, i.e. Ida's son, left.", "Why?"]


def informative(reader, texts, question=None):
    """The slow reference: the self-information of each word of each text, or the part that a question removes."""
    tokenizer = reader.sampler.tokenizer
    for text in texts:
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        info = -teacher_forced(reader.sampler, tokenizer.bos_token, encoded.input_ids)
        if question is not None:
            info += teacher_forced(reader.sampler, f"{question}\n", encoded.input_ids)
        place = 0
        for word in text.split(" "):
            inside = [
                at for at, (low, high) in enumerate(encoded["offset_mapping"]) if place < high <= place + len(word)
            ]
            yield word, float(info[inside].mean())
            place += len(word) + 1


@pytest.mark.parametrize("name", ["selective_context", "contrastive_perplexity"])
def test_compressors_of_words(tiny_scorer, name):
    """Kept are the words that the reader could not guess, or that the question makes likelier."""
    reader, question = tiny_scorer.reader, "Who runs the mill?"
    informed = question if name == "contrastive_perplexity" else None
    scored = [list(informative(reader, split_sentences(each.text), informed)) for each in (MILL, FERRY)]
    threshold = np.percentile([score for row in scored for _, score in row], 70)
    texts = [" ".join(word for word, score in row if score >= threshold) for row in scored]
    found = load_compressor(name, reader, 0.3).compress(question, [MILL, FERRY])
    assert [passage.text for passage in found] == [text for text in texts if text]
    assert sum(len(passage.text.split()) for passage in found) == 5  # of 15 words
    assert load_compressor(name, reader, 1.0).compress(question, [MILL, FERRY]) == (MILL, FERRY)


def scripted(monkeypatch, scores):
    """Give texts these scores, and return the pairs that a reader was asked about."""
    asked = []

    def token_log_probs(reader, prompts, texts):
        asked.extend(zip(prompts, texts, strict=True))
        keys = [prompt if prompt in scores else text for prompt, text in zip(prompts, texts, strict=True)]
        return [[scores[key] - 1, scores[key] + 1] for key in keys]

    monkeypatch.setattr("seper_reward.baselines.compressors.token_log_probs", token_log_probs)
    return asked


def test_longllmlingua_by_hand(tiny_scorer, monkeypatch):
    middle = Passage("Fog.", id="p3")
    reader, asked = tiny_scorer.reader, scripted(monkeypatch, {MILL.full_text: -2.0, FERRY.text: -1.0, "Fog.": -4.0})
    assert LongLLMLingua(reader, 0.7).compress("Who runs it?", [MILL, middle, FERRY]) == (FERRY, MILL)
    assert LongLLMLingua(reader, 0.1).compress("Who runs it?", [MILL, middle, FERRY]) == (FERRY,)
    assert {text for _, text in asked} == {
        " Who runs it? We can get the answer to this question in the given documents."
    }
    assert LongLLMLingua(reader).compress("Who?", []) == ()


@pytest.mark.parametrize("name", ["selective_context", "longllmlingua"])
def test_load_compressor_refuses_a_bad_setting(tiny_scorer, name):
    for keep in (0.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"keep must be in \(0, 1\], got"):
            load_compressor(name, tiny_scorer.reader, keep)
    with pytest.raises(ValueError, match="compressions must be none or of selective_context, longllmlingua, contrast"):
        load_compressor("zip", tiny_scorer.reader)
    slow = SimpleNamespace(sampler=SimpleNamespace(tokenizer=SimpleNamespace(is_fast=False)))
    with pytest.raises(ValueError, match="needs a fast tokenizer; use longllmlingua"):
        load_compressor("selective_context", slow)
