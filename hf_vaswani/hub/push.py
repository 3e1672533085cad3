"""Uploads a trained model to the Hub: in one commit what people need to use it, and nothing of the run's state."""

from collections.abc import Iterator
from fnmatch import fnmatch
from glob import escape
from pathlib import Path

from ..data.tokenizers.tokenizer import has_tokenizer
from ..errors import InputError, reason
from ..interop.model_files import CONFIG_FILE, weight_file_errors

# What only the run itself needs: to be resumed, evaluated again, or described again.
RUN_FILES = ("training_recipe.yaml", "log.jsonl", "*translations*.txt", "README.md.old*", ".*", "*.lock", "*.tmp")
# The only sub-folder of a run that people need: the figures of its card.
FOLDERS = ("pictures",)
STATUS = {
    401: "the Hub does not accept the token. Log in with: hf auth login",
    403: "the token may not write there. Use one with write access, or name a repository of your own",
    404: "there is no such repository, or the token may not see it",
}


def push(
    folder: str | Path, repo_id: str, private: bool | None = None, revision: str | None = None, message: str = ""
) -> str:
    """Upload model, tokenizer, code, card, figures and results of a folder.

    The commit is made once all files are there: one that is broken off leaves the repository as it was.

    Args:
        repo_id: such as `"you/de-en"`; the repository is created where it is missing.
        private: of a new repository; default: that of the account or organization.
        revision: branch to upload to, created where it is missing; default: `main`.
        message: of the commit; default: `"Upload model"`.

    Returns:
        The address of the commit.

    Raises:
        InputError: where the folder is not whole, the name is none of a repository, or the Hub refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled

    # Of the library that this version of huggingface_hub speaks HTTP with.
    from huggingface_hub.errors import HTTPError as ConnectionFailed

    folder = Path(folder)
    check_folder(folder)
    api = HfApi()
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=revision,
            commit_message=message or "Upload model",
            allow_patterns=list(map(escape, files_to_push(folder))),
        )
    except HFValidationError as error:
        raise InputError(f"{repo_id!r} is not the name of a repository, such as you/de-en. {reason(error)}") from None
    except LocalTokenNotFoundError:
        raise InputError("No token of the Hub is stored here. Log in with: hf auth login") from None
    except OfflineModeIsEnabled:
        raise InputError("HF_HUB_OFFLINE is set, so that nothing can be uploaded. Unset it.") from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise InputError(f"{repo_id} cannot be uploaded: {STATUS.get(status, reason(error))}.") from None
    except (ConnectionFailed, OSError) as error:
        raise InputError(f"{repo_id} cannot be uploaded, and stays as it was: {reason(error)}. Try again.") from None
    return commit.commit_url


def check_folder(folder: Path) -> None:
    """Raise an `InputError` unless a folder holds a whole model with its tokenizer."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Name that of a trained model.")
    if not (folder / CONFIG_FILE).exists():
        raise InputError(f"{folder} has no {CONFIG_FILE}: it is not the folder of a model. Name another one.")
    errors = [] if (folder / "model.bin").exists() else weight_file_errors(folder)
    if not has_tokenizer(folder):
        errors.append(f"{folder} has no tokenizer (tokenizer.json). Put that of its training into the folder.")
    if errors:
        raise InputError.of(errors)


def files_to_push(folder: Path) -> Iterator[str]:
    """The paths of files, relative to the folder, that people need to use and judge its model."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and not any(fnmatch(path.name, pattern) for pattern in RUN_FILES):
            yield path.name
    for name in FOLDERS:
        for path in sorted((folder / name).rglob("*")):
            if path.is_file():
                yield path.relative_to(folder).as_posix()


__all__ = ["files_to_push", "push"]
