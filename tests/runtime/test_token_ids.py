"""Token ids of whole texts."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from seper_reward.runtime.token_ids import joined_pairs, token_ids


def test_token_ids_are_neither_cut_nor_padded(tiny_entailment):
    """The embedded judge's tokenizer comes with a limit and with padding."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_entailment)
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=128)
    found = {text: token_ids(tokenizer, text) for text in ("Ida Voss ran the mill in Hallow.", "🙂", "")}
    assert found == {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in found}
    assert len(max(found.values(), key=len)) > 3


def words(processor):
    made = Tokenizer(models.WordLevel({"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "ida": 3, "mill": 4}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processor
    return made


SPECIAL = [("[CLS]", 0), ("[SEP]", 1)]


@pytest.mark.parametrize(
    "processor",
    [
        processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0)),
        processors.RobertaProcessing(("[SEP]", 1), ("[CLS]", 0)),  # two between the texts, and one kind
        processors.TemplateProcessing(
            pair="$A:2 [SEP]:2 $B:1 [SEP]:1 [CLS]:0", single="$A", special_tokens=SPECIAL
        ),  # XLNet's
        processors.TemplateProcessing(pair="$A:0 $B:1", single="$A", special_tokens=SPECIAL),
    ],
    ids=["BERT", "RoBERTa", "XLNet", "no special tokens"],
)
def test_joined_pairs_are_those_of_the_tokenizer(processor):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words(processor), unk_token="[UNK]")
    texts = [("ida ran the mill", "ida"), ("", "mill"), ("mill", ""), ("ida", "the old mill")]
    columns = joined_pairs(tokenizer, [tuple(token_ids(tokenizer, text) for text in pair) for pair in texts])
    wanted = tokenizer(texts, return_token_type_ids=True, return_attention_mask=True)
    assert columns == {name: wanted[name] for name in columns}
