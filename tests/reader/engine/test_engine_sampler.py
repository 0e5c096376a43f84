"""The engine against a server in this process: same responses, and failures that are counted or stop the run."""

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from seper_reward import SePerReward, SePerScorer
from seper_reward.options import ReaderOptions
from seper_reward.reader.engine.engine_sampler import EngineSampler, load_sampler
from seper_reward.reader.engine.servers import Server
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.prompted import ahead
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.types import UnscorableError, unwrap
from tests.completions_server import prompts_of
from tests.helpers import PROMPTS, as_query, asking, engine, leaves_of, rebuilt, until

QUESTION = {"question": "Who built the mill?", "answers": ["Voss"], "passages": ["Voss built the mill.", "It rained."]}


def same(one, other, ordered=True):
    """Compare responses; those that a server went on with may have changed places."""
    for left, right in zip(one, other, strict=True):
        rows = [
            list(zip(row.texts, row.token_ids, row.finished, (p.tolist() for p in row.token_log_probs), strict=True))
            for row in (left, right)
        ]
        for (*said, log_probs), (*expected, forced) in zip(*(rows if ordered else map(sorted, rows)), strict=True):
            assert said == expected
            assert log_probs == pytest.approx(forced, abs=1e-4)  # batches differ


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_responses_are_those_of_the_sampler_in_process(tiny_sampler, serve, temperature):
    sampler = rebuilt(tiny_sampler, temperature=temperature, max_new_tokens=12)
    server = serve(sampler)
    prompts = [*PROMPTS, PROMPTS[0]]
    same(engine(sampler, server).sample(asking(prompts)), sampler.sample(asking(prompts)))
    assert all(isinstance(body["prompt"], list) for body in server.requests[1:])
    drawn = [body for body in server.requests[1:] if "prompt_logprobs" not in body]
    assert {body["n"] for body in drawn} == {1 if temperature == 0 else 4}


def test_a_stop_string_in_front_ends_nothing_on_a_server_either(tiny_sampler, serve):
    sampler = rebuilt(tiny_sampler, stop=(" ", "e"), num_samples=8, max_new_tokens=12)
    server = serve(sampler)
    expected = sampler.sample(asking(PROMPTS))
    same(engine(sampler, server).sample(asking(PROMPTS)), expected, ordered=False)
    went_on = [body for body in server.requests if body["n"] == 1]
    assert went_on  # it was about something
    assert len({body["seed"] for body in went_on}) == len(went_on)
    assert any(row.texts[0] for row in expected)


def test_a_server_that_names_no_token_ids_is_cut_here(tiny_sampler, serve):
    sampler = rebuilt(tiny_sampler, stop=("e",), num_samples=8, max_new_tokens=12, seed=3)
    whole = rebuilt(sampler, stop=())
    server = serve(whole, names_ids=False)
    expected = sampler.sample(asking(PROMPTS))
    assert len({len(ids) for row in expected for ids in row.token_ids}) > 2
    for found, row in zip(engine(sampler, server).sample(asking(PROMPTS)), expected, strict=True):
        assert (found.texts, found.token_ids, found.finished) == (row.texts, (), row.finished)
        for log_probs, forced in zip(found.token_log_probs, row.token_log_probs, strict=True):
            torch.testing.assert_close(log_probs, forced, atol=1e-4, rtol=1e-4)
    assert not any("stop" in body for body in server.requests)


def test_a_request_depends_on_prompt_and_seed_only(tiny_sampler, serve):
    server = serve()
    sampler = engine(tiny_sampler, server)
    for prompts in (PROMPTS, PROMPTS[::-1], PROMPTS[:1]):
        sampler.sample(asking(prompts))
    bodies = [json.dumps(body, sort_keys=True) for body in server.requests[1:]]
    assert len(set(bodies)) == len(PROMPTS)
    assert len({body["seed"] for body in server.requests[1:]}) == len(PROMPTS)
    assert all(
        (body["top_k"], body["repetition_penalty"]) == (-1, 1.0) for body in server.requests
    )  # no model default
    engine(tiny_sampler, server, seed=5).sample(asking(PROMPTS))
    assert not {body["seed"] for body in server.requests[-3:]} & {body["seed"] for body in server.requests[1:4]}


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(tiny_sampler, tiny_judge, serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "of-another-place")
    server = serve()
    engine(tiny_sampler, server)
    monkeypatch.setenv("SEPER_ENGINE_API_KEY", "secret")
    scorer = SePerScorer(engine(tiny_sampler, server), tiny_judge, prompt="brief")
    scorer.utilities([QUESTION])
    assert server.keys == ["Bearer EMPTY"] * 2 + ["Bearer secret"] * (len(server.keys) - 2)
    assert "secret" not in json.dumps(scorer.fingerprint)
    assert scorer.fingerprint["reader"] == "tiny"


