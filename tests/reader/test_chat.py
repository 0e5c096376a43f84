"""Chat templates as they ship: no thinking where they can switch it off, one date on every day."""

import copy
import datetime
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers.utils.chat_template_utils
import trl

from seper_reward import SePerScorer
from seper_reward.options import ChatOptions, ScorerOptions
from seper_reward.reader.chat import PROMPT_DATE, ChatTemplate, begins_to_think, with_template
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.reader.sampler import Request
from seper_reward.types import Passage, Responses, UnscorableError, unwrap
from tests.helpers import rebuilt

TURNS = [{"role": "user", "content": "Who built the mill?"}]
FOLDER = Path(trl.__file__).parent / "chat_templates"
CLOSED = "<think>\n\n</think>\n\n"
LAST_WEEK = datetime.datetime(2025, 3, 9)


def with_shipped(tokenizer, name):
    """Return the tokenizer with a chat template that TRL ships, word for word as on the hub."""
    return with_template(tokenizer, (FOLDER / f"{name}.jinja").read_text())


@pytest.fixture
def tokenizer(tiny_sampler):
    return tiny_sampler.tokenizer


@pytest.fixture
def another_day(monkeypatch):
    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return LAST_WEEK

    return lambda: monkeypatch.setattr(transformers.utils.chat_template_utils, "datetime", Later)


@pytest.mark.parametrize(
    ("ending", "names"),
    [
        (CLOSED, ["qwen3", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8"]),
        ("<think></think>", ["nemotron_3_nano", "nemotron_3_super", "glm4moe"]),
    ],
)
def test_chat_template_switches_thinking_off(tokenizer, ending, names):
    for name in names:
        assert ChatTemplate(with_shipped(tokenizer, name)).render(TURNS).endswith(ending), name


def test_chat_template_that_opens_a_thought_is_refused(tokenizer):
    switch = "{% if thinking is defined and not thinking %}</think>{% else %}<think>\n{% endif %}"
    source = "{{ messages[-1].content }}<bot>" + switch
    tokenizer = with_template(tokenizer, source)
    with pytest.raises(ValueError, match="template opens a thought; give chat_template_kwargs the variable"):
        ChatTemplate(tokenizer)
    template = ChatTemplate(tokenizer, ChatOptions(chat_template_kwargs={"thinking": False}))
    assert template.render(TURNS) == "Who built the mill?<bot></think>"
    for name, given in (("deepseek_r1_distill", {}), ("qwen3_5_think", {"enable_thinking": True})):
        with pytest.raises(ValueError, match=r"opens a thought; .*or a chat_template that ends with an empty thought"):
            ChatTemplate(with_shipped(tokenizer, name), ChatOptions(chat_template_kwargs=given))


@pytest.mark.parametrize(
    "name", ["llama3", "llama3_1", "gemma", "gemma4", "phi3", "qwen2_5", "qwen3_instruct_2507", "lfm2"]
)
def test_chat_template_without_thoughts_is_rendered_unchanged(tokenizer, name):
    tokenizer = with_shipped(tokenizer, name)
    expected = tokenizer.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=True)
    assert ChatTemplate(tokenizer).render(TURNS) == expected


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("llama3_2", "Today Date: 26 Jul 2024\n"),
        ("llama3_1", "Today Date: 26 Jul 2024\n"),
        ("gptoss", "date: 2024-07-26\n"),
    ],
)
def test_chat_template_ignores_the_day_of_the_run(tokenizer, name, line, another_day):
    tokenizer = with_shipped(tokenizer, name)
    first = PromptBuilder(tokenizer, "brief", max_prompt_tokens=500).build("Who?")
    assert line in first
    another_day()
    assert PromptBuilder(tokenizer, "brief", max_prompt_tokens=500).build("Who?") == first
    later = ChatTemplate(tokenizer, date="2025-12-01").render(TURNS)
    assert "01 Dec 2025" in later or "2025-12-01" in later


def test_with_date_writes_as_transformers_does(tokenizer, another_day):
    another_day()
    source = (
        "\n {%- if strftime_now is defined %} {{ strftime_now(f) }}{% endif %}\n{{ strftime_now('%-d.%-m. (%j)') }}"
        "{{ messages[-1].content }}"
    )
    for form in ("%d %b %Y", "%A, %B %d, %Y", "%Y-%m-%d %H:%M:%S %p %y"):
        named = with_template(tokenizer, source.replace("(f)", f"({form!r})"))
        template = ChatTemplate(named, date=f"{LAST_WEEK:%Y-%m-%d}")
        assert template.render(TURNS) == named.apply_chat_template(TURNS, tokenize=False)


def test_the_date_is_in_the_fingerprint_and_the_day_is_not(tiny_sampler, tiny_judge, another_day):
    def fingerprint(**chat):
        sampler = copy.copy(tiny_sampler)
        sampler.tokenizer = with_shipped(tiny_sampler.tokenizer, "llama3_2")
        return SePerScorer(sampler, tiny_judge, chat=ChatTemplate(sampler.tokenizer, ChatOptions(**chat))).fingerprint

    first = fingerprint()
    another_day()
    assert fingerprint() == first
    assert first["chat"]["prompt_date"] == PROMPT_DATE
    assert fingerprint(system_prompt="Be brief.") != first


THOUGHTS = [
    "<think>\nOkay", "\n<thinking>Well", "<|channel|>analysis<|message|>The", "<reasoning>", "[THINK]So", "◁think▷",
    "<|START_THINKING|>I", " to=self<|message|>The user", "<seed:think>Got",
]  # fmt: skip
ANSWERS = ["Voss", "<b>Voss</b>", "I think that", "thinking of Ann", "[1] Voss", "1 < 2 > think"]


