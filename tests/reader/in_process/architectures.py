"""Tiny random readers of many architectures, with a tokenizer of their own."""

from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

VOCABULARY = 300
_SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "initializer_range": 0.3, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_GROUPED = {"num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 256}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_SHARED_EXPERT = {**_EXPERTS, "shared_expert_intermediate_size": 32}
_WINDOW = 12


@dataclass(frozen=True)
class Architecture:
    """A tiny model and what the project does with it.

    Attributes:
        family: Name in the table of ``docs/readers.md``.
        config: Name of the configuration's class, without ``Config``.
        layout: How its samples share a prompt.
        sizes: Fields of the configuration, beside the common ones.
        slow: Whether it is left out of quick runs.
    """

    family: str
    config: str
    layout: str
    sizes: dict[str, Any] = field(default_factory=dict)
    slow: bool = False

    def __str__(self) -> str:
        return self.family

    def configuration(self) -> Any:
        """Return the model's configuration."""
        return getattr(transformers, f"{self.config}Config")(**{**_SIZES, **_GROUPED, **self.sizes})

    def model(self) -> Any:
        """Return the random model, in eval mode."""
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(self.configuration()).eval().requires_grad_(False)


def tokenizer() -> Any:
    """Return a byte-level tokenizer of 300 tokens, trained on a few words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bytes_to_text = Tokenizer(models.BPE())
    bytes_to_text.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_to_text.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bytes_to_text.train_from_iterator(["the mill burned down in 1840, says the parish book"] * 8, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytes_to_text, pad_token="<pad>", bos_token="<s>", eos_token="</s>", model_max_length=256
    )


def long_rope(switch: int) -> dict[str, Any]:
    """Return the fields of a configuration whose rotary factors change beyond so many tokens."""
    rope = {
        "rope_type": "longrope", "rope_theta": 10_000.0, "short_factor": [1.0] * 8, "long_factor": [4.0] * 8,
        "original_max_position_embeddings": switch, "factor": 6.4,
    }  # fmt: skip
    return {"rope_parameters": rope, "original_max_position_embeddings": switch}


_MLA = {
    "kv_lora_rank": 16, "q_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16,
    "num_key_value_heads": 4, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 1, "head_dim": 8,
}  # fmt: skip
_LINEAR = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"], "head_dim": 16,
}  # fmt: skip
_MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_chunk_size": 8}
_GRANITE_HYBRID = {**_MAMBA2, "layer_types": ["mamba", "attention"], "shared_intermediate_size": 64}
_PURE_MAMBA2 = {"state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 1, "chunk_size": 8}
_JAMBA = {"mamba_d_state": 8, "mamba_dt_rank": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2}
_JAMBA["use_mamba_kernels"] = False
_RECURRENT_GEMMA = {"lru_width": 64, "attention_window_size": _WINDOW, "block_types": ["recurrent", "attention"]}
_ALTERNATING = {"sliding_window": _WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
_LLAMA4 = {"attention_chunk_size": 16, "head_dim": 16, "num_local_experts": 2, "intermediate_size_mlp": 128}
_GPT_NEO = {"window_size": _WINDOW, "attention_types": [[["global", "local"], 1]], "num_layers": 2, "num_heads": 4}
_GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256, "n_inner": 128}

ARCHITECTURES = [
    Architecture("Llama", "Llama", "tree"),
    Architecture("Qwen2", "Qwen2", "tree", slow=True),
    Architecture("Qwen2-MoE", "Qwen2Moe", "tree", _SHARED_EXPERT),
    Architecture("Qwen3", "Qwen3", "tree", {"head_dim": 16}),
    Architecture("Qwen3-MoE", "Qwen3Moe", "tree", {**_EXPERTS, "head_dim": 16}),
    Architecture("Mistral without a window", "Mistral", "tree", {"sliding_window": None}, slow=True),
    Architecture("Mixtral", "Mixtral", "tree", {"num_local_experts": 4}),
    Architecture("Gemma", "Gemma", "tree", {"head_dim": 16}),
    Architecture("Phi", "Phi", "tree"),
    Architecture("Phi-3", "Phi3", "tree"),
    Architecture("PhiMoE", "Phimoe", "tree", {"num_local_experts": 4}, slow=True),
    Architecture("OLMo", "Olmo", "tree", slow=True),
    Architecture("OLMo 2", "Olmo2", "tree", slow=True),
    Architecture("OLMoE", "Olmoe", "tree", _EXPERTS),
    Architecture("GPT-2", "GPT2", "tree", _GPT2),
    Architecture("GPT-BigCode", "GPTBigCode", "tree", _GPT2),
    Architecture("GPT-NeoX", "GPTNeoX", "tree"),
    Architecture("OPT", "OPT", "tree", {"ffn_dim": 128, "word_embed_proj_dim": 64}),
    Architecture("Falcon", "Falcon", "repeat", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    Architecture("Granite", "Granite", "tree", slow=True),
    Architecture("SmolLM3", "SmolLM3", "tree", slow=True),
    Architecture("Cohere", "Cohere", "tree", {"logit_scale": 1.0}),
    Architecture("GLM", "Glm", "tree", {"head_dim": 16}, slow=True),
    Architecture("GLM-4", "Glm4", "tree", {"head_dim": 16}),
    Architecture("DeepSeek-V2", "DeepseekV2", "tree", {**_MLA, **_EXPERTS}),
    Architecture("DeepSeek-V3", "DeepseekV3", "tree", {**_MLA, **_EXPERTS}, slow=True),
    Architecture("ERNIE 4.5", "Ernie4_5", "tree", {"head_dim": 16}, slow=True),
    Architecture("Nemotron", "Nemotron", "tree", slow=True),
    Architecture("Apertus", "Apertus", "tree", slow=True),
    Architecture("Seed-OSS", "SeedOss", "tree", {"head_dim": 16}, slow=True),
    Architecture("CTRL", "CTRL", "tree", {"n_embd": 64, "dff": 128, "n_layer": 2, "n_head": 4, "n_positions": 256}),
    Architecture("StableLM", "StableLm", "repeat"),
    Architecture("GPT-J", "GPTJ", "repeat", {**_GPT2, "rotary_dim": 8}),
    Architecture("CodeGen", "CodeGen", "repeat", {**_GPT2, "rotary_dim": 8}, slow=True),
    Architecture("GPT-Neo", "GPTNeo", "repeat", _GPT_NEO),
    Architecture("XGLM", "XGLM", "repeat", {"d_model": 64, "ffn_dim": 128, "num_layers": 2, "attention_heads": 4}),
    Architecture("BioGPT", "BioGpt", "repeat"),
    Architecture("Falcon with ALiBi", "Falcon", "repeat", {"alibi": True, "new_decoder_architecture": False}),
    Architecture("BLOOM", "Bloom", "repeat", {"n_layer": 2, "n_head": 4}),
    Architecture("MPT", "Mpt", "repeat", {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 256}),
    Architecture("Mistral with a window", "Mistral", "repeat", {"sliding_window": _WINDOW}),
    Architecture("Starcoder 2 with a window", "Starcoder2", "repeat", {"sliding_window": _WINDOW}, slow=True),
    Architecture("Gemma 2", "Gemma2", "repeat", {"sliding_window": _WINDOW, "head_dim": 16}),
    Architecture("Gemma 3", "Gemma3Text", "repeat", {**_ALTERNATING, "head_dim": 16}),
    Architecture("OLMo 3", "Olmo3", "repeat", _ALTERNATING, slow=True),
    Architecture("gpt-oss", "GptOss", "repeat", {**_ALTERNATING, "head_dim": 16, "num_local_experts": 4}),
    Architecture("Llama 4", "Llama4Text", "repeat", _LLAMA4),
    Architecture("Cohere 2", "Cohere2", "repeat", {**_ALTERNATING, "logit_scale": 1.0}, slow=True),
    Architecture("EXAONE 4", "Exaone4", "repeat", _ALTERNATING, slow=True),
    Architecture("Jamba", "Jamba", "alone", _JAMBA),
    Architecture("Bamba", "Bamba", "alone", {**_MAMBA2, "attn_layer_indices": [1]}, slow=True),
    Architecture("Granite 4 hybrid", "GraniteMoeHybrid", "alone", _GRANITE_HYBRID, slow=True),
    Architecture("Qwen3-Next", "Qwen3Next", "alone", _LINEAR | _SHARED_EXPERT, slow=True),
    Architecture("Qwen3.5", "Qwen3_5Text", "alone", _LINEAR),
    Architecture("Falcon-H1", "FalconH1", "alone", {**_MAMBA2, "mamba_d_ssm": 128, "head_dim": 16}),
    Architecture("LFM2", "Lfm2", "alone", {"layer_types": ["conv", "full_attention"]}),
    Architecture("RecurrentGemma", "RecurrentGemma", "alone", _RECURRENT_GEMMA),
    Architecture("Mamba", "Mamba", "alone", {"state_size": 8}),
    Architecture("Mamba 2", "Mamba2", "alone", _PURE_MAMBA2),
    Architecture("FalconMamba", "FalconMamba", "alone", {"state_size": 8}, slow=True),
    Architecture("RWKV", "Rwkv", "reread", {"attention_hidden_size": 64, "context_length": 256}),
    Architecture("GPT", "OpenAIGPT", "reread", _GPT2),
    Architecture("Phi-3 and Phi-4-mini with long rope", "Phi3", "reread", long_rope(180)),
]
