"""The tool template: short, whole, prefix-preserving, and parsed back."""

import pytest
from transformers import AutoTokenizer
from transformers.utils import get_json_schema
from trl.chat_template_utils import (
    is_chat_template_prefix_preserving,
    parse_response,
    qwen2_5_chat_template,
    supports_tool_calling,
)

from seper_reward.reader.loading import embedded_reader_folder
from seper_reward.reward import with_tool_template
from seper_reward.reward.environment import RetrievalEnvironment
from seper_reward.runtime.pretrained import embedded_encoder_folder

CALL = {"type": "function", "function": {"name": "search", "arguments": {"query": 'who "owns" it'}}}
MESSAGES = [
    {"role": "user", "content": "Who owns it?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "name": "search", "content": "Ann owns it."},
    {"role": "assistant", "content": "Ann"},
]


@pytest.fixture
def tokenizer():
    return AutoTokenizer.from_pretrained(embedded_reader_folder())


def test_with_tool_template_of_smollm2(tokenizer):
    assert not supports_tool_calling(tokenizer)
    assert with_tool_template(tokenizer) is tokenizer
    assert supports_tool_calling(tokenizer)
    assert is_chat_template_prefix_preserving(tokenizer)
    tools = [get_json_schema(RetrievalEnvironment.search)]
    text = tokenizer.apply_chat_template(MESSAGES, tools=tools, tokenize=False)
    for part in ("search(query)", '"arguments": {"query": "who \\"owns\\" it"}}', "Ann owns it.", "assistant\nAnn<"):
        assert part in text
    start = tokenizer.apply_chat_template(MESSAGES[:1], tools=tools, add_generation_prompt=True).input_ids
    tokenizer.chat_template = qwen2_5_chat_template
    long = tokenizer.apply_chat_template(MESSAGES[:1], tools=tools, add_generation_prompt=True).input_ids
    assert len(start) < 0.4 * len(long)


def test_with_tool_template_parses_calls(tokenizer):
    with_tool_template(tokenizer)
    said = tokenizer.apply_chat_template(MESSAGES, tokenize=False).split("<|im_start|>assistant\n")[1]
    ids = tokenizer(said.split("<|im_start|>")[0].rstrip(), add_special_tokens=False).input_ids
    parsed = parse_response(tokenizer, ids, prefix=[])
    assert parsed["tool_calls"][0]["function"] == CALL["function"]
    plain = tokenizer("Ann<|im_end|>", add_special_tokens=False).input_ids
    assert parse_response(tokenizer, plain, prefix=[]) == {"role": "assistant", "content": "Ann"}


def test_with_tool_template_keeps_a_good_template(tokenizer):
    tokenizer.chat_template = qwen2_5_chat_template
    assert with_tool_template(tokenizer).chat_template == qwen2_5_chat_template


def test_with_tool_template_refuses_other_tokens():
    encoder = AutoTokenizer.from_pretrained(embedded_encoder_folder())
    with pytest.raises(ValueError, match=r"needs the tokens <\|im_end\|>, <\|im_start\|>"):
        with_tool_template(encoder)
