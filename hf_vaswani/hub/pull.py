"""Downloads a model from the Hub, or the folder of a run that was uploaded with its last checkpoint.

The files are gathered in a hidden folder next to the new one, and moved there once all of them have arrived.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from transformers.utils import ADAPTER_CONFIG_NAME

from ..errors import InputError
from ..files import check_names
from ..ledger import check_new, exclusive, new_folder
from ..models.model_files import CONFIG_FILE
from ..records import RESULTS_FILE
from .repository import hub_errors, other_kind

# The folder of a repository that holds everything needed to resume a run.
LAST_CHECKPOINT = "last-checkpoint"
# Files of a repository that a model does not need: git's settings, and checkpoints under their own names.
LEFT_OUT = re.compile(r"\.gitattributes$|update-\d+/")
STEP = re.compile(rf"{LAST_CHECKPOINT}/checkpoints/update-(\d+)/")


@dataclass(frozen=True)
class Pulled:
    """What was downloaded.

    Attributes:
        has_model: whether it includes a finished model.
        step: the step after which the run was saved; `None` for a model alone.
    """

    has_model: bool
    step: int | None


@dataclass(frozen=True)
class Listing:
    """A repository at one commit: its files and their sizes in bytes."""

    commit: str
    sizes: dict[str, int]


def pull(repo_id: str, folder: str | Path, revision: str | None = None) -> Pulled:
    """Download a model or, where the repository holds one, a run that can be resumed.

    A run comes with its finished model, if there is one. A second call completes a download that was broken off.

    Args:
        folder: a new or empty folder.
        revision: branch, tag or commit; default: `main`.

    Raises:
        InputError: the folder is not empty or cannot be written, the repository or revision is missing or holds
            neither, or the Hub refuses or cannot be reached.
    """
    from huggingface_hub import snapshot_download

    output = Path(folder).resolve()
    check_new(output)
    failed = f"{repo_id} cannot be downloaded"
    listing = list_files(repo_id, revision, failed)
    targets = targets_of(list(listing.sizes))
    if not targets.keys() & {CONFIG_FILE, ADAPTER_CONFIG_NAME} and not has_run(listing):
        raise InputError(
            f"{repo_id} contains neither a model nor a run. Choose another repository, or another --revision."
        )
    with gathering(output) as part:
        with hub_errors(repo_id, failed):
            snapshot_download(
                repo_id, revision=listing.commit, local_dir=part, allow_patterns=list(map(escape, targets))
            )
        # If the connection is lost on the way, huggingface_hub takes the files already here for all of them.
        missing = [name for name in targets if not is_whole(part / name, listing.sizes[name])]
        if missing:
            raise InputError(f"{failed}: {missing[0]} is incomplete. Run the same command again to complete it.")
        with new_folder(folder) as new:
            for name, target in targets.items():
                (new / target).parent.mkdir(parents=True, exist_ok=True)
                os.replace(part / name, new / target)
    steps = [int(found[1]) for name in listing.sizes if (found := STEP.match(name))]
    return Pulled(CONFIG_FILE in targets or ADAPTER_CONFIG_NAME in targets, max(steps, default=None))


def list_files(repo_id: str, revision: str | None, failed: str) -> Listing:
    """The files of a repository.

    Args:
        failed: the beginning of error messages.

    Raises:
        InputError: the repository or the revision is missing or may not be read, the Hub cannot be reached, or a file
            has an unsafe name.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    api = HfApi()
    with hub_errors(repo_id, failed):
        try:
            info = api.model_info(repo_id, revision=revision, files_metadata=True)
        except RevisionNotFoundError:
            raise InputError(f"{failed}: it has no branch, tag or commit {revision!r}.") from None
        except RepositoryNotFoundError:
            if kind := other_kind(api, repo_id):
                raise InputError(f"{repo_id} is a {kind} on the Hub, not a model. Choose another one.") from None
            raise InputError(
                f"{failed}: there is no such model, or the token has no access to it. If it is private, log in "
                "with: hf auth login"
            ) from None
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    check_names(sizes, failed)
    return Listing(info.sha or "", sizes)


def has_run(listing: Listing) -> bool:
    """Whether a repository holds a run that can be resumed."""
    return any(STEP.match(name) for name in listing.sizes)


def targets_of(names: list[str]) -> dict[str, str]:
    """The files to download, and their paths in the new folder.

    If there is a run, the model at its last checkpoint is left out, since the run makes its own. A finished model,
    which is the one with results, is downloaded.
    """
    run = [name for name in names if name.startswith(f"{LAST_CHECKPOINT}/")]
    others = [name for name in names if name not in run and not LEFT_OUT.match(name)]
    targets = {name: name for name in others if not run or RESULTS_FILE in others}
    moved = {name: name.removeprefix(f"{LAST_CHECKPOINT}/") for name in run}
    return {name: target for name, target in targets.items() if target not in moved.values()} | moved


@contextmanager
def gathering(output: Path) -> Iterator[Path]:
    """A hidden folder next to an output folder, locked while the block runs, and deleted if the block succeeds.

    Raises:
        InputError: another process is gathering files in the hidden folder, or it cannot be created or has links.
    """
    part = output.with_name(f".{output.name}.part")
    # A download makes no links, through which files would be written elsewhere.
    if link := next((path for path in (part, *part.rglob("*")) if path.is_symlink()), None):
        raise InputError(f"{link} is a symbolic link. Delete {part}, or choose another folder.")
    with exclusive(part):
        yield part
    shutil.rmtree(part, ignore_errors=True)


def is_whole(file: Path, size: int) -> bool:
    """Whether a file is there with all of its bytes."""
    return file.is_file() and file.stat().st_size == size


__all__ = ["pull"]
