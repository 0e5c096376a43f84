"""Records on disk are a sequence like any other."""

import os

import pytest

from seper_reward.runtime.on_disk import OnDisk


def test_it_is_a_sequence_that_grows():
    rows = [{"id": "é" * at, "passages": [at]} for at in range(7)]
    kept = OnDisk(rows[:5])
    assert list(kept) == rows[:5]
    for row in rows[5:]:
        kept.append(row)
    assert (len(kept), kept[6], kept[-7], kept[1:6:2], kept[5:99]) == (7, rows[6], rows[0], rows[1:6:2], rows[5:])
    assert [kept[at] for at in (3, 0, 3)] == [rows[3], rows[0], rows[3]]
    with pytest.raises(IndexError):
        kept[7]
    assert not OnDisk()


def test_a_fork_reads_them():
    kept = OnDisk(range(100))
    child = os.fork()
    if not child:
        os._exit(int(list(kept) != list(range(100))))
    assert os.waitpid(child, 0)[1] == 0
    assert kept[50] == 50
