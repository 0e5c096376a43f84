"""Serve one scorer over HTTP: beliefs, ΔSePer and rewards for several trainers."""

import socket
import sys
from dataclasses import dataclass

from seper_reward.command import parse_all
from seper_reward.config import CommandConfig, load_scorer
from seper_reward.judge.extract import ANSWER_PATTERN_HELP, compile_answer_pattern
from seper_reward.runtime.settings import check_least, setting

_MAX_BODY_BYTES = 32_000_000  # longer bodies are answered 413


@dataclass
class ServeConfig(CommandConfig):
    """Serve the scorer over HTTP; the variable SEPER_SERVER_TOKEN sets a token that clients must send."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 for all, which other machines then reach.")
    port: int = setting(8100, "Port to listen on, in [1, 65535].")
    block: int | None = setting(
        None,
        "Number of sets of passages in one batch, over all clients, >= 1; more fill a large device, but single "
        "requests wait longer (default: the capacity of the engines, 256 on an accelerator, 16 on a CPU).",
    )
    memory_mb: float = setting(
        256.0, "Memory for beliefs of all clients in MB, >= 0; a question's baseline in it is measured once."
    )
    deadline: float = setting(
        600.0, "Time limit of a request in seconds, > 0; clients can set less (SePer-Deadline). Late requests get 504."
    )
    max_request_tokens: int = setting(
        1_000_000,
        "Most tokens of contexts and texts in one request, estimated from the characters, >= 1; a context counts at "
        "most the reader's window, and a request with more is answered 413.",
    )
    passage_tag: str | None = setting(
        None,
        "Tag around the passages of a search in completions that are texts, such as information; a policy that can "
        "write the tag itself can fake passages (default: no tag, only the field `passages` counts).",
    )
    search_tools: list[str] = setting(
        [],
        "Names of the tools whose results are searches, in completions as messages; without names, requests with "
        "results of several tools are refused (default: the only tool of a request).",
    )
    answer_pattern: str | None = setting(None, ANSWER_PATTERN_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        compile_answer_pattern(self.answer_pattern)
        check_least(self, block=1, max_request_tokens=1, memory_mb=0)
        if not self.deadline > 0:
            raise ValueError(f"deadline must be above 0, got {self.deadline}")
        if not 1 <= self.port <= 65535:
            raise ValueError(f"port must be in [1, 65535], got {self.port}")


def reachable_url(host: str, port: int) -> str:
    """Return the URL for clients of a server that listens on an address: this machine's name if that is all addresses.

    >>> reachable_url("127.0.0.1", 8126), reachable_url("::1", 8126)
    ('http://127.0.0.1:8126', 'http://[::1]:8126')
    """
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def command(arguments: list[str]) -> str:
    """Run ``seper-reward serve``."""
    from seper_reward.reward.formula import RewardWeights

    config, weights = parse_all((ServeConfig, RewardWeights), arguments, "seper-reward serve")
    from seper_reward.client import TOKEN, read_token
    from seper_reward.runtime.imports import need

    for module in ("fastapi", "prometheus_client", "uvicorn"):
        need(module, "serve")
    from seper_reward.serving.app import build_app
    from seper_reward.serving.bodies import Reading
    from seper_reward.serving.scoring import Limits
    from seper_reward.serving.server import bound, serve
    from seper_reward.serving.worker import Worker

    token = read_token()
    if token == "":
        raise ValueError(f"${TOKEN} must not be empty; set a secret, or unset it to let everyone ask")
    address = bound(config.host, config.port)
    worker = Worker(
        lambda: load_scorer(config, config.seed),
        block=config.block,
        memory=int(config.memory_mb * 1e6),
    )
    app = build_app(
        worker,
        limits=Limits(_MAX_BODY_BYTES, config.max_request_tokens, config.deadline),
        weights=weights,
        token=token,
        reading=Reading(config.passage_tag, config.answer_pattern, tuple(config.search_tools) or None),
    )
    url = reachable_url(config.host, config.port)
    print(f"serving {worker.about['reader']} on {url}", file=sys.stderr)
    print(f'next: reward_funcs=[SePerReward("{url}")] in a trainer', file=sys.stderr)  # here: serving does not end
    if token is None and config.host not in ("127.0.0.1", "localhost", "::1"):
        print(f"warning: {config.host} is open to everyone; set ${TOKEN} here and for clients", file=sys.stderr)
    serve(app, worker, address)
    return ""
