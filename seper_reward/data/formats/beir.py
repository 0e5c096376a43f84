"""BEIR (arXiv:2104.08663): a folder of ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``."""

from pathlib import Path
from typing import NamedTuple


class BeirFiles(NamedTuple):
    """The files of one split."""

    queries: Path
    corpus: Path
    qrels: Path | None


def beir_files(source: str) -> BeirFiles | None:
    """Return the files of a BEIR folder; ``None`` if the source is something else.

    The suffix ``:split`` of the source names the file of ``qrels`` with the judgments.

    Raises:
        ValueError: There are several splits and none is named, or the named split does not exist.
    """
    name, _, split = (source, "", "") if Path(source).exists() else source.partition(":")
    queries, corpus = (_file(Path(name), each) for each in ("queries.jsonl", "corpus.jsonl"))
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
