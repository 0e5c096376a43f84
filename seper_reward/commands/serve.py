"""Serve one scorer over HTTP: beliefs, ΔSePer and rewards for several trainers."""

import socket
import sys

from seper_reward.options import ServeOptions, pick
from seper_reward.scorer import SePerScorer

_MAX_REQUEST_TOKENS = 1_000_000  # of contexts and texts, estimated from the characters; longer requests get 413
_MEMORY = 256_000_000  # bytes, for beliefs of all clients; a question's baseline in it is measured once


def reachable_url(host: str, port: int) -> str:
    """Return the URL for clients of a server that listens on an address: this machine's name if that is all addresses.

    >>> reachable_url("127.0.0.1", 8126), reachable_url("::1", 8126)
    ('http://127.0.0.1:8126', 'http://[::1]:8126')
    """
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def command(config: ServeOptions) -> str:
    """Run ``seper-reward serve``."""
    from seper_reward.client import TOKEN, read_token
    from seper_reward.reward.formula import RewardWeights
    from seper_reward.runtime.imports import need

    for module in ("fastapi", "uvicorn"):
        need(module, "serve")
    from seper_reward.serving.app import build_app
    from seper_reward.serving.bodies import RolloutFormat
    from seper_reward.serving.scoring import Limits
    from seper_reward.serving.server import bound, serve
    from seper_reward.serving.worker import Worker

    token = read_token()
    if token == "":
        raise ValueError(f"${TOKEN} must not be empty; set a secret, or unset it to let everyone ask")
    address = bound(config.host, config.port)
    worker = Worker(lambda: SePerScorer.from_pretrained(config), batch_size=config.batch_size, memory=_MEMORY)
    app = build_app(
        worker,
        limits=Limits(_MAX_REQUEST_TOKENS, config.deadline),
        weights=pick(RewardWeights, config),
        token=token,
        reading=RolloutFormat(config.passage_tag, config.answer_pattern, tuple(config.search_tools) or None),
    )
    url = reachable_url(config.host, config.port)
    print(f"serving {worker.about['reader']} on {url}", file=sys.stderr)
    print(f'next: reward_funcs=[SePerReward("{url}")] in a trainer', file=sys.stderr)  # here: serving does not end
    if token is None and config.host not in ("127.0.0.1", "localhost", "::1"):
        print(f"warning: {config.host} is open to everyone; set ${TOKEN} here and for clients", file=sys.stderr)
    serve(app, worker, address)
    return ""
