"""Static embeddings: WordLlama as the encoder of a dense retriever."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from seper_reward.runtime.imports import need


class WordLlamaEncoder:
    """WordLlama's mean token embeddings, in the shape of a ``SentenceTransformer`` as ``DenseRetriever`` asks it.

    Args:
        model: A loaded WordLlama model.
    """

    device = torch.device("cpu")

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def load(cls) -> "WordLlamaEncoder":
        """Load the model of 256 dimensions that the package brings with it.

        Raises:
            OSError: WordLlama is not installed.
        """
        library = need("wordllama", "wordllama")
        # without a cache_dir it looks for its own tokenizer in another folder, and then asks the hub for it
        folder = Path(library.__file__).parent
        return cls(library.WordLlama.load(cache_dir=folder, disable_download=True))

    def encode_document(self, texts: Sequence[str], batch_size: int = 64, **options: Any) -> Any:
        """Return ``(n, 256)`` embeddings of length 1; ``options`` of sentence-transformers have no effect."""
        return self._model.embed(list(texts), norm=True, batch_size=batch_size)

    encode_query = encode_document
