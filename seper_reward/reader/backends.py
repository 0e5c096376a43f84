"""Where the reader runs: in this process, or on an engine."""

from typing import Any

from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.sampler import EngineOptions, ReaderOptions, Sampler
from seper_reward.runtime.pretrained import LoadedModel


def load_sampler(
    reader: str | LoadedModel,
    *,
    options: ReaderOptions = ReaderOptions(),
    engine: EngineOptions = EngineOptions(),
    **sampling: Any,
) -> Sampler:
    """Load the reader's sampler.

    Args:
        reader: Name of the reader, or the loaded reader.
        options: How the reader is loaded and used; for an engine, how its tokenizer is loaded.
        engine: The servers that run the reader, and how they are asked; without a URL it runs in this process.
        **sampling: Fields of ``SamplingOptions``.

    Raises:
        ValueError: An engine is to be used with a reader that is already loaded.
        ConnectionError: The engine does not answer.
    """
    if not engine.urls:
        return ResponseSampler.from_pretrained(reader, options, **sampling)
    if isinstance(reader, LoadedModel):
        raise ValueError(f"engine runs the reader itself; name it, instead of loading {reader.name!r}")
    return EngineSampler.from_pretrained(reader, engine=engine, options=options, **sampling)
