"""A chat template with tools, for tokenizers whose own template has none."""

from typing import Any

# ChatML as in Qwen2.5, whose special tokens SmolLM2 has, but shorter: a policy reads it in every rollout
TOOL_TEMPLATE = """\
{%- set system = messages[0].content if messages[0].role == 'system' else '' %}
{%- if tools or system %}
{{- '<|im_start|>system\\n' + system }}
{%- if tools %}
{{- '\\nTools:' }}
{%- for tool in tools %}
{{- ' ' + tool.function.name + '(' + tool.function.parameters.properties | join(', ') + ')' }}
{%- endfor %}
{{- '\\nCall one so: <tool_call>\\n{"name": NAME, "arguments": {ARGUMENT: VALUE}}\\n</tool_call>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif not (loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}"""


def with_tool_template(tokenizer: Any) -> Any:
    """Prepare a tokenizer for tool calls in TRL: keep its own template if that supports them, else set ours (ChatML).

    This needs no model, so that a run with an unfit tokenizer fails before one is loaded.

    Args:
        tokenizer: The policy's tokenizer; changed in place.

    Returns:
        The same tokenizer, with a chat template that renders and a response template that parses tool calls.

    Raises:
        ValueError: The tokenizer's template cannot render tool calls, and its vocabulary has no ChatML tokens.
    """
    from trl.chat_template_utils import add_response_schema, qwen2_5_chat_template, supports_tool_calling

    if tokenizer.chat_template is not None and supports_tool_calling(tokenizer):
        return tokenizer
    missing = {"<|im_start|>", "<|im_end|>"} - set(tokenizer.get_vocab())
    if missing:
        raise ValueError(
            f"the tokenizer's chat template cannot render tool calls, and ours for ChatML needs the tokens "
            f"{', '.join(sorted(missing))}; set tokenizer.chat_template to one of trl/chat_templates"
        )
    tokenizer.chat_template = qwen2_5_chat_template
    add_response_schema(tokenizer)  # TRL tells how to parse <tool_call> by this very template
    tokenizer.chat_template = TOOL_TEMPLATE
    return tokenizer
