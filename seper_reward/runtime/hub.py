"""Uploads to the Hugging Face hub."""

from pathlib import Path


def upload(
    folder: str | Path,
    repo_id: str,
    *,
    message: str,
    private: bool = True,
    token: str | None = None,
    revision: str | None = None,
) -> str:
    """Upload a folder without its hidden files in one commit to the dataset ``org/name``; return its URL.

    The repository is created if missing, by default as a private one; an existing one is not changed. The token needs
    write access (default: ``$HF_TOKEN`` or the token of ``hf auth login``). ``revision`` is a branch, created if
    missing (default: the main branch).

    Raises:
        OSError: The hub cannot be reached, or rejects the upload.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # httpx2 from hub 2 on

    api = HfApi(token=token)
    try:
        repository = api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(repository.repo_id, branch=revision, repo_type="dataset", exist_ok=True)
        api.upload_folder(
            repo_id=repository.repo_id,
            folder_path=folder,
            repo_type="dataset",
            revision=revision,
            commit_message=message,
            ignore_patterns=[".*"],
        )
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise OSError(
            f"{repo_id}: the upload failed ({' '.join(str(error).split())[:300]}); check the network and a token with "
            "write access (`hf auth login` or $HF_TOKEN)"
        ) from error
    return str(repository)
