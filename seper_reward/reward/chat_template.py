"""A chat template with tools, for tokenizers whose template does not support them."""

from typing import Any

from seper_reward.reader.chat import TOOL_TEMPLATE


def with_tool_template(tokenizer: Any) -> Any:
    """Prepare a tokenizer for tool calls in TRL: keep a template that supports them, else set a ChatML template.

    No model is needed, so a run with an unsuitable tokenizer fails early. The tokenizer is changed in place, and
    returned with a chat template that renders and a response template that parses tool calls.

    Raises:
        ValueError: The tokenizer's template cannot render tool calls, and its vocabulary has no ChatML tokens.
    """
    from trl.chat_template_utils import add_response_schema, qwen2_5_chat_template, supports_tool_calling

    if tokenizer.chat_template is not None and supports_tool_calling(tokenizer):
        return tokenizer
    missing = {"<|im_start|>", "<|im_end|>"} - set(tokenizer.get_vocab())
    if missing:
        raise ValueError(
            f"the tokenizer's chat template cannot render tool calls, and the ChatML template needs the tokens "
            f"{', '.join(sorted(missing))}; set tokenizer.chat_template to one of trl/chat_templates"
        )
    tokenizer.chat_template = qwen2_5_chat_template
    add_response_schema(tokenizer)  # TRL recognises only its own template, and then parses <tool_call>
    tokenizer.chat_template = TOOL_TEMPLATE
    return tokenizer