def token_log_probs(answer):
    return answer["choices"][0]["logprobs"]["token_logprobs"]


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda answer: answer["choices"].pop(), "expected 4 responses, got 3"),
        (lambda answer: answer["choices"][0].update(logprobs=None), "half an answer: TypeError"),
        (lambda answer: token_log_probs(answer).__setitem__(0, None), "a log-probability is missing"),
        (lambda answer: token_log_probs(answer).pop(), "tokens, "),
        (lambda answer: answer["choices"][0].update(finish_reason="error"), "finish_reason='error'"),
        (dict.clear, "half an answer: KeyError 'choices'"),
        ((200, b'{"choices": [{"ind'), "half an answer"),
        ((200, b"[]"), "half an answer"),
        ((400, {"error": {"message": "too long"}}), "refused the prompt: .*too long"),
    ],
)
def test_half_an_answer_is_no_number(tiny_sampler, tiny_judge, serve, break_it, reason):
    server = serve()
    sampler = engine(tiny_sampler, server)
    if callable(break_it):
        server.spoil = lambda body, answer: break_it(answer)
    else:
        server.fault = lambda body: break_it
    with pytest.raises(UnscorableError, match=reason):
        unwrap(sampler.sample(asking(PROMPTS[:1]))[0])
    reward = SePerReward(SePerScorer(sampler, tiny_judge, prompt="brief"), answer_weight=0.0, price=0.0)
    given = {"question": [QUESTION["question"]], "answers": [["Voss"]], "passages": [["Voss built the mill."]]}
    assert reward(**given) == [None]
    assert sum(reward.failures.values()) == 1
    server.spoil, server.fault = lambda body, answer: None, lambda body: None
    assert reward(**given) != [None]


def test_a_refused_prompt_leaves_the_others_of_its_batch_theirs(tiny_sampler, serve):
    server = serve()
    sampler = engine(tiny_sampler, server)
    refused = tiny_sampler.tokenizer(PROMPTS[1]).input_ids
    refusal = (400, {"error": {"message": "no such question"}})
    server.fault = lambda body: refusal if prompts_of(body)[0][: len(refused)] == refused else None
    first, error, second = sampler.sample(asking(PROMPTS))
    same([first, second], tiny_sampler.sample(asking([PROMPTS[0], PROMPTS[2]])))
    with pytest.raises(UnscorableError, match=r"refused the prompt: .*no such question"):
        unwrap(error)
    texts = [" honey", " in 1840", " 4 or so"]
    first, error, second = sampler.log_probs(PROMPTS, texts)
    with pytest.raises(UnscorableError, match=r"refused the prompt: .*no such question"):
        unwrap(error)
    for found, expected in zip((first, second), tiny_sampler.log_probs(PROMPTS, texts)[::2], strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_server_that_recovers_is_asked_again(tiny_sampler, serve):
    server = serve()
    sampler = engine(tiny_sampler, server, retries=3)
    failures = iter([(500, {"error": "busy"}), (503, {"error": "busy"})])
    server.fault = lambda body: next(failures, None)
    same(sampler.sample(asking(PROMPTS[:1])), tiny_sampler.sample(asking(PROMPTS[:1])))
    assert len(server.requests) == 4


def test_a_server_that_does_not_answer_stops_the_run(tiny_sampler, serve):
    server = serve()
    sampler = engine(tiny_sampler, server, retries=1)
    server.fault = lambda body: (500, {"error": {"message": "out of memory"}})
    with pytest.raises(ConnectionError, match=r"no engine answered: http://127.*out of memory.*rerun the command"):
        sampler.sample(asking(PROMPTS[:1]))
    assert len(server.requests) == 1 + 2  # of the start, and one retry


def test_the_less_busy_server_is_asked(tiny_sampler, serve):
    go_on = threading.Event()
    go_on.set()

    def nearly_done(body):
        if len(fast.requests) >= 20:
            go_on.set()

    fast, slow = serve(fault=nearly_done), serve(fault=lambda body: go_on.wait(60) and None)
    sampler = engine(tiny_sampler, fast, slow, requests=2)
    go_on.clear()  # the slow one answers when the fast one has done most
    prompts = [f"Question: What is {number}?\nAnswer:" for number in range(24)]
    same(sampler.sample(asking(prompts)), tiny_sampler.sample(asking(prompts)))
    assert len(fast.requests) + len(slow.requests) == len(prompts) + 2
    assert len(fast.requests) > len(slow.requests)
    assert slow.most_in_flight <= 3


def test_a_request_ahead_that_fails_is_sent_again_when_it_is_needed(tiny_sampler, serve):
    server = serve()
    sampler = engine(tiny_sampler, server, retries=0)
    server.fault = lambda body: (500, {"error": {"message": "starting"}})
    sampler.expect(asking(PROMPTS[:1]))
    until(lambda: len(server.requests) == 2 and not server.in_flight)
    time.sleep(0.1)  # until the failure is here
    server.fault = lambda body: None
    same(sampler.sample(asking(PROMPTS[:1])), tiny_sampler.sample(asking(PROMPTS[:1])), ordered=False)


def test_threads_that_ask_the_same_prompts(tiny_sampler, serve):
    sampler = engine(tiny_sampler, serve())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(sampler.sample, [asking(PROMPTS)] * 16))
    for each in found:
        assert len(each) == len(PROMPTS)
        assert not any(isinstance(responses, UnscorableError) for responses in each)


