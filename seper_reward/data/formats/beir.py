"""BEIR (arXiv:2104.08663): a folder of ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``.

A query is ``{_id, text, metadata}``. Few of BEIR's sets have answers: HotpotQA's are in ``metadata.answer``.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from seper_reward.data.formats.layout import Row

_CORPUS, _QUERIES = "corpus.jsonl", "queries.jsonl"
_ANSWERS = ("answers", "answer")


class BeirQueries:
    """Rows of ``queries.jsonl``."""

    name = "BEIR"

    def fits(self, row: Row, needed: Collection[str]) -> bool:
        """Return whether a row is a text with an id."""
        return {"_id", "text"} <= set(row) and not {"question", "passages"} & set(row)

    def read_from(self, row: Row) -> str:
        """Return the source columns of the fields, for messages."""
        return "question from 'text', answers from 'answers' or 'metadata.answer'"

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row as a question, with the answers of the row or its metadata."""
        own = {name: value for name, value in row.items() if name not in ("text", "title", "metadata", *_ANSWERS)}
        metadata = row.get("metadata")
        sources = [row, metadata] if isinstance(metadata, Mapping) else [row]
        answers = [source[name] for source in sources for name in _ANSWERS if source.get(name) is not None]
        return {**own, "question": row["text"], **({"answers": answers[0]} if answers else {})}


class BeirFiles(NamedTuple):
    """The files of one split."""

    queries: Path
    corpus: Path
    qrels: Path | None


def beir_files(source: str) -> BeirFiles | None:
    """Return the files of a BEIR folder; ``None`` if the source is something else.

    Args:
        source: The folder; the suffix ``:split`` names the file of ``qrels`` with the judgments.

    Raises:
        ValueError: There are several splits and none is named, or the named split does not exist.
    """
    name, _, split = (source, "", "") if Path(source).exists() else source.partition(":")
    queries, corpus = (_file(Path(name), each) for each in (_QUERIES, _CORPUS))
    if queries is None or corpus is None:
        return None
    splits = {path.stem: path for path in sorted((Path(name) / "qrels").glob("*.tsv"))}
    if not splits and not split:
        return BeirFiles(queries, corpus, None)
    if not split and len(splits) == 1:
        return BeirFiles(queries, corpus, *splits.values())
    if split not in splits:
        got = repr(split) if split else "none"
        raise ValueError(
            f"{name}: expected a split of qrels/, one of {', '.join(splits) or 'none'}, got {got}; name it after a "
            f"colon: {name}:{next(iter(splits), 'test')}"
        )
    return BeirFiles(queries, corpus, splits[split])


def _file(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
