"""Entailment: right columns, right directions, no pair scored twice or without need."""

import pytest
import torch

from seper_reward import EntailmentScorer
from seper_reward.estimators.entailment import qa_statement
from seper_reward.runtime.hashing import identity_hash
from seper_reward.runtime.pretrained import LoadOptions

PAIRS = [("Paris", "London"), ("it was built in 1840 by monks", "1840"), ("1840", "it was built in 1840 by monks")]


def count_forward(scorer, monkeypatch):
    seen = []
    forward = type(scorer)._forward
    monkeypatch.setattr(scorer, "_forward", lambda rows: seen.extend(rows) or forward(scorer, rows), raising=False)
    return seen


def one_by_one(scorer, premise, hypothesis, question):
    """The slow reference: one pair, no padding, the columns looked up by name."""
    texts = [qa_statement(question, premise), qa_statement(question, hypothesis)]
    encoded = scorer._tokenizer(*texts, return_tensors="pt")
    with torch.no_grad():
        probs = scorer._model(**encoded).logits[0].float().softmax(-1)
    labels = {label.lower(): index for index, label in scorer._model.config.id2label.items()}
    return torch.stack([probs[labels[name]] for name in ("entailment", "neutral", "contradiction")])


def test_label_order_is_read_from_the_model(tiny_judge):
    probs = tiny_judge.class_probs(PAIRS, ["When?"] * 3)
    for row, pair in zip(probs, PAIRS, strict=True):
        torch.testing.assert_close(row, one_by_one(tiny_judge, *pair, "When?"), atol=1e-5, rtol=1e-4)
    assert torch.equal(tiny_judge.score(PAIRS, ["When?"] * 3), probs[:, 0])
    assert len({round(float(value), 4) for value in probs.flatten()}) == 9  # no two columns or rows alike


def test_direction_matters(tiny_judge):
    forward, backward = tiny_judge.score(PAIRS[1:])
    assert abs(float(forward - backward)) > 1e-3


def test_each_distinct_pair_is_scored_once(tiny_judge, monkeypatch):
    seen = count_forward(tiny_judge, monkeypatch)
    probs = tiny_judge.score([("Paris", "London"), ("Rome", "Oslo"), ("Paris.", '"London"'), ("Paris", "London")])
    assert len(seen) == 2
    assert probs[0] == probs[2] == probs[3] != probs[1]


def test_equal_answers_need_no_model(tiny_judge, monkeypatch):
    seen = count_forward(tiny_judge, monkeypatch)
    assert tiny_judge.score([("The Tern Bridge!", "tern bridge"), ("", "  "), ("Ψ", "ψ")]).tolist() == [1, 1, 1]
    assert tiny_judge.score([("", "Paris"), ("Paris", "...")]).tolist() == [0, 0]
    assert not seen


def test_batches_do_not_change_scores(tiny_judge):
    pairs = [(f"{'long ' * (i % 7)}answer {i}", f"answer {i // 2}") for i in range(40)]
    small = EntailmentScorer(tiny_judge._model, tiny_judge._tokenizer, max_batch_tokens=64)
    torch.testing.assert_close(small.score(pairs), tiny_judge.score(pairs), atol=1e-5, rtol=1e-4)


def test_a_batch_too_large_for_memory_is_halved(tiny_judge, monkeypatch):
    pairs = [(f"answer {i}", f"answer {i // 2} again") for i in range(5)]
    expected, forward, asked = tiny_judge.score(pairs), tiny_judge._model.forward, []

    def short_of_memory(input_ids, **rest):
        asked.append(len(input_ids))
        if len(input_ids) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return forward(input_ids=input_ids, **rest)

    monkeypatch.setattr(tiny_judge._model, "forward", short_of_memory)
    with pytest.warns(UserWarning, match="a batch of 5 is halved"):
        torch.testing.assert_close(tiny_judge.score(pairs), expected, atol=1e-5, rtol=1e-4)
    assert asked == [5, 2, 3, 1, 2]


def test_no_pairs(tiny_judge):
    assert tiny_judge.class_probs([]).shape == (0, 3)


def test_a_book_is_cut_to_the_window(tiny_judge):
    assert 0 <= float(tiny_judge.score([("word " * 5000, "word")])[0]) <= 1


def test_a_long_question_leaves_room_for_the_answers(tiny_judge):
    question = "why " * 900
    scores = tiny_judge.score([("Paris", "London"), ("seven", "purple")], [question] * 2)
    assert float(scores[0]) != float(scores[1])
    row = tiny_judge._encode([(*PAIRS[0], tiny_judge._cut_question(question))], padding=False)["input_ids"][0]
    assert {"paris", "london"} <= set(tiny_judge._tokenizer.convert_ids_to_tokens(row))


def test_identity_sees_the_label_order(tiny_judge, monkeypatch):
    before = identity_hash(tiny_judge._model, tiny_judge._tokenizer)
    monkeypatch.setattr(tiny_judge._model.config, "id2label", {0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"})
    assert identity_hash(tiny_judge._model, tiny_judge._tokenizer) != before


def test_labels_without_entailment_are_refused(tiny_judge, monkeypatch):
    monkeypatch.setattr(tiny_judge._model.config, "id2label", {0: "LABEL_0", 1: "LABEL_1"})
    with pytest.raises(ValueError, match="id2label must name a class 'entailment'"):
        EntailmentScorer(tiny_judge._model, tiny_judge._tokenizer)


def test_the_embedded_judge_knows_the_easy_cases():
    scorer = EntailmentScorer.from_pretrained(options=LoadOptions(device="cpu"))
    question = "What is the capital of France?"
    right = [("The capital of France is Paris", "Paris"), ("It is Paris, on the Seine", "Paris")]
    wrong = [("London", "Paris"), ("The capital of France is Lyon", "Paris"), ("I do not know", "Paris")]
    scores = scorer.score(right + wrong, [question] * 5)
    assert min(scores[:2]) > 0.5 > max(scores[2:])
