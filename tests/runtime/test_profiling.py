"""Profiling: stages exclude each other, add up, and cost nothing when off."""

from types import SimpleNamespace

import seper_reward.runtime.profiling
from seper_reward.runtime.profiling import count, profiling, timed


def test_timed_nested_stages_count_once(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(seper_reward.runtime.profiling, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    with profiling() as profile, timed("outer", tokens=3):
        clock.now += 2
        with timed("inner", tokens=5):
            clock.now += 5
        with timed("outer", tokens=4):
            clock.now += 1
    clock.now += 2
    assert profile.seconds == {"inner": 5.0, "outer": 3.0}
    assert profile.total_seconds == 10.0
    assert profile.tokens == {"outer": 7, "inner": 5}


def test_profiling_blocks_may_end_in_any_order():
    first, second = profiling(), profiling()
    one = first.__enter__()
    other = second.__enter__()
    with timed("both", tokens=2):
        first.__exit__(None, None, None)
    with timed("second", tokens=3):
        pass
    count(lambda: {"calls": 1})
    second.__exit__(None, None, None)
    assert timed("a") is timed("b")  # nothing is measured any more
    assert (one.tokens, one.counts) == ({"both": 2}, {})
    assert (other.tokens, other.counts) == ({"both": 2, "second": 3}, {"calls": 1})


def test_profiling_sees_all_stages_of_a_question(tiny_scorer):
    from seper_reward.runtime.cache import Cache
    from seper_reward.scorer import SePerScorer

    cached = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", cache=Cache(":memory:"))
    with profiling() as profile:
        cached.utilities([{"question": "Who?", "answers": ["Ann"], "passages": ["Ann did.", "Bob slept."]}])
    host = {"prompts", "rules", "tokenize pairs", "clustering", "cache"}
    assert {"prefill", "decode", "draw", "entailment", *host} == set(profile.seconds)
    assert profile.device_seconds == {}  # on a processor
    assert profile.tokens["prefill"] > 50
    assert 12 <= profile.tokens["draw"] <= 3 * 4 * 8
    assert profile.tokens["decode"] == profile.tokens["draw"] - 12  # the first are drawn from what the prompt gave
    assert 0 < sum(profile.seconds.values()) <= profile.total_seconds
