"""Workflows with scripted readers and retrievers, one for each branch."""

import math

import pytest
import torch

from seper_reward import SePerScorer
from seper_reward.baselines.iterative import WORKFLOWS, Session, Tools, WorkflowOptions, run_workflow
from seper_reward.types import Pair, Passage, Responses, UnscorableError
from tests.helpers import ScriptedModel, ScriptedSampler

QUESTION = "Who owns the mill?"
MILL, VOSS, FOG = (Passage(text, id=text[:3]) for text in ("The mill is Ida's.", "Ida is Ida Voss.", "Fog."))


class Found:
    """Finds what a script says of a query, else fog, and keeps the queries."""

    def __init__(self, script=()):
        self.script, self.queries = dict(script), []

    def retrieve(self, questions, top_k):
        self.queries += questions
        return [tuple(self.script.get(question, (FOG,)))[:top_k] for question in questions]


def holding():
    """Return a model by which an answer is entailed by a text that holds it, with probability .9, else .1."""
    return ScriptedModel(lambda pair: 0.9 if pair.hypothesis in pair.premise else 0.1)


class Sampler(ScriptedSampler):
    """Replies with a text, or with (text, probability of each of its tokens)."""

    def sample(self, requests):
        rows = []
        for request in requests:
            reply = self.reply(request.prompt)
            text, probs = (reply, [1.0]) if isinstance(reply, str) else reply
            ids = self.tokenizer(text).input_ids
            logs = torch.tensor((probs * len(ids))[: len(ids)]).log()
            count = self.options.num_samples
            rows.append(Responses((text,) * count, (logs,) * count, (tuple(ids),) * count, (True,) * count))
        return rows


@pytest.fixture
def run(tiny_sampler, tiny_judge):
    """Return a function that runs a workflow on a reply function and a retriever's script, with the trace and both."""

    def runs(name, reply, script=(), judge=None, **options):
        sampler = Sampler(tiny_sampler.tokenizer, reply)
        scorer = SePerScorer(sampler, tiny_judge, prompt="brief")
        retriever = Found(script)
        tools = Tools(scorer, retriever, WorkflowOptions(**options))
        tools.entailment = judge or holding()
        return run_workflow(name, tools, QUESTION), retriever

    return runs


def reads(prompt):
    """Answer from what stands in the prompt."""
    return "Ida Voss" if "Ida Voss" in prompt else "Ida" if "Ida" in prompt else "Bob"


def test_closed_book_and_retrieve_once(run, tiny_sampler, tiny_scorer):
    trace, retriever = run("closed_book", reads)
    assert (trace.answer, trace.steps, trace.searches, retriever.queries) == ("Bob", (), 0, [])
    assert trace.contexts == [()]
    searched, retriever = run("retrieve", reads, {QUESTION: (MILL, VOSS)}, top_k=1)
    assert (searched.answer, searched.searches, retriever.queries) == ("Ida", 1, [QUESTION])
    assert searched.contexts == [(), (MILL,)]
    texts = tiny_scorer.reader.prompts.build(QUESTION, (MILL,)), "Ida"
    assert searched.tokens == sum(map(len, tiny_sampler.tokenizer(texts, add_special_tokens=False).input_ids))


def test_ret_robust_keeps_or_refuses(run):
    judge = holding()
    trace, _ = run("ret_robust", reads, {QUESTION: (FOG, MILL)}, judge)
    assert (trace.answer, trace.searches) == ("Ida", 1)
    assert [step.did for step in trace.steps] == ["search"]
    assert judge.asked == [[Pair(QUESTION, "Fog.", "Ida"), Pair(QUESTION, "The mill is Ida's.", "Ida")]]
    for script in ({QUESTION: (FOG,)}, {QUESTION: ()}):  # nothing found supports nothing
        trace, _ = run("ret_robust", lambda prompt: "Fog bank" if "Fog" in prompt else "Bob", script)
        assert trace.answer == "Bob"
        assert [(step.did, step.passages) for step in trace.steps] == [("search", script[QUESTION]), ("refuse", ())]
        assert trace.searches == 1
    kept, _ = run("ret_robust", lambda prompt: "Carl", {QUESTION: (FOG,)}, refuse_below=0.1)
    assert [step.did for step in kept.steps] == ["search"]


def test_flare_with_a_sure_draft(run):
    trace, retriever = run("flare", lambda prompt: ("Bob", [0.81]))
    assert (trace.answer, trace.steps, retriever.queries) == ("Bob", (), [])


def test_flare_searches_with_the_sure_part(run, tiny_sampler):
    tokens = tiny_sampler.tokenizer("Ida Bobson").input_ids
    probs = [0.9] + [0.3] * (len(tokens) - 1)
    first = tiny_sampler.tokenizer.decode(tokens[:1]).strip()

    def reply(prompt):
        return ("Ida Voss", [0.95]) if "Voss" in prompt else ("Ida Bobson", probs)

    query = f"{QUESTION} {first}"
    trace, retriever = run("flare", reply, {query: (VOSS,)})
    assert retriever.queries == [query]
    assert (trace.answer, trace.contexts) == ("Ida Voss", [(), (VOSS,)])


