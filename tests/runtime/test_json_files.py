"""JSON on disk: errors name file and line, and a damaged line is not taken for a whole one."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seper_reward.runtime.json_files import (
    naming,
    read_json,
    read_lines,
    write_json,
    write_lines,
)

ROWS = [{"key": "a", "text": "فوس \u2028 🙂"}, {"key": "b", "numbers": [0.1, -2]}, {"key": "half \ud83d"}]


def test_read_lines_errors_name_file_and_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n{"b": 2}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 2: expected JSON in UTF-8 \(.*; restore or delete"):
        list(read_lines(path))
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 1: expected JSON"):
        list(read_lines(path))


def test_read_lines_leaves_out_a_torn_end(tmp_path):
    write_lines(tmp_path / "rows", ROWS)
    assert list(read_lines(tmp_path / "rows")) == ROWS
    with (tmp_path / "rows").open("ab") as file:
        file.write(b'{"key": "torn')
    assert list(read_lines(tmp_path / "rows")) == ROWS


def test_write_json_into_links_and_pipes(tmp_path):
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(tmp_path / "target.json")
    write_json(link, {"a": 1})
    assert link.is_symlink()
    assert read_json(tmp_path / "target.json") == {"a": 1}
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        text = pool.submit(pipe.read_text)
        write_json(pipe, {"a": 2})
        assert json.loads(text.result(timeout=30)) == {"a": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "pipe", "target.json"]


def test_naming_adds_the_file_to_errors(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '.*labels\.jsonl'"), naming(Path("labels.jsonl")):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match=r"^mine$"), naming(Path("labels.jsonl")):
        raise OSError("mine")
