"""Readers of many architectures: their own log-probabilities in the layout that is chosen, or a refusal by name."""

import re
from pathlib import Path

import pytest
import torch
import transformers

from seper_reward import SePerScorer
from seper_reward.options import ReaderOptions
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.in_process.self_check import check_tolerance, greatest_difference
from seper_reward.runtime.pretrained import LoadedModel
from tests.helpers import asking, prompt_ids, teacher_forced
from tests.reader.in_process.architectures import ARCHITECTURES, Architecture, tokenizer

START = "The mill burned down in 1840, says the parish book. "
PROMPTS = [f"{START}{tail}" for tail in ("Why?", "When did the mill burn down?", "It was never built again. Why?")]
PROMPTS.append("Who?")
BY_FAMILY = {each.family: each for each in ARCHITECTURES}
_MINIMAX = {"head_dim": 16, "num_local_experts": 2, "layer_types": ["full_attention", "linear_attention"]}
UNUSUAL = [Architecture("MiniMax", "MiniMax", "alone", {**_MINIMAX, "block_size": 8})]
TABLE = Path(__file__).parents[3] / "docs" / "readers.md"


@pytest.fixture(scope="module")
def words():
    return tokenizer()


def loaded(model, words):
    return LoadedModel(model, words, "tiny")


def load(architecture, words, layout=None, dtype=torch.float32):
    model = architecture.model().to(dtype)
    options = ReaderOptions(num_samples=3, max_new_tokens=6, stop=())
    return ResponseSampler.from_pretrained(options, loaded(model, words), layout)


@pytest.mark.parametrize(
    "architecture",
    [pytest.param(each, marks=[pytest.mark.slow] if each.slow else []) for each in ARCHITECTURES],
    ids=str,
)
def test_log_probs_are_the_models_own_and_do_not_depend_on_the_batch(architecture, words):
    """Prompts of unequal length, some with a common start; some shorter, some longer than a window of 12."""
    sampler = load(architecture, words)
    # since transformers 5.24, these two support any mask
    any_mask = architecture.family in ("GPT-J", "CodeGen") and architecture.model().is_backend_compatible()
    assert sampler.layout == ("tree" if any_mask else architecture.layout)
    together = sampler.sample(asking(PROMPTS))
    for prompt, responses in zip(PROMPTS, together, strict=True):
        for log_probs, token_ids in zip(responses.token_log_probs, responses.token_ids, strict=True):
            torch.testing.assert_close(log_probs, teacher_forced(sampler, prompt, token_ids), atol=1e-3, rtol=0)
    alone = [sampler.sample(asking([prompt]))[0] for prompt in PROMPTS]
    assert [row.token_ids for row in together] == [row.token_ids for row in alone]
    scored = sampler.sample(asking(PROMPTS, questions=dict.fromkeys(PROMPTS, "?")))
    for prompt, responses in zip(PROMPTS, scored, strict=True):
        *before, last = prompt_ids(sampler, prompt)
        assert words.decode([last]) == "?"
        with torch.no_grad():
            log_probs = sampler.model(input_ids=torch.tensor([before])).logits[0, -1].log_softmax(-1)
        assert responses.question_log_prob == pytest.approx(float(log_probs[last]), abs=1e-3)
    given = sampler.log_probs(PROMPTS, [" in 1840"] * len(PROMPTS))
    for prompt, log_probs in zip(PROMPTS, given, strict=True):
        token_ids = words(" in 1840").input_ids
        torch.testing.assert_close(log_probs, teacher_forced(sampler, prompt, token_ids), atol=1e-3, rtol=0)


def log_probs_by_prefix(sampler, prompt, token_ids):
    """Return what the model gives each token if it is called with all that comes before, and nothing else."""
    ids, found = prompt_ids(sampler, prompt), []
    for token in token_ids:
        found.append(sampler.model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)[token])
        ids = [*ids, token]
    return torch.stack(found)


def test_long_rope_is_read_as_in_a_batch_of_its_own(words):
    """Below the switch at 40 tokens, at it, beyond it, and across it while decoding; all with a common start."""
    switch = {"original_max_position_embeddings": 40}
    rope = BY_FAMILY["Phi-3 and Phi-4-mini with long rope"].sizes["rope_parameters"] | switch
    model = Architecture("", "Phi3", "reread", {"rope_parameters": rope, **switch}).model()
    sampler = ResponseSampler(model, words, ReaderOptions(num_samples=3, max_new_tokens=6, stop=()))
    prompts = ["x" * length for length in (10, 34, 35, 39, 40, 41, 60)]
    assert [len(prompt_ids(sampler, prompt)) for prompt in prompts] == [10, 34, 35, 39, 40, 41, 60]
    together = sampler.sample(asking(prompts))
    assert [row.token_ids for row in together] == [sampler.sample(asking([prompt]))[0].token_ids for prompt in prompts]
    for prompt, responses in zip(prompts, together, strict=True):
        for log_probs, token_ids in zip(responses.token_log_probs, responses.token_ids, strict=True):
            expected = log_probs_by_prefix(sampler, prompt, token_ids)
            torch.testing.assert_close(log_probs, expected, atol=1e-3, rtol=0)


