"""ThinkingSampler: responses follow whole thoughts, and only they count."""

import pytest
import torch

from seper_reward import SePerScorer
from seper_reward.reader.chat import ChatOptions, ThoughtFormat, with_template
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.sampler import ThoughtOptions
from seper_reward.reader.thinking import ThinkingSampler
from seper_reward.reader.tokens import cut_at_stop
from seper_reward.types import Asked, UnscorableError, unwrap
from tests.helpers import PROMPTS, engine, rebuilt, teacher_forced

# the tiny reader says "m" often, but not always: here that ends a thought
THOUGHT = ThoughtFormat(start="", end="m", answer=" So:", closed="")
LONGEST = 8


def whole_prompt(sampler, prompt, ids):
    text = sampler.tokenizer.decode(ids, skip_special_tokens=False)
    return f"{prompt}{text.split('m')[0]}m So:" if "m" in text else None


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_responses_follow_the_thoughts(tiny_sampler, temperature):
    sampler = rebuilt(tiny_sampler, temperature=temperature, num_samples=8, max_new_tokens=6)
    thoughts = sampler.with_options(
        ThoughtOptions(num_samples=8, temperature=temperature, max_new_tokens=LONGEST, stop=("m",))
    ).sample(PROMPTS)
    found = ThinkingSampler(sampler, THOUGHT, LONGEST).sample(PROMPTS)
    whole = 0
    for prompt, thought, responses in zip(PROMPTS, thoughts, found, strict=True):
        assert len(responses.texts) == 8
        for ids, said, log_probs, finished in zip(
            thought.token_ids, responses.token_ids, responses.token_log_probs, responses.finished, strict=True
        ):
            answered = whole_prompt(sampler, prompt, ids)
            if answered is None:
                assert not finished  # the thought was closed at its greatest length
                continue
            whole += 1
            forced = teacher_forced(sampler, answered, said)
            torch.testing.assert_close(log_probs, forced, atol=1e-4, rtol=1e-4)
    assert 0 < whole < 24


def test_equal_thoughts_do_not_make_equal_responses(tiny_sampler):
    sampler = rebuilt(tiny_sampler, num_samples=6, max_new_tokens=6)

    class Silent(ThinkingSampler):
        def _with_thoughts(self, prompt, thoughts):
            return [(f"{prompt} So:", True) for _ in thoughts.texts]

    (found,) = Silent(sampler, THOUGHT, LONGEST).sample(PROMPTS[:1])
    (expected,) = sampler.sample([f"{PROMPTS[0]} So:"])
    assert sorted(found.texts) == sorted(expected.texts)
    assert len(set(found.texts)) > 1


def test_a_thought_or_response_that_fails_leaves_the_others_theirs(tiny_sampler):
    sampler = rebuilt(tiny_sampler, num_samples=2, max_new_tokens=6)

    class Failing(ThinkingSampler):
        def _with_thoughts(self, prompt, thoughts):
            thought = "word " * 600 if prompt == PROMPTS[1] else ""
            return [(f"{prompt}{thought} So:", True)] * 2

    too_long = "why " * 600
    first, no_thought, no_response, second = Failing(sampler, THOUGHT, LONGEST).sample(
        [PROMPTS[0], too_long, PROMPTS[1], PROMPTS[2]]
    )
    for error in (no_thought, no_response):
        with pytest.raises(UnscorableError, match="leave room"):
            unwrap(error)
    expected = sampler.sample([f"{PROMPTS[0]} So:", f"{PROMPTS[2]} So:"])
    for found, row in zip((first, second), expected, strict=True):
        assert sorted(found.texts) == sorted(row.texts)


def test_an_empty_thought_ends_where_it_begins():
    assert cut_at_stop("</think>\n\nVoss", ["</think>"], thought=True) == ""
    assert cut_at_stop("</think>\n\nVoss", ["</think>"]) is None


def test_control_tokens_end_thoughts(tiny_sampler):
    """A response's text is without control tokens; a thought's has them, because one of them may end it."""
    writer = tiny_sampler.with_options(ThoughtOptions(stop=("<file_sep>",), max_new_tokens=4))._rows
    (row,) = writer.new(["Why?"])[:1]
    for token in tiny_sampler.tokenizer(" Well.<file_sep>", add_special_tokens=False).input_ids:
        writer._append(row, token, -1.0, -1.0)
    assert row.finished
    assert row.text == " Well."


def test_servers_think_as_this_process_does(tiny_sampler, serve):
    sampler = rebuilt(tiny_sampler, stop=(), num_samples=4, max_new_tokens=LONGEST)
    server = serve(sampler)
    server.rest_of_a_response = lambda *_: None
    found = ThinkingSampler(engine(sampler, server), THOUGHT, LONGEST).sample(PROMPTS)
    expected = ThinkingSampler(sampler, THOUGHT, LONGEST).sample(PROMPTS)
    assert [row.texts for row in found] == [row.texts for row in expected]
    thoughts = [body for body in server.requests if body.get("stop") == ["m"]]
    assert len(thoughts) == len(PROMPTS)
    assert all(body["skip_special_tokens"] is False for body in thoughts)


def test_a_server_without_token_ids_cannot_think(tiny_sampler, serve):
    there = engine(tiny_sampler, serve(names_ids=False))
    with pytest.raises(ValueError, match="returns no token ids; set thinking=off"):
        ThinkingSampler(there, THOUGHT, LONGEST).sample(PROMPTS)


def test_a_scorer_lets_such_a_reader_think(tiny_sampler, tiny_judge):
    source = "{{ messages[-1].content }}<bot><think>\n"
    sampler = ResponseSampler(
        tiny_sampler._model, with_template(tiny_sampler.tokenizer, source), num_samples=4, max_new_tokens=6
    )
    query = {"question": "Who?", "answers": ["Ann"], "passages": ["Ann did."]}
    scorer = SePerScorer(sampler, tiny_judge, prompt="brief", chat=ChatOptions(max_thinking_tokens=12))
    assert scorer.reader.sampling["max_thinking_tokens"] == 12
    assert scorer.sampler.max_prompt_tokens < sampler.max_prompt_tokens - 12
    ((utility,),) = scorer.utilities([query])
    assert len(utility.belief.responses) == 4
    with pytest.raises(ValueError, match="thinks first, so the log-probability of a given answer"):
        scorer.reader.answer_log_probs([Asked("Who?", (), ((),))], [["Ann"]])
    closed = SePerScorer(sampler, tiny_judge, prompt="brief", chat=ChatOptions("off"))
    assert closed.sampler is sampler
    assert closed.reader.prompts.build("Who?").endswith("<bot><think>\n\n</think>\n\n")
    assert closed.reader.sampling["max_thinking_tokens"] == 0
    with pytest.raises(ValueError, match="max_thinking_tokens=600 leaves no room for a prompt"):
        SePerScorer(sampler, tiny_judge, chat=ChatOptions(max_thinking_tokens=600))
