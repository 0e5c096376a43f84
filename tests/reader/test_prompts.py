"""Prompts: the paper's words, cut passages, whole questions."""

from dataclasses import replace

import pytest
from transformers import AutoTokenizer

from seper_reward import Passage
from seper_reward.data.answers import contains_answer
from seper_reward.data.inputs import load_input
from seper_reward.options import ScorerOptions
from seper_reward.reader.loading import embedded_reader_folder
from seper_reward.reader.prompts import PLACEBO, STYLES, PromptBuilder, prompt_style

QUESTION = "Who built the {reference} mill?"  # braces in a question are text


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(embedded_reader_folder())


@pytest.fixture
def plain_tokenizer(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", None)
    return tokenizer


def tokens(tokenizer, text):
    return len(tokenizer(text, add_special_tokens=False).input_ids)


@pytest.mark.parametrize(
    ("passages", "source", "shown"),
    [
        ((), "your own knowledge", ""),
        ((Passage("Voss did."),), "the given document", "The following are given documents. Voss did. "),
    ],
)
def test_the_papers_prompts_word_for_word(plain_tokenizer, passages, source, shown):
    built = PromptBuilder(plain_tokenizer, "paper", max_prompt_tokens=500).build("Who?", passages)
    only = "Only give me the answer and do not output any other words. "
    assert built == f"Answer the question based on {source}. {only}{shown}Question: Who?\nAnswer:"


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("paper", "The following are given documents. [1] Mill: Voss did.\n[2] Ann did. Question: Who?"),
        ("brief", "Passage: [1] Mill: Voss did.\n[2] Ann did.\nQuestion: Who?"),
    ],
)
def test_build_numbers_several_passages(plain_tokenizer, style, expected):
    builder = PromptBuilder(plain_tokenizer, style, max_prompt_tokens=500)
    assert expected in builder.build("Who?", (Passage("Voss did.", "Mill"), Passage("Ann did.")))
    assert "[1]" not in builder.build("Who?", (Passage("Voss did.", "Mill"),))


@pytest.mark.parametrize("chat", [True, False])
def test_build_has_the_same_examples_on_both_sides(tokenizer, chat, monkeypatch):
    if not chat:
        monkeypatch.setattr(tokenizer, "chat_template", None)
    builder = PromptBuilder(tokenizer, "few_shot", max_prompt_tokens=500)
    closed, given = builder.build("Who?"), builder.build("Who?", (Passage("Voss did."),))
    brief = [
        PromptBuilder(tokenizer, "brief", max_prompt_tokens=500).build("Who?", passages)
        for passages in ((), (Passage("Voss did."),))
    ]
    examples = closed[: closed.rindex("Answer the question")]
    assert given.startswith(examples)
    assert examples.count("Peter Voss") == 2  # in the passage, and as the response
    if not chat:
        assert [closed, given] == [examples + prompt for prompt in brief]


def test_prompt_style_of_ones_own_words(plain_tokenizer):
    texts = {"style": "few_shot", "closed_book": "Say: {question}", "passages": "{question} <{reference}>"}
    style = prompt_style(ScorerOptions(prompt=texts))
    builder = PromptBuilder(plain_tokenizer, style, max_prompt_tokens=500)
    assert builder.build("Who?").endswith("\n\nSay: Who?\nAnswer:")
    built = builder.build(QUESTION, (Passage("Voss {question} did."),))
    assert built.endswith(f"\n\n{QUESTION} <Voss {{question}} did.>\nAnswer:")
    assert built.startswith("Who built the Hallow Mill? <The Hallow Mill was built")
    assert style.placebo == PLACEBO


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("closed_book_prompt", "Say it.", "must be a text with .*got none"),
        ("closed_book_prompt", "{reference} {question}", "must be a text with .*got {question}, {reference}"),
        ("passages_prompt", "Say: {question}", "must be a text with .*got {question}"),
        ("passages_prompt", "{reference} {question} {", "must be a text with .*got {}, {question}, {reference}"),
        ("baseline", "zero", "must be"),
        ("placebo", " ", "must be the text of a passage"),
    ],
)
def test_prompt_style_that_cannot_be_is_refused(field, text, message):
    with pytest.raises(ValueError, match=f"{field} {message}"):
        replace(STYLES["paper"], **{field: text})


@pytest.mark.parametrize("style", STYLES)
def test_build_with_a_placebo(tokenizer, style):
    plain = PromptBuilder(tokenizer, style, max_prompt_tokens=500)
    options = ScorerOptions(prompt=style, baseline="placebo")
    placebo = PromptBuilder(tokenizer, prompt_style(options), max_prompt_tokens=500)
    assert placebo.build("Who?") == plain.build("Who?", (Passage(PLACEBO),)) != plain.build("Who?")
    shown = (Passage("Voss did."),)
    assert placebo.build("Who?", shown) == plain.build("Who?", shown)
    assert not placebo.cuts("Who?", ())
    soup = replace(options, prompt={"style": style, "placebo": "Soup."})
    own = PromptBuilder(tokenizer, prompt_style(soup), max_prompt_tokens=500)
    assert own.build("Who?") == plain.build("Who?", (Passage("Soup."),))


def test_the_placebo_answers_no_question_of_the_demo_and_is_as_long_as_its_passages(tokenizer):
    queries = load_input().queries
    assert not any(contains_answer(PLACEBO, query.answers) for query in queries)
    lengths = sorted(tokens(tokenizer, passage.full_text) for query in queries for passage in query.passages)
    assert lengths[len(lengths) // 4] <= tokens(tokenizer, PLACEBO) <= lengths[-len(lengths) // 4]


@pytest.mark.parametrize("style", STYLES)
def test_build_uses_the_chat_template(tokenizer, style):
    builder = PromptBuilder(tokenizer, style, max_prompt_tokens=500)
    for passages in ((), (Passage("Voss {question} did.", title="Mills"),)):
        prompt = builder.build(QUESTION, passages)
        assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert prompt.count(QUESTION) == 1
        assert all(f"{p.title}: {p.text}" in prompt for p in passages)


def test_response_text_needs_a_space_without_a_template(plain_tokenizer):
    builder = PromptBuilder(plain_tokenizer, "brief", max_prompt_tokens=500)
    assert builder.response_text("Ann") == " Ann"
    assert builder.response_texts(["Ann", "Bob", "Ann"]) == [" Ann", " Bob"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("limit", [300, 420])
def test_build_cuts_long_passages_and_no_question(tokenizer, style, limit):
    passages = (Passage("short one"), Passage("mill 🙂 שלום " * 3000), Passage("brook " * 900))
    prompt = PromptBuilder(tokenizer, style, max_prompt_tokens=limit).build(QUESTION, passages)
    assert limit - 12 <= tokens(tokenizer, prompt) <= limit
    assert QUESTION in prompt
    assert "short one" in prompt
    assert "mill 🙂" in prompt
    assert "brook brook" in prompt


def test_cuts_and_passage_bound(tokenizer):
    short, long = Passage("Voss built it."), Passage("brook " * 900)
    builder = PromptBuilder(tokenizer, "brief", max_prompt_tokens=300)
    assert [builder.cuts("Who?", passages) for passages in ([short], [long], [short, long])] == [False, True, True]
    assert (builder.max_prompt_tokens, builder.max_passage_tokens) == (300, None)
    bounded = PromptBuilder(tokenizer, "brief", max_prompt_tokens=300, max_passage_tokens=2)
    assert bounded.cuts("Who?", [short])
    assert "Passage: Voss\nQuestion" in bounded.build("Who?", [short])