def test_what_nobody_asks_for_is_not_kept_for_ever(tiny_sampler, serve, monkeypatch):
    monkeypatch.setattr("seper_reward.reader.engine.engine_sampler._EXPECTED", 2)
    server = serve()
    sampler = engine(tiny_sampler, server)
    for place, prompt in enumerate(PROMPTS):
        sampler.expect(asking([prompt]))
        until(lambda place=place: len(server.requests) == 2 + place)
    assert len(sampler.sample(asking(PROMPTS))) == len(PROMPTS)  # more than are kept
    assert len(server.requests) == 1 + len(PROMPTS) + 1  # the oldest again


def test_the_other_server_steps_in(tiny_sampler, serve):
    good, bad = serve(), serve()
    sampler = engine(tiny_sampler, bad, good, retries=0)
    bad.fault = lambda body: (500, {"error": "out of memory"})
    for prompts in (PROMPTS, PROMPTS):
        same(sampler.sample(asking(prompts)), tiny_sampler.sample(asking(prompts)))
    assert len(bad.requests) <= 1 + len(PROMPTS)  # once it failed, it comes last


def test_an_engine_needs_the_name_of_a_reader(tiny_sampler):
    loaded = LoadedModel(tiny_sampler.model, tiny_sampler.tokenizer, "tiny")
    with pytest.raises(ValueError, match="engine runs the reader itself"):
        load_sampler(ReaderOptions(engine=["http://127.0.0.1:9/v1"]), loaded)


def test_settings_that_cannot_work_are_named(tiny_sampler, serve):
    server, other = serve(), serve(model="other")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    for urls, error, message in [
        ([nobody], ConnectionError, f"engine='{nobody}' does not answer .*vllm serve"),
        ([f"mine@{server.url}"], ValueError, "model 'mine' is not on engine=.*, which serves tiny"),
        ([server.url, other.url], ValueError, "model 'tiny' is not on engine='.*', which serves other"),
        (["localhost:8000"], ValueError, "engine must be URLs such as"),
        (["http://me:secret@localhost/v1"], ValueError, "must not contain a password"),
        (["http://localhost/v1?token=secret"], ValueError, r"a query \(on localhost\); put the key into \$SEPER_EN"),
        (["localhost/v1?token=secret"], ValueError, r"a query \(on None\)"),
        ([], ValueError, "at least one URL"),
    ]:
        with pytest.raises(error, match=message) as raised:
            EngineSampler(ReaderOptions(engine=urls), tiny_sampler.tokenizer)
        assert "secret" not in str(raised.value)
    server.models = lambda: {"data": [{"id": "one"}, {"id": "two"}]}
    with pytest.raises(ValueError, match="serves one, two; name one as MODEL@URL"):
        EngineSampler(ReaderOptions(engine=[server.url]), tiny_sampler.tokenizer)


@pytest.mark.parametrize("status", [401, 422])
def test_a_key_that_a_server_repeats_is_not_shown(monkeypatch, serve, status):
    monkeypatch.setenv("SEPER_ENGINE_API_KEY", "sk-" + "s3cret" * 50)
    told = f"wrong key {'x' * 200} sk-{'s3cret' * 50}"
    server = serve(fault=lambda body: (status, {"error": {"message": told}}))
    with pytest.raises((ConnectionError, UnscorableError), match="wrong key") as raised:
        asyncio.run(Server(server.url, 5.0, 0).complete({"model": "tiny", "prompt": "Hello"}))
    assert "s3cret" not in str(raised.value)


