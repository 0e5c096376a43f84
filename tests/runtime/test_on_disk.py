"""Records on disk are a sequence like any other."""

import pytest

from seper_reward.runtime.on_disk import OnDisk
from tests.helpers import in_forks


def test_on_disk_is_a_sequence_that_grows():
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


def test_on_disk_is_read_by_forks():
    kept = OnDisk(range(100))
    assert in_forks(lambda rank: list(kept), 30) == [list(range(100))] * 2
    assert kept[50] == 50
