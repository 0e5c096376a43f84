"""The server over real HTTP: the same numbers as in process, and what is refused, late, stopped or counted."""

import asyncio
import json
import pickle
import subprocess
import sys
import threading
import time

import httpx2
import pytest

from seper_reward.client import SePerClient
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.reward import SePerReward
from seper_reward.scorer import SePerScorer
from seper_reward.serving.bodies import RolloutFormat
from seper_reward.serving.scoring import Limits
from seper_reward.types import Asked, Passage
from tests.helpers import ENVIRONMENT, VARIANTS
from tests.serving.helpers import LIMITS, ServerThread, held

QUESTION, ANSWERS = "Who runs the mill in Hallow?", ["Ida Voss"]
MILL, SHEEP = "Ida Voss runs Hallow's mill.", "Sheep graze on the hill."
QUERIES = [
    {"question": QUESTION, "answers": ANSWERS, "passages": [MILL, {"id": 7, "title": "Hallow", "text": SHEEP}]},
    {"question": "When did the mill burn down?", "answers": ["1840", "in 1840"], "passages": ["It burned in 1840."]},
]
LONG = "long " * 600  # longer than the tiny reader's window


@pytest.fixture(scope="module")
def server(tiny_scorer):
    with ServerThread(tiny_scorer) as running:
        yield running


def post(server, path, body, **headers):
    return httpx2.post(f"{server.url}{path}", json=body, headers=headers, timeout=60)


def near(values):
    return [None if value is None else pytest.approx(value, abs=1e-5) for value in values]


def test_utilities_are_those_of_the_scorer(server, tiny_scorer):
    found = SePerClient(server.url).utilities(QUERIES)
    for query, result in zip(QUERIES, found, strict=True):
        (expected,) = tiny_scorer.utilities([query])
        rows = result["utilities"]
        assert result["seper"] == pytest.approx(expected[0].baseline_seper, abs=1e-5)
        for name in ("delta_seper", "std_error", "seper", "delta_seper_hard", "question_gain"):
            assert [row[name] for row in rows] == near([getattr(each, name) for each in expected]), name
        assert [row["delta_belief"] for row in rows] == near([each.combined.value for each in expected])
        assert [[row["low"], row["high"]] for row in rows] == [near([u.soft.low, u.soft.high]) for u in expected]
        assert [row["belief"]["responses"] for row in rows] == [list(each.belief.responses) for each in expected]
    assert [row["passage_ids"] for row in found[0]["utilities"]] == [[""], ["7"]]


def test_sets_of_passages_are_read_together(server, tiny_scorer):
    body = {"question": QUESTION, "answers": ANSWERS, "passage_sets": [[MILL, SHEEP], [SHEEP]]}
    (found,) = SePerClient(server.url).utilities([body])
    sets = [(), (Passage(MILL), Passage(SHEEP)), (Passage(SHEEP),)]
    expected = [belief.seper for belief in tiny_scorer.beliefs(QUESTION, ANSWERS, sets)]
    assert [found["seper"], *(row["seper"] for row in found["utilities"])] == near(expected)
    assert found["utilities"][0]["delta_seper"] == pytest.approx(expected[1] - expected[0], abs=1e-5)


