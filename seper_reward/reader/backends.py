"""Where the reader runs: in this process, on an engine, or where a measurement finds it faster."""

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any, get_args

import torch

from seper_reward.data.queries import read_examples
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.prompts import PromptBuilder, PromptStyle
from seper_reward.reader.sampler import Backend, EngineOptions, ReaderOptions, Sampler
from seper_reward.runtime.distributed import process_state, together
from seper_reward.runtime.messages import say
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.types import UnscorableError

# questions measured in process, each without passages and with each of its passages
_QUESTIONS = 2


def load_sampler(
    reader: str | LoadedModel,
    *,
    options: ReaderOptions = ReaderOptions(),
    engine: EngineOptions = EngineOptions(),
    prompt: str | PromptStyle,
    **sampling: Any,
) -> Sampler:
    """Load the reader's sampler.

    Args:
        reader: Name of the reader, or the loaded reader.
        options: How the reader is loaded and used; for an engine, how its tokenizer is loaded. With
            ``backend="auto"`` both are timed on the demo's questions and the faster is kept. The engine is timed with
            as many prompts as it takes at once, the processes by the speed of the main one; an engine that does not
            answer, or a reader too large for the GPU, is not used.
        engine: The servers, and how they are asked.
        prompt: Style of the prompts, or its name.
        **sampling: Fields of ``SamplingOptions``.

    Raises:
        ValueError: ``options.backend`` is unknown, or an engine is to be used with no URL or a reader already loaded.
        ConnectionError: No engine answers.
    """
    backend = options.backend or ("engine" if engine.urls else "process")
    if backend not in get_args(Backend):
        raise ValueError(f"backend must be {', '.join(get_args(Backend))}, got {backend!r}")
    if backend != "process" and not engine.urls:
        raise ValueError(f"backend={backend!r} needs an engine: name the URL of a server")
    if backend != "process" and isinstance(reader, LoadedModel):
        raise ValueError(f"engine runs the reader itself; name it, instead of loading {reader.name!r}")
    name = reader.name if isinstance(reader, LoadedModel) else reader
    load: dict[str, Callable[[], Sampler]] = {
        "process": lambda: ResponseSampler.from_pretrained(reader, options, **sampling),
        "engine": lambda: EngineSampler.from_pretrained(name, engine=engine, options=options, **sampling),
    }
    loaded: dict[str, Sampler] = {}
    chosen: str = together(lambda: _fastest(load, loaded, prompt)) if backend == "auto" else backend
    return loaded.get(chosen) or load[chosen]()


def _fastest(load: Mapping[str, Callable[[], Sampler]], loaded: dict[str, Sampler], prompt: str | PromptStyle) -> str:
    """Return the name of the fastest backend, and fill ``loaded`` with the samplers that can be used."""
    speeds: dict[str, float] = {}
    for name in load:
        try:
            loaded[name] = load[name]()
            speeds[name] = _prompts_per_second(loaded[name], prompt)
        except (ConnectionError, UnscorableError, torch.OutOfMemoryError) as error:
            loaded.pop(name, None)
            say(f"backend {name!r} cannot be used: {error}")
    if not speeds:
        raise ConnectionError("no backend can be used: start the engine, or free memory")
    fastest = max(speeds, key=lambda name: speeds[name])
    rates = ", ".join(f"{name} {speed:.1f} prompts/s" for name, speed in speeds.items())
    say(f"backend {fastest!r}: {rates}")
    return fastest


def _prompts_per_second(sampler: Sampler, style: str | PromptStyle) -> float:
    """Measure prompts per second on the demo's questions: of an engine, or of all processes at this one's speed."""
    builder = PromptBuilder(sampler.tokenizer, style, max_prompt_tokens=sampler.max_prompt_tokens)
    examples, _ = read_examples("demo")
    units = [[builder.build(query.question, passages) for passages in query.contexts] for query in examples.queries]
    sampler.sample(units.pop()[:1])  # warm-up: the first call is slower
    if sampler.prompts_ahead:
        batches, workers = [list(itertools.chain(*units))[: sampler.prompts_ahead]], 1
    else:
        batches, workers = units[:_QUESTIONS], process_state().num_processes
    start = time.perf_counter()
    for batch in batches:
        sampler.sample(batch)
    return workers * sum(map(len, batches)) / (time.perf_counter() - start)
