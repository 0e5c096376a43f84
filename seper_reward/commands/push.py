"""Upload labels to the Hugging Face hub."""

from dataclasses import dataclass
from pathlib import Path

from seper_reward.command import parse
from seper_reward.runtime.settings import check_types, setting


@dataclass
class PushConfig:
    """Upload a label folder, as a dataset with a card, to the Hugging Face hub."""

    folder: str = setting("", "Folder written by `seper-reward label`. Required.")
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

    if not is_label_folder(Path(config.folder)):
        raise ValueError(
            f"{config.folder}: expected a folder with labels.jsonl of a finished run; `hf upload {config.repo_id} "
            "FOLDER --private` uploads a model's folder"
        )
    address = load_labels(config.folder).push_to_hub(
        config.repo_id, label=config.label, margin=config.margin, private=config.private, revision=config.revision
    )
    print(address)
    return f'in Python: load_dataset("{config.repo_id}")'
