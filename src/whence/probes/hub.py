"""Probes on the hub: a folder goes up as it is, and its config and weights come down, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from whence.errors import FileError

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def local_folder(source: str | Path) -> Path:
    """A folder as it is; of "user/name" or "user/name@revision", where none is called so, a copy of the hub's."""
    if Path(source).exists() or not _HUB_ID.fullmatch(str(source)):
        return Path(source)
    from huggingface_hub import snapshot_download

    name, _, revision = str(source).partition("@")
    try:
        return Path(
            snapshot_download(name, revision=revision or None, allow_patterns=["config.json", "model.safetensors"])
        )
    except (OSError, ValueError) as error:
        raise FileError(
            f"no probes in {str(source)!r}: there is no such folder, and the hub does not give it ({_reason(error)})",
            "give a folder that `whence fit` or save() wrote, or a hub id",
        ) from error


def push(save: Callable[[Path], None], repo_id: str, private: bool | None, token: str | None) -> str:
    """Put what `save` writes on the hub, its card under the new name; the address of the commit."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    with TemporaryDirectory() as made:
        folder = Path(made)
        save(folder)
        card = folder / "README.md"
        card.write_text(card.read_text(encoding="utf-8").replace("this folder", repo_id), encoding="utf-8")
        try:
            repo = api.create_repo(repo_id, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo.repo_id, folder_path=folder, commit_message="Probes, trained by whence"
            )
        except (OSError, ValueError) as error:
            raise FileError(
                f"cannot put probes on the hub as {repo_id!r}: {_reason(error)}",
                "give an id such as user/name, and log in first: hf auth login",
            ) from error
    return str(commit.commit_url)


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
