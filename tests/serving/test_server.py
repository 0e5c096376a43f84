"""The server over real HTTP: the same numbers as in process, and what is refused, late, stopped or counted."""

import json
import pickle
import subprocess
import sys
import threading
import time

import httpx2
import pytest

from seper_reward.client import SePerClient
from seper_reward.reward.reward import SePerReward
from seper_reward.scorer import SePerScorer
from seper_reward.serving.bodies import RolloutBody, RolloutFormat, read_bodies
from seper_reward.serving.scoring import Limits
from seper_reward.types import Asked, Passage
from tests.helpers import ENVIRONMENT
from tests.serving.helpers import LIMITS, ServerThread, held

QUESTION, ANSWERS = "Who runs the mill in Hallow?", ["Ida Voss"]
MILL, SHEEP = "Ida Voss runs Hallow's mill.", "Sheep graze on the hill."
QUERIES = [
    {"question": QUESTION, "answers": ANSWERS, "passages": [MILL, {"id": 7, "title": "Hallow", "text": SHEEP}]},
    {"question": "When did the mill burn down?", "answers": ["1840", "in 1840"], "passages": ["It burned in 1840."]},
]
JSON = {"Content-Type": "application/json"}
LONG = "long " * 600  # longer than the tiny reader's window


@pytest.fixture(scope="module")
def server(tiny_scorer):
    with ServerThread(tiny_scorer) as running:
        yield running


def post(server, path, body, **headers):
    return httpx2.post(f"{server.url}{path}", json=body, headers=headers, timeout=60)


def near(values):
    return [None if value is None else pytest.approx(value, abs=1e-5) for value in values]


def test_utilities_of_passages(server, tiny_scorer):
    found = SePerClient(server.url).utilities(QUERIES)
    for result, effects in zip(found, tiny_scorer.utilities(QUERIES), strict=True):
        assert result["seper"] == pytest.approx(effects[0].baseline_seper, abs=1e-5)
        for row, effect in zip(result["utilities"], effects, strict=True):
            names = ("delta_seper", "std_error", "seper", "delta_seper_hard", "question_gain")
            assert [row[name] for name in names] == near([getattr(effect, name) for name in names])
            expected = near([effect.delta_belief.value, effect.soft.low, effect.soft.high])
            assert [row["delta_belief"], row["low"], row["high"]] == expected
            assert row["belief"]["responses"] == list(effect.belief.responses)
    assert [row["passage_ids"] for row in found[0]["utilities"]] == [[""], ["7"]]


COLUMNS = {
    "completions": ["Ida Voss", "Bob", "", "x"],
    "question": [QUESTION] * 3 + [LONG],
    "answers": [ANSWERS, ANSWERS, [], ANSWERS],
    "passages": [[MILL], [], [], [SHEEP]],
}


@pytest.mark.parametrize("weights", [{"answer_weight": 0.0}, {"gain_weight": 0.0, "closed_book": True}, {}])
def test_reward_by_url(server, tiny_scorer, weights):
    by_url, in_process = (SePerReward(each, **weights, price=0.1) for each in (server.url, tiny_scorer))
    logged = {}
    rewards = by_url(**COLUMNS, log_metric=lambda name, value: logged.setdefault(name, []).append(value))
    assert rewards == near(in_process(**COLUMNS))
    assert by_url.failures == in_process.failures
    assert rewards[2] is None
    assert logged["seper/unscored"] == [float(value is None) for value in rewards]
    assert by_url(**COLUMNS) == rewards


