"""Datasets of the ``datasets`` library: saved folders, folders of data files, and ids on the Hugging Face hub."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seper_reward.runtime.imports import need

# org/name, then a revision, a configuration and a split, each optional
_HUB_ID = re.compile(
    r"(?P<name>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>[^:/]+))?(?:/(?P<config>[^:/]+))?(?::(?P<split>.+))?"
)
SAVED = ("dataset_dict.json", "state.json")  # files of DatasetDict.save_to_disk and Dataset.save_to_disk
_LONGEST_ERROR = 300


def open_dataset(source: str, *, streaming: bool = False) -> Iterable[Any]:
    """Open one split of a dataset.

    Args:
        source: A folder written by ``save_to_disk`` of a ``Dataset`` or ``DatasetDict``, a folder of data files in the
            hub's layout, or an id on the hub, ``org/name`` or ``org/name@revision/configuration``. The suffix
            ``:split`` names the split, or for data files and the hub a slice of it, ``:train[:100]``.
        streaming: Whether to read rows of data files and of the hub on demand instead of all at once.

    Returns:
        The rows, a ``Dataset`` or ``IterableDataset``.

    Raises:
        OSError: The folder or dataset does not exist, or the hub cannot be reached.
        ValueError: The dataset has several splits and none is named, or the named split does not exist.
    """
    folder, _, split = (source, "", "") if Path(source).exists() else source.partition(":")
    if Path(folder).is_dir():
        return _open_folder(source, Path(folder), split, streaming)
    found = _HUB_ID.fullmatch(source)
    if found is None:
        raise FileNotFoundError(
            f"{source}: no such file or folder, nor the id of a dataset on the hub, such as org/name:train"
        )
    options = {"name": found["config"], "revision": found["revision"]}
    return _loaded(source, found["name"], found["split"] or "", streaming, options)


def _open_folder(source: str, folder: Path, split: str, streaming: bool) -> Iterable[Any]:
    if not any((folder / name).is_file() for name in SAVED):
        return _loaded(source, str(folder), split, streaming, {})
    library = need("datasets", "datasets")
    with _one_line_errors(source):
        dataset = library.load_from_disk(str(folder))
    return _chosen_split(dataset, str(folder), split)


def _loaded(source: str, name: str, split: str, streaming: bool, options: Mapping[str, Any]) -> Iterable[Any]:
    library = need("datasets", "datasets")
    with _one_line_errors(source), _without_retry_messages():
        dataset = library.load_dataset(name, split=split or None, streaming=streaming, **options)
    chosen = dataset if split else _chosen_split(dataset, source, split)
    return _fetched(source, chosen) if streaming else chosen


def _fetched(source: str, rows: Iterable[Any]) -> Iterator[Any]:
    with _one_line_errors(source):
        yield from rows


def _chosen_split(dataset: Any, source: str, split: str) -> Iterable[Any]:
    """Return a split of a ``DatasetDict`` (default: its only one); a ``Dataset`` has no splits."""
    splits: Mapping[str, Iterable[Any]] = dataset if isinstance(dataset, dict) else {}
    if not splits and split:
        raise ValueError(f"{source}: expected no split, as this is a Dataset, got {split!r}; leave it out")
    if not splits:
        return dataset  # type: ignore[no-any-return]
    if not split and len(splits) == 1:
        return next(iter(splits.values()))
    if split not in splits:
        got = repr(split) if split else "none"
        raise ValueError(
            f"{source}: expected a split, one of {', '.join(splits)}, got {got}; name it after a colon: "
            f"{source}:{next(iter(splits))}"
        )
    return splits[split]


@contextmanager
def _one_line_errors(source: str) -> Iterator[None]:
    """Turn errors of the file system, the network or the library into an ``OSError`` with a one-line message."""
    from datasets.exceptions import DatasetsError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # httpx2 from hub 2 on

    try:
        yield
    except (OSError, ValueError, DatasetsError, httpx.HTTPError) as error:
        message = " ".join(str(error).split())[:_LONGEST_ERROR]
        unreached = isinstance(error, (ConnectionError, httpx.HTTPError))
        hint = "; without network only local files and the hub's cache are readable" if unreached else ""
        raise OSError(
            f"{source}: cannot be read as a dataset of the hub or of local files: {message}{hint}"
        ) from error


@contextmanager
def _without_retry_messages() -> Iterator[None]:
    """Suppress the hub client's warnings about retries."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