COLUMNS = {
    "completions": ["Ida Voss", "Bob", "", "x"],
    "question": [QUESTION] * 3 + [LONG],
    "answers": [ANSWERS, ANSWERS, [], ANSWERS],
    "passages": [[MILL], [], [], [SHEEP]],
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_url_in_place_of_a_scorer_gives_the_same_rewards(server, tiny_scorer, name):
    by_url, in_process = (SePerReward(each, **VARIANTS[name], price=0.1) for each in (server.url, tiny_scorer))
    logged = {}
    rewards = by_url(**COLUMNS, log_metric=lambda name, value: logged.setdefault(name, []).append(value))
    assert rewards == near(in_process(**COLUMNS))
    assert by_url.failures == in_process.failures
    assert rewards[2] is None
    assert logged["seper/unscored"] == [float(value is None) for value in rewards]
    assert by_url(**COLUMNS) == rewards


# more aliases than a request may have
@pytest.mark.parametrize("aliases", [1, pytest.param(300, marks=pytest.mark.slow)])
def test_odd_passages_are_those_of_the_scorer(server, tiny_scorer, aliases):
    found = (f"[1] \n[2] {MILL}", SHEEP * 500, MILL)  # a blank passage, a long one, and an ordinary one
    columns = {
        "question": ["Who?"] * 3,
        "answers": [["Ann"], ["Ann"], [f"Ann {at}" for at in range(aliases)]],
        "completions": [
            [{"role": "tool", "content": each}, {"role": "assistant", "content": "Ann"}] for each in found
        ],
    }
    by_url, in_process = (
        SePerReward(each, answer_weight=0.0, price=0.0)(**columns) for each in (server.url, tiny_scorer)
    )
    assert None not in in_process
    assert by_url == near(in_process)


def test_a_pickled_reward_scores_in_a_process_without_torch(server, tiny_scorer):
    """As TRL's AsyncGRPOTrainer does: it pickles the reward into a child, and scores groups in several threads."""
    code = """
import json, pickle, sys
for name in ("torch", "transformers", "trl", "numpy", "fastapi"):
    sys.modules[name] = None  # importing it now raises
from concurrent.futures import ThreadPoolExecutor
reward, groups, _ = pickle.load(sys.stdin.buffer)
assert reward(question=["Who?"], answers=[[]], passages=[[]]) == [None]
with ThreadPoolExecutor(8) as threads:
    print(json.dumps(list(threads.map(lambda group: reward(**group), groups))))
"""
    groups = [
        {"question": [f"{number % 3}?"] * 4, "answers": [["Ida Voss"]] * 4, "passages": [[MILL], [], [SHEEP], [MILL]]}
        for number in range(12)
    ]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps((SePerReward(server.url, answer_weight=0.0, price=0.1), groups, SePerClient(server.url))),
        env=ENVIRONMENT,
        capture_output=True,
    )
    assert not done.returncode, done.stderr.decode()
    reward = SePerReward(tiny_scorer, answer_weight=0.0, price=0.1)
    assert json.loads(done.stdout) == [near(reward(**group)) for group in groups]


def test_rewards_of_rollouts(server, tiny_scorer):
    rollouts = [
        {"question": question, "answers": answers, "completion": completion, "passages": passages}
        for question, answers, completion, passages in zip(
            COLUMNS["question"], COLUMNS["answers"], COLUMNS["completions"], COLUMNS["passages"], strict=True
        )
    ]
    rollouts += [
        {"question": QUESTION, "answers": ANSWERS, "completion": [{"role": "tool", "content": MILL}]},
        {"question": QUESTION, "answers": "Ida Voss", "completion": ""},
        {"question": QUESTION, "answers": ANSWERS, "completion": 7},
        {"question": QUESTION, "answers": ANSWERS},
    ]
    found = post(server, "/rewards", {"rollouts": rollouts, "price": 0.25}).json()
    expected = SePerReward(tiny_scorer, answer_weight=0.0, price=0.25)(**COLUMNS)
    assert found["rewards"][:4] == near(expected)
    assert found["rewards"][4] == found["rewards"][0]
    assert found["rewards"][5:] == [0.0, None, None]  # a text is one alias; it has no search
    reasons = found["reasons"]
    assert reasons[:2] == [None, None]
    assert reasons[2] == "no gold answer"
    assert "question" in reasons[3]
    assert reasons[5] is None
    assert reasons[6].startswith("completion must be a text or a list of messages, got 7")
    assert reasons[7] == "the completion is None"
    assert found["scores"][0]["cost"] == 0.25
    assert found["scores"][0]["gains"] == near([expected[0] + 0.25])
    options = {"answer_weight": 1.0, "price": 0.25, "gain_weight": 0.5, "closed_book": True}
    found = post(server, "/rewards", {"rollouts": rollouts, **options}).json()
    assert found["rewards"][:4] == near(SePerReward(tiny_scorer, **options)(**COLUMNS))
    turns = found["turn_rewards"]  # who asked for the passages of the first and the fifth is not known
    assert turns == [None, [found["rewards"][1]], None, None, None, [found["rewards"][5]], None, None]
    assert found["scores"][1]["answer_support"] == SePerReward(tiny_scorer, gain_weight=0.0, price=0.0)(**COLUMNS)[1]


