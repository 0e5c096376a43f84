"""Token ids of whole texts."""

from seper_reward.judge.entailment import new_entailment_model
from seper_reward.runtime.token_ids import token_ids


def test_token_ids_are_neither_cut_nor_padded():
    """The embedded judge's tokenizer comes with a limit and with padding."""
    tokenizer = new_entailment_model()[1]
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=128)
    found = {text: token_ids(tokenizer, text) for text in ("Ida Voss ran the mill in Hallow.", "🙂", "")}
    assert found == {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in found}
    assert len(max(found.values(), key=len)) > 3
