"""Forward passes without gradients and without cuDNN's attention."""

import threading

import pytest
import torch

from seper_reward.runtime.inference import inference
from seper_reward.types import Pair


def test_inference_restores_the_setting_after_an_error():
    @inference()
    def failing():
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert not torch.is_grad_enabled()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.is_grad_enabled()


def test_inference_in_overlapping_threads():
    """Another thread's block begins within this one and ends after it."""
    began, ours_ended, found = threading.Event(), threading.Event(), []

    def overlapping():
        with inference():
            began.set()
            ours_ended.wait(10)
            found.append(torch.backends.cuda.cudnn_sdp_enabled())

    other = threading.Thread(target=overlapping)
    with inference():
        other.start()
        began.wait(10)
    ours_ended.set()
    other.join()
    assert found == [False]
    assert torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.is_grad_enabled()


def test_reader_and_judge_never_use_cudnns_attention(tiny_scorer, monkeypatch):
    real, allowed = torch.nn.functional.scaled_dot_product_attention, []

    def attention(*arguments, **options):
        allowed.append(torch.backends.cuda.cudnn_sdp_enabled())
        return real(*arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    tiny_scorer.beliefs("Who sailed on Monday?", ["Ann"], [()])
    read = len(allowed)
    assert read
    tiny_scorer.sampler.log_probs(["Who?"], ["Ann"])
    assert len(allowed) > read
    given = len(allowed)
    tiny_scorer.entailment.probs([Pair("", "Ann sailed", "a woman went out")])
    assert len(allowed) > given
    assert not any(allowed)
