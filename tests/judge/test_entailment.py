"""Entailment: right columns, right directions, texts in parts, and no text of the model read twice or cut off."""

import pytest
import torch

from seper_reward.judge.entailment import EntailmentScorer, asking_sentence, in_windows
from seper_reward.options import ModelOptions
from seper_reward.runtime.hashing import identity_hash
from seper_reward.types import Pair

TEXTS = [("Elmwick", "Thornby"), ("it was built in 1840 by monks", "1840"), ("1840", "it was built in 1840 by monks")]


def asked(texts, question=""):
    return [Pair(question, *pair) for pair in texts]


def score(scorer, texts, question=""):
    """Return the entailment of each pair of texts."""
    return scorer.probs(asked(texts, question))[:, 0]


def inputs_of(scorer, monkeypatch):
    """Return a list to which the input of each forward pass is appended."""
    inputs, forward = [], scorer.model.forward

    def recorded(**columns):
        inputs.append(columns)
        return forward(**columns)

    monkeypatch.setattr(scorer.model, "forward", recorded)
    return inputs


def one_by_one(scorer, premise, hypothesis, question):
    """The slow reference: one pair, no padding, the columns looked up by name."""
    texts = [f"{question} {premise}", f"{question} {hypothesis}"]
    encoded = scorer.tokenizer(*texts, return_tensors="pt")
    with torch.no_grad():
        probs = scorer.model(**encoded).logits[0].float().softmax(-1)
    return probs[columns_of(scorer)]


def columns_of(scorer):
    labels = {label.lower(): index for index, label in scorer.model.config.id2label.items()}
    return [labels[name] for name in ("entailment", "neutral", "contradiction")]


def test_probs_have_the_label_order_of_the_model(tiny_judge):
    probs = tiny_judge.probs(asked(TEXTS, "When?"))
    for row, pair in zip(probs, TEXTS, strict=True):
        torch.testing.assert_close(row, one_by_one(tiny_judge, *pair, "When?"), atol=1e-5, rtol=1e-4)
    assert len({round(float(value), 4) for value in probs.flatten()}) == 9  # no two columns or rows alike


def test_probs_reads_equal_inputs_once(tiny_judge, monkeypatch):
    inputs = inputs_of(tiny_judge, monkeypatch)
    pairs = [Pair("who wrote it", *TEXTS[0]), Pair("why?", *TEXTS[0]), Pair("Hello. who wrote it?", *TEXTS[0])]
    probs = tiny_judge.probs(pairs)
    assert [len(columns["input_ids"]) for columns in inputs] == [2]
    assert torch.equal(probs[0], probs[2])
    assert not torch.equal(probs[0], probs[1])


def test_probs_do_not_depend_on_batches(tiny_judge, monkeypatch):
    texts = [(f"{'long ' * (i % 7)}answer {i}", f"answer {i // 2}") for i in range(40)]
    small = EntailmentScorer(tiny_judge.model, tiny_judge.tokenizer, max_batch_tokens=64)
    expected, inputs = score(tiny_judge, texts), inputs_of(small, monkeypatch)
    torch.testing.assert_close(score(small, texts), expected, atol=1e-5, rtol=1e-4)
    sizes = [columns["input_ids"].shape for columns in inputs]
    assert len(sizes) > 5
    assert sum(rows for rows, _ in sizes) == 40
    assert max(rows * tokens for rows, tokens in sizes) <= 64


def test_probs_halves_a_batch_too_large_for_memory(tiny_judge, monkeypatch):
    texts = [(f"answer {i}", f"answer {i // 2} again") for i in range(5)]
    expected, forward, sizes = score(tiny_judge, texts), tiny_judge.model.forward, []

    def short_of_memory(input_ids, **rest):
        sizes.append(len(input_ids))
        if len(input_ids) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return forward(input_ids=input_ids, **rest)

    monkeypatch.setattr(tiny_judge.model, "forward", short_of_memory)
    with pytest.warns(UserWarning, match="a batch of 5 is halved"):
        torch.testing.assert_close(score(tiny_judge, texts), expected, atol=1e-5, rtol=1e-4)
    assert sizes == [5, 2, 3, 1, 2]


def test_probs_of_no_pairs(tiny_judge):
    assert tiny_judge.probs([]).shape == (0, 3)


@pytest.fixture
def windows(tiny_judge):
    """Return a function that cuts a text into parts that the tiny judge reads whole."""
    limit = tiny_judge.answer_tokens
    return lambda text: in_windows(
        text, lambda part: len(tiny_judge.tokenizer(part, add_special_tokens=False).input_ids) <= limit
    )


