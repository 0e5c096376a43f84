"""Save a reader as a plain model folder, with its adapter merged, to be served by an engine (vLLM)."""

from dataclasses import dataclass
from pathlib import Path

from seper_reward.command import parse
from seper_reward.config import Dtype
from seper_reward.runtime.pretrained import LoadOptions
from seper_reward.runtime.settings import check_types, setting


@dataclass
class MergeConfig:
    """Save a reader as a plain model folder, with its adapter merged, to be served by an engine."""

    output_dir: str = setting("", "Folder to create. Required.")
    reader: str = setting(
        "embedded",
        "Reader: 'embedded' (SmolLM2-135M-Instruct with the bundled adapter), 'plain' (without it), a hub id, or a "
        "folder with a model or a PEFT adapter.",
    )
    reader_revision: str | None = setting(None, "Branch, tag or commit of the reader on the hub.")
    dtype: Dtype = setting("bfloat16", "dtype of the saved weights.")
    trust_remote_code: bool = setting(False, "Whether to run Python code that comes with a model.")

    def __post_init__(self) -> None:
        check_types(self)
        if not self.output_dir:
            raise ValueError("output_dir is required: the folder to create")


def command(arguments: list[str]) -> str:
    """Run ``seper-reward merge-reader``."""
    config = parse(MergeConfig, arguments, "seper-reward merge-reader")
    from seper_reward.reader.loading import save_reader
    from seper_reward.runtime.hashing import weights_hash

    options = LoadOptions(config.reader_revision, config.dtype, "cpu", config.trust_remote_code)
    reader = save_reader(config.reader, Path(config.output_dir), options)
    # caches identify a served reader by its name only: the hash distinguishes weights
    name = f"{Path(config.reader).name}-{weights_hash(reader.model)}"
    print(f"saved: {config.output_dir}")
    return f"vllm serve {config.output_dir} --served-model-name {name}"
