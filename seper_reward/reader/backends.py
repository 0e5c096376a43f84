"""Choice of the reader's backend: this process or an engine."""

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
    """Load the reader's sampler: on servers if the engine has URLs, else in this process.

    ``sampling`` are fields of ``SamplingOptions``; on an engine, ``options`` are those of its tokenizer.

    Raises:
        ValueError: An engine is given together with a loaded reader.
        ConnectionError: The engine does not answer.
    """
    if not engine.urls:
        return ResponseSampler.from_pretrained(reader, options, **sampling)
    if isinstance(reader, LoadedModel):
        raise ValueError(f"engine runs the reader itself; pass its name instead of the loaded reader {reader.name!r}")
    return EngineSampler.from_pretrained(reader, engine=engine, options=options, **sampling)
