"""Entailment: right columns, right directions, no pair scored twice or without need."""

import pytest
import torch
from seper_reward.estimators.statements import Statement, StatementEncoder, asking_sentence, in_windows

from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.runtime.hashing import identity_hash
from seper_reward.runtime.pretrained import LoadOptions

PAIRS = [("Elmwick", "Thornby"), ("it was built in 1840 by monks", "1840"), ("1840", "it was built in 1840 by monks")]


def count_forward(scorer, monkeypatch):
    seen = []
    forward = type(scorer)._forward
    monkeypatch.setattr(scorer, "_forward", lambda rows: seen.extend(rows) or forward(scorer, rows), raising=False)
    return seen


def one_by_one(scorer, premise, hypothesis, question):
    """The slow reference: one pair, no padding, the columns looked up by name."""
    texts = [f"{question} {premise}", f"{question} {hypothesis}"]
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


def test_a_long_text_is_judged_in_parts(tiny_judge, monkeypatch):
    """A premise entails what one of its parts entails; a hypothesis is entailed if each of its parts is."""
    long, short = "Rain fell on the mill. " * 120, "the mill burned"
    limit = tiny_judge._inputs._answer_tokens
    parts = in_windows(
        long, lambda text: len(tiny_judge._tokenizer(text, add_special_tokens=False).input_ids) <= limit
    )
    assert len(parts) > 2
    assert " ".join(parts).split() == long.split()
    scores = tiny_judge.score([(part.rstrip(" ."), short) for part in parts])
    assert float(tiny_judge.score([(long, short)])) == pytest.approx(float(scores.max()), abs=1e-5)
    scores = tiny_judge.score([(short, part.rstrip(" .")) for part in parts])
    assert float(tiny_judge.score([(short, long)])) == pytest.approx(float(scores.min()), abs=1e-5)


def test_a_long_verbatim_text_is_truncated_as_in_the_official_code(tiny_judge, monkeypatch):
    seen = count_forward(tiny_judge, monkeypatch)
    long, short = "rain fell on the mill " * 120, "the mill burned"
    probs = tiny_judge.class_probs([(long, short)], ["Why?"], verbatim=True)
    assert [tuple(row) for row in seen] == [(long, short, "Why?")]
    options = {"truncation": "longest_first", "max_length": 512, "return_tensors": "pt"}
    with torch.no_grad():
        logits = tiny_judge._model(**tiny_judge._tokenizer(f"Why? {long}", f"Why? {short}", **options)).logits
    assert float(probs[0, 0]) == pytest.approx(float(logits.softmax(-1)[0, tiny_judge._columns[0]]), abs=1e-5)


def test_a_judge_that_gives_nan_is_named(tiny_judge, monkeypatch):
    monkeypatch.setattr(tiny_judge._model.classifier.bias, "data", torch.full((3,), torch.nan))
    with pytest.raises(ValueError, match=r"entailment model '.*' gave NaN; load it with dtype='float32'"):
        tiny_judge.score(PAIRS)


def test_nothing_is_cut_off(tiny_judge, monkeypatch):
    """Whatever the lengths, every token of question part and answers is in the model's input."""
    seen = count_forward(tiny_judge, monkeypatch)
    tiny_judge.score([("seven " * 3000, "purple " * 90)], ["why " * 900 + "not?"])
    for row in seen:
        ids = tiny_judge._inputs.encode([row])["input_ids"][0]
        tokens = len(tiny_judge._inputs._tokenizer(" ".join(row), add_special_tokens=False).input_ids)
        assert len(ids) - 3 >= tokens
    assert sum(len(premise.split()) for premise in {row.premise for row in seen}) > 0
    assert sum(row.premise.count("seven") for row in seen if row.hypothesis == seen[0].hypothesis) >= 20


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("who wrote Hamlet", "who wrote Hamlet?"),
        ("who wrote Hamlet ?", "who wrote Hamlet?"),
        ("Good morning! I hope you are well.\nWho wrote Hamlet? Thank you.", "Who wrote Hamlet?"),
        ("I thank you for your patience. who wrote hamlet", "who wrote hamlet?"),
        ("Name the capital of Chad. Please be brief.", "Name the capital of Chad?"),
        ("Who founded St. Louis?", "Who founded St. Louis?"),
        ("What does the U.S. Constitution say of J. Adams?", "What does the U.S. Constitution say of J. Adams?"),
        ("It burned down in 1871. Why?", "It burned down in 1871. Why?"),
        ("capital of norway", "capital of norway?"),
        ("  ", ""),
    ],
)
def test_the_sentence_that_asks(question, asked):
    assert asking_sentence(question) == asked


def test_politeness_and_question_marks_change_nothing(tiny_judge):
    polite = "I am sorry to trouble you again. " * 8
    questions = ["who wrote it", "who wrote it?", f"{polite}who wrote it?", f"who wrote it? {polite}"]
    scores = tiny_judge.score([PAIRS[0]] * 4, questions)
    assert len(set(scores.tolist())) == 1


def test_the_question_stands_where_the_model_learned_it(tiny_judge):
    tokenizer, config = tiny_judge._tokenizer, tiny_judge._model.config
    row = Statement("It is Paris", "Paris", "Where?")
    text = tokenizer.decode(StatementEncoder(tokenizer, config).encode([row])["input_ids"][0])
    assert text.lower().count("where?") == 2
    once = type("Config", (), {**config.to_dict(), "question_once": True})
    text = tokenizer.decode(StatementEncoder(tokenizer, once).encode([row])["input_ids"][0])
    assert text.lower().count("where?") == 1


def test_a_judge_that_names_no_longest_input_reads_512_tokens(tiny_judge, monkeypatch):
    monkeypatch.setattr(tiny_judge._tokenizer, "model_max_length", int(1e30))
    monkeypatch.setattr(tiny_judge._model.config, "max_position_embeddings", 514)  # RoBERTa's, two of them not usable
    inputs = StatementEncoder(tiny_judge._tokenizer, tiny_judge._model.config)
    assert len(inputs.encode([Statement("a " * 2000, "b " * 2000, "")])["input_ids"][0]) == 512


def test_a_judge_that_fails_in_bfloat16_is_read_in_float32(tmp_path, tiny_judge):
    """transformers' DeBERTa v1 mixes dtypes."""
    from transformers import DebertaConfig, DebertaForSequenceClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = DebertaConfig(
        vocab_size=len(tiny_judge._tokenizer), pos_att_type=["c2p", "p2c"], relative_attention=True, **sizes
    )
    config.id2label = {0: "contradiction", 1: "neutral", 2: "entailment"}
    DebertaForSequenceClassification(config).save_pretrained(tmp_path)
    tiny_judge._tokenizer.save_pretrained(tmp_path)
    options = LoadOptions(device="cpu", dtype="bfloat16")
    with pytest.warns(UserWarning, match="loaded in float32: torch.bfloat16 fails"):
        judge = EntailmentScorer.from_pretrained(str(tmp_path), options)
    expected = EntailmentScorer.from_pretrained(str(tmp_path), LoadOptions(device="cpu", dtype="float32"))
    assert judge.score(PAIRS).tolist() == expected.score(PAIRS).tolist()


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
