"""What TRL's child process of AsyncGRPOTrainer runs in tests: TRL's own loops, without requests to vLLM.

Prompts, environments, tools, groups, scoring and the queue are TRL's.
"""

import os
from contextlib import asynccontextmanager
from types import SimpleNamespace

import torch

from tests.reward.async_grpo import worker_module
from tests.reward.scripted import ScriptedPolicy

async_rollout_worker = worker_module()
TrlLoop = object if async_rollout_worker is None else async_rollout_worker.AsyncRolloutWorker._loop_cls


@asynccontextmanager
async def no_session(**_):
    yield None


class ScriptedLoop(TrlLoop):
    """TRL's loop with a scripted policy in place of vLLM."""

    def __init__(self, **options):
        super().__init__(**options)
        self.policy = ScriptedPolicy(self.tokenizer)
        if not async_rollout_worker.is_aiohttp_available():
            async_rollout_worker.aiohttp = SimpleNamespace(ClientSession=no_session, TCPConnector=lambda **_: None)

    async def _post(self, path, payload, timeout, max_retries=3):
        assert path == "/v1/completions"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
        assert not torch.cuda.is_available()
        ids = self.policy.ids(payload["prompt"])
        return {"choices": [{"token_ids": ids, "logprobs": {"token_logprobs": [-0.5] * len(ids)}}]}