def test_log_probabilities_of_the_draw_are_refused(tiny_sampler, serve):
    def tempered(body, answer):
        if body["temperature"] != 1:
            for choice in answer["choices"]:
                choice["logprobs"]["token_logprobs"] = [value / 2 for value in choice["logprobs"]["token_logprobs"]]

    server = serve(spoil=tempered)
    at_one = engine(tiny_sampler, server)  # at temperature 1 they are the model's own
    assert at_one.with_options(replace(at_one.options, temperature=0.0)).options.temperature == 0
    with pytest.raises(ValueError, match=r"temperature=0.7.*not the model's own.*raw_logprobs"):
        at_one.with_options(replace(at_one.options, temperature=0.7))
    with pytest.raises(ValueError, match=r"temperature=0.7.*not the model's own.*raw_logprobs"):
        engine(tiny_sampler, server, temperature=0.7)
    with pytest.raises(ValueError, match=r"top_p=0.9: engine gives no log-probabilities of prompts"):
        engine(tiny_sampler, serve(reads_prompts=False), top_p=0.9)
    with pytest.raises(ValueError, match="returns no token ids"):
        engine(tiny_sampler, serve(names_ids=False), temperature=0.7)


def test_another_tokenizer_is_refused(tiny_sampler, serve):
    def other_tokens(body, answer):
        answer["choices"][0]["prompt_token_ids"] = [1, 2, 3]

    with pytest.raises(ValueError, match="tokenizer differs from the reader's; set reader"):
        engine(tiny_sampler, serve(spoil=other_tokens))


def test_many_questions_are_under_way_at_once_and_in_order(tiny_sampler, tiny_judge, serve):
    server = serve(fault=lambda body: time.sleep(0.05))
    queries = [replace(as_query(QUESTION), id=str(at), question=f"Who built mill {at}?") for at in range(8)]
    scorer = SePerScorer(engine(tiny_sampler, server, requests=16), tiny_judge, prompt="brief")
    found = []
    for (query,) in ahead(scorer.reader, [[query] for query in queries], scorer.known_answers):
        assert len(scorer.utilities([query])[0]) == 2
        found.append(query)
    assert found == queries
    assert sum(body["n"] == 4 for body in server.requests) == 3 * 8
    assert server.most_in_flight > 8


def test_the_policys_own_weights_are_read_in_process(tiny_sampler, serve):
    other = engine(tiny_sampler, serve()).reading_with(tiny_sampler.model)
    assert isinstance(other, ResponseSampler)
    same(other.sample(asking(PROMPTS)), tiny_sampler.sample(asking(PROMPTS)))


def drawn(belief):
    """Return the drawn texts in alphabetical order; in this process gold answers that were not drawn stand behind."""
    return sorted(text for text, count in zip(belief.responses, belief.counts, strict=True) for _ in range(count))


def test_gold_answers_are_known_responses_as_in_process(tiny_sampler, serve):
    sampler = rebuilt(tiny_sampler, max_new_tokens=3, stop=(" ", "e"))
    on_servers = engine(sampler, serve(sampler))
    texts = [" honey", " wax", "a very long answer indeed", " 4 or so"]
    pairs = [(prompt, text) for prompt in PROMPTS for text in texts]
    found = leaves_of(on_servers, *zip(*pairs, strict=True))
    finite = 0
    for one, other in zip(found, leaves_of(sampler, *zip(*pairs, strict=True)), strict=True):
        assert (one.text, one.token_ids) == (other.text, other.token_ids)
        assert one.mean_log_prob == pytest.approx(other.mean_log_prob, abs=1e-3)
        # ends that are not among the 20 likeliest tokens of this random reader do not count
        assert one.log_prob <= other.log_prob + 1e-3
        finite += one.log_prob > float("-inf")
    assert finite
    whole = [text for text in texts if len(sampler.tokenizer(text).input_ids) == 3]
    for text in whole:  # needs no end
        (one,), (other,) = (leaves_of(each, PROMPTS[:1], [text]) for each in (on_servers, sampler))
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-3)


@pytest.mark.parametrize("options", [{"reads_prompts": False}, {"names_ids": False}])
def test_servers_that_cannot_tell_are_asked_without_answers(tiny_sampler, tiny_judge, serve, options, capsys):
    scorer = SePerScorer(engine(tiny_sampler, serve(**options)), tiny_judge, prompt="brief")
    (rows,) = scorer.utilities([QUESTION])
    assert all(row.delta_belief is None for row in rows)
    assert all(row.delta_seper is not None for row in rows)
    assert ("probabilities of gold answers are not known" in capsys.readouterr().err) == ("reads_prompts" in options)
