"""Where the reader runs: in this process or on an engine; asked to choose, by measuring both."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tqdm.auto import tqdm

from seper_reward.data.queries import read_examples
from seper_reward.models import LoadedModel
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.reader.sampler import Sampler
from seper_reward.runtime.distributed import process_state, together
from seper_reward.types import UnscorableError

BACKENDS = ("process", "engine", "auto")
_QUESTIONS = 2  # in process; each is asked without passages and with each of its passages


def load_sampler(
    reader: str | LoadedModel,
    *,
    backend: str | None,
    engine: Sequence[str],
    engine_options: Mapping[str, Any],
    reader_options: Mapping[str, Any],
    prompt: str,
    **sampling: Any,
) -> Sampler:
    """Load the reader's sampler.

    Args:
        reader: name of the reader, or the reader.
        backend: ``"process"``, ``"engine"``, or ``"auto"``: both are asked the demo's questions and the faster is
            kept, the engine with as many prompts as it takes at once, the processes with a question each, of which the
            main one is measured; an engine that does not answer, or a reader too large for the GPU, loses. ``None``:
            the engine where ``engine`` has a URL.
        engine: base URLs of the servers.
        engine_options: of ``EngineSampler``.
        reader_options: of ``load_reader`` and
            ``ResponseSampler``.
        prompt: style of the prompts.
        **sampling: fields of ``SamplingOptions``.

    Raises:
        ValueError: ``backend`` is another word, or needs an engine where none is named or the reader is loaded.
        ConnectionError: no engine answers.
    """
    backend = backend or ("engine" if engine else "process")
    if backend not in BACKENDS:
        raise ValueError(f"backend must be {', '.join(BACKENDS)}, got {backend!r}")
    if backend != "process" and not engine:
        raise ValueError(f"backend={backend!r} needs an engine: name the URL of a server")
    if backend != "process" and isinstance(reader, LoadedModel):
        raise ValueError(f"engine runs the reader itself; name it, instead of loading {reader.name!r}")
    name = reader.name if isinstance(reader, LoadedModel) else reader
    kept = {key: reader_options[key] for key in ("revision", "trust_remote_code") if key in reader_options}
    load: dict[str, Callable[[], Sampler]] = {
        "process": lambda: ResponseSampler.from_pretrained(reader, **reader_options, **sampling),
        "engine": lambda: EngineSampler.from_pretrained(name, urls=engine, **kept, **engine_options, **sampling),
    }
    loaded: dict[str, Sampler] = {}
    if backend == "auto":
        backend = together(lambda: _fastest(load, loaded, prompt))
    return loaded.get(backend) or load[backend]()


def _fastest(load: Mapping[str, Callable[[], Sampler]], loaded: dict[str, Sampler], prompt: str) -> str:
    """Return the name of the fastest, and fill ``loaded`` with those that can be used."""
    speeds: dict[str, float] = {}
    for name in load:
        try:
            loaded[name] = load[name]()
            speeds[name] = _prompts_per_second(loaded[name], prompt)
        except (ConnectionError, UnscorableError, torch.OutOfMemoryError) as error:
            loaded.pop(name, None)
            tqdm.write(f"backend {name!r} cannot be used: {error}")
    if not speeds:
        raise ConnectionError("no backend can be used: start the engine, or free memory")
    fastest = max(speeds, key=lambda name: speeds[name])
    rates = ", ".join(f"{name} {speed:.1f} prompts/s" for name, speed in speeds.items())
    tqdm.write(f"backend {fastest!r}: {rates}")
    return fastest


def _prompts_per_second(sampler: Sampler, style: str) -> float:
    """Measure how fast the demo's questions are answered: by an engine, or by all processes, each like this one."""
    builder = PromptBuilder(sampler.tokenizer, style, max_prompt_tokens=sampler.max_prompt_tokens)
    examples, _ = read_examples("demo")
    units = [[builder.build(query.question, passages) for passages in query.contexts] for query in examples.queries]
    sampler.sample(units.pop()[:1])  # what happens once
    if sampler.prompts_ahead:
        asked, workers = [list(itertools.chain(*units))[: sampler.prompts_ahead]], 1
    else:
        asked, workers = units[:_QUESTIONS], process_state().num_processes
    start = time.perf_counter()
    for unit in asked:
        sampler.sample(unit)
    return workers * sum(map(len, asked)) / (time.perf_counter() - start)