def test_reward_by_url_without_torch(server, tiny_scorer):
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
    names = ("completion", "question", "answers", "passages")
    rollouts = [dict(zip(names, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    row = {"question": QUESTION, "answers": ANSWERS}
    rollouts += [
        {**row, "completion": [{"role": "tool", "content": MILL}]},
        {**row, "answers": "Ida Voss", "completion": ""},  # a text is one alias; it has no search
        {**row, "completion": 7},
        row,
    ]
    found = post(server, "/rewards", {"rollouts": rollouts, "price": 0.25}).json()
    expected = SePerReward(tiny_scorer, answer_weight=0.0, price=0.25)(**COLUMNS)
    assert found["rewards"] == [*near(expected), near(expected)[0], 0.0, None, None]
    reasons = [reason and reason[:45] for reason in found["reasons"]]
    assert "question" in reasons.pop(3)
    odd = ["completion must be a text or a list of messag", "the completion is None"]
    assert reasons == [None, None, "no gold answer", None, None, *odd]
    assert found["scores"][0]["cost"] == 0.25
    assert found["scores"][0]["gains"] == near([expected[0] + 0.25])
    options = {"answer_weight": 1.0, "price": 0.25, "gain_weight": 0.5, "closed_book": True}
    found = post(server, "/rewards", {"rollouts": rollouts, **options}).json()
    assert found["rewards"][:4] == near(SePerReward(tiny_scorer, **options)(**COLUMNS))
    turns = found["turn_rewards"]  # who asked for the passages of the first and the fifth is not known
    assert turns == [None, [found["rewards"][1]], None, None, None, [found["rewards"][5]], None, None]
    assert found["scores"][1]["answer_support"] == SePerReward(tiny_scorer, gain_weight=0.0, price=0.0)(**COLUMNS)[1]


def test_server_limits_tokens(tiny_scorer):
    with ServerThread(tiny_scorer, limits=Limits(tokens=60, deadline=60)) as server:
        passages = [MILL * 2, SHEEP * 4]  # with the question 84 and 124 letters, and 28 without a passage
        answer = post(server, "/utilities", {"queries": [{**QUERIES[0], "passages": passages}]})
        assert answer.status_code == 413
        assert "texts of at most 60 tokens a request, got about 62; split it" in answer.json()["detail"]
        assert len(SePerClient(server.url).utilities(QUERIES[:1])) == 1


def test_token_opens_all_but_health(tiny_scorer, monkeypatch):
    with ServerThread(tiny_scorer, token="secret") as server:
        assert httpx2.get(f"{server.url}/health").status_code == 200
        for path in ("/scorer", "/docs", "/openapi.json"):
            assert httpx2.get(f"{server.url}{path}").status_code == 401
        with pytest.raises(ValueError, match="answered 401: expected a bearer token"):
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


def unsearched(server, question):
    """Return the reward of a rollout without a search."""
    reward = SePerReward(server.url, answer_weight=0.0, price=0.0)
    return reward(question=[question], answers=[["x"]], passages=[[]])


def test_server_is_late(stuck):
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


def test_server_with_a_full_queue(stuck):
    server, hold = stuck
    found = {}

    def measure(question):
        found[question] = unsearched(server, question)

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


def test_server_stops_gracefully(stuck):
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


def test_server_drops_questions_of_a_gone_client(tiny_scorer):
    scorer, hold = held(tiny_scorer)
    with ServerThread(scorer, batch_size=1) as server:
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{server.url}/beliefs", json=body(*map(str, range(9))), timeout=1)
        assert hold.reached.is_set()  # the first question is being measured
        time.sleep(0.5)
        hold.may_go_on.set()
        assert post(server, "/beliefs", body("Whose turn?")).status_code == 200
    assert [question for block in hold.blocks for question, _ in block] == ["0", "Whose turn?"]


def test_server_in_front_of_an_engine(serve, tiny_reader, tiny_entailment):
    away = threading.Event()
    engine = serve(fault=lambda body: (500, {"error": {"message": "gone"}}) if away.is_set() else None)
    scorer = SePerScorer.from_pretrained(
        reader=str(tiny_reader), judge=str(tiny_entailment), prompt="brief", engine=[engine.url], dtype="float32",
        device="cpu", num_samples=4, max_new_tokens=8,
    )  # fmt: skip
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
        assert unsearched(server, "A?") == [0.0]  # it asked again


def test_server_describes_itself(server, tiny_scorer):
    about = httpx2.get(f"{server.url}/scorer").json()
    assert about["reader_weights"] == tiny_scorer.sampler.weights_hash
    assert httpx2.get(f"{server.url}/docs").headers["content-type"].startswith("text/html")
    assert httpx2.get(f"{server.url}/openapi.json").json()["paths"].keys() >= {"/beliefs", "/utilities", "/rewards"}


def test_read_bodies_of_the_responses_api():
    """A function's output is a search; of several functions, the results of the named one are."""
    names = ("search", "python")
    several = [
        {"type": "reasoning", "summary": []},
        *({"type": "function_call", "name": name, "arguments": "{}", "call_id": name} for name in names),
        {"type": "function_call_output", "call_id": "python", "output": MILL},
        {"type": "function_call_output", "call_id": "search", "output": SHEEP},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Said: Ida Voss."}]},
    ]
    body = RolloutBody(question=QUESTION, answers=ANSWERS, completion=several)
    of_two = [RolloutBody(question="?", answers=["x"], completion=each) for each in (several[1::3], several[2:4])]
    for rollout in read_bodies(of_two, RolloutFormat()):
        assert "got search (1), python (1): set search_tools" in rollout.problem
    (rollout,) = read_bodies([body], RolloutFormat(None, "Said: (.*)", ("search",)))
    assert (rollout.passages, rollout.answer) == ((Passage(SHEEP),), "Ida Voss.")
    assert rollout.calls == (0, 1, 0)


def a_query(changes):
    return "/utilities", f'{{"queries": [{{"question": "x", "answers": ["x"], "passages": ["y"], {changes}}}]}}'


def a_rollout(field, more=""):
    return "/rewards", f'{{"rollouts": [{{"question": "x", "answers": ["x"]{more}}}], {field}}}'


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        (a_query('"question": " "'), "question"),
        (a_query('"answers": []'), "queries.0.answers"),
        (a_query('"answers": [["x"], ["y"]]'), "answers.0"),
        (a_query('"passages": []'), "either passages or passage_sets"),
        (a_query('"passages": [{}]'), "passages.0.text"),
        (a_query('"passage": ["y"]'), "queries.0.passage: Extra"),
        (a_query('"question": "LONG"'), "at most 100000 characters"),
        (a_query('"passages": ["\\ud800"]'), "passages.0.text"),
        (a_rollout('"variant": "both"'), "variant: Extra"),
        (a_rollout('"answer_weight": -1'), "answer_weight"),
        (a_rollout('"gain_weight": -1'), "gain_weight"),
        (a_rollout('"price": -1'), "greater than or equal to 0"),
        (a_rollout('"price": NaN'), "less than or equal to"),
        (a_rollout('"price": 1e999'), "less than or equal to"),
        (a_rollout('"price": 1e308'), "less than or equal to"),
        (a_rollout('"price": 0', ', "\\ud800": 1'), "valid string"),
        (("/beliefs", '{"asked": []}'), ""),
        (("/beliefs", '{"asked": [{"question": "A?", "answers": ["x"], "context": []}]}'), "context: Unexpected"),
        (("/beliefs", "{"), ""),
        (
            ("/beliefs", "{}", "text/plain"),
            "the header Content-Type: application/json, got text/plain",
        ),  # as of curl -d
    ],
)
def test_server_refuses_a_bad_body(server, request_of, message):
    """Before it is measured: the answer would have held it, or the arithmetic would have failed."""
    path, text, kind = (*request_of, "application/json")[:3]
    content = text.replace("LONG", "x" * 100_001).encode()
    answer = httpx2.post(f"{server.url}{path}", content=content, headers={"Content-Type": kind})
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["detail"]
    assert len(answer.text) < 1000  # the body is not given back


@pytest.mark.parametrize("depth", [700, 20_000])
def test_server_answers_after_a_deep_body(server, depth):
    """Such a completion has no reward, a body that cannot be parsed is refused, and others are still measured."""
    deep = '{"a": ' * depth + "1" + "}" * depth
    rollouts = f'[{{"question": {deep}, "answers": ["x"], "completion": [{deep}]}}]'
    answer = httpx2.post(f"{server.url}/rewards", content=f'{{"rollouts": {rollouts}}}', headers=JSON)
    assert answer.status_code == 400 or answer.json()["rewards"] == [None]
    assert len(answer.text) < 1000
    assert len(SePerClient(server.url).utilities(QUERIES)) == 2


def test_server_refuses_half_a_surrogate_pair(server):
    asked = '{"asked": [{"question": "\\ud800", "answers": ["x"], "contexts": [[]]}]}'
    answer = httpx2.post(f"{server.url}/beliefs", content=asked, headers=JSON)
    assert answer.status_code == 422
    assert "surrogates not allowed" in answer.text
