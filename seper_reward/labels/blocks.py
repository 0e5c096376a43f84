"""Blocks of a label run: neighbouring questions that one process labels, each with a file in ``progress/``.

The file is written whole: its checksum, a line of JSON (the head), and the block's label rows. A process takes a block
by creating its unfinished file.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seper_reward.labels.provenance import query_key
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import json_line, unfinished, write_chunks
from seper_reward.runtime.messages import say
from seper_reward.types import Query

_MOST_BLOCKS = 1000  # a killed process loses one; each is a file
_LARGEST_BLOCK = 256  # questions, unless they are measured in larger batches; a block is in memory


@dataclass(frozen=True)
class Block:
    """One block; ``keys`` has the 32 bytes of each query's hash."""

    places: range  # of its queries in the input
    file: Path
    keys: bytes
    passages: int

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.places)

    def of(self, queries: Sequence[Query]) -> Sequence[Query]:
        """Return the block's part of all queries."""
        return queries[self.places.start : self.places.stop]

    def take(self) -> bool:
        """Claim the block for this process; return whether no other has claimed or written it."""
        self.file.parent.mkdir(exist_ok=True)
        claim = unfinished(self.file)
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            return False
        if self.file.is_file():
            claim.unlink()
            return False
        return True

    def write(self, head: Mapping[str, object], rows: Iterable[Mapping[str, object]]) -> None:
        """Write the file, whole or not at all; rows must be strict JSON, without NaN."""
        text = "".join(json_line(line, default=str, allow_nan=False) for line in (head, *rows)).encode()
        write_chunks(self.file, [_checksum(text), text])

    def head(self) -> dict[str, Any]:
        """Read the head of a written block."""
        with self.file.open("rb") as lines:
            lines.readline()
            head: dict[str, Any] = json.loads(lines.readline())
        return head

    def rows(self) -> list[bytes] | None:
        """Read the label rows; ``None`` if the block is not written or damaged."""
        if not self.file.is_file():
            return None
        checksum, text = self.file.read_bytes().partition(b"\n")[::2]
        if checksum + b"\n" != _checksum(text):
            say(f"{self.file}: damaged, does not match its checksum; its questions are labelled again")
            return None
        return text.splitlines(keepends=True)[1:]


def divide(folder: Path, title: str, queries: Sequence[Query], batch: int) -> list[Block]:
    """Divide queries into blocks of whole batches by the input alone; raise ``ValueError`` if an id is not unique."""
    batches = min(-(-len(queries) // (batch * _MOST_BLOCKS)), -(-_LARGEST_BLOCK // batch))
    size = batch * max(1, batches)
    blocks, ids = [], set[str]()
    for start in range(0, len(queries), size):
        members = queries[start : start + size]
        for query in members:
            if query.id in ids:
                raise ValueError(f"queries must have unique ids, got {query.id!r} more than once")
            ids.add(query.id)
        hashes = [query_key(query) for query in members]
        file = folder / f"{content_key(title, hashes)[:32]}.jsonl"
        passages = sum(len(query.passages) for query in members)
        blocks.append(Block(range(start, start + len(members)), file, bytes.fromhex("".join(hashes)), passages))
    return blocks


def all_rows(blocks: Iterable[Block]) -> Iterator[bytes]:
    """Yield the label rows of written blocks."""
    for block in blocks:
        rows = block.rows()
        if rows is None:
            raise ValueError(f"{block.file} is lost; run the same command again")
        yield from rows


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode() + b"\n"