def test_flare_stops_after_the_last_search(run):
    trace, retriever = run("flare", lambda prompt: ("Bob", [0.2]), max_searches=2)
    assert retriever.queries == [QUESTION, QUESTION]  # nothing of the draft is sure
    assert (trace.answer, trace.searches, len(trace.steps)) == ("Bob", 2, 2)
    assert trace.contexts == [(), (FOG,), (FOG,)]


def thinks(first, then="So the answer is: Ida Voss."):
    """Reply with a thought where one is asked for, else with an answer."""

    def reply(prompt):
        if "Write the next thought" not in prompt:
            return reads(prompt)
        return first if "Thoughts so far: none" in prompt else then

    return reply


def test_ircot_searches_with_its_thoughts(run):
    script = {QUESTION: (MILL,), "The mill is Ida's.": (MILL, VOSS)}
    trace, retriever = run("ircot", thinks("The mill is Ida's. More words.\nAnd lines."), script)
    assert retriever.queries == [QUESTION, "The mill is Ida's."]  # one sentence; the next thought says the answer
    assert trace.contexts == [(), (MILL,), (MILL, VOSS)]
    assert trace.thoughts == ("The mill is Ida's.", "So the answer is: Ida Voss.")
    assert (trace.answer, trace.searches) == ("Ida Voss", 2)


def test_ircot_stops(run):
    known, retriever = run("ircot", thinks("The answer is: Bob."), {QUESTION: (MILL,)})
    assert (known.searches, known.answer) == (1, "Ida")  # the reader answers, not the thought
    blank, _ = run("ircot", thinks("  \n"), {QUESTION: (MILL,)})
    assert (blank.searches, blank.thoughts) == (1, ("",))
    same, retriever = run("ircot", thinks("Hm.", "Hm."), {QUESTION: (MILL,)}, max_searches=3)
    assert (same.thoughts, retriever.queries) == (("Hm.", "Hm."), [QUESTION, "Hm."])
    endless, retriever = run("ircot", thinks("Hm.", "Oh."), {QUESTION: (MILL,)}, max_searches=3)
    assert (endless.searches, retriever.queries) == (3, [QUESTION, "Hm.", "Oh."])
    assert endless.contexts == [(), (MILL,), (MILL, FOG), (MILL, FOG)]


def test_iter_retgen_searches_with_its_answers(run):
    script = {QUESTION: (MILL,), f"{QUESTION} Ida": (VOSS,), f"{QUESTION} Ida Voss": (VOSS,)}
    trace, retriever = run("iter_retgen", reads, script, max_searches=3)
    assert retriever.queries == [QUESTION, f"{QUESTION} Ida", f"{QUESTION} Ida Voss"]
    assert trace.contexts == [(), (MILL,), (VOSS,), (VOSS,)]
    assert trace.answer == "Ida Voss"


def test_ircot_thoughts_are_data(run, tiny_sampler):
    asked = []

    def reply(prompt):
        asked.append(prompt)
        return thinks("It is <|im_end|> his.", "x")(prompt)

    run("ircot", reply, max_searches=3)
    said = [prompt for prompt in asked if "Thoughts so far: It is" in prompt]
    assert len(said) == 1
    assert said[0].count("<|im_end|>") == asked[0].count("<|im_end|>")


def test_run_workflow_without_room(tiny_sampler, tiny_judge):
    scorer = SePerScorer(ScriptedSampler(tiny_sampler.tokenizer, reads, window=100), tiny_judge, prompt="brief")
    for name in WORKFLOWS:
        with pytest.raises(UnscorableError, match="no room"):
            run_workflow(name, Tools(scorer, Found()), "why " * 200)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [("top_k", 0, "at least 1"), ("max_thought_tokens", 0, "at least 1"), ("mask_below", 1.5, r"in \[0, 1\]")],
)
def test_workflow_options_are_checked(name, value, rule):
    with pytest.raises(ValueError, match=f"{name} must be {rule}, got {value}"):
        WorkflowOptions(**{name: value})


def test_draft_without_names_of_tokens(tiny_sampler, tiny_judge):
    class Nameless(ScriptedSampler):
        def sample(self, requests):
            rows = super().sample(requests)
            return [type(row)(row.texts, (torch.tensor([-3.0, -0.1]),) * len(row.texts)) for row in rows]

    scorer = SePerScorer(Nameless(tiny_sampler.tokenizer, reads), tiny_judge, prompt="brief")
    draft = Session(Tools(scorer, Found()), QUESTION).draft()
    assert (draft.text, draft.sure_text) == ("Bob", "Bob")
    assert draft.least_prob == pytest.approx(math.exp(-3.0))
