"""Embeddings of texts by a sentence-transformers bi-encoder, optionally stored on disk."""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import torch
from tqdm.auto import tqdm

from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.hashing import content_key, hash_with_tokenizer, weights_hash
from seper_reward.runtime.pretrained import fast_dtype

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_BATCH_SIZE = 64  # texts per forward pass
CHUNK = 2048  # passages that are embedded together, sorted by length, and stored in one file


class Embedder:
    """Embeds texts with a ``SentenceTransformer`` and its prompts and routes; unit vectors if it compares these."""

    def __init__(self, encoder: "SentenceTransformer", dtype: torch.dtype | None = None) -> None:
        self._encoder, self._given_dtype = encoder, dtype
        self._unit = compares_unit_vectors(encoder)

    def __getstate__(self) -> dict[str, Any]:
        """Move a pickled encoder to the CPU: the receiving process may have no accelerator."""
        on_cpu = self._encoder.device.type == "cpu"
        return {**self.__dict__, "_encoder": self._encoder if on_cpu else copy.deepcopy(self._encoder).to("cpu")}

    @property
    def _dtype(self) -> torch.dtype:
        return self._given_dtype or fast_dtype(self._encoder.device)

    def questions(self, texts: Sequence[str]) -> np.ndarray:
        """Return fp32 vectors of shape (number of texts, dimension)."""
        return self._embed(self._encoder.encode_query, texts)

    def passages(self, texts: Sequence[str], cache_dir: Path | None = None, share: bool = False) -> np.ndarray:
        """Return fp32 vectors of shape (number of texts, dimension); at least one text is needed.

        ``cache_dir`` is a folder for vectors, by weights and texts, so interrupted commands resume. With ``share`` all
        processes must call this together: each embeds its share, and gets all vectors.
        """
        processes = process_state().num_processes if share else 1
        size = CHUNK if cache_dir else min(CHUNK, math.ceil(len(texts) / processes))
        chunks = [texts[start : start + size] for start in range(0, len(texts), size)]
        mine = shard(chunks) if share else chunks
        embed = partial(self._stored_chunk, Path(cache_dir), self._identity()) if cache_dir else self._passage_chunk
        vectors = [embed(chunk) for chunk in tqdm(mine, "embedding passages", unit="chunk", disable=len(mine) < 2)]
        together: np.ndarray = np.concatenate(gather_in_order(vectors) if share else vectors)
        return together

    def _passage_chunk(self, texts: Sequence[str]) -> np.ndarray:
        return self._embed(self._encoder.encode_document, texts)

    def _stored_chunk(self, folder: Path, identity: str, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts from the file named by their hash, made if absent."""
        path = folder / f"{content_key(identity, list(texts))}.npy"
        if not path.is_file():
            embedded = self._passage_chunk(texts)
            folder.mkdir(parents=True, exist_ok=True)
            # a unique name: other processes and runs may embed the same texts
            unfinished = path.with_suffix(f".{uuid4().hex}.tmp")
            with unfinished.open("wb") as file:
                np.save(file, embedded, allow_pickle=False)
            unfinished.replace(path)
        vectors: np.ndarray = np.load(path, allow_pickle=False)
        return vectors

    def _embed(self, encode: Callable[..., Any], texts: Sequence[str]) -> np.ndarray:
        with torch.autocast(self._encoder.device.type, self._dtype, enabled=self._dtype != torch.float32):
            vectors = encode(
                list(texts), batch_size=_BATCH_SIZE, normalize_embeddings=self._unit, show_progress_bar=False
            )
        return vectors.astype(np.float32)  # type: ignore[no-any-return]

    def _identity(self) -> str:
        """Return a hash of everything that affects the vector of a passage."""
        encoder = self._encoder
        # the kinds of modules and their settings: pooling, lower case
        modules = str(encoder) + ("" if self._unit else ", vectors as they are")
        sizes = encoder.max_seq_length, encoder.truncate_dim
        parts = [weights_hash(encoder), modules, encoder.prompts, sizes, str(self._dtype)]
        return hash_with_tokenizer(parts, encoder.tokenizer)


def compares_unit_vectors(encoder: "SentenceTransformer") -> bool:
    """Return whether the encoder's similarity is cosine, which needs vectors of length 1, rather than dot product."""
    similarity = encoder.similarity_fn_name
    if similarity not in ("cosine", "dot"):
        raise ValueError(f"similarity_fn_name of the bi-encoder must be 'cosine' or 'dot', got {similarity!r}")
    return bool(similarity == "cosine")