def test_a_reader_without_a_cache_says_that_it_is_slow(words, capsys):
    load(BY_FAMILY["Phi-3 and Phi-4-mini with long rope"], words)
    assert "is read without a cache, which is slow" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["Llama", "Qwen2-MoE", "Granite 4 hybrid", "Jamba", "Mamba"])
def test_rounding_does_not_refuse_a_reader(family, dtype, words):
    load(BY_FAMILY[family], words, dtype=dtype)


@pytest.mark.parametrize(
    ("family", "layout"),
    [("Falcon with ALiBi", "tree"), ("GPT-Neo", "tree"), ("Mamba", "tree"), ("BLOOM", "tree"), ("RWKV", "alone")],
)
def test_a_layout_that_does_not_fit_is_refused_when_the_reader_is_loaded(family, layout, words):
    name = rf"reader 'tiny' \(\w+, layout {layout}\)"
    with pytest.raises(ValueError, match=rf"{name}.*(differ by \d|does not decode).*use another reader") as refused:
        load(BY_FAMILY[family], words, layout)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("family", ["Llama", "Mistral with a window", "Mamba", "GPT-Neo"])
def test_the_layout_reread_fits_any_model_and_says_the_same(family, words):
    chosen, reread = load(BY_FAMILY[family], words), load(BY_FAMILY[family], words, "reread")
    assert [row.token_ids for row in reread.sample(asking(PROMPTS))] == [
        row.token_ids for row in chosen.sample(asking(PROMPTS))
    ]


@pytest.mark.parametrize("architecture", UNUSUAL, ids=str)
def test_a_model_whose_cache_does_not_fit_is_reread(architecture, words, tiny_judge, capsys):
    sampler = load(architecture, words)
    assert sampler.layout == sampler.reading_with(architecture.model()).layout == "reread"
    assert re.search(r"layout alone\).*; it is read without a cache", capsys.readouterr().err)
    assert SePerScorer(sampler, tiny_judge, prompt="brief").fingerprint["batching"]["layout"] == "reread"
    with pytest.raises(ValueError, match=r"layout alone\).*use another reader"):
        load(architecture, words, "alone")


@pytest.mark.parametrize("kind", ["BertLMHeadModel", "BertGenerationDecoder", "XLNetLMHeadModel"])
def test_a_model_that_sees_what_comes_next_is_no_reader_in_any_layout(kind, words):
    config = re.sub(r"(LMHeadModel|Decoder)$", "Config", kind)
    sizes = {"vocab_size": len(words), "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    more = {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128} if "XLNet" in kind else {}
    torch.manual_seed(0)
    model = getattr(transformers, kind)(getattr(transformers, config)(**sizes, **more, initializer_range=0.3)).eval()
    for layout in (None, "reread"):
        with pytest.raises(ValueError, match=rf"reader 'tiny' \({kind}, .*another reader"):
            ResponseSampler.from_pretrained(ReaderOptions(), loaded(model, words), layout)


def test_positions_that_padding_shifts_are_found(words):
    """The decoder half of BART, which reads a prompt rightly by itself and wrongly beside a longer one."""
    sizes = {"d_model": 64, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 128, "init_std": 0.3}
    torch.manual_seed(0)
    model = transformers.BartForCausalLM(transformers.BartConfig(vocab_size=len(words), **sizes)).eval()
    with pytest.raises(ValueError, match=r"BartForCausalLM.*differ by \d"):
        ResponseSampler.from_pretrained(ReaderOptions(), loaded(model, words), "repeat")


def test_the_table_in_the_docs_is_what_is_tested():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = [(family, layout) for layout, families in rows for family in families.split(", ")]
    assert sorted(shown) == sorted((each.family, each.layout) for each in ARCHITECTURES)
    assert len(BY_FAMILY) == len(shown)
    assert sum(not each.slow for each in ARCHITECTURES) >= 40


def test_the_check_by_hand():
    found = [torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -1.0, -4.0])]
    expected = [torch.tensor([-1.1, -2.1]), torch.tensor([-1.0, -1.3, -4.6])]
    assert greatest_difference(found, expected) == pytest.approx(0.3)
    assert greatest_difference([torch.tensor([torch.nan])], [torch.tensor([-1.0])]) == torch.inf
    assert check_tolerance(torch.float32) < check_tolerance(torch.bfloat16) == check_tolerance(torch.float16)


def test_a_layout_that_does_not_exist_is_refused(words):
    with pytest.raises(ValueError, match="layout must be one of tree, repeat, alone, reread, got 'forest'"):
        ResponseSampler(BY_FAMILY["Llama"].model(), words, layout="forest")
    with pytest.raises(ValueError, match="max_batch_tokens must be at least 1, got 0"):
        ReaderOptions(max_batch_tokens=0)
