"""JSON on disk: errors name file and line, and a damaged line is not taken for a whole one."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seper_reward.runtime.json_files import (
    checked_line,
    naming,
    read_checked_lines,
    read_json,
    read_lines,
    write_checked_lines,
    write_json,
    write_lines,
)

ROWS = [{"key": "a", "text": "فوس \u2028 🙂"}, {"key": "b", "numbers": [0.1, -2]}, {"key": "c"}]


def test_errors_name_file_and_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n{"b": 2}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 2: expected JSON in UTF-8 \(.*; restore or delete"):
        list(read_lines(path))
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 1: expected JSON"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("text", "message"), [("{", "expected JSON in UTF-8"), ("[]", "expected a JSON object, got list")]
)
def test_errors_name_the_file(tmp_path, text, message):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(ValueError, match=rf"summary\.json: {message}"):
        read_json(tmp_path / "summary.json")


def test_what_is_written_is_read_but_for_a_torn_end(tmp_path):
    write_lines(tmp_path / "plain", ROWS)
    write_checked_lines(tmp_path / "checked", ROWS)
    damaged = []
    for name, read in (("plain", read_lines), ("checked", lambda path: read_checked_lines(path, damaged.append))):
        assert list(read(tmp_path / name)) == ROWS
        with (tmp_path / name).open("ab") as file:
            file.write(checked_line(ROWS[0]).encode()[:-1])
        assert list(read(tmp_path / name)) == ROWS
    assert not damaged


def test_a_link_stays_one_and_a_pipe_gets_the_text(tmp_path):
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


def test_no_changed_byte_is_believed(tmp_path):
    path = tmp_path / "entries"
    write_checked_lines(path, ROWS)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for value in (whole[place] ^ 1, 0, ord("\n"), ord("\r"), ord(" ")):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            damaged = []
            found = list(read_checked_lines(path, damaged.append))
            assert all(row in ROWS for row in found)
            lost = [row for row in ROWS if row not in found]
            if lost:  # what is lost is named, but for an end that looks torn
                assert damaged or lost == ROWS[-1:]
                assert all(str(path) in where for where in damaged)


def test_a_checked_line_is_strict_json():
    assert json.loads(checked_line({"when": Path("x")}).split(" ", 1)[1]) == {"when": "x"}
    with pytest.raises(ValueError, match="JSON compliant"):
        checked_line({"label": float("nan")})


def test_a_full_disk_is_named(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '.*labels\.jsonl'"), naming(Path("labels.jsonl")):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match=r"^mine$"), naming(Path("labels.jsonl")):
        raise OSError("mine")
