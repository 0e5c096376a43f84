"""What a reader in vLLM, in this process, returns for requests, as JSON; run by vLLM's own environment.

python -m tests.reader.vllm_sampling FOLDER < requests.json > responses.json
"""

import json
import sys
from dataclasses import replace

from seper_reward.options import ReaderOptions
from seper_reward.reader.sampler import Request
from seper_reward.reader.vllm import VLLMSampler
from seper_reward.runtime.codec import to_json
from seper_reward.types import UnscorableError


def main() -> None:
    asked = json.load(sys.stdin)
    options = ReaderOptions(reader=sys.argv[1], dtype="float32", device="cpu", engine=["vllm"], **asked["sampling"])
    sampler = VLLMSampler.from_pretrained(options)
    requests = [Request(row["prompt"], tuple(row["answers"]), row["question"]) for row in asked["requests"]]
    few = sampler.with_options(replace(sampler.options, num_samples=2))
    found = {
        "rows": sampler.sample(requests),
        "again": few.sample(requests[:1]),
        "log_probs": sampler.log_probs(*zip(*asked["pairs"], strict=True)),
        "hash": sampler.weights_hash,
    }
    print("\0" + json.dumps(found, default=_as_json))


def _as_json(value: object) -> object:
    if isinstance(value, UnscorableError):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else to_json(value)


if __name__ == "__main__":
    main()
