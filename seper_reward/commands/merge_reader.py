"""Save a reader as a plain model folder, with its adapter merged, to be served by an engine (vLLM)."""

from dataclasses import replace
from pathlib import Path

from seper_reward.options import MergeReaderOptions, split_revision


def command(config: MergeReaderOptions) -> str:
    """Run ``seper-reward merge-reader``."""
    from seper_reward.reader.loading import save_reader
    from seper_reward.runtime.hashing import weights_hash

    dtype = "bfloat16" if config.dtype == "auto" else config.dtype
    options = replace(config, device=config.device or "cpu", dtype=dtype)
    reader = save_reader(config.reader, Path(config.output_dir), options)
    # caches identify a served reader by its name only: the hash distinguishes weights
    served = f"{Path(split_revision(config.reader)[0]).name}-{weights_hash(reader.model)}"
    print(f"saved: {config.output_dir}")
    return f"vllm serve {config.output_dir} --served-model-name {served}"