def test_parts_of_both_texts(tiny_judge, windows):
    long, short = "Rain fell on the mill. " * 60, "the mill burned"
    parts = windows(long)
    assert len(parts) > 1
    (grid,) = tiny_judge.parts([Pair("It burned. who told you why? Thanks.", long, short)])
    assert grid == [[Pair("who told you why?", part, short) for part in parts]]
    (grid,) = tiny_judge.parts([Pair("why", short, long)])
    assert grid == [[Pair("why?", short, part)] for part in parts]
    assert tiny_judge.parts([Pair("why", long, short)], verbatim=True) == [[[Pair("why?", long, short)]]]


def test_probs_of_a_long_text_are_those_of_its_parts(tiny_judge, windows):
    """A premise entails what one of its parts entails; a hypothesis is entailed if each of its parts is."""
    long, short = "Rain fell on the mill. " * 119 + "Snow fell on the barn.", "the mill burned"
    parts = windows(long)
    assert len(parts) > 2
    assert " ".join(parts).split() == long.split()
    for pairs, whole, best in (
        ([(part, short) for part in parts], (long, short), torch.max),
        ([(short, part) for part in parts], (short, long), torch.min),
    ):
        assert float(score(tiny_judge, [whole])) == pytest.approx(float(best(score(tiny_judge, pairs))), abs=1e-5)


def test_a_long_verbatim_text_is_truncated_as_in_the_official_code(tiny_judge):
    long, short = "rain fell on the mill " * 120, "the mill burned"
    probs = tiny_judge.probs([Pair("Why?", long, short)], verbatim=True)
    options = {"truncation": "longest_first", "max_length": 512, "return_tensors": "pt"}
    with torch.no_grad():
        logits = tiny_judge.model(**tiny_judge.tokenizer(f"Why? {long}", f"Why? {short}", **options)).logits
    assert float(probs[0, 0]) == pytest.approx(float(logits.softmax(-1)[0, columns_of(tiny_judge)[0]]), abs=1e-5)


def test_probs_name_a_model_that_gives_nan(tiny_judge, monkeypatch):
    monkeypatch.setattr(tiny_judge.model.classifier.bias, "data", torch.full((3,), torch.nan))
    with pytest.raises(ValueError, match=r"entailment model '.*' gave NaN; load it with dtype='float32'"):
        score(tiny_judge, TEXTS)


def test_parts_and_encode_cut_nothing_off(tiny_judge):
    """Whatever the lengths, every token of question part and answers is in the model's input."""
    (grid,) = tiny_judge.parts([Pair("why " * 900 + "not?", "seven " * 3000, "purple " * 90)])
    rows = [row for claim in grid for row in claim]
    for row, ids in zip(rows, tiny_judge.encode(rows)["input_ids"], strict=True):
        texts = [f"{row.question} {text}" for text in (row.premise, row.hypothesis)]
        tokens = tiny_judge.tokenizer(texts, add_special_tokens=False).input_ids
        assert len(ids) == sum(map(len, tokens)) + 3
    assert sum(row.premise.count("seven") for row in grid[0]) == 3000
    assert sum(claim[0].hypothesis.count("purple") for claim in grid) == 90
    assert {row.question[-4:] for row in rows} == {"not?"}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("who wrote Hamlet", "who wrote Hamlet?"),
        ("who wrote Hamlet ?", "who wrote Hamlet?"),
        ("Good morning! I hope you are well.\nWho wrote Hamlet? Thank you.", "Who wrote Hamlet?"),
        ("who wrote hamlet. I thank you", "who wrote hamlet. I thank you?"),  # no sentence asks: the whole text
        ("Please answer in brief. Which city is it? Thanks.", "Which city is it?"),
        ("Who founded St. Louis?", "Who founded St. Louis?"),
        ("What does the U.S. Constitution say of J. Adams?", "What does the U.S. Constitution say of J. Adams?"),
        ("It burned down in 1871. Why?", "It burned down in 1871. Why?"),
        ("capital of norway", "capital of norway?"),
        ("  ", ""),
    ],
)
def test_asking_sentence(question, expected):
    assert asking_sentence(question) == expected


def test_politeness_and_question_marks_change_nothing(tiny_judge):
    polite = "I am sorry to trouble you again. " * 8
    questions = ["who wrote it", "who wrote it?", f"{polite}who wrote it?", f"who wrote it? {polite}"]
    probs = tiny_judge.probs([Pair(question, *TEXTS[0]) for question in [*questions, "when was it"]])[:, 0].tolist()
    assert len(set(probs[:4])) == 1
    assert probs[4] != probs[0]


