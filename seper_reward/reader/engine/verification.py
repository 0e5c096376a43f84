"""Verification of a server before use: another reader than the expected one would give wrong labels."""

import itertools
import statistics
from typing import TYPE_CHECKING

from seper_reward.options import SamplingOptions
from seper_reward.reader.engine.completions import completion_request, forced, read_completions
from seper_reward.reader.engine.servers import Server

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PROBE = "Question: Who wrote „Hamlet“ – and when, 1599?\nAnswer:"
# mean difference in nats; bf16 differs by some hundredths, log-probabilities at temperature 2 by several nats
_TOLERANCE = 0.25


async def verify(
    server: Server, model: str, options: SamplingOptions, tokenizer: "PreTrainedTokenizerBase"
) -> tuple[bool, bool]:
    """Send a test request to a server; return whether it gives token ids, and log-probabilities of prompts.

    Sampled log-probabilities are compared with teacher-forced ones at temperature 2, where those of the tempered
    distribution differ clearly from the model's own. Raises ``ValueError`` if tokenizer or log-probabilities are not
    the model's own, or cannot be verified although temperature or nucleus require it.
    """
    prompt: list[int] = list(tokenizer(PROBE).input_ids)  # as on servers, with all special tokens
    count = 1 if options.temperature == 0 else min(options.num_samples, 2)
    request = completion_request(model, PROBE, n=count, max_tokens=options.max_new_tokens, temperature=2.0)
    request |= {"return_token_ids": True} | ({} if server.has_adapters else {"prompt_logprobs": 0})
    answer = await server.complete(request)
    completions = read_completions(answer, count)
    prompt_ids = answer["choices"][0].get("prompt_token_ids")
    prompt_length = (answer.get("usage") or {}).get("prompt_tokens", len(prompt))
    if (prompt_ids is not None and prompt_ids != prompt) or prompt_length != len(prompt):
        raise ValueError("its tokenizer differs from the reader's; set reader to the served model")
    names_ids = all(isinstance(completion.tokens[0], int) for completion in completions)
    if options.temperature == options.top_p == 1:  # tempered log-probabilities are the model's own
        return names_ids, bool(answer["choices"][0].get("prompt_logprobs"))
    if not names_ids:
        raise ValueError("it returns no token ids, so its log-probabilities cannot be verified")
    expected = [
        log_probs
        for log_probs, _ in await forced(
            server.complete, model, prompt, [completion.tokens for completion in completions]
        )
    ]
    pairs = zip(
        itertools.chain(*(completion.log_probs for completion in completions)), itertools.chain(*expected), strict=True
    )
    difference = statistics.fmean(abs(one - other) for one, other in pairs)
    if difference > _TOLERANCE:
        raise ValueError(
            f"its log-probabilities are not the model's own at temperature 1 (off by {difference:.2f} nats); "
            "start vLLM with --logprobs-mode raw_logprobs"
        )
    return True, True