def test_one_client_in_the_threads_of_a_loop(server, tiny_scorer):
    async def ask():
        client = SePerClient(server.url)
        return await asyncio.gather(
            *(asyncio.to_thread(client.beliefs, QUESTION, ANSWERS, [(), ()]) for _ in range(8))
        )

    (expected,) = tiny_scorer.beliefs(QUESTION, ANSWERS, [()])
    for beliefs in asyncio.run(ask()):
        assert [belief.seper for belief in beliefs] == near([expected.seper] * 2)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/utilities", {"queries": [{"question": " ", "answers": ["x"], "passages": ["y"]}]}, "question"),
        ("/utilities", {"queries": [{"question": "x", "answers": [], "passages": ["y"]}]}, "queries.0.answers"),
        ("/utilities", {"queries": [{"question": "x", "answers": [["x"], ["y"]], "passages": ["y"]}]}, "answers.0"),
        ("/utilities", {"queries": [{"question": "x", "answers": ["x"]}]}, "either passages or passage_sets"),
        ("/utilities", {"queries": [{"question": "x", "answers": ["x"], "passages": [{}]}]}, "passages.0.text"),
        (
            "/utilities",
            {"queries": [{"question": "x", "answers": ["x"], "passage": ["y"]}]},
            "queries.0.passage: Extra",
        ),
        ("/utilities", {"queries": []}, "queries"),
        (
            "/utilities",
            {"queries": [{"question": "x" * 100_001, "answers": ["x"], "passages": ["y"]}]},
            "at most 100000 characters",
        ),
        ("/rewards", {"rollouts": [{"question": "x", "answers": ["x"]}], "variant": "both"}, "variant: Extra"),
        ("/rewards", {"rollouts": [{"question": "x", "answers": ["x"]}], "answer_weight": -1}, "answer_weight"),
        ("/rewards", {"rollouts": [{"question": "x", "answers": ["x"]}], "price": -1}, "greater than or equal to 0"),
        ("/rewards", {"rollouts": [{"question": "x", "answers": ["x"]}], "gain_weight": -1}, "gain_weight"),
    ],
)
def test_an_unusable_body_is_told_field_by_field(server, path, body, message):
    answer = post(server, path, body)
    assert answer.status_code == 422
    assert message in answer.json()["detail"]
    assert len(answer.text) < 1000  # it is not given back


def test_a_body_without_its_kind_is_told(server):
    kind = "application/x-www-form-urlencoded"  # of curl -d
    answer = httpx2.post(f"{server.url}/beliefs", content=b'{"asked": []}', headers={"Content-Type": kind})
    assert answer.status_code == 422
    assert answer.json()["detail"] == f"expected the header Content-Type: application/json, got {kind}"


