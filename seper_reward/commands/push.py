"""Upload labels or a trained model to the Hugging Face hub."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from seper_reward.command import parse
from seper_reward.runtime.settings import check_types, setting


@dataclass
class PushConfig:
    """Upload a label folder, as a dataset with a card, or a model's folder to the Hugging Face hub."""

    folder: str = setting("", "Folder written by `seper-reward label`, or of a model, such as a trainer's. Required.")
    repo_id: str = setting("", "Repository on the hub, org/name; made if absent. Required.")
    private: bool = setting(True, "Whether a new repository is private; false shows it to everyone.")
    revision: str | None = setting(None, "Branch, made if absent (default: the main branch).")
    label: str | None = setting(
        None, "Field of the labels in pairs, triplets and lists (default: as in seper-reward export)."
    )
    margin: float = setting(
        0.1, "Least label of a positive passage, and least distance of a negative below it, in pairs and triplets."
    )

    def __post_init__(self) -> None:
        check_types(self)
        if not self.folder or not self.repo_id:
            raise ValueError("folder and repo_id are required: the folder to upload, and the repository")


def command(arguments: list[str]) -> str:
    """Run ``seper-reward push``."""
    config = parse(PushConfig, arguments, "seper-reward push")
    from seper_reward.labels.hub import is_label_folder
    from seper_reward.labels.load import load_labels
    from seper_reward.runtime.hub import is_model_folder, upload

    folder = Path(config.folder)
    if is_label_folder(folder):
        address = load_labels(folder).push_to_hub(
            config.repo_id,
            label=config.label,
            margin=config.margin,
            private=config.private,
            revision=config.revision,
        )
    elif is_model_folder(folder):
        message = f"Model by seper-reward {version('seper-reward')}"
        address = upload(
            folder, config.repo_id, "model", message=message, private=config.private, revision=config.revision
        )
    else:
        raise ValueError(
            f"{folder}: expected labels.jsonl of a finished run, or a model's config.json, modules.json or "
            "adapter_config.json; name the folder that contains them"
        )
    print(address)
    return f'in Python: {"load_dataset" if is_label_folder(folder) else "from_pretrained"}("{config.repo_id}")'
