"""PromptedReader: answers scored as the reader itself would, and batches of questions with one result each."""

from dataclasses import replace

import pytest
import torch

from seper_reward.reader.prompted import PromptedReader
from seper_reward.types import Asked, Passage, UnscorableError, unwrap
from tests.helpers import ScriptedSampler, as_query, prompt_ids

RECORD = {
    "question": "Who?",
    "answers": ["Ann"],
    "passages": [{"id": str(n), "text": f"text {n}", "relevant": n in (1, 3)} for n in range(5)],
}


@pytest.mark.parametrize("layout", ["tree", "alone"])
def test_answer_log_probs_are_the_readers_own(tiny_scorer, layout, monkeypatch):
    assert tiny_scorer.sampler.layout == "tree"
    monkeypatch.setattr(tiny_scorer.sampler, "layout", layout)
    passages = as_query(RECORD).passages
    sets = [(), passages[:1], passages]
    answers = ["Ann", "Bob Lee the third", "the one who came"]  # of different lengths, behind one prompt
    (found,) = tiny_scorer.reader.answer_log_probs([Asked("Who?", (), tuple(sets))], [answers])
    sampler = tiny_scorer.sampler
    for shown, row in zip(sets, found, strict=True):
        for answer, value in zip(answers, row, strict=True):
            prompt = prompt_ids(sampler, tiny_scorer.reader.prompts.build("Who?", shown))
            ids = sampler.tokenizer(answer, add_special_tokens=False).input_ids
            with torch.no_grad():
                logits = sampler.model(input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
            expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).mean()
            assert value == pytest.approx(float(expected), abs=1e-4)


TOO_LONG = "why " * 600


def test_responses_next_to_a_question_without_room(tiny_scorer):
    reader, passages = tiny_scorer.reader, as_query(RECORD).passages
    asked = [Asked(question, (), ((), passages[:1])) for question in ("Who?", TOO_LONG, "When?")]
    answers = [["Ann"], ["Ann"], ["1840", "in 1840"]]
    sampled, log_probs = reader.responses(asked), reader.answer_log_probs(asked, answers)
    for error in (
        *(sampled[1], *reader.responses(asked[1:2])),
        *(log_probs[1], *reader.answer_log_probs(asked[1:2], answers[1:2])),
    ):
        with pytest.raises(UnscorableError, match="question has no room"):
            unwrap(error)
    for at in (0, 2):
        (alone,) = reader.responses([asked[at]])
        assert [row.token_ids for row in sampled[at]] == [row.token_ids for row in alone]
        (likely,) = reader.answer_log_probs([asked[at]], [answers[at]])
        assert [len(row) for row in log_probs[at]] == [len(answers[at])] * 2
        for found, expected in zip(log_probs[at], likely, strict=True):
            assert found == pytest.approx(expected, abs=1e-4)
    assert reader.responses([]) == reader.answer_log_probs([], []) == []


def test_responses_known_leaves_of_questions_with_one_prompt(tiny_scorer):
    """Those of Ann, of Bob and Carl, and of nobody, next to each other and to another prompt."""
    reader = tiny_scorer.reader
    sets = ((), (Passage("Ann did."),))
    asked = [Asked("Who?", (), sets), Asked("Who?", (), sets[::-1]), Asked("Who?", (), sets), Asked("When?", (), sets)]
    answers = [["Ann"], ["Bob Lee", "Carl", "Bob Lee", ""], [], ["1840", "Ann"]]
    texts = [["Ann"], ["Bob Lee", "Carl"], [], ["1840", "Ann"]]
    for each, own, expected in zip(reader.responses(asked, answers), asked, texts, strict=True):
        (alone,) = reader.responses([own], [expected])
        for row, other in zip(each, alone, strict=True):
            assert [leaf.text for leaf in row.known_leaves] == expected
            assert row.token_ids == other.token_ids
            assert [leaf.log_prob for leaf in row.known_leaves] == pytest.approx(
                [leaf.log_prob for leaf in other.known_leaves], abs=1e-3
            )


def test_responses_closed_book_prompts_are_a_batch(tiny_sampler, tiny_scorer):
    sampler = ScriptedSampler(tiny_sampler.tokenizer, lambda prompt: "Ann")
    reader = PromptedReader(sampler, prompt="brief")
    passages = as_query(RECORD).passages
    asked = [Asked("Who?", (), ((), passages[:1])), Asked("When?", (), (passages[:2], ()))]
    reader.responses(asked)
    prompts = [[reader.prompts.build(each.question, context) for context in each.contexts] for each in asked]
    assert sampler.asked == [sorted([prompts[0][0], prompts[1][1]]), sorted([prompts[0][1], prompts[1][0]])]
    # to the bit: a baseline depends on the other baselines of its batch alone
    few = [replace(each, contexts=tuple(shown for shown in each.contexts if not shown)) for each in asked]
    one, other = (tiny_scorer.reader.responses(batch) for batch in (asked, few))
    for found, expected in ((one[0][0], other[0][0]), (one[1][1], other[1][0])):
        assert found == expected
        assert all(map(torch.equal, found.token_log_probs, expected.token_log_probs))


def test_responses_are_expected_from_an_engine_at_once(tiny_sampler):
    sampler = ScriptedSampler(tiny_sampler.tokenizer, lambda prompt: "Ann")
    sampler.prompts_ahead, sampler.expected = 8, []
    sampler.expect = lambda requests: sampler.expected.append((len(requests), len(sampler.asked)))
    reader = PromptedReader(sampler, prompt="brief")
    reader.responses([Asked("Who?", (), ((), (Passage("Ann did."),)))])
    assert sampler.expected == [(2, 0)]  # before the first is waited for


def test_responses_of_a_prompt_of_two_kinds(tiny_scorer, monkeypatch):
    """A passage that is the placebo of another question's baseline makes the same prompt."""
    reader = tiny_scorer.with_baseline("placebo").reader
    placebo = Passage(reader.prompts.style.placebo)
    asked = [Asked("Who built it?", (), ((),)), Asked("Who built it?", (), ((placebo,), (Passage("Ann did."),)))]
    batches, sample = [], reader.sampler.sample

    def counted(batch):
        batches.append(batch)
        return sample(batch)

    monkeypatch.setitem(vars(reader.sampler), "sample", counted)
    (bare,), (same, other) = reader.responses(asked, [["Ann", "Bob"], ["Bob", "Ann Lee"]])
    assert [len(batch) for batch in batches] == [1, 2]  # a request has its own answers
    reader.responses(asked)
    assert [len(batch) for batch in batches[2:]] == [1, 1]  # without answers, both are one request of the first kind
    assert bare.texts == same.texts
    assert [leaf.text for leaf in bare.known_leaves] == ["Ann", "Bob"]
    assert [leaf.text for leaf in same.known_leaves] == ["Bob", "Ann Lee"]
    assert same.known_leaves[0].log_prob == pytest.approx(bare.known_leaves[1].log_prob, abs=1e-3)
    assert [leaf.text for leaf in other.known_leaves] == ["Bob", "Ann Lee"]


def test_responses_errors_keep_no_frames_alive(tiny_scorer):
    (error,) = tiny_scorer.reader.responses([Asked("why " * 600, (), ((),))])
    assert isinstance(error, UnscorableError)
    assert error.__traceback__ is None