def test_half_a_surrogate_and_no_json_are_refused(server):
    half = b'{"asked": [{"question": "x", "answers": ["x"], "contexts": [[], [{"text": "\\ud800"}]]}]}'
    for content in (b'{"asked": [{"question": "\\ud800", "answers": ["x"]}]}', half, b"{"):
        answer = httpx2.post(f"{server.url}/beliefs", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, answer.text


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("/rewards", '{"rollouts": [{"question": "x", "answers": ["x"]}], "price": 1e999}', "finite numbers"),
        ("/rewards", '{"rollouts": [{"question": "x", "answers": ["x"]}], "price": 1e308}', "less than or equal to"),
        ("/rewards", '{"rollouts": [{"question": "x", "answers": ["x"], "completion": DEEP}]}', "at most 64 deep"),
        ("/rewards", '{"rollouts": [{"question": "x", "answers": ["x"], "\\ud800": 1}]}', "expected Unicode"),
        ("/utilities", 'ASKED [{"text": "y", "extra": [NaN]}]}]}', "finite numbers"),
        ("/utilities", 'ASKED [{"text": "y", "extra": DEEP}]}]}', "at most 64 deep"),
        ("/utilities", 'ASKED [{"text": "y", "extra": "\\ud800"}]}]}', "expected Unicode"),
    ],
)
def test_what_cannot_be_answered_is_refused(server, path, text, message):
    """Before it is measured: the answer would have held it, or the arithmetic would have failed."""
    asked = '{"queries": [{"question": "x", "answers": ["x"], "passages":'
    content = text.replace("DEEP", '{"a": ' * 700 + "1" + "}" * 700).replace("ASKED", asked).encode()
    answer = httpx2.post(f"{server.url}{path}", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["detail"]
    assert len(answer.text) < 1000


def test_limits(tiny_scorer):
    with ServerThread(tiny_scorer, limits=Limits(tokens=60, deadline=60)) as server:
        passages = [MILL * 2, SHEEP * 4]  # with the question 84 and 124 letters, and 28 without a passage
        answer = post(server, "/utilities", {"queries": [{**QUERIES[0], "passages": passages}]})
        assert (answer.status_code, answer.json()["detail"]) == (
            413,
            "expected contexts and texts of at most 60 tokens a request, got about 62; split it",
        )
        assert len(SePerClient(server.url).utilities(QUERIES[:1])) == 1


def test_the_token_opens_all_but_health(tiny_scorer, monkeypatch):
    with ServerThread(tiny_scorer, token="secret") as server:
        assert httpx2.get(f"{server.url}/health").status_code == 200
        for path in ("/scorer", "/docs", "/openapi.json"):
            assert httpx2.get(f"{server.url}{path}").status_code == 401
        with pytest.raises(ValueError, match="answered 401: expected a bearer token"):
            SePerClient(server.url).utilities(QUERIES)
        monkeypatch.setenv("SEPER_SERVER_TOKEN", "wrong")
        with pytest.raises(ValueError, match="answered 401"):
            SePerClient(server.url).utilities(QUERIES)
        for given, status in (("bearer secret", 200), ("BEARER secret", 200), ("Basic secret", 401), ("secret", 401)):
            assert httpx2.get(f"{server.url}/scorer", headers={"Authorization": given}).status_code == status
        monkeypatch.setenv("SEPER_SERVER_TOKEN", "secret")
        assert len(SePerClient(server.url).utilities(QUERIES)) == 2


@pytest.fixture
def stuck(tiny_scorer):
    """Return a server whose reader does not answer before its hold is released."""
    scorer, hold = held(tiny_scorer)
    with ServerThread(scorer, queue=2, limits=LIMITS) as server:
        try:
            yield server, hold
        finally:
            hold.may_go_on.set()


def body(*questions):
    return {"asked": [{"question": question, "answers": ["x"], "contexts": [[]]} for question in questions]}


def test_what_is_late_is_504_and_clients_ask_again(stuck):
    server, hold = stuck
    start = time.monotonic()
    answer = post(server, "/beliefs", body("A?"), **{"SePer-Deadline": "0.3"})
    assert time.monotonic() - start < 5
    assert (answer.status_code, answer.json()["detail"]) == (504, "not measured before the deadline; retry later")
    assert post(server, "/beliefs", body("A?"), **{"SePer-Deadline": "-1"}).status_code == 422
    with pytest.raises(ConnectionError, match="the last: not measured before the deadline"):
        SePerClient(server.url, timeout=0.5).measure([Asked("A?", ("x",), ((),))])
    hold.may_go_on.set()
    assert post(server, "/beliefs", body("A?")).json()["results"][0] is not None


def test_a_full_queue_is_429_and_clients_wait(stuck):
    server, hold = stuck
    found = {}

    def measure(question):
        found[question] = SePerReward(server.url, answer_weight=0.0, price=0.0)(
            question=[question], answers=[["x"]], passages=[[]]
        )

    first = threading.Thread(target=measure, args=("A?",))
    first.start()
    assert hold.reached.wait(30)
    others = [threading.Thread(target=measure, args=(f"{number}?",)) for number in range(5)]
    for each in others:
        each.start()
    while server.worker.waiting < 2:
        time.sleep(0.01)
    answer = post(server, "/beliefs", body("X?"))
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    hold.may_go_on.set()
    for each in (first, *others):
        each.join(30)
    assert found == {question: [0.0] for question in ("A?", "0?", "1?", "2?", "3?", "4?")}  # nobody searched


def test_a_stop_answers_what_was_accepted_and_refuses_the_rest(stuck):
    server, hold = stuck
    answers = []
    asking = threading.Thread(target=lambda: answers.append(post(server, "/beliefs", body("A?", "B?"))))
    asking.start()
    assert hold.reached.wait(30)
    server.stop()
    refused = post(server, "/beliefs", body("C?"))
    assert (refused.status_code, refused.json()["detail"]) == (503, "the server is stopping")
    assert httpx2.get(f"{server.url}/health").status_code == 503
    hold.may_go_on.set()
    asking.join(30)
    assert [result is None for result in answers[0].json()["results"]] == [False, False]
    server.thread.join(30)
    assert not server.thread.is_alive()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{server.url}/health")


def test_in_front_of_an_engine(serve, tiny_reader, tiny_entailment):
    away = threading.Event()
    engine = serve(fault=lambda body: (500, {"error": {"message": "gone"}}) if away.is_set() else None)
    scorer = SePerScorer.from_pretrained(
        reader=str(tiny_reader),
        judge=str(tiny_entailment),
        prompt="brief",
        engine=[engine.url],
        dtype="float32",
        device="cpu",
        num_samples=4,
        max_new_tokens=8,
    )
    (expected,) = scorer.utilities(QUERIES[:1])
    with ServerThread(scorer) as server:
        (found,) = SePerClient(server.url).utilities(QUERIES[:1])
        assert [row["delta_seper"] for row in found["utilities"]] == near([each.delta_seper for each in expected])
        assert engine.most_in_flight > 1
        away.set()
        answer = post(server, "/beliefs", body("A?"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert "no engine answered" in answer.json()["detail"]
        threading.Timer(0.5, away.clear).start()
        assert SePerReward(server.url, answer_weight=0.0, price=0.0)(
            question=["A?"], answers=[["x"]], passages=[[]]
        ) == [0.0]  # it asked again


def test_a_bug_is_null_with_a_reason(stuck):
    server, hold = stuck
    hold.fails["A?"] = RuntimeError("a bug")
    hold.may_go_on.set()
    answer = post(server, "/beliefs", body("A?", "B?")).json()
    assert [each is None for each in answer["results"]] == [True, False]
    assert answer["reasons"] == ["RuntimeError: a bug", None]


def test_the_server_names_its_scorer(tiny_scorer):
    with ServerThread(tiny_scorer) as server:
        about = httpx2.get(f"{server.url}/scorer").json()
    assert about["reader_weights"] == tiny_scorer.sampler.weights_hash


def test_the_bodies_are_described(server):
    assert httpx2.get(f"{server.url}/docs").headers["content-type"].startswith("text/html")
    assert httpx2.get(f"{server.url}/openapi.json").json()["paths"].keys() >= {"/beliefs", "/utilities", "/rewards"}


def test_passages_between_tags(tiny_scorer):
    searched = f"<search>mill</search><information>{MILL}</information>\nAnswer: Ida Voss<|im_end|>"
    rollouts = [{"question": QUESTION, "answers": ANSWERS, "completion": said} for said in (searched, "Ida Voss")]
    columns = {
        "question": [QUESTION] * 2,
        "answers": [ANSWERS] * 2,
        "completions": ["Answer: Ida Voss", "Ida Voss"],
        "passages": [[MILL], []],
    }
    for name in ("delta", "advantage"):
        expected = near(SePerReward(tiny_scorer, **VARIANTS[name], price=0.1)(**columns))
        weights = RewardWeights(**VARIANTS[name], price=0.1)
        with ServerThread(tiny_scorer, weights=weights, reading=RolloutFormat("information")) as server:
            found = post(server, "/rewards", {"rollouts": rollouts}).json()
        assert found["rewards"] == expected
        assert [score["cost"] for score in found["scores"]] == [0.1, 0.0]
    with ServerThread(tiny_scorer) as server:  # without a tag nothing was found
        assert post(server, "/rewards", {"rollouts": rollouts}).json()["rewards"] == [0.0, 0.0]


def test_items_of_the_responses_api(tiny_scorer):
    """A function's output is a search; of several functions, the results of the named one are."""
    output = [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "search", "arguments": '{"query": "mill"}', "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": MILL},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ida Voss"}]},
    ]
    (expected,) = SePerReward(tiny_scorer, gain_weight=0.0, closed_book=True, price=0.1)(
        question=[QUESTION], answers=[ANSWERS], completions=["Ida Voss"], passages=[[MILL]]
    )
    body = {"rollouts": [{"question": QUESTION, "answers": ANSWERS, "completion": output}]}
    with ServerThread(tiny_scorer, weights=RewardWeights(gain_weight=0.0, closed_book=True, price=0.1)) as server:
        found = post(server, "/rewards", body).json()
        assert found["rewards"] == [pytest.approx(expected, abs=1e-5)]
        assert found["scores"][0]["cost"] == 0.1
    several = [
        *(
            {"type": "function_call", "name": name, "arguments": "{}", "call_id": name}
            for name in ("search", "python")
        ),
        {"type": "function_call_output", "call_id": "python", "output": MILL},
        {"type": "function_call_output", "call_id": "search", "output": SHEEP},
        {"type": "message", "role": "assistant", "content": "Said: Ida Voss."},
    ]
    body["rollouts"][0]["completion"] = several
    weights = RewardWeights(answer_weight=0.0, price=0.1)
    with ServerThread(tiny_scorer, weights=weights) as server:
        (reason,) = post(server, "/rewards", body).json()["reasons"]
        assert "got python (1), search (1): set search_tools" in reason
    reading = RolloutFormat(None, "Said: (.*)", ("search",))
    with ServerThread(tiny_scorer, weights=weights, reading=reading) as server:
        expected = SePerReward(tiny_scorer, answer_weight=0.0, price=0.1)(
            question=[QUESTION], answers=[ANSWERS], passages=[[SHEEP]]
        )
        assert post(server, "/rewards", body).json()["rewards"] == pytest.approx(expected, abs=1e-5)
    with ServerThread(tiny_scorer, weights=RewardWeights(gain_weight=0.0, price=0.0), reading=reading) as server:
        assert post(server, "/rewards", body).json()["rewards"] == [1.0]