def test_the_question_stands_where_the_model_learned_it(tiny_judge, monkeypatch):
    tokenizer, pair = tiny_judge.tokenizer, Pair("Where?", "It is Paris", "Paris")

    def read(scorer):
        return tokenizer.decode(scorer.encode([pair])["input_ids"][0]).lower()

    assert read(tiny_judge).count("where?") == 2
    monkeypatch.setattr(tiny_judge.model.config, "question_once", True, raising=False)
    once = read(EntailmentScorer(tiny_judge.model, tokenizer))
    assert once.count("where?") == 1
    assert once.index("where?") < once.index("it is paris")


def test_a_judge_that_names_no_longest_input_reads_512_tokens(tiny_judge, monkeypatch):
    monkeypatch.setattr(tiny_judge.tokenizer, "model_max_length", int(1e30))
    monkeypatch.setattr(tiny_judge.model.config, "max_position_embeddings", 514)  # RoBERTa's, two of them not usable
    scorer = EntailmentScorer(tiny_judge.model, tiny_judge.tokenizer)
    assert len(scorer.encode([Pair("", "a " * 2000, "b " * 2000)])["input_ids"][0]) == 512


def test_a_judge_that_fails_in_bfloat16_is_read_in_float32(tmp_path, tiny_judge):
    """transformers' DeBERTa v1 mixes dtypes."""
    from transformers import DebertaConfig, DebertaForSequenceClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = DebertaConfig(
        vocab_size=len(tiny_judge.tokenizer), pos_att_type=["c2p", "p2c"], relative_attention=True, **sizes
    )
    config.id2label = {0: "contradiction", 1: "neutral", 2: "entailment"}
    DebertaForSequenceClassification(config).save_pretrained(tmp_path)
    tiny_judge.tokenizer.save_pretrained(tmp_path)
    options = ModelOptions(device="cpu", dtype="bfloat16")
    with pytest.warns(UserWarning, match="loaded in float32: torch.bfloat16 fails"):
        judge = EntailmentScorer.from_pretrained(str(tmp_path), options)
    expected = EntailmentScorer.from_pretrained(str(tmp_path), ModelOptions(device="cpu", dtype="float32"))
    assert torch.equal(judge.probs(asked(TEXTS)), expected.probs(asked(TEXTS)))


def test_identity_sees_the_label_order(tiny_judge, monkeypatch):
    before = identity_hash(tiny_judge.model, tiny_judge.tokenizer)
    monkeypatch.setattr(tiny_judge.model.config, "id2label", {0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"})
    assert identity_hash(tiny_judge.model, tiny_judge.tokenizer) != before


def test_labels_without_entailment_are_refused(tiny_judge, monkeypatch):
    monkeypatch.setattr(tiny_judge.model.config, "id2label", {0: "LABEL_0", 1: "LABEL_1"})
    with pytest.raises(ValueError, match="id2label must name a class 'entailment'"):
        EntailmentScorer(tiny_judge.model, tiny_judge.tokenizer)


@pytest.fixture(scope="module")
def embedded():
    return EntailmentScorer.from_pretrained(options=ModelOptions(device="cpu"))


def test_the_embedded_judge_knows_the_easy_cases(embedded):
    right = [("The capital of France is Paris", "Paris"), ("It is Paris, on the Seine", "Paris")]
    wrong = [("London", "Paris"), ("The capital of France is Lyon", "Paris"), ("I do not know", "Paris")]
    scores = score(embedded, right + wrong, "What is the capital of France?").tolist()
    assert min(scores[:2]) > 0.5 > max(scores[2:])


def test_unread_scripts_are_those_without_words_in_the_vocabulary(tiny_judge, embedded):
    """The tiny model's vocabulary is English, with single letters of other scripts; the embedded one has words."""
    assert [text for text in ("Zürich", "naïve café", "1840 €") if tiny_judge.unread(text)] == []
    assert [text for text in ("서울", "กรุงเทพ", "東京", "Псков", "दिल्ली", "TNF-α") if embedded.unread(text)] == []
    assert tiny_judge.unread("Zürich 東京") == {"東京"}
    assert tiny_judge.unread("서울 🙂") == {"서울", "🙂"}


def test_a_judge_without_a_padding_token_is_named(tiny_judge, monkeypatch):
    scorer = tiny_judge
    monkeypatch.setattr(type(scorer.tokenizer), "pad_token_id", None, raising=False)
    with pytest.raises(ValueError, match="its tokenizer has no padding token; set pad_token"):
        scorer.probs([Pair("Who?", "Ida Voss", "Ida")])
