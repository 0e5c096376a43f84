"""Load retrievers by their names in settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seper_reward.data.queries import read_corpus
from seper_reward.retrieval.base import Retriever
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.retrieval.dense import DenseRetriever
from seper_reward.retrieval.fusion import FusedRetriever
from seper_reward.retrieval.service import SearchService
from seper_reward.runtime.imports import need
from seper_reward.runtime.json_files import read_json, write_json, write_lines
from seper_reward.runtime.pretrained import EMBEDDED, embedded_encoder_folder, helpful_errors, no_accelerator
from seper_reward.types import Passage

INDEX = "index.json"  # file of a ready index with the name of its bi-encoder
_FAISS, _PASSAGES = "index.faiss", "passages.jsonl"
_ADDRESSES = ("http://", "https://")
_MINILM_NAMES = ("minilm", EMBEDDED)


def load_retriever(
    name: str, corpus: Mapping[str, Passage] | None = None, embeddings_dir: str | Path | None = None
) -> Retriever:
    """Return a retriever by name.

    With a corpus: ``"bm25"``, ``"minilm"`` (the embedded all-MiniLM-L6-v2), the hub id or folder of another
    bi-encoder, or several of these joined by plus signs, such as ``"bm25+minilm"`` (``FusedRetriever``). Without: the
    address of a search service, or the folder of a ready index (``save_index``). ``embeddings_dir`` stores embeddings.
    Raises ``OSError`` if a model or library is missing, ``ValueError`` if the corpus is, or has no words.
    """
    if has_own_passages(name):
        return SearchService(name) if name.startswith(_ADDRESSES) else load_index(name)
    if corpus is None:
        raise ValueError(f"retriever {name!r} needs a corpus to search; give one, or an index folder or a URL")
    if "+" in name and not Path(name).is_dir():
        if not all(name.split("+")):
            raise ValueError(f"retriever={name!r}: expected names joined by plus signs, got an empty one")
        return FusedRetriever([load_retriever(part, corpus, embeddings_dir) for part in name.split("+")])
    if name == "bm25":
        return BM25Retriever(corpus)
    return DenseRetriever(load_encoder(name), corpus, cache_dir=Path(embeddings_dir) if embeddings_dir else None)


def has_own_passages(name: str) -> bool:
    """Return whether the retriever of this name needs no corpus: a search service's address, or an index folder."""
    return name.startswith(_ADDRESSES) or (Path(name) / INDEX).is_file()


def save_index(folder: str | Path, retriever: DenseRetriever, encoder: str) -> None:
    """Write a ready index: ``index.faiss``, ``passages.jsonl`` in its order, and the encoder's name in ``index.json``.

    A folder of these three files can also be made by hand, from a faiss index of inner products.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    need("faiss", "retrieval").write_index(retriever.index, str(folder / _FAISS))
    rows = ({"id": passage.id, "title": passage.title, "text": passage.text} for passage in retriever.passages)
    write_lines(folder / _PASSAGES, rows)
    write_json(folder / INDEX, {"encoder": encoder})


def load_index(folder: str | Path) -> DenseRetriever:
    """Return the retriever over the ready index in a folder, in the layout of ``save_index``."""
    folder = Path(folder)
    encoder = read_json(folder / INDEX).get("encoder")
    if not isinstance(encoder, str):
        raise ValueError(
            f'{folder / INDEX}: expected {{"encoder": NAME}}, got no name; name the bi-encoder of the vectors'
        )
    corpus = read_corpus(folder / _PASSAGES)
    faiss = need("faiss", "retrieval")
    try:
        index = faiss.read_index(str(folder / _FAISS))
    except RuntimeError as error:
        raise OSError(f"{folder / _FAISS}: expected an index that faiss wrote ({error})") from error
    return DenseRetriever(load_encoder(encoder), corpus, index=index)


def load_encoder(name: str) -> Any:
    """Return the bi-encoder of a dense retriever by name: ``"minilm"``, a hub id or a folder; raises ``OSError``."""
    source = str(embedded_encoder_folder()) if name in _MINILM_NAMES else name
    library = need("sentence_transformers", "retrieval")
    with helpful_errors("retriever", name, "bm25, minilm, an index folder, a URL, a local folder or a hub id"):
        return library.SentenceTransformer(source, device="cpu" if no_accelerator() else None)
