"""Names and repositories of models on the Hub: opens one for writing, commits, and says clearly why either fails."""

import inspect
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, is_network_error, reason
from ..files import leads_out

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# Fields of a source of text whose values are files.
PATH_FIELDS = {"file", "source", "target"}
LOG_IN = "Log in with: hf auth login"
STATUS = {
    401: f"the Hub does not accept the token. {LOG_IN}",
    403: "the token may not write there. Use one with write access, or choose a repository of your own",
    404: "there is no such repository, or the token has no access to it",
}
# Kinds of repositories.
MODEL, SPACE = "model", "space"
KINDS = (MODEL, "dataset", SPACE)
# The files of a model, an adapter or an engine in a repository. Another one's must not remain: of several that fit,
# loading takes one.
MODEL_PATTERNS = (
    "config.json", "adapter_config.json", "adapter_model.*", "model*.safetensors", "model*.json", "pytorch_model*",
    "model.bin", "vmap.txt", "source_vocabulary.json", "target_vocabulary.json", "shared_vocabulary.json", "onnx/*",
    "target_tokenizer.json", "source_tokenizer/*", "target_tokenizer/*", "pictures/*",
    ".eval_results/hf_vaswani.yaml",
)  # fmt: skip
# A file in the Hugging Face cache; the files in its model folders are links to such files.
IN_CACHE = re.compile(r"[\\/](models|datasets|spaces)--[^\\/]+[\\/]blobs[\\/][0-9a-f]+$")
# What a Space runs.
STATIC, GRADIO = "static", "gradio"


def file_names(value: object, is_path: bool = False) -> Any:
    """A recipe's value, with each path reduced to its last part.

    Args:
        is_path: whether any text in it names a file; otherwise only what looks like a path, or exists here, counts
            as one.
    """
    if isinstance(value, dict):
        # The names of a mixture may be files, too.
        return {file_names(name): file_names(entry, name in PATH_FIELDS) for name, entry in value.items()}
    if isinstance(value, list):
        return [file_names(entry, is_path) for entry in value]
    if not isinstance(value, str):
        return value
    looks_like_path = os.path.isabs(value) or value.startswith((".", "~")) or os.path.exists(value)
    return Path(value).name if is_path or looks_like_path else value


def hub_id(name: str | None) -> str | None:
    """A model's name, if it is an id on the Hub: neither a path nor anything that exists here."""
    # A plain string: of an option's own string type, YAML would write the type, too.
    return str(name) if name and is_hub_id(name) and not Path(name).exists() else None


def is_hub_id(name: str) -> bool:
    """Whether a name has the form of an id on the Hub."""
    return bool(re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name))


@contextmanager
def hub_errors(name: str, failed: str, remains: str = "") -> Iterator[None]:
    """Turn what huggingface_hub raises in the block into an `InputError` of one line.

    Args:
        name: the repository's name.
        failed: what could not be done, before the reason: `"you/de-en cannot be uploaded"`.
        remains: what is left unchanged if the connection broke off: `", and stays as it was"`.
    """
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalTokenNotFoundError,
        OfflineModeIsEnabled,
    )

    try:
        yield
    except HFValidationError as error:
        raise InputError(f"{name!r} is not a valid repository name, such as you/de-en. {reason(error)}") from None
    except LocalTokenNotFoundError:
        raise InputError(f"No Hub token was found. {LOG_IN}") from None
    except OfflineModeIsEnabled:
        raise InputError(f"{failed}: HF_HUB_OFFLINE is set. Unset it.") from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise InputError(f"{failed}: {STATUS.get(status, reason(error))}.") from None
    except Exception as error:
        if not (isinstance(error, OSError) or is_network_error(error)):
            raise
        raise InputError(f"{failed}{remains}: {reason(error)}.{' Try again.' * is_network_error(error)}") from None


def check_name(name: str) -> None:
    """Raise an `InputError` for what cannot be the name of a repository, with or without its namespace."""
    from huggingface_hub.utils import validate_repo_id

    with hub_errors(name, name):
        validate_repo_id(name)