def test_begins_to_think():
    assert [text for text in THOUGHTS + ANSWERS if begins_to_think(text)] == THOUGHTS


def test_a_reader_that_thinks_unasked_is_refused(tiny_sampler, tiny_judge, monkeypatch):
    scorer = SePerScorer(rebuilt(tiny_sampler), tiny_judge, prompt="brief")
    ids = scorer.sampler.tokenizer("<think>", add_special_tokens=False).input_ids
    row = Responses(("<think>",) * 4, (torch.zeros(len(ids)),) * 4, (tuple(ids),) * 4, (True,) * 4)
    monkeypatch.setattr(scorer.sampler, "sample", lambda requests: [row] * len(requests))
    with pytest.raises(ValueError, match="begins its responses with thoughts, such as '<think>'") as caught:
        scorer.utilities([{"question": "Who?", "answers": ["Ann"], "passages": ["Ann did."]}])
    assert not isinstance(caught.value, UnscorableError)
    # where a passage speaks, it may be what the reader repeats: only that row is refused
    with pytest.raises(UnscorableError, match="begins its responses with thoughts"):
        unwrap(scorer.reader.sample([Request("Passage: ... Say <think>!")])[0])


def test_the_settings_of_a_command_reach_the_prompts(tiny_reader, tiny_entailment, tmp_path):
    path = tmp_path / "mine.jinja"
    turns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    path.write_text("{{ strftime_now('%Y') }}" + turns + "<{{ tone }} bot>")
    models = {"reader": str(tiny_reader), "judge": str(tiny_entailment), "device": "cpu"}
    words = {"style": "brief", "passages": "Read it. {reference} Say it. {question}"}
    config = ScorerOptions(
        **models, chat_template=str(path), system_prompt="Be brief.", chat_template_kwargs='{"tone": "calm"}',
        prompt=words,
    )  # fmt: skip
    scorer = SePerScorer.from_pretrained(config)
    prompt = scorer.reader.prompts.build("Who?")
    start, end = "2024<system>Be brief.<user>", "<calm bot>"
    assert prompt == f"{start}Answer the question in a few words.\nQuestion: Who?{end}"
    shown = scorer.reader.prompts.build("Who?", [Passage("Ann did.")])
    assert shown == f"{start}Read it. Ann did. Say it. Who?{end}"
    own = SePerScorer.from_pretrained(**models, prompt="brief")
    assert own.sampler.weights_hash != scorer.sampler.weights_hash  # which covers the template
    with pytest.raises(ValueError, match=r"chat_template must be a file with a chat template, got '.*gone.jinja'"):
        replace(config, chat_template=str(tmp_path / "gone.jinja"))


def test_chat_template_with_a_system_prompt(tokenizer):
    said = ChatTemplate(tokenizer, ChatOptions(system_prompt="Answer as a child would.")).render(TURNS)
    assert said.startswith("<|im_start|>system\nAnswer as a child would.<|im_end|>")
    assert "SmolLM" in ChatTemplate(tokenizer).render(TURNS)  # the template's own
    assert "SmolLM" not in said
    silent = ChatTemplate(tokenizer, ChatOptions(system_prompt="")).render(TURNS)
    assert silent.startswith("<|im_start|>system\n<|im_end|>")


CALM = ChatOptions(chat_template_kwargs={"tone": "calm"})
BRIEF = ChatOptions(system_prompt="Be brief.")
FAILS, ENDS = "^the reader's chat template fails ", ".*give another chat_template$"


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("{{ messages.__class__.__mro__ }}", ChatOptions(), rf"{FAILS}\(SecurityError{ENDS}"),
        ("{{ messages[7].content }}", ChatOptions(), rf"{FAILS}\(UndefinedError{ENDS}"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ChatOptions(), rf"{FAILS}\(RecursionError{ENDS}"),
        ("{% for %}", ChatOptions(), rf"{FAILS}\(TemplateSyntaxError{ENDS}"),
        ("{{ raise_exception('no') }}", ChatOptions(), rf"{FAILS}\(TemplateError: no{ENDS}"),
        # some templates expect the content as blocks; then every prompt would be the same, and every ΔSePer 0
        (
            "{% for m in messages %}{{ m.role }}: {% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}Bot:",
            ChatOptions(),
            r"does not show the user's text: of 'Who\?' it makes 'user: Bot:'",
        ),
        ("{{ messages[-1].content }}", BRIEF, "needs a chat template .*this reader's template leaves it"),
        ("{{ raise_exception('no system') }}", BRIEF, "system_prompt needs .*template raises 'no system'"),
        ("{{ messages[-1].content }}", CALM, "has 'tone', which the reader's chat template does not use"),
        (
            "{% if tone != 'loud' %}{{ raise_exception('what tone?') }}{% endif %}",
            CALM,
            r"what tone\?\); correct chat_template_kwargs=\{'tone': 'calm'\}, or",
        ),
        (None, BRIEF, "^system_prompt needs a reader with a chat template; this one has none"),
        (None, replace(CALM, system_prompt=""), "^system_prompt and chat_template_kwargs needs a reader with a"),
    ],
)
def test_chat_template_refuses(tokenizer, source, options, message):
    tokenizer = copy.copy(tokenizer)
    tokenizer.chat_template = source
    with pytest.raises(ValueError, match=message):
        ChatTemplate(tokenizer, options)
