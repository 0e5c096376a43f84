"""Clients that send slowly, and clients that have gone."""

import time

import httpx2
import pytest

from tests.serving.helpers import ServerThread, held


def test_server_drops_questions_of_a_gone_client(tiny_scorer):
    asked = [{"question": f"Who? {number}", "answers": ["x"], "contexts": [[]]} for number in range(9)]
    scorer, hold = held(tiny_scorer)
    with ServerThread(scorer, block=1) as serving:
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{serving.url}/beliefs", json={"asked": asked}, timeout=1)
        assert hold.reached.is_set()  # the first question is being measured
        time.sleep(0.5)
        hold.may_go_on.set()
        other = {"asked": [{"question": "Whose turn?", "answers": ["x"], "contexts": [[]]}]}
        assert httpx2.post(f"{serving.url}/beliefs", json=other, timeout=30).status_code == 200
    assert [question for block in hold.blocks for question, _ in block] == ["Who? 0", "Whose turn?"]