def open_repository(
    name: str,
    private: bool | None = None,
    revision: str | None = None,
    create: bool = True,
    kind: str = MODEL,
    sdk: str = STATIC,
) -> str:
    """Create a repository and its branch if they are missing, and check that the token may write to them.

    Args:
        name: such as `"you/de-en"`; without a namespace, the token's user is added.
        private: whether a new repository is private; default: as the account or organization has it.
        revision: a branch; default: `main`.
        create: if false, nothing is changed on the Hub, and a missing repository is not an error.
        kind: `"model"` or `"space"`.
        sdk: what a new Space runs, `"static"` or `"gradio"`.

    Returns:
        The name with its namespace.

    Raises:
        InputError: the name is invalid or belongs to another kind, the Hub refuses or cannot be reached, or no token
            is stored.
    """
    from huggingface_hub import HfApi, constants, get_token
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

    api = HfApi()
    with hub_errors(name, f"{name} cannot be uploaded", ", and stays as it was"):
        check_name(name)
        if constants.HF_HUB_OFFLINE:
            raise OfflineModeIsEnabled
        if get_token() is None:
            raise LocalTokenNotFoundError
        if "/" not in name:
            name = f"{api.whoami()['name']}/{name}"
        try:
            if create:
                settings = {"space_sdk": sdk} if kind == SPACE else {}
                api.create_repo(name, private=private, exist_ok=True, repo_type=kind, **settings)
            check_writable(api, name, kind)
        except HfHubHTTPError as error:
            if error.response.status_code not in (403, 404):
                raise
            if other := other_kind(api, name, kind):
                raise InputError(f"{name} is a {other} on the Hub, not a {kind}. Choose another name.") from None
            if create or error.response.status_code == 403:
                raise
        else:
            if create and revision is not None:
                api.create_branch(name, branch=revision, exist_ok=True, repo_type=kind)
    return name


def check_writable(api: "HfApi", name: str, kind: str) -> None:
    """Check that the token may write to a repository; earlier versions of huggingface_hub only check that it may read.

    Raises:
        HfHubHTTPError: the repository is missing (404), or may not be written to (403).
    """
    has_write = "write" in inspect.signature(api.auth_check).parameters
    api.auth_check(name, repo_type=kind, **{"write": True} if has_write else {})


def other_kind(api: "HfApi", name: str, wanted: str = MODEL) -> str | None:
    """The kind of the repository of this name, if it is not the one wanted; `None` if it is, or is missing.

    The Hub keeps the names of each kind apart, so that a model and a dataset may share one.
    """
    from huggingface_hub.errors import HfHubHTTPError

    for kind in (wanted, *KINDS):
        try:
            api.repo_info(name, repo_type=kind)
        except HfHubHTTPError:
            continue
        return kind if kind != wanted else None
    return None


def check_links(folder: Path, files: Iterable[str]) -> None:
    """Check that files are really in a folder, and not elsewhere, through symbolic links.

    Args:
        files: their paths, relative to the folder.

    Raises:
        InputError: lists those that are elsewhere. In the Hugging Face cache is fine: it consists of such links.
    """
    outside = [folder / name for name in files if leads_out(folder / name, folder)]
    errors = [
        f"{path} points outside {folder} through a symbolic link. Put the file itself there, or remove the link."
        for path in outside
        if not IN_CACHE.search(os.path.realpath(path))
    ]
    if errors:
        raise InputError.of(errors)


def commit_folder(
    name: str,
    folder: Path,
    files: Iterable[str],
    message: str,
    revision: str | None = None,
    replaced: Sequence[str] = (),
    kind: str = MODEL,
) -> str:
    """Upload files of a folder in one commit, which is made once all of them are there.

    Args:
        name: the repository's name, with its namespace.
        files: their paths, relative to the folder.
        replaced: patterns of files in the repository that the same commit deletes unless they are among `files`.
        kind: kind of the repository.

    Returns:
        The address of the commit.

    Raises:
        InputError: a file is really elsewhere, or the Hub refuses or cannot be reached; the repository stays as it
            was.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api, files = HfApi(), list(files)
    check_links(folder, files)
    # `upload_folder` may make several commits, and would leave only some of the files there if it broke off.
    added = [CommitOperationAdd(file, folder / file) for file in files]
    with hub_errors(name, f"{name} cannot be uploaded", ", and stays as it was"):
        there = api.list_repo_files(name, revision=revision, repo_type=kind) if replaced else []
        gone = [file for file in there if file not in files and any(fnmatch(file, pattern) for pattern in replaced)]
        deleted = [CommitOperationDelete(file, is_folder=False) for file in gone]
        commit = api.create_commit(name, [*added, *deleted], commit_message=message, revision=revision, repo_type=kind)
    return commit.commit_url
