"""Profiling: stages exclude each other, add up, and cost nothing when off."""

from types import SimpleNamespace

import seper_reward.runtime.profiling
from seper_reward.runtime.profiling import count, profiling, timed


def test_timed_nested_stages_count_once(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(seper_reward.runtime.profiling, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    with profiling() as profile, timed("outer"):
        clock.now += 2
        with timed("inner"):
            clock.now += 5
        with timed("outer"):
            clock.now += 1
    clock.now += 2
    assert profile.seconds == {"inner": 5.0, "outer": 3.0}
    assert profile.total_seconds == 10.0


def test_profiling_blocks_may_end_in_any_order():
    first, second = profiling(), profiling()
    one = first.__enter__()
    other = second.__enter__()
    with timed("both"):
        first.__exit__(None, None, None)
    with timed("second"):
        pass
    count(lambda: {"calls": 1})
    second.__exit__(None, None, None)
    assert timed("a") is timed("b")  # nothing is measured any more
    assert (list(one.seconds), one.counts) == (["both"], {})
    assert (list(other.seconds), other.counts) == (["both", "second"], {"calls": 1})


def test_profiling_sees_all_stages_of_a_question(tiny_scorer):
    from seper_reward.runtime.cache import Cache
    from seper_reward.scorer import SePerScorer

    cached = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", cache=Cache(":memory:"))
    with profiling() as profile:
        cached.utilities([{"question": "Who?", "answers": ["Ann"], "passages": ["Ann did.", "Bob slept."]}])
    host = {"prompts", "rules", "tokenize pairs", "clustering", "cache"}
    assert {"prefill", "decode", "draw", "entailment", *host} == set(profile.seconds)
    assert 0 < sum(profile.seconds.values()) <= profile.total_seconds
