"""The likelihood of a prompt's question, from the prefill of the prompt."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from seper_reward.reader.in_process import decoding
from seper_reward.reader.in_process.scored_tokens import Place, forward
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.prompts import PromptStyle
from seper_reward.reader.tokens import find_tokens
from seper_reward.types import Asked, Passage
from tests.helpers import asking, prompt_ids, rebuilt

QUESTION = "When did the mill burn down?"
OTHER = "Who built Łódź's 縮絨 mill, and why?"
START = "Answer the question.\nPassage: "
#: prompts of unequal length with a common start; a passage repeats the question, or the prompt ends with it
PROMPTS = {
    f"{START}{QUESTION} In 1840. {QUESTION} Nobody knows.\nQuestion: {QUESTION}\nAnswer:": QUESTION,
    f"{START}The mill was built by Peter Voss.\nQuestion: {OTHER}\nAnswer:": OTHER,
    f"{START}It burned.\nQuestion: {QUESTION}": QUESTION,
    f"{START}{QUESTION}\nAnswer in a word:": QUESTION,
    f"{START}{QUESTION}\nAnswer in two words:": QUESTION,
    QUESTION: QUESTION,
}


def expected(sampler, prompt, question):
    """Return the mean over tokens with a byte of the question, each from a plain call with all tokens before it."""
    ids, words = prompt_ids(sampler, prompt), sampler.tokenizer
    start = len(prompt[: prompt.rindex(question)].encode())
    end = start + len(question.encode())
    before, found = 0, []
    for place, token in enumerate(ids):
        size = len(words.convert_ids_to_tokens(token))  # a letter of a byte-level token is a byte
        if place and before < end and before + size > start:
            with torch.no_grad():
                logits = sampler.model(input_ids=torch.tensor([ids[:place]])).logits[0, -1].double()
            found.append(float(logits.log_softmax(-1)[token]))
        before += size
    assert before == len(prompt.encode())
    return math.fsum(found) / len(found)


@pytest.mark.parametrize("layout", ["tree", "repeat", "alone", "reread"])
def test_it_is_the_mean_over_the_questions_tokens(tiny_sampler, layout):
    sampler = rebuilt(tiny_sampler, num_samples=3, layout=layout)
    found = sampler.sample(asking(list(PROMPTS), questions=PROMPTS))
    for row, (prompt, question) in zip(found, PROMPTS.items(), strict=True):
        assert row.question_log_prob == pytest.approx(expected(sampler, prompt, question), abs=1e-4)
    # two prompts differ only after the question
    assert len({row.question_log_prob for row in found}) == len(PROMPTS) - 1


def test_a_common_start_may_end_in_the_question(tiny_sampler, monkeypatch):
    """The first token after the common start differs between prompts, and is predicted by the last shared one."""
    prompts = {f"{START}{QUESTION} {tail}": f"{QUESTION} {tail}" for tail in ("Ann says 1840.", "Bob says 1842, no?")}
    plain = tiny_sampler.sample(asking(list(prompts)))
    for tokens in (1024, 1):
        monkeypatch.setattr(decoding, "_CPU_PREFILL_TOKENS", tokens)
        found = tiny_sampler.sample(asking(list(prompts), questions=prompts))
        for row, other, (prompt, question) in zip(found, plain, prompts.items(), strict=True):
            assert row.question_log_prob == pytest.approx(expected(tiny_sampler, prompt, question), abs=1e-4)
            assert row.token_ids == other.token_ids


def test_tokens_of_the_last_occurrence_are_found(tiny_sampler):
    words = tiny_sampler.tokenizer
    prompt = f"縮絨 {OTHER} 縮絨: {OTHER} Why?"
    span = find_tokens(words, prompt, OTHER)
    assert OTHER in words.decode(prompt_ids(tiny_sampler, prompt)[span.start : span.stop])
    assert len(words.decode(prompt_ids(tiny_sampler, prompt)[span.start : span.stop])) <= len(OTHER) + 1
    assert span.start > len(words(f"縮絨 {OTHER} 縮").input_ids) - 1
    assert find_tokens(words, "Who?", "Why?") == find_tokens(words, "Who?", "") == range(0)
    assert 0 not in find_tokens(words, "Who?", "Who?")


def test_a_model_that_does_not_call_its_output_layer_has_none(tiny_sampler, monkeypatch):
    model = tiny_sampler.model
    ids = torch.tensor([[5, 6, 7]])
    logits, found = forward(model, ends=[2], places=[Place(0, 0, 6), Place(0, 1, 7)], input_ids=ids)
    with torch.no_grad():
        plain = model(input_ids=ids).logits
    torch.testing.assert_close(logits, plain[:, -1])
    assert found == pytest.approx([float(plain[0, at].log_softmax(-1)[at + 6]) for at in (0, 1)], abs=1e-5)
    unused = torch.nn.Linear(2, 2)
    monkeypatch.setattr(model, "get_output_embeddings", lambda: unused)
    logits, found = forward(model, ends=[2], places=[Place(0, 0, 6)], input_ids=ids)
    torch.testing.assert_close(logits, plain[:, -1])
    assert math.isnan(found[0])


def test_a_prompt_that_asks_before_the_passage_has_none(tiny_sampler):
    style = PromptStyle("Question: {question}", "Question: {question}\nPassage: {reference}")
    reader = PromptedReader(tiny_sampler, prompt=style)
    ((bare, shown),) = reader.responses([Asked("Who?", (), ((), (Passage("Who? Ann."),)))])
    assert bare.question_log_prob is shown.question_log_prob is None


def test_threads_share_a_model(tiny_sampler):
    requests = asking(list(PROMPTS), questions=PROMPTS)
    expected = [tiny_sampler.sample([each])[0] for each in requests]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: tiny_sampler.sample([each])[0], requests * 5))
    assert found == expected * 5
    assert [row.question_log_prob for row in found] == [row.question_log_prob for row in expected] * 5
